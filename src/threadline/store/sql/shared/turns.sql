-- name: ready_sessions
-- Lock, then look: whoever holds a session's row here is the only one who starts a turn for it.
-- Those of a person who has as many turns as they may are passed over: one person's backlog must not hide everybody else's.
SELECT r.session_pk, r.due_at FROM ready r WHERE r.platform = :platform AND r.due_at <= :at
  AND NOT EXISTS (SELECT 1 FROM session_state t WHERE t.session_pk = r.session_pk AND t.owner IN (
    SELECT u.person FROM turns u WHERE {running} GROUP BY u.person HAVING COUNT(*) >= :per_person))
ORDER BY r.due_at LIMIT :limit {lock_row}

-- name: ready_at
-- The same at one address alone: whoever asks so names the conversations that are open there.
SELECT r.session_pk, r.due_at FROM ready r WHERE r.due_at <= :at AND r.session_pk = (SELECT a.session_pk FROM addresses a WHERE a.digest = :digest) {lock_row}

-- name: live_turn
SELECT pk, turn_id, fence, state FROM turns WHERE session_pk = :session_pk AND state IN ('running', 'asking')

-- name: at_hand
-- How much waits in a session, whether any turn runs anywhere, and with that each turn that is there: one that runs or waits for an
-- answer, one that waits to run again.
SELECT w.waiting, EXISTS (SELECT 1 FROM turns WHERE {running}), u.turn_id, u.state
FROM (SELECT COUNT(*) AS waiting FROM inbox WHERE {waits_in_session}) w
LEFT JOIN (
  SELECT turn_id, state FROM turns WHERE session_pk = :session_pk AND state IN ('running', 'asking')
  UNION ALL
  SELECT turn_id, state FROM turns WHERE session_pk = :session_pk AND state = 'waiting'
) u ON TRUE

-- name: waiting_turn
SELECT pk, turn_id, fence, attempts, lane, role, origin, stop, deaths, died_at FROM turns
WHERE session_pk = :session_pk AND state = 'waiting'
ORDER BY pk LIMIT 1

-- name: has_work
-- Whether a session that nobody is at has something to do: a turn that runs again, or messages that none has taken.
SELECT 1 WHERE EXISTS (SELECT 1 FROM turns WHERE session_pk = :session_pk AND state = 'waiting')
OR EXISTS (SELECT 1 FROM inbox WHERE {waits_in_session})

-- name: short_history
-- Like load_bodies, for a session that has few messages of its own alone; nothing where those have more bytes than `most`, and of what
-- they say nothing is read then.
SELECT m.body
FROM sessions s
{then} spans v ON v.session_pk = s.pk AND v.version = s.view_version AND v.folded = 0
{then} messages m ON m.number BETWEEN v.lo AND v.hi
WHERE s.pk = :session_pk
  AND (SELECT COALESCE(SUM(octet_length(w.body)), 0) FROM messages w WHERE w.number BETWEEN :lo AND :hi) <= :most
ORDER BY v.place DESC, m.number DESC LIMIT :limit

-- name: delete_new_turn
-- It was made a moment ago, and nothing knows of it.
DELETE FROM turns WHERE pk = :turn_pk

-- name: live_counts
SELECT person, platform, COUNT(*) FROM turns WHERE {running} GROUP BY person, platform

-- name: session_of_pk
SELECT {entry} FROM {entry_tables} WHERE s.pk = :session_pk

-- name: add_turn
INSERT INTO turns (turn_id, session_pk, lane, state, attempts, owner, lease_until, person, platform, role, origin, created_at)
VALUES (:turn_id, :session_pk, :lane, 'running', 1, :owner, {now} + :duration, :person, :platform, :role, :origin, :at)
RETURNING pk, (SELECT c.block FROM contexts c WHERE c.session_pk = :session_pk)

-- name: claim_turn
UPDATE turns SET state = 'running', attempts = attempts + 1, {lease_taken}
WHERE pk = :turn_pk AND state = 'waiting'

-- name: set_replay
UPDATE turns SET replay = :replay WHERE pk = :key AND fence = :fence AND state = 'running'

-- name: stop_of_turn
SELECT stop FROM turns WHERE pk = :turn_pk

-- name: note_tools
-- Only the holder of this fence may write. Zero rows: the lease is lost, stop working.
UPDATE turns SET tools = CASE WHEN :tools > tools THEN :tools ELSE tools END WHERE pk = :key AND fence = :fence AND state = 'running'

