-- name: find_inbound
SELECT pk, fate, session_pk FROM inbox WHERE platform = :platform AND account = :account AND dedupe_key = :dedupe_key

-- name: add_inbound
-- Two gateways may insert the same event at once: one gets the row, the other no row.
INSERT INTO inbox (platform, account, dedupe_key, session_pk, lane, event, person, role, accepted_at, fate, fate_at, note)
VALUES (:platform, :account, :dedupe_key, :session_pk, :lane, :event, :person, :role, :at, :fate, :fate_at, :note)
ON CONFLICT (platform, account, dedupe_key) DO NOTHING RETURNING pk

-- name: add_taken_inbound
-- The same for a message that is pending, or that belongs to a turn from the beginning.
INSERT INTO inbox (platform, account, dedupe_key, session_pk, turn_pk, lane, event, person, role, accepted_at)
VALUES (:platform, :account, :dedupe_key, :session_pk, :turn_pk, :lane, :event, :person, :role, :at)
ON CONFLICT (platform, account, dedupe_key) DO NOTHING RETURNING pk

-- Messages that no turn has taken. A control command waits for no turn.
-- fragment: waits_in_session
session_pk = :session_pk AND fate IS NULL AND turn_pk IS NULL AND lane <> 'control'

-- name: count_waiting
SELECT COUNT(*) FROM inbox WHERE {waits_in_session}

-- name: pending_of_session
SELECT pk, lane, event, person, role, accepted_at FROM inbox
WHERE {waits_in_session} ORDER BY pk LIMIT :limit

-- name: pending_from_end
-- The pending message that has so many newer ones after it.
SELECT event FROM inbox WHERE {waits_in_session} ORDER BY pk DESC LIMIT 1 OFFSET :newer

-- name: taken_by_turn
SELECT pk, lane, event, person, role, accepted_at FROM inbox WHERE turn_pk = :turn_pk AND fate IS NULL ORDER BY pk

-- name: take_inbound
UPDATE inbox SET turn_pk = :turn_pk WHERE pk = :pk AND fate IS NULL

-- name: give_back
UPDATE inbox SET turn_pk = NULL WHERE turn_pk = :turn_pk AND fate IS NULL

-- name: set_outcome
-- An outcome is set once. The text is removed: the transcript has it, or it is not needed.
UPDATE inbox SET fate = :fate, fate_at = :at, note = :note, event = :event WHERE pk = :pk AND fate IS NULL

-- name: pending_controls
SELECT pk, lane, event, person, role, accepted_at, session_pk FROM inbox
WHERE fate IS NULL AND lane = 'control' AND accepted_at <= :before ORDER BY pk LIMIT :limit

-- name: forget_inbox_of_person
-- The row stays, or the platform could send the event again. Its sender and its content are removed.
UPDATE inbox SET event = '{}', person = NULL, fate = COALESCE(fate, 'dropped') WHERE person = :person

-- name: forget_old_unreadable
-- Called with each new event, so at most one row exceeds the limit.
UPDATE inbox SET event = '{}' WHERE pk = (SELECT i.pk FROM inbox i WHERE i.fate = 'parked' AND i.person IS NULL AND i.platform = :platform
  ORDER BY i.pk DESC LIMIT 1 OFFSET :kept)

-- name: forget_unreadable
UPDATE inbox SET event = '{}' WHERE fate = 'parked' AND person IS NULL AND platform = :platform

-- name: forget_waiting
-- Messages of a running turn get their outcome from it. Turns that wait to run again, or for an approval, will not run.
UPDATE inbox SET event = '{}', fate = 'dropped' WHERE pk IN (
  SELECT pk FROM inbox WHERE {waits_in_session}
  UNION ALL SELECT pk FROM inbox WHERE session_pk = :session_pk AND fate IS NULL AND turn_pk IS NULL AND lane = 'control'
  UNION ALL SELECT i.pk FROM turns t {then} inbox i ON i.turn_pk = t.pk
    WHERE t.session_pk = :session_pk AND t.state = 'asking' AND t.state IN ('running', 'asking') AND i.fate IS NULL
  UNION ALL SELECT i.pk FROM turns t {then} inbox i ON i.turn_pk = t.pk
    WHERE t.session_pk = :session_pk AND t.state = 'waiting' AND i.fate IS NULL)

-- name: move_waiting
-- Messages sent after "start afresh" belong to the new session.
UPDATE inbox SET session_pk = :new_pk WHERE {waits_in_session}

-- name: mark_ready
-- A burst pushes the start back, never beyond its limit.
INSERT INTO ready (session_pk, platform, due_at, first_at)
SELECT t.session_pk, t.platform, :due_at, :at FROM session_state t WHERE t.session_pk = :session_pk
ON CONFLICT (session_pk) DO UPDATE SET due_at = CASE
  WHEN excluded.due_at < ready.first_at + :at_most THEN excluded.due_at ELSE ready.first_at + :at_most END

-- name: drop_ready
DELETE FROM ready WHERE session_pk = :session_pk

-- name: is_busy
-- Busy: something waits, runs or waits for an answer.
SELECT 1 WHERE EXISTS (SELECT 1 FROM ready WHERE session_pk = :session_pk)
  OR EXISTS (SELECT 1 FROM turns WHERE session_pk = :session_pk AND state IN ('running', 'asking'))
