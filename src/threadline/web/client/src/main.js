// Where the page begins.

import { h, render } from "preact";
import { listenToKeys } from "./keys.js";
import { loadMore } from "./listing.js";
import { signIn } from "./signing.js";
import { get } from "./store.js";
import { followAddress } from "./talking.js";
import { applyTheme } from "./theme.js";
import { App } from "./view/app.js";

// Before the first paint, so that a chosen theme never flashes.
applyTheme();

async function begin() {
  const page = document.getElementById("page");
  page.replaceChildren();
  render(h(App, null), page);
  addEventListener("hashchange", arrive);
  listenToKeys();
  await enter();
}

async function enter() {
  if (!(await signIn())) return;
  followAddress();
  loadMore();
}

// A link that signs somebody in may be opened in a tab that is here already.
function arrive() {
  if (/^#[ti]=/.test(location.hash)) enter();
  else if (get().me) followAddress();
}

document.addEventListener("DOMContentLoaded", begin);
