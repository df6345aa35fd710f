-- name: add_alarm
-- Of several gateways that see the same failure one inserts, and tells.
INSERT INTO alarms (name, text, since, told) VALUES (:name, :text, :at, :told) ON CONFLICT (name) DO NOTHING

-- name: mark_told
-- The same for one that was opened when there was nowhere to say it.
UPDATE alarms SET told = 1 WHERE name = :name AND told = 0

-- name: mark_untold
UPDATE alarms SET told = 0 WHERE told = 1 AND name NOT LIKE 'chat:%'

-- name: drop_alarm
DELETE FROM alarms WHERE name = :name

-- name: open_alarms
SELECT name, text, since, told FROM alarms ORDER BY since, name

-- name: alarm_states
SELECT name, since, told FROM alarms ORDER BY since, name

-- name: owners
SELECT person FROM people WHERE role = 'owner'

-- name: newest_dm
SELECT s.origin, t.listed_at FROM session_state t {then} sessions s ON s.pk = t.session_pk
WHERE t.owner = :owner AND s.chat_type = 'dm' ORDER BY t.listed_at DESC LIMIT 1

-- name: drop_chat_alarms
-- A chat's id may be as good as a name. What still fails sounds again.
DELETE FROM alarms WHERE name LIKE :chats
