// Requests to the server we came from. JSON in, JSON out.

// The server was not reached, or could not answer now: the same request may be sent again.
export class Unreachable extends Error {}

// The server has answered no; its sentence says what to do.
export class Refused extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

let signedOut = () => {};

export function onSignedOut(listener) {
  signedOut = listener;
}

// The answer to a request, `null` where it is empty. Raises `Unreachable` or `Refused`.
export async function call(method, path, body, { signal } = {}) {
  let response;
  try {
    response = await fetch(path, requestOf(method, body, signal));
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Unreachable("Threadline can't be reached.");
  }
  if (response.ok) return response.status === 204 ? null : response.json();
  throw await refusal(response, path);
}

function requestOf(method, body, signal) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  return {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    credentials: "same-origin",
    cache: "no-store",
    signal,
  };
}

// What a refusing response says, as an error. Nobody is signed in any more: the page is told, too.
export async function refusal(response, path = "") {
  const told = await response.json().catch(() => ({}));
  const message = told.message ?? `The server answered with ${response.status}.`;
  if (response.status === 401 && path !== "/api/login") signedOut(message);
  if (response.status >= 502 && response.status <= 504) return new Unreachable(message);
  return new Refused(response.status, told.error ?? "", message);
}

// A name that nobody else has: a message sent again under it is the same message.
export function freshId() {
  if (crypto.randomUUID) return crypto.randomUUID();
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const conversationPath = (id, rest = "") => `/api/conversations/${encodeURIComponent(id)}${rest}`;

export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}
