// The list of conversations: pages that come by and by, rows that change, headings by day. Pure.

import { dayOf, instant } from "./format.js";

export function newList() {
  return { rows: [], next: null, isLoaded: false, isLoading: false, problem: null };
}

// An ended session of a conversation is a row of its own; the current one has the conversation's name alone.
export function rowKey(row) {
  return row.ended ? `${row.id}/${row.session_id}` : row.id;
}

export function addPage(list, page) {
  const known = new Set(list.rows.map(rowKey));
  const fresh = page.conversations.filter((row) => !known.has(rowKey(row)));
  return {
    ...list,
    rows: newestFirst([...list.rows, ...fresh]),
    next: page.next,
    isLoaded: true,
    isLoading: false,
    problem: null,
  };
}

// Puts a row in its place; a session that has ended or goes on again leaves its former one. One that is older than all
// that is loaded comes with its own page, later.
export function upsert(list, row) {
  const rows = list.rows.filter((one) => rowKey(one) !== rowKey(row) && one.session_id !== row.session_id);
  const isBeyond = list.next !== null && rows.length > 0 && instant(row.updated_at) < instant(rows.at(-1).updated_at);
  return { ...list, rows: isBeyond ? rows : newestFirst([...rows, row]) };
}

// Takes out one ended session, or a conversation with all that belongs to it.
export function remove(list, id, session = null) {
  const stays = (row) => row.id !== id || (session !== null && row.session_id !== session);
  return { ...list, rows: list.rows.filter(stays) };
}

function newestFirst(rows) {
  return [...rows].sort((a, b) => instant(b.updated_at) - instant(a.updated_at));
}

// [{day, rows}], newest first.
export function byDay(rows, now, language) {
  const groups = [];
  for (const row of rows) {
    const day = dayOf(row.updated_at, now, language);
    if (groups.at(-1)?.day !== day) groups.push({ day, rows: [] });
    groups.at(-1).rows.push(row);
  }
  return groups;
}

// The row `step` places below (above: negative) the one that is open.
export function neighbour(rows, key, step) {
  const at = rows.findIndex((row) => rowKey(row) === key);
  if (at < 0) return rows[0] ?? null;
  return rows[Math.min(rows.length - 1, Math.max(0, at + step))] ?? null;
}
