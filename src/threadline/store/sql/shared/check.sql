-- name: sessions_after
SELECT s.pk, s.session_id, s.view_version, s.redo, t.last_seq, t.message_count
FROM sessions s {then} session_state t ON t.session_pk = s.pk WHERE s.pk > :after ORDER BY s.pk LIMIT :limit

-- name: count_in_span
SELECT COUNT(*) FROM messages WHERE number BETWEEN :lo AND :hi

-- name: count_messages
SELECT COUNT(*) FROM messages
