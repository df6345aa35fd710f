// Where one writes: text, files, commands.

import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { chosen, matching } from "../completion.js";
import { draftOf, keepDraft } from "../kept.js";
import { get, set } from "../store.js";
import { command, say } from "../talking.js";
import { Chips, useUploads } from "./attaching.js";
import { Commands } from "./commands.js";
import { html, memo } from "./html.js";
import { Icon, IconButton } from "./icons.js";

const isPhone = () => matchMedia("(hover: none) and (pointer: coarse)").matches;

export const Composer = memo(({ id, me, isBusy, editing, dropped, onTaken }) => {
  const field = useRef(null);
  const picker = useRef(null);
  const [text, setText] = useState(() => draftOf(id));
  const [picked, setPicked] = useState(0);
  const [isClosed, setClosed] = useState(false);
  // Is it to be sent as soon as its files have arrived? Then the number of files that had failed when that was said.
  const [meant, setMeant] = useState(null);
  const uploads = useUploads(me.limits);
  const fitting = isClosed ? [] : matching(me.commands, text);

  // With the drawing: a plain effect comes after it, and would take the focus from whoever went elsewhere by then.
  useLayoutEffect(() => {
    if (!isPhone()) field.current.focus();
  }, []);
  useEffect(() => {
    if (!dropped) return;
    uploads.add(dropped);
    // Once: the next conversation's field is another one, and they are not for it.
    onTaken(null);
  }, [dropped]);
  useEffect(() => {
    if (!editing) return;
    write(editing.text);
    uploads.replace(editing.attachments);
    field.current.focus();
  }, [editing]);
  useLayoutEffect(() => grow(field.current), [text]);

  function write(next) {
    setText(next);
    setPicked(0);
    setClosed(false);
    setMeant(null);
    if (!get().editing) keepDraft(id, next);
  }

  function leaveEditing() {
    set({ editing: null });
    setMeant(null);
    setText(draftOf(id));
    uploads.replace([]);
  }

  const isReady = (text.trim() !== "" || uploads.ready.length > 0 || uploads.isBusy) && text.length <= me.limits.text_chars;
  // With the drawing: whoever presses Enter once more, in between, would send it twice.
  useLayoutEffect(() => {
    if (meant === null || uploads.isBusy) return;
    setMeant(null);
    if (uploads.failed <= meant) send();
  }, [meant, uploads.isBusy]);

  function send() {
    if (!isReady) return;
    if (uploads.isBusy) return setMeant(uploads.failed);
    keepDraft(id, "");
    say(text.trimEnd(), uploads.ready, editing?.ref ?? null);
    setText("");
    uploads.replace([]);
    field.current.focus();
  }

  function complete(one) {
    write(chosen(one));
    field.current.focus();
  }

  function pressed(event) {
    if (event.isComposing) return;
    if (fitting.length && pressedInCommands(event)) return event.preventDefault();
    if (event.key === "Enter" && !event.shiftKey && !event.altKey && !isPhone()) {
      event.preventDefault();
      return send();
    }
    if (event.key === "Escape" && editing) {
      event.preventDefault();
      return leaveEditing();
    }
    if (event.key === "ArrowUp" && text === "" && !editing && !isBusy) editLast(event);
  }

  function pressedInCommands(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setPicked((picked + step + fitting.length) % fitting.length);
    else if (event.key === "Escape") setClosed(true);
    else if (event.key === "Tab" && !event.shiftKey) complete(fitting[picked]);
    else if (event.key === "Enter" && !event.shiftKey && chosen(fitting[picked]) !== text) complete(fitting[picked]);
    else return false;
    return true;
  }

  const offering = fitting.length ? { "aria-controls": "commands", "aria-activedescendant": `command-${picked}` } : {};
  return html`<form class="composer" onSubmit=${(event) => {
    event.preventDefault();
    send();
  }}>
    ${fitting.length > 0 && html`<${Commands} commands=${fitting} picked=${picked} onPick=${complete} />`}
    ${
      editing &&
      html`<p class="editing">
        <span>You edit an earlier message. What followed is undone.</span>
        <button type="button" class="link" onClick=${leaveEditing}>Cancel</button>
      </p>`
    }
    <${Chips} uploads=${uploads} onDrop=${() => setMeant(null)} />
    <textarea id="composer" ref=${field} rows="1" placeholder=${invitation(me)} aria-label="Message" value=${text}
      aria-autocomplete="list" ...${offering}
      onInput=${(event) => write(event.target.value)} onKeyDown=${pressed} onPaste=${(event) => pasted(event, uploads)}></textarea>
    <div class="composer-foot">
      <input ref=${picker} type="file" multiple hidden onChange=${(event) => {
        uploads.add([...event.target.files]);
        event.target.value = "";
      }} />
      <${IconButton} icon="clip" label="Attach files" onClick=${() => picker.current.click()} />
      <span class="hint">${hintFor(text, me, uploads, meant !== null)}</span>
      ${isBusy && html`<${Stop} />`}
      <button type="submit" class="send" aria-label="Send" title="Send (Enter)" disabled=${!isReady}>
        <${Icon} name="send" />
      </button>
    </div>
  </form>`;
});

function Stop() {
  const stop = () => command("/stop");
  return html`<button type="button" class="stop" aria-label="Stop the answer" title="Stop the answer (Esc)" onClick=${stop}>
    <span class="stop-sign"></span>
  </button>`;
}

// An agent that somebody named is called by its name.
const invitation = (me) => (me.is_echo || !me.agent || me.agent === "main" ? "Write a message" : `Write to ${me.agent}`);

function hintFor(text, me, uploads, isMeant) {
  if (text.length > me.limits.text_chars) return `That is ${text.length - me.limits.text_chars} characters too long.`;
  if (isMeant) return "Waits here for the file";
  if (uploads.isBusy) return "The file is on its way";
  return text.includes("\n") || text === "" ? "" : "Shift Enter for a new line";
}

// As high as its text, up to what the style allows.
function grow(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight}px`;
}

function pasted(event, uploads) {
  const files = [...(event.clipboardData?.files ?? [])];
  if (!files.length) return;
  event.preventDefault();
  uploads.add(files);
}

function editLast(event) {
  const { talk } = get();
  const last = talk?.messages.findLast((one) => one.role === "user" && !one.redacted);
  if (!last) return;
  event.preventDefault();
  set({ editing: { ref: last.ref, text: last.text, attachments: last.attachments ?? [] } });
}
