// Which commands fit to what is typed. Pure.

// The commands whose name begins with what stands behind `/`; none once the name is complete and something follows.
export function matching(commands, text) {
  const typed = /^\/([A-Za-z0-9_]*)$/.exec(text);
  if (!typed) return [];
  const start = typed[1].toLowerCase();
  return commands.filter((one) => bare(one).startsWith(start));
}

export function bare(command) {
  return command.name.replace(/^\//, "");
}

// What the text becomes when a command is chosen: one that takes something waits for it.
export function chosen(command) {
  const takes = command.usage.trim().includes(" ");
  return takes ? `/${bare(command)} ` : `/${bare(command)}`;
}

// Whether the server takes it as a command: a path such as /etc/hosts is none.
export function isCommand(text) {
  return /^\/[A-Za-z]\w*(@\S+)?(\s|$)/.test(text.trim());
}
