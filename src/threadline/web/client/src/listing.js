// The conversations at the side: read page by page, renamed, deleted.

import { call, conversationPath, query } from "./api.js";
import { addPage, newList, remove, rowKey, upsert } from "./list.js";
import { routeOfRow } from "./route.js";
import { get, set } from "./store.js";

const PAGE = 50;

// Reads the next page, if there is one and none is on its way.
export async function loadMore() {
  const { list } = get();
  if (list.isLoading || (list.isLoaded && list.next === null)) return;
  set({ list: { ...list, isLoading: true, problem: null } });
  try {
    const page = await call("GET", `/api/conversations${query({ limit: PAGE, cursor: list.next })}`);
    set({ list: addPage(get().list, page) });
  } catch (error) {
    set({ list: { ...get().list, isLoading: false, problem: error.message } });
  }
}

// Reads the newest page again after the connection was lost: changes may have been missed.
export async function refresh() {
  if (!get().list.isLoaded) return loadMore();
  const page = await call("GET", `/api/conversations${query({ limit: PAGE })}`).catch(() => null);
  if (page === null) return;
  const { list } = get();
  const isCovered = page.next === null;
  if (isCovered) set({ list: addPage(newList(), page) });
  else set({ list: page.conversations.reduce(upsert, list) });
}

export function rowChanged(row) {
  const { list, talk } = get();
  set({ list: upsert(list, row) });
  const isOpen = talk && talk.id === row.id && (talk.session === null ? !row.ended : talk.session === row.session_id);
  if (isOpen) set({ talk: { ...get().talk, conversation: row } });
}

export function rowGone(id, session = null) {
  const { list, talk } = get();
  set({ list: remove(list, id, session) });
  const open = talk?.session ?? talk?.conversation?.session_id;
  if (talk?.id === id && (session === null || session === open)) location.hash = "#/";
}

export async function rename(row, title) {
  const wanted = title.trim() || null;
  if (wanted === row.title) return;
  const changed = { ...row, title: wanted, label: wanted ?? row.label };
  rowChanged(changed);
  try {
    rowChanged(
      await call("PATCH", conversationPath(row.id), { title: wanted, ...(row.ended ? { session: row.session_id } : {}) }),
    );
  } catch (error) {
    rowChanged(row);
    set({ toast: error.message });
  }
}

export async function erase(row) {
  const session = row.ended ? row.session_id : null;
  try {
    await call("DELETE", conversationPath(row.id) + query({ session }));
    rowGone(row.id, row.session_id);
  } catch (error) {
    set({ toast: error.message });
  }
}

export function openRow(row) {
  if (row) location.hash = routeOfRow(row);
}

export const openKey = (talk) => (talk ? (talk.session ? `${talk.id}/${talk.session}` : talk.id) : null);
export { rowKey };
