-- name: fingerprints
-- One of these values changes whenever the conversation does, and each is read from an index.
SELECT a.digest, s.pk, s.view_version, t.last_seq, t.updated_at, u.pk, u.fence, u.state,
  (SELECT MAX(j.place) FROM journal j WHERE j.turn_pk = u.pk),
  (SELECT COUNT(*) FROM inbox i WHERE i.session_pk = s.pk AND i.fate IS NULL AND i.turn_pk IS NULL AND i.lane <> 'control'),
  (SELECT MAX(d.pk) FROM deliveries d WHERE d.lane = :lane AND d.kind <> 'reply' AND d.text <> '')
FROM addresses a
{then} sessions s ON s.pk = a.session_pk
{then} session_state t ON t.session_pk = s.pk
LEFT JOIN turns u ON u.session_pk = s.pk AND u.state IN ('running', 'asking')
WHERE a.digest = :digest

-- name: unfinished_turns
-- The turn that runs or waits for an approval, and a turn that waits to run again.
SELECT pk, turn_id, fence, state, lane FROM turns WHERE session_pk = :session_pk AND state IN ('running', 'asking')
UNION ALL
SELECT pk, turn_id, fence, state, lane FROM turns WHERE session_pk = :session_pk AND state = 'waiting'

-- name: journal_after
SELECT place, event FROM journal WHERE turn_pk = :turn_pk AND place > :after ORDER BY place

-- name: notices_in_chat
-- Messages in the chat other than the agent's answers, which the transcript has. Newest first.
SELECT pk, delivery_id, text, created_at, buttons FROM deliveries
WHERE lane = :lane AND kind <> 'reply' AND text <> '' AND created_at >= :since AND state IN ('pending', 'sending', 'sent', 'unknown')
ORDER BY pk DESC LIMIT :limit

-- name: turns_ended_early
-- The transcript has the text of these turns, but not why they ended.
SELECT turn_id, outcome, stop, error, ended_at FROM turns
WHERE session_pk = :session_pk AND outcome IN ('failed', 'stopped', 'interrupted', 'parked') ORDER BY pk DESC LIMIT :limit

-- name: first_words
-- The beginning of the first user message: messages may be long.
SELECT s.session_id, SUBSTR(m.body, 1, 800)
FROM sessions s
{then} spans v ON v.session_pk = s.pk AND v.version = s.view_version AND v.folded = 0
{then} messages m ON m.number BETWEEN v.lo AND v.hi
WHERE s.session_id = :session_id AND m.role = 'user'
ORDER BY v.place, m.number LIMIT 1

-- name: work_at_hand
-- Busy sessions, and the beginning of the message that is being answered or is pending there.
SELECT s.session_id,
  (SELECT SUBSTR(i.event, 1, 2000) FROM inbox i WHERE i.turn_pk = u.pk AND i.fate IS NULL ORDER BY i.pk LIMIT 1),
  (SELECT SUBSTR(i.event, 1, 2000) FROM inbox i
   WHERE i.session_pk = s.pk AND i.fate IS NULL AND i.turn_pk IS NULL AND i.lane <> 'control' ORDER BY i.pk LIMIT 1)
FROM sessions s
LEFT JOIN turns u ON u.session_pk = s.pk AND u.state IN ('running', 'asking')
WHERE s.session_id = :session_id AND (u.pk IS NOT NULL OR EXISTS (SELECT 1 FROM ready r WHERE r.session_pk = s.pk))
LIMIT 1

-- name: erase_notices
-- The text of unsent rows is still needed. Sent notices may quote a person who is erased.
UPDATE deliveries SET text = '', asked = '' WHERE kind <> 'reply' AND text <> '' AND state IN ('sent', 'unknown')

-- name: erase_notices_to
UPDATE deliveries SET text = '', asked = '' WHERE person = :person AND kind <> 'reply' AND text <> '' AND state IN ('sent', 'unknown')
