-- fragment: recipient
COALESCE(CAST(:person AS TEXT), (SELECT owner FROM session_state WHERE session_pk = :session_pk))

-- name: add_delivery
INSERT INTO deliveries (delivery_id, lane, platform, account, target, session_pk, turn_pk, person, kind, text, asked, reply_to, buttons, files, state, due_at, created_at)
VALUES (:delivery_id, :lane, :platform, :account, :target, :session_pk, :turn_pk, {recipient}, :kind, :text, :asked, :reply_to, :buttons, :files, :state, :at, :at)
ON CONFLICT (delivery_id) DO NOTHING

-- name: due_deliveries
-- The first of each chat that is due; what stands behind it waits, also while it is tried again.
SELECT d.pk, d.delivery_id, d.target, d.text, d.reply_to, d.external_id, d.doubtful, d.attempts, d.created_at, d.session_pk, d.turn_pk, d.kind, d.buttons, d.files, d.fence
FROM deliveries d WHERE d.state = 'pending' AND d.platform = :platform AND d.account = :account AND d.due_at <= :at
  AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.lane = d.lane AND e.state IN ('pending', 'sending') AND e.pk < d.pk)
ORDER BY d.due_at, d.pk LIMIT :limit {lock_row}

-- name: due_for_key
-- The same in one chat alone.
SELECT d.pk, d.delivery_id, d.target, d.text, d.reply_to, d.external_id, d.doubtful, d.attempts, d.created_at, d.session_pk, d.turn_pk, d.kind, d.buttons, d.files, d.fence
FROM deliveries d WHERE d.state = 'pending' AND d.lane = :lane AND d.due_at <= :at
  AND NOT EXISTS (SELECT 1 FROM deliveries e WHERE e.lane = d.lane AND e.state IN ('pending', 'sending') AND e.pk < d.pk)
ORDER BY d.pk LIMIT 1 {lock_row}

-- name: mark_sending
-- Counted at the claim, not at the end: a crash must cost an attempt.
UPDATE deliveries SET state = 'sending', {lease_taken}, attempts = attempts + 1
WHERE pk = :pk AND state = 'pending'

-- name: mark_sent
-- A receipt: the platform's own id. One that may be a repetition stays marked. Where the id is the row's own, the row is the message:
-- what no transcript has is read here. Names and ids of files go with the text.
UPDATE deliveries SET state = :state, external_id = :external_id, sent_at = :at, {lease_ended}, error = NULL, files = :files,
  text = CASE WHEN kind <> 'reply' AND delivery_id = :external_id THEN text ELSE '' END,
  asked = CASE WHEN kind <> 'reply' AND delivery_id = :external_id THEN asked ELSE '' END
WHERE pk = :key AND fence = :fence AND state = 'sending'

-- name: forget_external_id
-- The message is gone: what is sent now is a new one, and as much in doubt as any until there is a receipt.
UPDATE deliveries SET external_id = NULL WHERE pk = :key AND fence = :fence AND state = 'sending'

-- name: reschedule
UPDATE deliveries SET state = 'pending', due_at = :due_at, {lease_ended}, error = :error, doubtful = :doubtful
WHERE pk = :key AND fence = :fence AND state = 'sending'

-- name: park_delivery
UPDATE deliveries SET state = 'parked', {lease_ended}, error = :error, doubtful = :doubtful
WHERE pk = :key AND fence = :fence AND state = 'sending'

-- name: next_delivery_due
SELECT MIN(due_at) FROM deliveries WHERE state = 'pending' AND platform = :platform AND account = :account

-- name: open_stream
-- Opened before its first send; a turn that runs again finds it and goes on with the same message.
INSERT INTO deliveries (delivery_id, lane, platform, account, target, session_pk, turn_pk, person, kind, text, reply_to, state, due_at, created_at)
VALUES (:delivery_id, :lane, :platform, :account, :target, :session_pk, :turn_pk, {recipient}, 'reply', '', :reply_to, 'open', :at, :at)
ON CONFLICT (delivery_id) DO NOTHING

-- name: find_stream
-- Not while something older is still to be sent there: a chat reads in order.
SELECT d.pk, d.external_id, d.attempts, EXISTS (
  SELECT 1 FROM deliveries e WHERE e.lane = d.lane AND e.state IN ('pending', 'sending') AND e.pk < d.pk)
FROM deliveries d WHERE d.turn_pk = :turn_pk AND d.state = 'open'

