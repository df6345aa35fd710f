-- fragment: shown_at
-- Shown in full: the last part of the question has arrived, and nothing that stands before it waits or was given up.
CASE WHEN NOT EXISTS (SELECT 1 FROM deliveries p WHERE p.turn_pk = a.turn_pk AND p.state IN ('pending', 'sending', 'parked'))
  THEN d.sent_at END

-- name: ask_turn
-- It holds no lease and no slot until somebody answers, and asking has not cost an attempt.
UPDATE turns SET state = 'asking', attempts = attempts - 1, {lease_ended}
WHERE pk = :turn_pk AND fence = :fence AND state = 'running'

-- name: add_ask
INSERT INTO asks (turn_pk, session_pk, code, event, least, question, state, asked_at, expires_at)
VALUES (:turn_pk, :session_pk, :code, :event, :least, :question, 'open', :at, :expires_at)

-- name: open_ask
-- The question that a session waits for, and whether its people have it before them.
SELECT a.pk, a.code, a.event, a.least, {shown_at} FROM asks a LEFT JOIN deliveries d ON d.delivery_id = a.question
WHERE a.session_pk = :session_pk AND a.state = 'open' AND a.expires_at > :at

-- name: open_ask_in_chat
-- Of somebody else's conversation in the same chat: they all read the question there. By its target, not its lane: a question that
-- was on its way when its chat got another id kept the lane that it flew in.
SELECT a.pk, a.code, a.event, a.least, {shown_at}, d.target FROM asks a {then} deliveries d ON d.delivery_id = a.question
WHERE a.code = :code AND a.state = 'open' AND a.expires_at > :at

-- name: decide_ask
-- Once, and in time.
UPDATE asks SET state = :state, decided_by = :person WHERE pk = :pk AND state = 'open' AND expires_at > :at RETURNING session_pk

-- name: go_on
-- The second condition names the index.
UPDATE turns SET state = 'waiting' WHERE session_pk = :session_pk AND state = 'asking' AND state IN ('running', 'asking')

-- name: expired_asks
SELECT pk, session_pk FROM asks WHERE state = 'open' AND expires_at <= :at ORDER BY expires_at LIMIT :limit {lock_row}

-- name: close_ask
UPDATE asks SET state = 'closed' WHERE pk = :pk AND state = 'open'

-- name: close_asks_of_session
UPDATE asks SET state = 'closed' WHERE session_pk = :session_pk AND state = 'open'

-- name: answers_of
SELECT pk, event, state FROM asks WHERE turn_pk = :turn_pk AND state IN ('granted', 'denied', 'told', 'used') ORDER BY pk

-- name: lose_answers
UPDATE asks SET state = 'closed' WHERE turn_pk = :turn_pk AND state = 'told'

-- name: tell_answers
-- A yes counts once: a turn that breaks off after this must ask again. A no does no harm however often it is told.
UPDATE asks SET state = 'told' WHERE turn_pk = :turn_pk AND state = 'granted'

-- name: keep_answer
UPDATE asks SET state = 'granted' WHERE pk = :pk AND turn_pk = :turn_pk AND state = 'told'

-- name: use_answers
UPDATE asks SET state = 'used' WHERE turn_pk = :turn_pk AND state = 'told'

-- name: count_asks
SELECT COUNT(*) FROM asks WHERE turn_pk = :turn_pk

-- name: drop_asks
DELETE FROM asks WHERE turn_pk = :turn_pk

-- name: end_idle_turns
-- Nobody is at them, and nobody ever will be: their session was deleted.
UPDATE turns SET state = 'done', outcome = 'dropped' WHERE pk IN (
  SELECT pk FROM turns WHERE session_pk = :session_pk AND state = 'asking' AND state IN ('running', 'asking')
  UNION ALL SELECT pk FROM turns WHERE session_pk = :session_pk AND state = 'waiting')

-- name: drop_asks_of_session
DELETE FROM asks WHERE session_pk = :session_pk

-- name: forget_decider
UPDATE asks SET decided_by = NULL WHERE decided_by = :person

-- name: drop_journals_of_session
DELETE FROM journal WHERE turn_pk IN (
  SELECT pk FROM turns WHERE session_pk = :session_pk AND state = 'asking' AND state IN ('running', 'asking')
  UNION ALL SELECT pk FROM turns WHERE session_pk = :session_pk AND state = 'waiting')
