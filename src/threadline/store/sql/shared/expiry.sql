-- name: find_cursor
SELECT p.listed_at, p.session_pk FROM expiry_places p WHERE p.platform = :platform AND p.chat_type = :chat_type

-- name: lock_cursor
-- One watcher at a time, over all processes, until its step ends. No row: another is at it.
SELECT p.listed_at, p.session_pk FROM expiry_places p WHERE p.platform = :platform AND p.chat_type = :chat_type {lock_row}

-- name: add_cursor
INSERT INTO expiry_places (platform, chat_type, listed_at, session_pk) VALUES (:platform, :chat_type, :listed_at, :session_pk)
ON CONFLICT (platform, chat_type) DO NOTHING

-- name: move_cursor
UPDATE expiry_places SET listed_at = :listed_at, session_pk = :session_pk WHERE platform = :platform AND chat_type = :chat_type

-- name: listed_after
-- A stretch of the index of sessions that have not ended. Was listed_at so long ago, then active_at was before `upto`: it is at most
-- {lag} microseconds newer, unless the session has moved and is met again later on. The last column tells which may be expired.
SELECT w.session_pk, w.listed_at, CASE WHEN s.chat_type = :chat_type AND a.session_pk = w.session_pk THEN 1 ELSE 0 END
FROM (
  SELECT t.session_pk, t.listed_at FROM session_state t
  WHERE t.platform = :platform AND t.ended = 0
    AND (t.listed_at, t.session_pk) > (:listed_at, :session_pk) AND t.listed_at < CAST(:upto AS BIGINT) - {lag}
  ORDER BY t.listed_at, t.session_pk LIMIT :limit
) w
{then} sessions s ON s.pk = w.session_pk {then} addresses a ON a.pk = s.address_pk
ORDER BY w.listed_at, w.session_pk

-- name: due_again
SELECT session_pk FROM expiry_again WHERE platform = :platform AND chat_type = :chat_type AND due_at <= :at
ORDER BY due_at, session_pk LIMIT :limit

-- name: look_again
INSERT INTO expiry_again (session_pk, platform, chat_type, due_at) VALUES (:session_pk, :platform, :chat_type, :due_at)
ON CONFLICT (session_pk) DO UPDATE SET platform = excluded.platform, chat_type = excluded.chat_type, due_at = excluded.due_at

-- name: drop_again
DELETE FROM expiry_again WHERE session_pk = :session_pk

-- name: hold_open
-- The current session of an address as long as it has not ended. Waits for nobody: who is at it makes it active anyway. Until
-- the step ends its next message waits, so that it either keeps the session or finds it ended.
SELECT {entry} FROM {entry_tables} WHERE s.pk = :session_pk AND a.session_pk = s.pk AND t.ended = 0 {lock_row}

-- name: mark_expired
UPDATE addresses SET expired = :reason WHERE pk = :address_pk

-- name: why_expired
SELECT expired FROM addresses WHERE pk = :address_pk

-- name: odd_addresses
-- An address has expired if, and only if, its current session has ended.
SELECT a.key FROM addresses a LEFT JOIN sessions s ON s.pk = a.session_pk
WHERE (s.ended_at IS NOT NULL AND a.expired IS NULL) OR (a.expired IS NOT NULL AND s.ended_at IS NULL) ORDER BY a.pk LIMIT :limit

-- name: queue_flush
-- Where nothing is new nothing is queued. One that runs goes on, and what has been said since follows it. The fence starts at the
-- time: a row that comes after a deleted one has a higher fence than anybody has seen.
INSERT INTO flushes (session_pk, platform, upto, due_at, fence)
SELECT t.session_pk, t.platform, t.last_seq, CAST(:at AS BIGINT), CAST(:at AS BIGINT) FROM session_state t {then} sessions s ON s.pk = t.session_pk
WHERE t.session_pk = :session_pk AND t.last_seq > s.flushed_seq
ON CONFLICT (session_pk) DO UPDATE SET upto = excluded.upto, due_at = excluded.due_at,
  attempts = CASE WHEN flushes.owner IS NULL THEN 0 ELSE flushes.attempts END

-- name: last_flush
SELECT MAX(due_at) FROM flushes WHERE platform = :platform

-- name: due_flush
-- Lock, then look: whoever holds the row takes it.
SELECT f.session_pk, f.upto, f.attempts, f.fence FROM flushes f
WHERE f.platform = :platform AND f.due_at <= :at AND (f.owner IS NULL OR f.lease_until < {now})
ORDER BY f.due_at, f.session_pk LIMIT 1 {lock_row}

-- name: take_flush
-- Counted at the claim, not at the end: a crash must cost an attempt.
UPDATE flushes SET {lease_taken}, attempts = attempts + 1 WHERE session_pk = :session_pk

-- name: end_flush
-- Zero rows: more was said meanwhile, or another has it.
DELETE FROM flushes WHERE session_pk = :key AND fence = :fence AND owner IS NOT NULL AND upto = :upto

-- name: reschedule_flush
UPDATE flushes SET {lease_ended}, due_at = :due_at, attempts = :attempts WHERE session_pk = :key AND fence = :fence AND owner IS NOT NULL

-- name: drop_flush
DELETE FROM flushes WHERE session_pk = :session_pk

-- name: drop_waiting_flush
-- The conversation goes on, and is flushed when it ends again. One that runs is let be.
DELETE FROM flushes WHERE session_pk = :session_pk AND owner IS NULL

-- name: flushed_seq
SELECT flushed_seq FROM sessions WHERE pk = :session_pk

-- name: unflushed_bodies
-- Of a stretch of the session's own log what its view shows, in order.
SELECT m.body
FROM sessions s
{then} spans v ON v.session_pk = s.pk AND v.version = s.view_version AND v.folded = 0 AND v.lo <= :hi AND v.hi >= :lo
{then} messages m ON m.number BETWEEN CASE WHEN v.lo > :lo THEN v.lo ELSE :lo END AND CASE WHEN v.hi < :hi THEN v.hi ELSE :hi END
WHERE s.pk = :session_pk
ORDER BY v.place, m.number
