// An answer as it is drawn: a row of parts. A running turn and a stored one make the same parts, so that nothing jumps
// when the one takes the place of the other. Pure.
//
// A part is {kind: "text"|"thought", text}, {kind: "files", files: [Attachment]} or
// {kind: "tool", id, name, arguments, result: string|null, isError}.

// The parts with more events behind them. Neighbouring pieces of text are one part.
export function foldEvents(parts, events) {
  const out = [...parts];
  for (const event of events) fold(out, event);
  return out;
}

function fold(out, event) {
  if (event.type === "text" || event.type === "thought") {
    const last = out.at(-1);
    if (!event.text) return;
    if (last?.kind === event.type) out[out.length - 1] = { ...last, text: last.text + event.text };
    else out.push({ kind: event.type, text: event.text });
  } else if (event.type === "tool_call") {
    if (!out.some((part) => part.kind === "tool" && part.id === event.call_id))
      out.push(toolPart(event.call_id, event.name, event.arguments));
  } else if (event.type === "tool_result") {
    giveResult(out, event.call_id, event.content, Boolean(event.is_error));
  } else if (event.type === "file") {
    const { handle, name, mime, size } = event.attachment;
    joinFiles(out, [{ id: handle.slice(5), name, mime, size }]);
  }
}

function joinFiles(out, files) {
  if (!files?.length) return;
  const last = out.at(-1);
  if (last?.kind === "files") out[out.length - 1] = { ...last, files: [...last.files, ...files] };
  else out.push({ kind: "files", files });
}

function toolPart(id, name, args) {
  return { kind: "tool", id, name, arguments: args ?? "{}", result: null, isError: false };
}

function giveResult(out, id, result, isError) {
  const at = out.findLastIndex((part) => part.kind === "tool" && part.id === id);
  if (at >= 0) out[at] = { ...out[at], result, isError };
}

// The parts of stored messages that follow one another: an assistant's, and its tools'.
export function partsOf(messages) {
  const out = [];
  for (const message of messages) {
    if (message.redacted) {
      out.push({ kind: "removed" });
    } else if (message.role === "tool") {
      storedResult(out, message);
    } else {
      if (message.thoughts) out.push({ kind: "thought", text: message.thoughts });
      if (message.text) joinText(out, message.text);
      joinFiles(out, message.attachments);
      for (const call of message.tool_calls ?? []) out.push(toolPart(call.id, call.name, call.arguments));
    }
  }
  return out;
}

function joinText(out, text) {
  const last = out.at(-1);
  if (last?.kind === "text") out[out.length - 1] = { ...last, text: `${last.text}\n\n${text}` };
  else out.push({ kind: "text", text });
}

function storedResult(out, message) {
  const isKnown = out.some((part) => part.kind === "tool" && part.id === message.tool_call_id);
  if (!isKnown) out.push(toolPart(message.tool_call_id, message.tool_name ?? "tool", "{}"));
  giveResult(out, message.tool_call_id, message.text, false);
}

// All that an answer says, without what it thought and did.
export function spokenText(parts) {
  return parts
    .filter((part) => part.kind === "text")
    .map((part) => part.text)
    .join("\n\n");
}
