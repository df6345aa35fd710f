-- name: editor_elsewhere
-- The current session of the place at which the named one is kept.
SELECT {entry}
FROM sessions o {then} addresses a ON a.pk = o.address_pk
{then} sessions s ON s.pk = a.session_pk {then} session_state t ON t.session_pk = s.pk
WHERE o.session_id = :session_id

-- name: history_lengths
-- How many messages a view shows, those included that compaction folded away. Reads no message: spans have no gaps.
SELECT s.session_id, CAST(SUM({span_length}) AS BIGINT)
FROM sessions s {then} session_state t ON t.session_pk = s.pk
{then} spans v ON v.session_pk = s.pk AND v.version = s.view_version
WHERE s.session_id = :session_id GROUP BY s.session_id

-- The open span reaches to where the log ends now.
-- fragment: span_length
CASE WHEN v.hi >> 24 = s.pk AND v.hi > (s.pk << 24) + t.last_seq THEN (s.pk << 24) + t.last_seq ELSE v.hi END - v.lo + 1

-- fragment: replayed_line
CASE WHEN octet_length(m.body) <= :largest THEN m.body ELSE CAST(m.number AS TEXT) END

-- name: joined_between
-- Messages as one value: to hand them over row by row costs more than to read them. Of a large one it has the number.
SELECT COUNT(*), convert_to(string_agg({replayed_line}, CAST(:separator AS TEXT) ORDER BY m.number), 'UTF8')
FROM messages m WHERE m.number BETWEEN :lo AND :hi

-- name: side_messages
-- What was said there besides the agent's answers. Questions are put anew where they are open, and that a button was pressed nobody
-- was told. The newest first.
SELECT delivery_id, asked, text, created_at, turn_pk FROM deliveries
WHERE lane = :lane AND kind <> 'reply' AND text <> '' AND created_at >= :since AND state IN ('pending', 'sending', 'sent', 'unknown')
  AND buttons = '[]' AND (asked <> '' OR delivery_id NOT LIKE 'command.%')
ORDER BY pk DESC LIMIT :limit

-- name: time_and_role
SELECT at, role FROM messages WHERE number = :number

-- name: sessions_at
SELECT session_id FROM sessions WHERE address_pk = :address_pk ORDER BY pk LIMIT :limit
