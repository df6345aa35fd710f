// Coming in and going out.

import { call, onSignedOut, Refused } from "./api.js";
import { forgetAll } from "./kept.js";
import { resumeUnsent, withdrawAll } from "./outbox.js";
import { readRoute } from "./route.js";
import { get, set } from "./store.js";
import { delayAfter, pause } from "./backoff.js";

const STALE = "This link is not valid, or not any more.";

// Asks who reads here, with the secret of the address where it has one. Afterwards `me` or `signedOut` is set; whether it is `me`.
export async function signIn() {
  const route = readRoute(location.hash);
  // The secret leaves the address before anything else happens: nobody reads it over a shoulder or in the history.
  const isSecret = route.kind === "token" || route.kind === "invite";
  if (isSecret) history.replaceState(null, "", location.pathname);
  onSignedOut((message) => set({ me: null, signedOut: { message } }));
  for (let failures = 1; ; failures++) {
    try {
      const me = isSecret ? await call("POST", "/api/login", { [route.kind]: route.secret }) : await call("GET", "/api/me");
      set({ me, signedOut: null });
      resumeUnsent();
      return true;
    } catch (error) {
      if (error instanceof Refused) return refused(error, isSecret);
      set({ connection: "lost" });
      await pause(delayAfter(failures));
    }
  }
}

// A stale link is no reason to show the door to somebody who is in already.
async function refused(error, isSecret) {
  const known = isSecret ? await call("GET", "/api/me").catch(() => null) : null;
  if (known) set({ me: known, signedOut: null });
  else set({ signedOut: { message: isSecret ? (error.status === 401 ? STALE : error.message) : null } });
  return known !== null;
}

export async function signOut() {
  await call("POST", "/api/logout", {}).catch(() => null);
  withdrawAll();
  forgetAll();
  get().dialog && set({ dialog: null });
  location.hash = "";
  location.reload();
}
