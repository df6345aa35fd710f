-- fragment: told
i.pk, i.platform, i.account, i.lane, i.event, i.person, i.role, i.accepted_at, i.fate, i.fate_at, i.note, s.session_id, i.turn_pk

-- name: list_inbox
SELECT {told} FROM inbox i LEFT JOIN sessions s ON s.pk = i.session_pk
WHERE i.pk < :before AND (CAST(:fate AS TEXT) IS NULL OR COALESCE(i.fate, CASE WHEN i.turn_pk IS NULL THEN 'waiting' ELSE 'running' END) = :fate) ORDER BY i.pk DESC LIMIT :limit

-- name: find_inbox
SELECT {told} FROM inbox i LEFT JOIN sessions s ON s.pk = i.session_pk WHERE i.pk = :pk

-- name: story_of_turn
SELECT turn_id, state, outcome, attempts, created_at, ended_at, error FROM turns WHERE pk = :turn_pk

-- name: gateway_counts
SELECT (SELECT COUNT(*) FROM inbox WHERE fate IS NULL AND turn_pk IS NULL AND lane <> 'control'),
  (SELECT COUNT(*) FROM turns WHERE {running}),
  (SELECT COUNT(*) FROM deliveries WHERE state = 'pending') + (SELECT COUNT(*) FROM deliveries WHERE state = 'sending'),
  (SELECT COUNT(*) FROM deliveries WHERE state = 'parked'),
  (SELECT MIN(accepted_at) FROM inbox WHERE fate IS NULL AND turn_pk IS NULL AND lane <> 'control')
