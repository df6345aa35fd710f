-- name: spans_of_session
SELECT DISTINCT lo, hi FROM spans WHERE session_pk = :session_pk

-- name: drop_spans
DELETE FROM spans WHERE session_pk = :session_pk

-- name: drop_state
DELETE FROM session_state WHERE session_pk = :session_pk

-- name: drop_unindexed
DELETE FROM unindexed WHERE session_pk = :session_pk

-- name: drop_session
DELETE FROM sessions WHERE pk = :session_pk

-- name: mark_log_deleted
INSERT INTO deleted_logs (log, session_id, scope, pending) VALUES (:log, :session_id, :scope, 1)

-- name: reconsider_log
UPDATE deleted_logs SET pending = 1 WHERE log = :log

-- name: next_deleted_log
SELECT log FROM deleted_logs WHERE pending = 1 ORDER BY log LIMIT 1 {lock_row}

-- name: settle_deleted_log
UPDATE deleted_logs SET pending = 0 WHERE log = :log

-- name: forget_deleted_log
DELETE FROM deleted_logs WHERE log = :log

-- name: spans_over_log
SELECT lo, hi FROM spans WHERE lo BETWEEN :lo AND :hi

-- name: numbers_in_log
SELECT number FROM messages WHERE number BETWEEN :lo AND :hi ORDER BY number LIMIT :limit

-- name: drop_externals
DELETE FROM platform_messages WHERE session_pk = :session_pk
  AND external_id IN (SELECT external_id FROM platform_messages WHERE session_pk = :session_pk ORDER BY external_id LIMIT :limit)

-- name: drop_messages
DELETE FROM messages WHERE number = :number

-- name: old_sessions
SELECT t.listed_at, t.session_pk, s.session_id FROM session_state t {then} sessions s ON s.pk = t.session_pk
WHERE t.platform = :platform AND t.ended = :ended AND t.listed_at < :before AND t.updated_at < :before
ORDER BY t.listed_at, t.session_pk LIMIT :limit

-- name: count_old_sessions
SELECT COUNT(*) FROM session_state t
WHERE t.ended <= :ended AND t.ended >= :at_least AND t.updated_at < :before AND t.platform = COALESCE(CAST(:platform AS TEXT), t.platform)

-- name: sessions_of_owner
SELECT s.session_id, s.pk, s.origin FROM session_state t {then} sessions s ON s.pk = t.session_pk
WHERE t.owner = :owner ORDER BY t.listed_at, t.session_pk LIMIT :limit

-- name: addresses_of_owner
SELECT pk, key FROM addresses WHERE owner = :owner AND session_pk IS NULL

-- name: drop_unused_address
DELETE FROM addresses WHERE pk = :pk AND session_pk IS NULL AND NOT EXISTS (SELECT 1 FROM sessions WHERE address_pk = :pk)

-- name: others_origins
-- Shared sessions began with somebody's message; a fork has the origin of what it was made of.
SELECT s.pk, s.origin FROM sessions s {then} session_state t ON t.session_pk = s.pk
WHERE (t.owner IS NULL OR s.parent_session_id IS NOT NULL) AND s.pk > :after ORDER BY s.pk LIMIT :limit

-- name: set_origin
UPDATE sessions SET origin = :origin WHERE pk = :session_pk

-- name: forget_display_name
UPDATE sessions SET display_name = NULL WHERE pk = :session_pk

-- name: forget_titles
-- Of the session that a message was said in, and of all that show it, or could again.
UPDATE sessions SET title = NULL, title_key = NULL WHERE title IS NOT NULL AND pk IN (
  SELECT CAST(:number AS BIGINT) >> 24
  UNION ALL SELECT v.session_pk FROM spans v WHERE v.lo BETWEEN ((CAST(:number AS BIGINT) >> 24) << 24) AND :number AND v.hi >= :number)

-- name: unredacted_in_log
SELECT number FROM messages WHERE number BETWEEN :lo AND :hi AND redacted_at IS NULL ORDER BY number LIMIT :limit

-- name: forget_author
-- What a tombstone may say is that someone wrote it, not who.
UPDATE messages SET author = NULL WHERE author = :author

-- name: forget_possible_author
DELETE FROM possible_authors WHERE author = :author

-- name: drop_possible_authors
-- Of messages that are gone.
DELETE FROM possible_authors WHERE number BETWEEN :lo AND :hi
  AND NOT EXISTS (SELECT 1 FROM messages m WHERE m.number = possible_authors.number)

-- name: drop_journals_of
DELETE FROM journal WHERE turn_pk IN (SELECT pk FROM turns WHERE person = :person)

-- name: drop_turns_of
DELETE FROM turns WHERE person = :person

-- name: turns_answering
-- The turns that took something that a person said.
SELECT DISTINCT t.pk, t.origin FROM inbox i {then} turns t ON t.pk = i.turn_pk
WHERE i.person = :person AND t.pk > :after ORDER BY t.pk LIMIT :limit

-- name: set_turn_origin
UPDATE turns SET origin = :origin WHERE pk = :turn_pk
