// The talk: its rows, and a reader who is never moved against their will.

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { copyCode } from "../copying.js";
import { makeEntries, underway } from "../entries.js";
import { instant } from "../format.js";
import { set } from "../store.js";
import { isBusy } from "../talk.js";
import { command, loadEarlier } from "../talking.js";
import { AnswerEntry } from "./answer.js";
import { AskCard } from "./ask.js";
import { html } from "./html.js";
import { Icon } from "./icons.js";
import { NoticeEntry, SystemEntry } from "./notices.js";
import { PendingEntry, SaidEntry, UserEntry } from "./said.js";

// Nearer to the end than this, the reader follows what is being written.
const NEAR = 64;
const EARLY = 800;

const retry = () => command("/retry");

export function Log({ talk, goal, toEnd, editing }) {
  const scroller = useRef(null);
  const content = useRef(null);
  const entries = useMemo(makeEntries, []);
  const [isAway, setAway] = useState(false);
  const place = useStickiness(scroller, content, setAway);
  const rows = entries(talk);
  const isReadOnly = talk.session !== null;

  useLayoutEffect(() => place.drawn(rows[0]?.key, talk.hasEarlier));
  useLayoutEffect(() => place.toEnd(), [toEnd]);
  useLayoutEffect(() => showGoal(goal, rows, content.current, place), [goal, rows]);

  return html`<div class="log-frame">
    <div class="log" ref=${scroller} tabindex="0" role="log" aria-live="off" aria-label="Conversation"
      onScroll=${place.scrolled} onClick=${clicked}>
      <div class="log-content" ref=${content}>
        ${talk.hasEarlier && html`<p class="quiet earlier">Reading what was said before</p>`}
        ${drawRows(talk, rows, isReadOnly, editing)}
        ${talk.ask && html`<${AskCard} key=${talk.ask.code} ask=${talk.ask} />`}
      </div>
    </div>
    ${isAway && html`<button type="button" class="to-end" onClick=${place.toEnd}><${Icon} name="down" /> To the newest</button>`}
  </div>`;
}

// All rows in one list, so that a row which moves on (sent, waiting, answered, stored) keeps its place.
function drawRows(talk, rows, isReadOnly, editing) {
  const now = underway(talk);
  const stored = drawStored(talk, rows, isReadOnly, editing, now.isRunning);
  // What was told while the turn runs stands behind it.
  const later = now.isRunning ? stored.splice(toldSince(rows, talk.live.said[0]?.at)) : [];
  const said = now.said.map((message) => html`<${SaidEntry} key=${message.id} message=${message} />`);
  const live = now.isRunning ? [drawLive(talk)] : [];
  const waiting = now.waiting.map(({ message, place }) => drawWaiting(message, place, now.isQueued));
  const pending = talk.pending.map((message) => html`<${PendingEntry} key=${message.id} message=${message} />`);
  return [...stored, ...said, ...live, ...later, ...waiting, ...pending, ...(now.isExpecting ? [drawExpecting()] : [])];
}

function drawStored(talk, rows, isReadOnly, editing, isRunning) {
  const fadedFrom = editing ? rows.findIndex((row) => row.ref === editing.ref) : -1;
  const lastAnswer = isRunning ? -1 : rows.findLastIndex((row) => row.kind === "answer");
  const isIdle = !isBusy(talk);
  const last = isIdle ? rows.findLastIndex((row) => row.kind !== "notice") : -1;
  return rows.map((row, at) =>
    drawRow(row, {
      isLast: at === lastAnswer,
      isUnanswered: at === last,
      isReadOnly,
      // What would be taken back must not grow meanwhile.
      canEdit: isIdle && !isReadOnly,
      isFaded: fadedFrom >= 0 && at >= fadedFrom,
    }),
  );
}

function toldSince(rows, at) {
  return rows.findLastIndex((row) => row.kind !== "notice" || at === undefined || instant(row.at) < instant(at)) + 1;
}

function drawRow(row, { isLast, isUnanswered, isReadOnly, canEdit, isFaded }) {
  const common = { key: row.key, row, isReadOnly, isFaded };
  if (row.kind === "notice") return html`<${NoticeEntry} key=${row.key} notice=${row.notice} />`;
  if (row.kind === "system") return html`<${SystemEntry} key=${row.key} row=${row} />`;
  const shown = { ...common, canEdit, onRetry: isUnanswered && !isReadOnly ? retry : null };
  if (row.kind === "user") return html`<${UserEntry} ...${shown} />`;
  return html`<${AnswerEntry} ...${common} isLive=${false} isLast=${isLast} onRetry=${retry} />`;
}

function drawLive({ live, ask }) {
  const row = { key: live.turn_id, parts: live.parts, isAsking: ask !== null };
  return html`<${AnswerEntry} key=${live.turn_id} row=${row} isLive=${true} />`;
}

// The answer's place is there before its first word: it then moves nothing.
function drawExpecting() {
  return html`<${AnswerEntry} key="expecting" row=${{ key: "expecting", parts: [] }} isLive=${true} />`;
}

function drawWaiting(message, place, isQueued) {
  if (!isQueued) return html`<${SaidEntry} key=${message.id} message=${message} />`;
  const note = place === 1 ? "Waits for its turn" : `Waits as number ${place}`;
  return html`<${SaidEntry} key=${message.id} message=${message} note=${note}>
    <button type="button" class="link" onClick=${() => command(`/queue drop ${place}`)}>Drop</button>
  <//>`;
}

function clicked(event) {
  const button = event.target.closest?.("button.copy");
  if (button) copyCode(button);
}

function showGoal(goal, rows, content, place) {
  if (!goal) return;
  const row = rows.find((one) => one.messages?.some((message) => message.ref === goal));
  const found = row && content.querySelector(`[data-key="${CSS.escape(row.key)}"]`);
  if (!found) return;
  place.leave();
  found.scrollIntoView({ block: "center" });
  found.classList.add("found");
  setTimeout(() => found.classList.remove("found"), 2500);
  set({ goal: null });
}

// Keeps the end in sight while the reader is there; keeps what they read in its place while older messages come in above.
function useStickiness(scroller, content, setAway) {
  const place = useMemo(() => {
    let isAtEnd = true;
    let first = null;
    let height = 0;
    const box = () => scroller.current;
    const settle = () => {
      // The observer may tell once more of a box that is gone.
      if (!box()) return;
      if (isAtEnd) box().scrollTop = box().scrollHeight;
      height = box().scrollHeight;
    };
    return {
      drawn(key, hasEarlier) {
        const isPrepended = first !== null && key !== first && !isAtEnd && box().scrollHeight > height;
        if (isPrepended) box().scrollTop += box().scrollHeight - height;
        first = key ?? null;
        settle();
        if (hasEarlier && box().scrollTop < EARLY) loadEarlier().catch(() => null);
      },
      scrolled() {
        const { scrollTop, scrollHeight, clientHeight } = box();
        // A change of the content's height also scrolls; only a reader's own scrolling decides where they want to be.
        if (scrollHeight !== height) return settle();
        isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR;
        setAway(!isAtEnd);
        if (scrollTop < EARLY) loadEarlier().catch(() => null);
      },
      toEnd() {
        isAtEnd = true;
        setAway(false);
        settle();
      },
      leave() {
        isAtEnd = false;
        setAway(true);
      },
      settle,
    };
  }, []);
  useEffect(() => {
    const watcher = new ResizeObserver(place.settle);
    watcher.observe(content.current);
    watcher.observe(scroller.current);
    return () => watcher.disconnect();
  }, []);
  return place;
}
