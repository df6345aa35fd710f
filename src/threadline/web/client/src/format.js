// Times, sizes, counts and money as people read them. Pure; `now` and the language are arguments.

// Milliseconds since 1970, from ISO text or from seconds since 1970.
export function instant(at) {
  if (typeof at === "number") return at < 1e11 ? at * 1000 : at;
  const parsed = Date.parse(at);
  return Number.isNaN(parsed) ? 0 : parsed;
}

const DAY = 86_400_000;
const formats = new Map();

// Making a format costs a hundred times more than using it.
function formatted(when, language, options) {
  const name = language + JSON.stringify(options);
  if (!formats.has(name)) formats.set(name, new Intl.DateTimeFormat(language, options));
  return formats.get(name).format(when);
}

function midnight(at) {
  const day = new Date(at);
  day.setHours(0, 0, 0, 0);
  return day.getTime();
}

// The heading under which a conversation stands: a day while it is near, later the month.
export function dayOf(at, now, language = "en") {
  const when = instant(at);
  const days = Math.round((midnight(now) - midnight(when)) / DAY);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return formatted(when, language, { weekday: "long" });
  const isThisYear = new Date(when).getFullYear() === new Date(now).getFullYear();
  if (days < 31)
    return formatted(when, language, { day: "numeric", month: "long", ...(isThisYear ? {} : { year: "numeric" }) });
  return formatted(when, language, { month: "long", year: "numeric" });
}

// A time of day, with the date where it was not today.
export function clockTime(at, now, language = "en") {
  const when = instant(at);
  const time = { hour: "numeric", minute: "2-digit" };
  if (midnight(when) === midnight(now)) return formatted(when, language, time);
  return formatted(when, language, { day: "numeric", month: "short", ...time });
}

export function fileSize(bytes) {
  if (bytes < 1000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${Math.round(bytes / 1000)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export function shortCount(count) {
  if (count < 1000) return String(count);
  if (count < 1_000_000) return `${trimmed(count / 1000)}k`;
  return `${trimmed(count / 1_000_000)}M`;
}

function trimmed(value) {
  return value < 10 ? value.toFixed(1).replace(/\.0$/, "") : String(Math.round(value));
}

// What a conversation cost; empty where nothing is known or nothing was to pay.
export function money({ cost_micros, cost_status }) {
  if (!cost_micros || cost_status === "unknown") return "";
  const dollars = cost_micros / 1_000_000;
  const shown = dollars < 0.01 ? `$${dollars.toFixed(4)}` : `$${dollars.toFixed(2)}`;
  return cost_status === "estimated" ? `≈ ${shown}` : shown;
}

// JSON text laid out for reading; other text as it is.
export function readableJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

// The first line of what a tool is called with, for its folded head.
export function gist(text, limit = 80) {
  let values;
  try {
    values = JSON.parse(text);
  } catch {
    values = text;
  }
  const flat = typeof values === "object" && values !== null ? Object.values(values).map(plain).join(" · ") : String(values);
  const line = flat.replace(/\s+/g, " ").trim();
  return line.length > limit ? `${line.slice(0, limit - 1)}…` : line;
}

function plain(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}
