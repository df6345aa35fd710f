// The one stream of events of this tab. It comes back by itself, and goes on where it was.

import { refusal, Refused } from "./api.js";
import { delayAfter, pause } from "./backoff.js";
import { eventReader } from "./sse.js";

// The server says something every 15 seconds; a stream that is silent for longer is dead, whatever the socket says.
const SILENCE = 40_000;

// Listens for one conversation (`null`: for the list alone) until `close()`. `on` gets {event(type, data), state(name), missing()}.
// `restart()` forgets the place, so that the next event is the whole conversation.
export function openStream(conversation, on) {
  const closing = new AbortController();
  let lastId = null;
  let current = null;

  async function run() {
    let failures = 0;
    while (!closing.signal.aborted) {
      current = new AbortController();
      try {
        await listen(current, () => {
          failures = 0;
        });
      } catch (error) {
        if (closing.signal.aborted) return;
        if (isFinal(error)) return;
      }
      if (closing.signal.aborted) return;
      failures += 1;
      on.state("lost");
      await pause(delayAfter(failures), closing.signal);
    }
  }

  function isFinal(error) {
    if (!(error instanceof Refused)) return false;
    if (error.status === 404) on.missing();
    return error.status === 404 || error.status === 401;
  }

  async function listen(controller, reached) {
    const response = await fetch("/api/events", {
      method: "POST",
      headers: {
        "Content-Type": "application/json",
        Accept: "text/event-stream",
        ...(lastId === null ? {} : { "Last-Event-ID": lastId }),
      },
      body: JSON.stringify({ conversation }),
      credentials: "same-origin",
      cache: "no-store",
      signal: controller.signal,
    });
    if (!response.ok) throw await refusal(response);
    on.state("open");
    await readAll(response.body, controller, reached);
  }

  async function readAll(body, controller, reached) {
    const take = eventReader(({ id, type, data }) => {
      on.event(type, JSON.parse(data));
      if (id !== null) lastId = id;
    });
    const decoder = new TextDecoder();
    const reader = body.getReader();
    let watch = null;
    try {
      for (;;) {
        clearTimeout(watch);
        watch = setTimeout(() => controller.abort(), SILENCE);
        const { done, value } = await reader.read();
        if (done) return;
        reached();
        take(decoder.decode(value, { stream: true }));
      }
    } finally {
      clearTimeout(watch);
    }
  }

  closing.signal.addEventListener("abort", () => current?.abort());
  run();
  return {
    close: () => closing.abort(),
    restart() {
      lastId = null;
      current?.abort();
    },
  };
}
