-- name: unindexed_sessions
SELECT u.session_pk FROM unindexed u ORDER BY u.session_pk LIMIT :limit

-- name: lock_index_state
-- The last column as in lock_session.
SELECT t.indexed_seq, t.last_seq, t.owner, t.platform, s.chat, {stale}
FROM session_state t {then} sessions s ON s.pk = t.session_pk WHERE t.session_pk = :session_pk {lock_state}

-- name: advance_index
UPDATE session_state SET indexed_seq = :seq WHERE session_pk = :session_pk

-- name: count_unindexed
SELECT COALESCE(CAST(SUM(t.last_seq - t.indexed_seq) AS BIGINT), 0)
FROM (SELECT session_pk FROM unindexed LIMIT :sessions) u {then} session_state t ON t.session_pk = u.session_pk

-- What is told of a match, all in the one round trip: whether the index is behind, the message, what stands beside it in its
-- log, the span by which its own session shows it (no more than one does), and that session.
-- fragment: hit
EXISTS (SELECT 1 FROM unindexed), m.role, m.at, m.author, m.redacted_at, m.body,
b.role, b.at, b.author, b.redacted_at, b.body, f.role, f.at, f.author, f.redacted_at, f.body,
v.place, v.lo, v.hi, {entry}

-- fragment: hit_tables
messages m ON m.number = d.number
LEFT JOIN messages b ON b.number = d.number - 1
LEFT JOIN messages f ON f.number = d.number + 1
LEFT JOIN sessions s ON s.pk = d.number >> 24
LEFT JOIN session_state t ON t.session_pk = s.pk
LEFT JOIN addresses a ON a.pk = s.address_pk
LEFT JOIN spans v ON v.session_pk = s.pk AND v.version = s.view_version AND d.number BETWEEN v.lo AND v.hi

-- name: borrowed_logs
-- Logs of others that this viewer's sessions show: forks and threads that started from them.
SELECT DISTINCT v.lo >> 24 FROM session_state t
{then} sessions s ON s.pk = t.session_pk
{then} spans v ON v.session_pk = s.pk AND v.version = s.view_version
WHERE t.owner = :person AND t.borrows = 1 AND v.lo >> 24 <> s.pk
LIMIT :limit

-- name: borrowed_logs_in_chat
SELECT DISTINCT v.lo >> 24 FROM sessions s
{then} session_state t ON t.session_pk = s.pk
{then} spans v ON v.session_pk = s.pk AND v.version = s.view_version
WHERE s.chat = :chat AND (t.owner IS NULL OR t.owner = :person) AND t.borrows = 1 AND v.lo >> 24 <> s.pk
LIMIT :limit

-- fragment: showing
FROM spans v
{then} sessions s ON s.pk = v.session_pk AND s.view_version = v.version
{then} session_state t ON t.session_pk = s.pk
{then} addresses a ON a.pk = s.address_pk
WHERE v.lo BETWEEN ((CAST(:number AS BIGINT) >> 24) << 24) AND :number AND v.hi >= :number

-- name: showing_session
-- The oldest session that shows a message, or folded it.
SELECT {entry} {showing} ORDER BY s.pk LIMIT 1

-- name: showing_session_for
SELECT {entry} {showing} AND ((CAST(:chat AS TEXT) IS NULL AND t.owner = :person)
  OR (s.chat = CAST(:chat AS TEXT) AND (t.owner IS NULL OR t.owner = :person)))
ORDER BY s.pk LIMIT 1

-- name: find_views
-- What sessions show now, one row a span.
SELECT s.pk, v.folded, v.lo, v.hi FROM sessions s {then} spans v ON v.session_pk = s.pk AND v.version = s.view_version
WHERE s.pk = :session_pk ORDER BY v.folded, v.place

-- name: find_messages
SELECT number, role, at, author, redacted_at, body FROM messages WHERE number = :number
