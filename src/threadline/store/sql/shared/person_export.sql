-- All of these only read, and lock nothing: a page is one snapshot.

-- What lives on of a deleted session because a fork shows it. A log has no owner; the scope that search would index it under
-- names one. What was redacted there tells of nobody: it is all that erasing a person leaves in a fork that someone else holds.
-- fragment: left
m.number BETWEEN d.log << 24 AND (d.log << 24) + 16777215 AND m.redacted_at IS NULL

-- fragment: deleted_of_owner
' ' || d.scope || ' ' LIKE CAST(:scope AS TEXT)

-- name: count_known
-- Sessions, messages, turns, what came in, what went out, files. Reads index entries and counters, no message.
SELECT COUNT(*),
  CAST(COALESCE(SUM(t.last_seq), 0) AS BIGINT) + (SELECT COUNT(*) FROM messages WHERE author = :person)
    + (SELECT COUNT(*) FROM deleted_logs d {then} messages m ON {left} WHERE {deleted_of_owner}),
  (SELECT COUNT(*) FROM usage WHERE person = :person),
  (SELECT COUNT(*) FROM inbox WHERE person = :person),
  (SELECT COUNT(*) FROM deliveries WHERE person = :person),
  (SELECT COUNT(*) FROM file_senders WHERE person = :person)
FROM session_state t WHERE t.owner = :person

-- name: addresses_known
SELECT key FROM addresses WHERE owner = :owner ORDER BY pk LIMIT :limit

-- name: sessions_owned
-- The page is cut before anything is joined to it.
SELECT p.session_pk, {entry} FROM (
  SELECT session_pk FROM session_state WHERE owner = :owner AND session_pk >= :first ORDER BY session_pk LIMIT :limit
) p
{page_tables} ORDER BY p.session_pk

-- name: deleted_logs_owned
-- Those that have something after a place.
SELECT d.log FROM deleted_logs d
WHERE d.log >= :first AND {deleted_of_owner} AND EXISTS (SELECT 1 FROM messages m WHERE {left} AND m.number > :after)
ORDER BY d.log LIMIT :limit

-- name: load_left
SELECT number, role, at, author, redacted_at, body FROM messages
WHERE number BETWEEN :lo AND :hi AND redacted_at IS NULL ORDER BY number LIMIT :limit

-- name: load_written
SELECT number, role, at, author, redacted_at, body FROM messages
WHERE author = :author AND number > :after ORDER BY number LIMIT :limit

-- name: platform_ids
-- With an author, of their messages alone: what others sent stands between them.
SELECT x.number, x.external_id FROM platform_messages x
WHERE x.session_pk = :log AND x.number BETWEEN :lo AND :hi AND (CAST(:author AS TEXT) IS NULL
  OR EXISTS (SELECT 1 FROM messages m WHERE m.number = x.number AND m.author = :author))
ORDER BY x.number, x.external_id

-- name: usage_of_person
-- Turns may share an instant; the primary key tells them apart.
SELECT at, session_pk, turn_id, session_id, platform, model, input_tokens, output_tokens, cache_read_tokens,
  cache_write_tokens, reasoning_tokens, cost_micros, cost_status
FROM usage WHERE person = :person AND at >= :at AND (at, session_pk, turn_id) > (:at, :session_pk, :turn_id)
ORDER BY at, session_pk, turn_id LIMIT :limit

-- name: find_person
SELECT role, name, since FROM people WHERE person = :person

-- name: find_pairing
SELECT name, asked_at FROM pairings WHERE person = :person

-- name: inbox_known
SELECT i.pk, i.platform, i.account, i.event, i.role, i.accepted_at, {fate}, i.fate_at, {why}, s.session_id, t.turn_id
FROM {told_from}
WHERE i.person = :person AND i.pk > :after ORDER BY i.pk LIMIT :limit