-- name: begin_stream
-- From here until its id is kept, a crash leaves it open whether the message arrived. There is nothing to take back where its chat has
-- moved meanwhile.
UPDATE deliveries SET attempts = attempts + :step WHERE pk = :pk AND state = 'open' AND attempts + :step >= 0

-- name: keep_stream_id
-- Not where its chat has moved since it was begun: there the id is another message's, or none.
UPDATE deliveries SET external_id = :external_id WHERE pk = :pk AND state = 'open' AND attempts > 0

-- name: finish_stream
-- The time that it may be held begins with the final text, however long the turn took.
UPDATE deliveries SET state = 'pending', text = :text, due_at = :at, created_at = :at, attempts = 0,
  doubtful = CASE WHEN external_id IS NULL AND attempts > 0 THEN 1 ELSE doubtful END WHERE turn_pk = :turn_pk AND state = 'open'

-- name: drop_stream
UPDATE deliveries SET state = 'dropped' WHERE turn_pk = :turn_pk AND state = 'open'

-- name: expired_deliveries
SELECT pk, platform, account, attempts, created_at FROM deliveries WHERE state = 'sending' AND lease_until < {now}
ORDER BY lease_until, pk LIMIT :limit {lock_row}

-- name: recover_delivery
-- Whoever sent it is gone, and so is the knowledge whether it arrived. An edit can be made again without harm.
UPDATE deliveries SET state = :state, {lease_ended}, due_at = :at, error = :error,
  doubtful = CASE WHEN external_id IS NULL AND :is_idempotent = 0 THEN 1 ELSE doubtful END WHERE pk = :pk AND state = 'sending'

-- name: list_deliveries
SELECT pk, delivery_id, target, kind, state, doubtful, attempts, created_at, due_at, sent_at, external_id, error, text, files, asked FROM deliveries
WHERE pk < :before AND (CAST(:state AS TEXT) IS NULL OR state = :state) ORDER BY pk DESC LIMIT :limit

-- name: retry_delivery
UPDATE deliveries SET state = 'pending', due_at = :at, created_at = :at, attempts = 0 WHERE pk = :pk AND state = 'parked'

-- name: drop_delivery
UPDATE deliveries SET state = 'dropped', text = '', asked = '', files = '[]' WHERE pk = :pk AND state IN ('parked', 'pending')

-- name: pending_on
-- Something waits, runs or is to be sent.
SELECT 1 WHERE EXISTS (SELECT 1 FROM ready WHERE platform = :platform)
  OR EXISTS (SELECT 1 FROM turns WHERE {running} AND platform = :platform)
  OR EXISTS (SELECT 1 FROM inbox WHERE fate IS NULL AND lane = 'control' AND platform = :platform)
  OR EXISTS (SELECT 1 FROM deliveries WHERE state IN ('pending', 'sending') AND platform = :platform)

-- name: pending_at
-- The same in one conversation.
SELECT 1 WHERE EXISTS (SELECT 1 FROM ready r JOIN addresses a ON a.session_pk = r.session_pk WHERE a.digest = :digest)
  OR EXISTS (SELECT 1 FROM turns u JOIN addresses a ON a.session_pk = u.session_pk WHERE a.digest = :digest AND u.state IN ('running', 'waiting'))
  OR EXISTS (SELECT 1 FROM inbox i JOIN addresses a ON a.session_pk = i.session_pk WHERE a.digest = :digest AND i.fate IS NULL AND i.lane = 'control')
  OR EXISTS (SELECT 1 FROM deliveries d WHERE d.state IN ('pending', 'sending') AND d.lane = :lane)

-- name: forget_deliveries
UPDATE deliveries SET text = '', asked = '', files = '[]', state = CASE WHEN state IN ('sent', 'unknown', 'sending') THEN state ELSE 'dropped' END
WHERE session_pk = :session_pk

-- name: deliveries_of
SELECT pk, delivery_id, target, kind, state, doubtful, attempts, created_at, due_at, sent_at, external_id, error, text, files, asked FROM deliveries
WHERE turn_pk = :turn_pk ORDER BY pk

-- name: deliveries_to
SELECT pk, delivery_id, target, kind, state, doubtful, attempts, created_at, due_at, sent_at, external_id, error, text, files, asked FROM deliveries
WHERE person = :person AND pk > :after ORDER BY pk LIMIT :limit

-- name: drop_deliveries_to
-- One that is being sent just now finds no row for its receipt.
DELETE FROM deliveries WHERE person = :person