-- name: add_journal
-- A piece that was kept unheard is kept again, with what was said since.
INSERT INTO journal (turn_pk, place, event) VALUES (:turn_pk, :place, :event)
ON CONFLICT (turn_pk, place) DO UPDATE SET event = excluded.event

-- name: journal_of
SELECT place, event FROM journal WHERE turn_pk = :turn_pk ORDER BY place

-- name: drop_journal
DELETE FROM journal WHERE turn_pk = :turn_pk

-- name: end_turn
-- Most turns leave nothing behind. So it tells along what is left, and only that is asked for: its session, messages that it took and
-- that have no fate, a stream, a journal, questions, and work for the next one; and where its session's next message goes.
UPDATE turns SET state = 'done', outcome = :outcome, ended_at = :at, {lease_ended}, error = :error
WHERE pk = :key AND fence = :fence AND state = 'running'
RETURNING (SELECT t.session_pk FROM session_state t WHERE t.session_pk = turns.session_pk), origin,
  (SELECT COUNT(*) FROM inbox i WHERE i.turn_pk = :key AND i.fate IS NULL),
  EXISTS (SELECT 1 FROM deliveries d WHERE d.turn_pk = :key AND d.state = 'open'),
  {has_journal}, EXISTS (SELECT 1 FROM asks q WHERE q.turn_pk = :key),
  EXISTS (SELECT 1 FROM turns w WHERE w.session_pk = turns.session_pk AND w.state = 'waiting')
  OR EXISTS (SELECT 1 FROM inbox i WHERE i.session_pk = turns.session_pk AND i.fate IS NULL AND i.turn_pk IS NULL AND i.lane <> 'control'),
  (SELECT t.last_seq FROM session_state t WHERE t.session_pk = turns.session_pk),
  (SELECT t.indexed_seq FROM session_state t WHERE t.session_pk = turns.session_pk),
  (SELECT t.owner FROM session_state t WHERE t.session_pk = turns.session_pk)

-- name: release_turn
-- It runs again later, by whoever takes it. One that was given back in good order has not cost an attempt.
UPDATE turns SET state = 'waiting', attempts = attempts - :uncounted, {lease_ended} WHERE pk = :key AND fence = :fence AND state = 'running'

-- name: suspect_turn
UPDATE turns SET deaths = :deaths, died_at = :at WHERE pk = :key AND fence = :fence AND state = 'running'

-- name: running_suspects
SELECT turn_id, deaths FROM turns WHERE {running} AND owner = :owner AND deaths > 1

-- name: left_behind
-- Read before any row is locked: a gateway that takes the same turns over has not changed them yet, or has taken all.
SELECT owner, deaths FROM turns WHERE {running} AND lease_until < {now}

-- name: request_stop
-- Also of one that broke off and waits to run again, or waits for an answer: it is not begun any more.
UPDATE turns SET stop = :stop WHERE pk IN (
  SELECT pk FROM turns WHERE session_pk = :session_pk AND state IN ('running', 'asking')
  UNION ALL SELECT pk FROM turns WHERE session_pk = :session_pk AND state = 'waiting')

-- name: expired_turns
-- What a death left behind is taken over together: while a lease of the same owner has less than a third to go, its holder is gone too.
SELECT pk, turn_id, fence, attempts, lane, role, origin, session_pk, replay, tools, stop, owner, deaths FROM turns
WHERE {running} AND platform = :platform AND lease_until < {now}
  AND NOT EXISTS (SELECT 1 FROM turns w WHERE {running} AND w.owner = turns.owner AND w.lease_until BETWEEN {now} AND {now} + :duration / 3)
ORDER BY lease_until, pk {lock_row}

-- name: take_over_turn
-- A new fence: whatever the former holder still writes finds no row.
UPDATE turns SET {lease_taken} WHERE pk = :key AND fence = :fence AND state = 'running'

-- name: find_context
SELECT block FROM contexts WHERE session_pk = :session_pk

-- name: keep_context
INSERT INTO contexts (session_pk, block) VALUES (:session_pk, :block) ON CONFLICT (session_pk) DO NOTHING

-- name: drop_context
DELETE FROM contexts WHERE session_pk = :session_pk

-- name: drop_contexts
DELETE FROM contexts
