-- name: sessions_after
SELECT s.pk, s.session_id, s.view_version, s.redo, t.last_seq, t.message_count
FROM sessions s {then} session_state t ON t.session_pk = s.pk WHERE s.pk > :after ORDER BY s.pk LIMIT :limit

-- name: count_in_span
SELECT COUNT(*) FROM messages WHERE number BETWEEN :lo AND :hi

-- name: count_messages
SELECT COUNT(*) FROM messages

-- What became of a message: its own fate, but `failed` where the turn that answered it did. Its words are the transcript's all the same.
-- fragment: fate
CASE WHEN i.fate IS NULL THEN CASE WHEN i.turn_pk IS NULL THEN 'waiting' ELSE 'running' END
  WHEN t.outcome = 'failed' AND i.fate IN ('answered', 'merged') THEN 'failed' ELSE i.fate END

-- Why: what was noted, else what its people were told by a turn that failed.
-- fragment: why
COALESCE(i.note, CASE WHEN t.outcome = 'failed' THEN t.error END)

-- fragment: told
i.pk, i.platform, i.account, i.lane, i.event, i.person, i.role, i.accepted_at, {fate}, i.fate_at, {why}, s.session_id, i.turn_pk

-- fragment: told_from
inbox i LEFT JOIN sessions s ON s.pk = i.session_pk LEFT JOIN turns t ON t.pk = i.turn_pk

-- name: list_inbox
SELECT {told} FROM {told_from} WHERE i.pk < :before AND (CAST(:fate AS TEXT) IS NULL OR {fate} = :fate) ORDER BY i.pk DESC LIMIT :limit

-- name: find_inbox
SELECT {told} FROM {told_from} WHERE i.pk = :pk

-- name: story_of_turn
SELECT turn_id, state, outcome, attempts, created_at, ended_at, error FROM turns WHERE pk = :turn_pk

-- name: gateway_counts
SELECT (SELECT COUNT(*) FROM inbox WHERE fate IS NULL AND turn_pk IS NULL AND lane <> 'control'),
  (SELECT COUNT(*) FROM turns WHERE {running}),
  (SELECT COUNT(*) FROM deliveries WHERE state = 'pending') + (SELECT COUNT(*) FROM deliveries WHERE state = 'sending'),
  (SELECT COUNT(*) FROM deliveries WHERE state = 'parked'),
  (SELECT MIN(accepted_at) FROM inbox WHERE fate IS NULL AND turn_pk IS NULL AND lane <> 'control')
