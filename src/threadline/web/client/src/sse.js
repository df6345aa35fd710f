// Reads a text/event-stream piece by piece.

// Takes pieces of text, cut anywhere, and calls `on({id, type, data})` once for each whole event.
// A comment calls nothing. `id` stays from event to event, as the format wants it.
export function eventReader(on) {
  let rest = "";
  let id = null;
  let type = "";
  let lines = [];

  function line(text) {
    if (text === "") {
      if (lines.length) on({ id, type: type || "message", data: lines.join("\n") });
      type = "";
      lines = [];
      return;
    }
    const colon = text.indexOf(":");
    if (colon === 0) return;
    const field = colon < 0 ? text : text.slice(0, colon);
    const value = colon < 0 ? "" : text.slice(colon + (text[colon + 1] === " " ? 2 : 1));
    if (field === "data") lines.push(value);
    else if (field === "event") type = value;
    else if (field === "id" && !value.includes("\0")) id = value;
  }

  return function take(piece) {
    rest += piece;
    let from = 0;
    for (;;) {
      const found = nextBreak(rest, from);
      if (found === null) break;
      line(rest.slice(from, found.at));
      from = found.after;
    }
    rest = rest.slice(from);
  };
}

// A break is LF, CR or CRLF. A CR at the very end waits: the LF that belongs to it may come with the next piece.
function nextBreak(text, from) {
  for (let at = from; at < text.length; at++) {
    if (text[at] === "\n") return { at, after: at + 1 };
    if (text[at] !== "\r") continue;
    if (at + 1 === text.length) return null;
    return { at, after: text[at + 1] === "\n" ? at + 2 : at + 1 };
  }
  return null;
}
