-- fragment: shown_at
-- When the question was shown in full: its last part was sent, and no earlier delivery of the turn is pending or parked.
CASE WHEN NOT EXISTS (SELECT 1 FROM deliveries p WHERE p.turn_pk = a.turn_pk AND p.state IN ('pending', 'sending', 'parked'))
  THEN d.sent_at END

-- name: mark_turn_asking
-- The turn holds no lease and no slot until the question is answered. Asking costs no attempt.
UPDATE turns SET state = 'asking', attempts = attempts - 1, {lease_ended}
WHERE pk = :turn_pk AND fence = :fence AND state = 'running'

-- name: add_approval
INSERT INTO asks (turn_pk, session_pk, code, event, least, question, state, asked_at, expires_at)
VALUES (:turn_pk, :session_pk, :code, :event, :least, :question, 'open', :at, :expires_at)

-- name: find_open_approval
-- The question that a session waits for, and when it was shown.
SELECT a.pk, a.code, a.event, a.least, {shown_at} FROM asks a LEFT JOIN deliveries d ON d.delivery_id = a.question
WHERE a.session_pk = :session_pk AND a.state = 'open' AND a.expires_at > :at

-- name: open_approvals_with_code
-- In any session: everybody in the chat can read the question. The caller compares targets, not the stored lane: a question that
-- was being sent while the id of its chat changed keeps the old lane.
SELECT a.pk, a.code, a.event, a.least, {shown_at}, d.target FROM asks a {then} deliveries d ON d.delivery_id = a.question
WHERE a.code = :code AND a.state = 'open' AND a.expires_at > :at

-- name: decide_approval
-- Zero rows: the question was answered before, or has expired.
UPDATE asks SET state = :state, decided_by = :person WHERE pk = :pk AND state = 'open' AND expires_at > :at RETURNING session_pk

-- name: wake_asking_turn
-- The second condition names the index.
UPDATE turns SET state = 'waiting' WHERE session_pk = :session_pk AND state = 'asking' AND state IN ('running', 'asking')

-- name: expired_approvals
SELECT pk, session_pk FROM asks WHERE state = 'open' AND expires_at <= :at ORDER BY expires_at LIMIT :limit {lock_row}

-- name: close_approval
UPDATE asks SET state = 'closed' WHERE pk = :pk AND state = 'open'

-- name: close_approvals_of_session
UPDATE asks SET state = 'closed' WHERE session_pk = :session_pk AND state = 'open'

-- name: answers_of
SELECT pk, event, state FROM asks WHERE turn_pk = :turn_pk AND state IN ('granted', 'denied', 'told', 'used') ORDER BY pk

-- name: close_delivered_answers
UPDATE asks SET state = 'closed' WHERE turn_pk = :turn_pk AND state = 'told'

-- name: deliver_answers
-- A grant is delivered once: a turn that is interrupted after this must ask again. A denial may be delivered repeatedly.
UPDATE asks SET state = 'told' WHERE turn_pk = :turn_pk AND state = 'granted'

-- name: return_answer
UPDATE asks SET state = 'granted' WHERE pk = :pk AND turn_pk = :turn_pk AND state = 'told'

-- name: mark_answers_used
UPDATE asks SET state = 'used' WHERE turn_pk = :turn_pk AND state = 'told'

-- name: count_approvals
SELECT COUNT(*) FROM asks WHERE turn_pk = :turn_pk

-- name: drop_approvals
DELETE FROM asks WHERE turn_pk = :turn_pk

-- name: end_idle_turns
-- No gateway runs these turns, and none will: their session was deleted.
UPDATE turns SET state = 'done', outcome = 'dropped' WHERE pk IN (
  SELECT pk FROM turns WHERE session_pk = :session_pk AND state = 'asking' AND state IN ('running', 'asking')
  UNION ALL SELECT pk FROM turns WHERE session_pk = :session_pk AND state = 'waiting')

-- name: drop_approvals_of_session
DELETE FROM asks WHERE session_pk = :session_pk

-- name: forget_decider
UPDATE asks SET decided_by = NULL WHERE decided_by = :person

-- name: drop_journals_of_session
DELETE FROM journal WHERE turn_pk IN (
  SELECT pk FROM turns WHERE session_pk = :session_pk AND state = 'asking' AND state IN ('running', 'asking')
  UNION ALL SELECT pk FROM turns WHERE session_pk = :session_pk AND state = 'waiting')
