// Says to a screen reader what matters, once: that an answer is being written, and the answer when it is whole.

import { useEffect, useRef, useState } from "preact/hooks";
import { partsOf, spokenText } from "../parts.js";
import { html } from "./html.js";

const LONGEST = 1500;

export function Announcer({ talk, toast }) {
  const [words, setWords] = useState("");
  const before = useRef({ id: null });
  useEffect(() => {
    const was = before.current;
    before.current = {
      id: talk?.id ?? null,
      turn: talk?.live?.turn_id ?? null,
      last: talk?.messages.at(-1)?.ref ?? null,
      notice: talk?.notices.at(-1)?.id ?? null,
      ask: talk?.ask?.code ?? null,
    };
    const now = before.current;
    if (!talk || was.id !== now.id || was.last === undefined) return;
    if (now.ask && now.ask !== was.ask) setWords(`May I use ${talk.ask.tool}? ${talk.ask.reason}`);
    else if (was.turn && !now.turn && now.last !== was.last) setWords(answerAfter(talk, was.last));
    else if (now.notice && now.notice !== was.notice) setWords(talk.notices.at(-1).text);
    else if (now.turn && !was.turn) setWords("The answer is being written.");
  }, [talk]);
  return html`<div class="hidden" role="status" aria-live="polite">${toast ?? words}</div>`;
}

function answerAfter(talk, ref) {
  const from = talk.messages.findIndex((one) => one.ref === ref) + 1;
  return spokenText(partsOf(talk.messages.slice(from).filter((one) => one.role === "assistant"))).slice(0, LONGEST);
}
