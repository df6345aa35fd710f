-- name: add_alert
-- If several gateways see the same failure, one inserts the row and sends the notices.
INSERT INTO alarms (name, text, since, told, known_at) VALUES (:name, :text, :at, :is_sent, :at) ON CONFLICT (name) DO NOTHING

-- name: mark_alert_sent
-- The same for an alert that was opened while no chat of an owner could be reached.
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
-- Zero rows: another gateway has touched the alert since we looked.
DELETE FROM alarms WHERE name = :name AND known_at < :before

-- name: owners
SELECT person FROM people WHERE role = 'owner'

-- name: newest_direct_chats
-- Chats used within {lag} microseconds of each other may come in either order.
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
-- Notices about unreachable chats, in whichever chat they were sent.
DELETE FROM deliveries WHERE kind = 'alarm' AND delivery_id LIKE :chats

-- name: drop_chat_alerts
-- A chat id may identify a person. If the chat still fails, the alert is raised again.
DELETE FROM alarms WHERE name LIKE :chats
