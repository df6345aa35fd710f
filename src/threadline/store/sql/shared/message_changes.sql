-- name: lock_session_state
-- A turn that ends waits for this lock, so it claims no pending message in the meantime.
SELECT t.session_pk FROM session_state t WHERE t.session_pk = :session_pk {lock_state}

-- name: lock_ready
-- A claim locks this row too: it takes messages either before our query, or after our change.
SELECT t.session_pk FROM ready t WHERE t.session_pk = :session_pk {lock_state}

-- name: knows_chat
SELECT 1 FROM sessions WHERE chat = :chat UNION ALL SELECT 1 FROM session_state WHERE owner = :person LIMIT 1

-- name: pending_anywhere
-- Reads every pending message: the index holds nothing else.
SELECT pk, lane, event, person, role, accepted_at, session_pk FROM inbox
WHERE fate IS NULL AND turn_pk IS NULL AND lane <> 'control' AND event LIKE :pattern ESCAPE '!' ORDER BY session_pk, pk

-- name: taken_anywhere
SELECT i.pk, i.lane, i.event, i.person, i.role, i.accepted_at, i.session_pk FROM turns t {then} inbox i ON i.turn_pk = t.pk
WHERE t.state IN ('running', 'asking') AND i.fate IS NULL AND i.event LIKE :pattern ESCAPE '!'
UNION ALL
SELECT i.pk, i.lane, i.event, i.person, i.role, i.accepted_at, i.session_pk FROM turns t {then} inbox i ON i.turn_pk = t.pk
WHERE t.state = 'waiting' AND i.fate IS NULL AND i.event LIKE :pattern ESCAPE '!'

-- The sessions that may hold a message: those of its address, its chat and its sender.
-- fragment: sessions_with_message
(SELECT s.pk FROM addresses a {then} sessions s ON s.address_pk = a.pk WHERE a.digest = :digest
  UNION SELECT s.pk FROM sessions s WHERE s.chat = :chat
  UNION SELECT t.session_pk FROM session_state t WHERE t.owner = :owner)

-- name: pending_in_chat
-- The same among the sessions of one chat: in a busy group much is deleted, and most of it never reached this gateway.
SELECT i.pk, i.lane, i.event, i.person, i.role, i.accepted_at, i.session_pk FROM {sessions_with_message} o {then} inbox i ON i.session_pk = o.pk
WHERE i.fate IS NULL AND i.turn_pk IS NULL AND i.lane <> 'control' AND i.event LIKE :pattern ESCAPE '!' ORDER BY i.session_pk, i.pk

-- name: taken_in_chat
SELECT i.pk, i.lane, i.event, i.person, i.role, i.accepted_at, i.session_pk FROM {sessions_with_message} o
{then} turns t ON t.session_pk = o.pk {then} inbox i ON i.turn_pk = t.pk
WHERE t.state IN ('running', 'asking') AND i.fate IS NULL AND i.event LIKE :pattern ESCAPE '!'
UNION ALL
SELECT i.pk, i.lane, i.event, i.person, i.role, i.accepted_at, i.session_pk FROM {sessions_with_message} o
{then} turns t ON t.session_pk = o.pk {then} inbox i ON i.turn_pk = t.pk
WHERE t.state = 'waiting' AND i.fate IS NULL AND i.event LIKE :pattern ESCAPE '!'

-- name: transcript_numbers
-- Messages with that platform id. Ids repeat from chat to chat, so the caller must check each.
SELECT p.number, m.append_key FROM {sessions_with_message} o {then} platform_messages p ON p.session_pk = o.pk AND p.external_id = :external_id {then} messages m ON m.number = p.number

-- name: find_content
-- The content of the event with that key: in the event until it has its outcome, then in the log of its session unless redacted.
SELECT i.event, i.fate, m.body FROM inbox i
LEFT JOIN platform_messages p ON p.session_pk = i.session_pk AND p.external_id = :message_id
LEFT JOIN messages m ON m.number = p.number AND m.append_key = :append_key_prefix || CAST(i.pk AS TEXT) AND m.redacted_at IS NULL
WHERE i.platform = :platform AND i.account = :account AND i.dedupe_key = :dedupe_key

-- name: find_append_key
SELECT m.append_key FROM messages m WHERE m.number = :number

-- name: find_source_event
SELECT event, role FROM inbox WHERE pk = :pk

-- name: find_inbox_session
SELECT session_pk FROM inbox WHERE pk = :pk

-- name: amend_inbound
-- Zero rows: a turn has taken the message.
UPDATE inbox SET event = :event WHERE pk = :pk AND fate IS NULL AND turn_pk IS NULL

-- name: drop_inbound
-- Zero rows: a turn has taken the message.
UPDATE inbox SET fate = 'dropped', fate_at = :at, note = :note, event = :event WHERE pk = :pk AND fate IS NULL AND turn_pk IS NULL

-- name: session_before
-- The session at the same address that ended last and is not empty.
SELECT s.session_id FROM sessions s {then} session_state t ON t.session_pk = s.pk
WHERE s.address_pk = :address_pk AND s.pk <> :session_pk AND s.ended_at IS NOT NULL AND (t.had_activity = 1 OR t.borrows = 1)
ORDER BY s.ended_at DESC, s.pk DESC LIMIT 1

-- name: people_of_turn
SELECT i.person FROM turns t {then} inbox i ON i.turn_pk = t.pk WHERE t.session_pk = :session_pk AND t.state IN ('running', 'asking')
UNION ALL
SELECT i.person FROM turns t {then} inbox i ON i.turn_pk = t.pk WHERE t.session_pk = :session_pk AND t.state = 'waiting'
