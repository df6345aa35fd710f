import assert from "node:assert/strict";
import test from "node:test";
import { backoff, completion, format, list, route } from "./sources.mjs";

const row = (id, at, more = {}) => ({
  id,
  session_id: `s-${id}`,
  title: null,
  label: id,
  updated_at: at,
  ended: false,
  busy: false,
  ...more,
});
const NOON = new Date(2026, 5, 15, 12).getTime();
const ago = (days) => new Date(NOON - days * 86_400_000).toISOString();

test("pages follow one another, and what comes twice stands once", () => {
  const first = list.addPage(list.newList(), { conversations: [row("a", ago(0)), row("b", ago(1))], next: "2" });
  const both = list.addPage(first, { conversations: [row("b", ago(1)), row("c", ago(2))], next: null });
  assert.deepEqual(
    both.rows.map((one) => one.id),
    ["a", "b", "c"],
  );
});

test("a row that changed moves up; one beyond the loaded pages waits for its page", () => {
  const loaded = list.addPage(list.newList(), { conversations: [row("a", ago(1)), row("b", ago(2))], next: "2" });
  assert.deepEqual(
    list.upsert(loaded, row("b", ago(0))).rows.map((one) => one.id),
    ["b", "a"],
  );
  assert.deepEqual(
    list.upsert(loaded, row("z", ago(9))).rows.map((one) => one.id),
    ["a", "b"],
  );
});

test("a session that ends keeps its row, and a new one has another", () => {
  const loaded = list.addPage(list.newList(), { conversations: [row("a", ago(1))], next: null });
  const ended = list.upsert(loaded, row("a", ago(1), { ended: true }));
  const both = list.upsert(ended, row("a", ago(0), { session_id: "s-2" }));
  assert.deepEqual(both.rows.map(list.rowKey), ["a", "a/s-a"]);
  assert.deepEqual(list.upsert(both, row("a", ago(0), { session_id: "s-a" })).rows.map(list.rowKey), ["a"]);
  assert.deepEqual(list.remove(both, "a", "s-a").rows.map(list.rowKey), ["a"]);
  assert.deepEqual(list.remove(both, "a").rows, []);
});

test("conversations stand under their days", () => {
  const groups = list.byDay(
    [row("a", ago(0)), row("b", ago(0.1)), row("c", ago(1)), row("d", ago(3)), row("e", ago(400))],
    NOON,
    "en",
  );
  assert.deepEqual(
    groups.map((one) => [one.day, one.rows.length]),
    [
      ["Today", 2],
      ["Yesterday", 1],
      ["Friday", 1],
      ["May 2025", 1],
    ],
  );
});

test("one steps through the list and stops at its ends", () => {
  const rows = [row("a", ago(0)), row("b", ago(1))];
  assert.equal(list.neighbour(rows, "a", 1).id, "b");
  assert.equal(list.neighbour(rows, "a", -1).id, "a");
  assert.equal(list.neighbour(rows, null, 1).id, "a");
  assert.equal(list.neighbour([], null, 1), null);
});

test("an address is read as it was written", () => {
  for (const given of [
    { session: null, at: null },
    { session: "20260101_x", at: null },
    { session: null, at: "s:1" },
    { session: "s", at: "s:é/ 1" },
  ]) {
    assert.deepEqual(route.readRoute(route.talkRoute("abc-DEF_1", given)), { kind: "talk", id: "abc-DEF_1", ...given });
  }
  assert.deepEqual(route.readRoute("#t=a%2Bb"), { kind: "token", secret: "a+b" });
  assert.deepEqual(route.readRoute("#i=xyz"), { kind: "invite", secret: "xyz" });
  for (const other of ["", "#", "#/", "#/c/", "#/c/../x", "#/c/<b>", "#composer", "#t%"])
    assert.equal(route.readRoute(other).kind, "home");
});

test("times are taken as text or as seconds", () => {
  assert.equal(format.instant("2026-01-01T00:00:00Z"), format.instant(1767225600));
  assert.equal(format.instant("nonsense"), 0);
});

test("sizes, counts and money read easily", () => {
  assert.deepEqual([12, 2048, 3_456_000].map(format.fileSize), ["12 B", "2 kB", "3.5 MB"]);
  assert.deepEqual([999, 1000, 2246, 31_200, 4_500_000].map(format.shortCount), ["999", "1k", "2.2k", "31k", "4.5M"]);
  assert.equal(format.money({ cost_micros: 11_700, cost_status: "estimated" }), "≈ $0.01");
  assert.equal(format.money({ cost_micros: 900, cost_status: "actual" }), "$0.0009");
  assert.equal(format.money({ cost_micros: 5, cost_status: "unknown" }), "");
});

test("what a tool is called with is told in one line, whatever it is", () => {
  assert.equal(format.gist('{"q": "a\\n b", "n": 2}'), "a b · 2");
  assert.equal(format.gist("not json"), "not json");
  assert.equal(format.gist("null"), "null");
  assert.equal(format.gist(JSON.stringify({ q: "x".repeat(200) })).length, 80);
});

test("commands are offered by their first letters, until one is complete", () => {
  const commands = [
    { name: "undo", usage: "/undo [N]", help: "" },
    { name: "usage", usage: "/usage", help: "" },
  ];
  assert.deepEqual(
    completion.matching(commands, "/u").map((one) => one.name),
    ["undo", "usage"],
  );
  assert.deepEqual(
    completion.matching(commands, "/US").map((one) => one.name),
    ["usage"],
  );
  for (const other of ["", "u", "/undo 2", " /u", "a /u", "/x"]) assert.deepEqual(completion.matching(commands, other), []);
  assert.deepEqual(commands.map(completion.chosen), ["/undo ", "/usage"]);
});

test("waiting grows, has an end, and is never none", () => {
  const waits = Array.from({ length: 20 }, (_, at) => backoff.delayAfter(at + 1, 0.5));
  assert.deepEqual(
    waits,
    [...waits].sort((a, b) => a - b),
  );
  assert.equal(waits.at(-1), 15_000);
  assert.ok(backoff.delayAfter(1, 0) > 0);
});
