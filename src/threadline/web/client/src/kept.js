// What this tab keeps for itself: drafts and unsent messages until it is closed, the theme for good. Nothing else of a talk.

function read(store, name) {
  try {
    return JSON.parse(store.getItem(name));
  } catch {
    return null;
  }
}

function write(store, name, value) {
  try {
    if (value === null || value === "") store.removeItem(name);
    else store.setItem(name, JSON.stringify(value));
  } catch {
    // Storage is full or forbidden: the page works without.
  }
}

export const draftOf = (id) => read(sessionStorage, `draft ${id ?? "new"}`) ?? "";
export const keepDraft = (id, text) => write(sessionStorage, `draft ${id ?? "new"}`, text);

export const unsent = () => read(sessionStorage, "unsent") ?? {};
export const keepUnsent = (messages) => write(sessionStorage, "unsent", Object.keys(messages).length ? messages : null);

export const theme = () => read(localStorage, "theme") ?? "auto";
export const keepTheme = (name) => write(localStorage, "theme", name === "auto" ? null : name);

export function forgetAll() {
  try {
    sessionStorage.clear();
  } catch {
    // Nothing was kept, then.
  }
}
