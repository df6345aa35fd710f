-- name: add_move
-- There and back and there again: the last time counts.
INSERT INTO moves (platform, account, what, old_id, new_id, old_name, new_name, person, at)
VALUES (:platform, :account, :what, :old_id, :new_id, :old_name, :new_name, :person, :at)
ON CONFLICT (platform, account, what, old_id, new_id) DO UPDATE SET at = excluded.at

-- name: has_moves
SELECT 1 FROM moves WHERE platform = :platform AND account = :account LIMIT 1

-- name: moves_of
SELECT old_id, new_id, at FROM moves WHERE platform = :platform AND account = :account AND what = :what AND (old_id = :id OR new_id = :id)

-- name: names_of_moved
SELECT old_name, new_name, at FROM moves WHERE what = 'user' AND (old_name = :name OR new_name = :name)

-- name: name_used_after
-- Whether anybody has written under a name since.
SELECT 1 FROM session_state WHERE owner = :name AND active_at > :at
UNION ALL SELECT 1 FROM messages WHERE author = :name AND at > :at
UNION ALL SELECT 1 FROM inbox WHERE person = :name AND accepted_at > :at
LIMIT 1

-- name: forget_moves
-- Theirs alone: who had the same id before them, or after, is still led by it to what is theirs.
DELETE FROM moves WHERE person = :person

-- name: rehouse_sessions
-- Whoever brings a conversation to another address holds both rows.
UPDATE sessions SET address_pk = :address_pk WHERE address_pk = :old_pk

-- name: unpoint_address
UPDATE addresses SET session_pk = NULL WHERE pk = :address_pk

-- name: take_address_over
UPDATE addresses SET session_pk = :session_pk, expired = (SELECT o.expired FROM addresses o WHERE o.pk = :old_pk) WHERE pk = :address_pk

-- What stands under a person's name. Where the new name has such a row too, that one stays.

-- name: move_owner_of_addresses
UPDATE addresses SET owner = :new WHERE owner = :old

-- name: move_owner_of_sessions
UPDATE session_state SET owner = :new WHERE owner = :old

-- name: move_author
UPDATE messages SET author = :new WHERE author = :old

-- name: copy_possible_author
INSERT INTO possible_authors (number, author) SELECT number, :new FROM possible_authors WHERE author = :old
ON CONFLICT (number, author) DO NOTHING

-- name: move_usage
UPDATE usage SET person = :new WHERE person = :old

-- name: move_inbox
UPDATE inbox SET person = :new WHERE person = :old

-- name: move_turns
UPDATE turns SET person = :new WHERE person = :old

-- name: move_deliveries
UPDATE deliveries SET person = :new WHERE person = :old

-- name: move_decisions
UPDATE asks SET decided_by = :new WHERE decided_by = :old

-- name: move_homes_of
UPDATE homes SET person = :new WHERE person = :old

-- name: copy_speaker
INSERT INTO speakers (session_pk, person, name) SELECT session_pk, CAST(:new AS TEXT), name FROM speakers WHERE person = :old ORDER BY pk
ON CONFLICT (session_pk, person, name) DO NOTHING

-- name: copy_preferences
INSERT INTO preferences (person, timezone) SELECT CAST(:new AS TEXT), timezone FROM preferences WHERE person = :old
ON CONFLICT (person) DO NOTHING

-- name: move_moves
UPDATE moves SET person = :new WHERE person = :old

-- name: move_pairing
UPDATE pairings SET person = :new WHERE person = :old AND NOT EXISTS (SELECT 1 FROM pairings p WHERE p.person = :new)

-- What stands under a chat's name.

-- name: move_chat_of_addresses
UPDATE addresses SET chat = :new WHERE chat = :old

-- name: move_chat_of_sessions
UPDATE sessions SET chat = :new WHERE chat = :old

-- name: move_home
UPDATE homes SET chat_id = :new_id WHERE platform = :platform AND account = :account AND chat_id = :old_id

-- name: move_deleted_logs
-- What search would be told of them, should they be indexed anew.
UPDATE deleted_logs SET scope = REPLACE(scope, :old, :new) WHERE ' ' || scope || ' ' LIKE CAST(:pattern AS TEXT)

-- What holds ids in its text: found by a part of it, then read.

-- name: origins_with
SELECT pk, origin FROM sessions WHERE origin LIKE :pattern ESCAPE '!'

-- name: turn_origins_with
SELECT pk, origin FROM turns WHERE state IN ('running', 'asking') AND origin LIKE :pattern ESCAPE '!'
UNION ALL SELECT pk, origin FROM turns WHERE state = 'waiting' AND origin LIKE :pattern ESCAPE '!'

-- name: readdress_inbound
UPDATE inbox SET event = :event WHERE pk = :pk AND fate IS NULL

-- name: pairings_with
SELECT pk, target FROM pairings WHERE target LIKE :pattern ESCAPE '!'

-- name: set_pairing_target
UPDATE pairings SET target = :target WHERE pk = :pk

-- name: deliveries_with
-- All that may still be sent, and questions that wait to be answered where they stand: one condition for each index.
SELECT pk, target FROM deliveries WHERE state = 'pending' AND platform = :platform AND account = :account AND target LIKE :pattern ESCAPE '!'
UNION ALL SELECT pk, target FROM deliveries WHERE state = 'sending' AND target LIKE :pattern ESCAPE '!'
UNION ALL SELECT pk, target FROM deliveries WHERE state = 'parked' AND target LIKE :pattern ESCAPE '!'
UNION ALL SELECT d.pk, d.target FROM turns t {then} deliveries d ON d.turn_pk = t.pk
WHERE t.state IN ('running', 'asking') AND d.state = 'open' AND d.target LIKE :pattern ESCAPE '!'
UNION ALL SELECT d.pk, d.target FROM turns t {then} deliveries d ON d.turn_pk = t.pk
WHERE t.state = 'waiting' AND d.state = 'open' AND d.target LIKE :pattern ESCAPE '!'
UNION ALL SELECT d.pk, d.target FROM asks a {then} deliveries d ON d.delivery_id = a.question
WHERE a.state = 'open' AND d.state IN ('sent', 'unknown') AND d.target LIKE :pattern ESCAPE '!'

-- name: retarget_delivery
-- One that is being sent keeps its place in the old chat's order: two must not be sent at once in one lane. What it answered may
-- have another id there, or none, and its own id may be another message's: nothing of it stands there yet. A receipt stays.
UPDATE deliveries SET target = :target, reply_to = NULL, lane = CASE WHEN state = 'sending' THEN lane ELSE :lane END,
  external_id = CASE WHEN state IN ('sent', 'unknown') THEN external_id END, attempts = CASE WHEN state = 'open' THEN 0 ELSE attempts END
WHERE pk = :pk AND target <> :target

-- name: open_streams
SELECT pk, target FROM deliveries WHERE turn_pk = :turn_pk AND state = 'open'

-- Whose filter tokens in the search index are no longer right.

-- name: logs_of_chat
SELECT pk FROM sessions WHERE chat = :chat

-- name: logs_of_person
SELECT session_pk FROM session_state WHERE owner = :person
UNION SELECT number >> 24 FROM messages WHERE author = :person

-- name: copy_file_names
INSERT INTO file_senders (person, digest, name, mime, at) SELECT CAST(:new AS TEXT), digest, name, mime, at FROM file_senders WHERE person = :old
ON CONFLICT (person, digest) DO NOTHING
