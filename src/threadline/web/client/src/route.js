// What stands behind `#` in the address. Pure.

const ID = /^[A-Za-z0-9_-]{1,128}$/;

// {kind: "token"|"invite", secret} · {kind: "talk", id, session, at} · {kind: "home"}
export function readRoute(hash) {
  const text = hash.replace(/^#/, "");
  if (text.startsWith("t=")) return { kind: "token", secret: decoded(text.slice(2)) };
  if (text.startsWith("i=")) return { kind: "invite", secret: decoded(text.slice(2)) };
  const [path, query = ""] = text.split("?");
  const [, kind, id, session] = path.split("/").map(decoded);
  if (kind !== "c" || !ID.test(id ?? "")) return { kind: "home" };
  return { kind: "talk", id, session: session || null, at: new URLSearchParams(query).get("at") };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function talkRoute(id, { session = null, at = null } = {}) {
  const place = session ? `#/c/${id}/${encodeURIComponent(session)}` : `#/c/${id}`;
  return at ? `${place}?at=${encodeURIComponent(at)}` : place;
}

export function routeOfRow(row) {
  return talkRoute(row.id, { session: row.ended ? row.session_id : null });
}
