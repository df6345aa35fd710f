-- name: lock_append_targets
-- The sessions that a batch appends to, locked in one order, so that two batches never wait for each other in a ring; with
-- each, what its idempotency key brought before. A key that another process adds meanwhile is caught by its unique index.
-- (The plus: SQLite uses an index over an expression only where the other side has no type of its own. What a turn appends has a key
-- and no digest: it happens once because the turn ends once, and is in no index.)
SELECT s.session_id, s.pk, t.last_seq, t.indexed_seq, t.owner, m.append_key, m.number, m.key_digest
FROM sessions s {then} session_state t ON t.session_pk = s.pk
LEFT JOIN messages m ON m.number >> 24 = +s.pk AND m.append_key = :append_key AND m.key_digest IS NOT NULL
WHERE s.session_id = :session_id

-- name: add_messages
INSERT INTO messages (number, role, at, author, append_key, key_digest, body)
VALUES (:number, :role, :at, :author, :append_key, :key_digest, :body)

-- name: advance_states
UPDATE session_state SET last_seq = :last_seq, message_count = message_count + :added, had_activity = had_activity | :active,
  updated_at = :at, active_at = CASE WHEN :active = 1 THEN :at ELSE active_at END
WHERE session_pk = :session_pk

-- name: mark_unindexed
INSERT INTO unindexed (session_pk) VALUES (:session_pk) ON CONFLICT (session_pk) DO NOTHING

-- name: add_externals
INSERT INTO platform_messages (session_pk, external_id, number) VALUES (:session_pk, :external_id, :number)
ON CONFLICT (session_pk, external_id) DO UPDATE SET number = excluded.number

-- name: load_bodies
-- Walks the view from its end; the planner is held to this order, so the cost is that of the rows returned.
SELECT m.body
FROM sessions s
{then} spans v ON v.session_pk = s.pk AND v.version = s.view_version AND v.folded = 0
{then} messages m ON m.number BETWEEN v.lo AND v.hi
WHERE s.session_id = :session_id
ORDER BY v.place DESC, m.number DESC
LIMIT :limit

-- name: load_view
-- The newest messages of a view before a place in it, newest first.
SELECT v.place, m.number, m.role, m.at, m.author, m.redacted_at, m.body
FROM spans v {then} messages m ON m.number BETWEEN v.lo AND v.hi
WHERE v.session_pk = :session_pk AND v.version = :version AND v.folded = 0
  AND (v.place, m.number) < (:before_place, :before_number)
ORDER BY v.place DESC, m.number DESC
LIMIT :limit

-- name: load_view_onward
-- The oldest messages of a view after a place in it.
SELECT v.place, m.number, m.role, m.at, m.author, m.redacted_at, m.body
FROM spans v {then} messages m
  ON m.number BETWEEN CASE WHEN v.place = :after_place THEN :after_number + 1 ELSE v.lo END AND v.hi
WHERE v.session_pk = :session_pk AND v.version = :version AND v.folded = 0 AND v.place >= :after_place
ORDER BY v.place, m.number
LIMIT :limit

-- name: load_roles
-- Like load_view, without bodies: to find where an exchange starts.
SELECT v.place, m.number, m.role
FROM spans v {then} messages m ON m.number BETWEEN v.lo AND v.hi
WHERE v.session_pk = :session_pk AND v.version = :version AND v.folded = 0
  AND (v.place, m.number) < (:before_place, :before_number)
ORDER BY v.place DESC, m.number DESC
LIMIT :limit

-- name: load_spans
SELECT folded, place, lo, hi FROM spans WHERE session_pk = :session_pk AND version = :version ORDER BY folded, place

-- name: add_spans
INSERT INTO spans (session_pk, version, folded, place, lo, hi) VALUES (:session_pk, :version, :folded, :place, :lo, :hi)

-- name: span_versions
SELECT DISTINCT version FROM spans WHERE session_pk = :session_pk

-- name: drop_view
DELETE FROM spans WHERE session_pk = :session_pk AND version = :version

-- name: use_view
UPDATE sessions SET view_version = :version, redo = :redo, redo_seq = :redo_seq WHERE pk = :session_pk

-- name: count_view
UPDATE session_state SET message_count = :message_count, updated_at = :at, listed_at = :at WHERE session_pk = :session_pk

-- name: find_message
SELECT m.number, m.role, m.at, m.author, m.redacted_at, m.body FROM messages m WHERE m.number = :number

-- name: load_log
SELECT m.number, m.role, m.at, m.author, m.redacted_at, m.body FROM messages m
WHERE m.number BETWEEN :lo AND :hi ORDER BY m.number LIMIT :limit

-- The last of the messages from one number on that together are no longer than so many bytes; of longer ones, the first.
-- fragment: stretch_end
(SELECT MAX(c.number) FROM (
  SELECT b.number, SUM(b.size) OVER (ORDER BY b.number) - b.size AS ahead FROM (
    SELECT n.number, OCTET_LENGTH(n.body) AS size FROM messages n WHERE n.number BETWEEN :lo AND :hi ORDER BY n.number LIMIT :limit) b
) c WHERE c.ahead < :most)

-- name: load_stretch
SELECT m.number, m.role, m.at, m.author, m.redacted_at, m.body FROM messages m
WHERE m.number BETWEEN :lo AND {stretch_end} ORDER BY m.number

-- name: redact_message
UPDATE messages SET body = :body, redacted_at = :at WHERE number = :number AND redacted_at IS NULL

-- name: forget_digests
-- The append that brought this message: the nearest key before it. Without a digest at all the key could be used anew.
UPDATE messages SET key_digest = :none WHERE key_digest IS NOT NULL AND number = (
  SELECT MAX(m.number) FROM messages m WHERE m.number BETWEEN ((CAST(:number AS BIGINT) >> 24) << 24) AND :number AND m.append_key IS NOT NULL
)

-- name: numbers_by_author
SELECT number FROM messages WHERE author = :author AND redacted_at IS NULL ORDER BY number LIMIT :limit

-- name: numbers_possibly_by
SELECT p.number FROM possible_authors p {then} messages m ON m.number = p.number
WHERE p.author = :author AND m.redacted_at IS NULL ORDER BY p.number LIMIT :limit

-- name: authors_between
-- All who wrote or may have written the messages of a stretch.
SELECT m.number, m.author, m.body FROM messages m
WHERE m.number BETWEEN :lo AND :hi AND m.author IS NOT NULL AND m.redacted_at IS NULL
UNION ALL
SELECT p.number, p.author, m.body FROM possible_authors p {then} messages m ON m.number = p.number
WHERE p.number BETWEEN :lo AND :hi AND m.redacted_at IS NULL

-- name: owner_of_log
SELECT owner FROM session_state WHERE session_pk = :log

-- name: add_possible_author
INSERT INTO possible_authors (number, author) VALUES (:number, :author)

-- name: session_id_of_log
-- A log outlives its session while a fork shows some of it.
SELECT session_id FROM sessions WHERE pk = :log UNION ALL SELECT session_id FROM deleted_logs WHERE log = :log

-- name: find_log
SELECT pk FROM sessions WHERE session_id = :session_id
UNION ALL SELECT log FROM deleted_logs WHERE session_id = :session_id
