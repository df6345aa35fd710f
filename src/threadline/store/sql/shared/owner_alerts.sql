-- name: add_alert
-- Of several gateways that see the same failure one inserts, and tells.
INSERT INTO alarms (name, text, since, told, known_at) VALUES (:name, :text, :at, :is_sent, :at) ON CONFLICT (name) DO NOTHING

-- name: mark_alert_sent
-- The same for one that was opened when there was nowhere to say it.
UPDATE alarms SET told = 1 WHERE name = :name AND told = 0

-- name: mark_alerts_unsent
UPDATE alarms SET told = 0 WHERE told = 1 AND name NOT LIKE 'chat:%'

-- name: drop_alert
DELETE FROM alarms WHERE name = :name

-- name: list_open_alerts
SELECT name, text, since, told FROM alarms ORDER BY since, name

-- name: list_alert_states
SELECT name, since, told, known_at FROM alarms ORDER BY since, name

-- name: touch_alert
UPDATE alarms SET known_at = :at WHERE name = :name AND known_at < :at

-- name: drop_untouched_alert
-- Another gateway may have spoken for it since we looked: zero rows.
DELETE FROM alarms WHERE name = :name AND known_at < :before

-- name: owners
SELECT person FROM people WHERE role = 'owner'

-- name: newest_direct_chats
-- Where two were used within {lag} microseconds, either is as good.
SELECT s.origin, c.updated_at FROM (
  SELECT n.session_pk, n.updated_at FROM (
    SELECT t.session_pk, t.updated_at FROM session_state t {then} sessions s ON s.pk = t.session_pk {where_dms_of_owner}
    ORDER BY t.listed_at DESC LIMIT :limit
  ) n
  UNION SELECT t.session_pk, t.updated_at FROM {moved} {then} sessions s ON s.pk = t.session_pk {where_dms_of_owner}
) c
{then} sessions s ON s.pk = c.session_pk ORDER BY c.updated_at DESC LIMIT :limit

-- fragment: where_dms_of_owner
WHERE t.owner = :owner AND s.chat_type = 'dm'

-- name: drop_alert_notices
DELETE FROM deliveries WHERE lane = :lane AND kind = 'alarm'

-- name: drop_chat_alert_notices
-- What was told of chats that are gone, wherever it was told.
DELETE FROM deliveries WHERE kind = 'alarm' AND delivery_id LIKE :chats

-- name: drop_chat_alerts
-- A chat's id may be as good as a name. What still fails sounds again.
DELETE FROM alarms WHERE name LIKE :chats
