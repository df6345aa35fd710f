-- name: fingerprints
-- What changes with whatever happens in a conversation, each by its index: who has seen the same before need not look again.
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
-- The turn that runs or waits for an answer, and one that waits to run again.
SELECT pk, turn_id, fence, state, lane FROM turns WHERE session_pk = :session_pk AND state IN ('running', 'asking')
UNION ALL
SELECT pk, turn_id, fence, state, lane FROM turns WHERE session_pk = :session_pk AND state = 'waiting'

-- name: journal_after
SELECT place, event FROM journal WHERE turn_pk = :turn_pk AND place > :after ORDER BY place

-- name: notices_in_chat
-- What was said there besides the agent's answers, which the transcript has. The newest first.
SELECT pk, delivery_id, text, created_at, buttons FROM deliveries
WHERE lane = :lane AND kind <> 'reply' AND text <> '' AND created_at >= :since AND state IN ('pending', 'sending', 'sent', 'unknown')
ORDER BY pk DESC LIMIT :limit

-- name: turns_ended_early
-- Turns that did not come to their own end: the transcript has what they said, not why they said no more.
SELECT turn_id, outcome, stop, error, ended_at FROM turns
WHERE session_pk = :session_pk AND outcome IN ('failed', 'stopped', 'interrupted', 'parked') ORDER BY pk DESC LIMIT :limit

-- name: first_words
-- The beginning of the first thing that somebody said, of a message as long as you like.
SELECT s.session_id, SUBSTR(m.body, 1, 800)
FROM sessions s
{then} spans v ON v.session_pk = s.pk AND v.version = s.view_version AND v.folded = 0
{then} messages m ON m.number BETWEEN v.lo AND v.hi
WHERE s.session_id = :session_id AND m.role = 'user'
ORDER BY v.place, m.number LIMIT 1

-- name: work_at_hand
-- Sessions that have something to do, and the beginning of what is answered there or waits.
SELECT s.session_id,
  (SELECT SUBSTR(i.event, 1, 2000) FROM inbox i WHERE i.turn_pk = u.pk AND i.fate IS NULL ORDER BY i.pk LIMIT 1),
  (SELECT SUBSTR(i.event, 1, 2000) FROM inbox i
   WHERE i.session_pk = s.pk AND i.fate IS NULL AND i.turn_pk IS NULL AND i.lane <> 'control' ORDER BY i.pk LIMIT 1)
FROM sessions s
LEFT JOIN turns u ON u.session_pk = s.pk AND u.state IN ('running', 'asking')
WHERE s.session_id = :session_id AND (u.pk IS NOT NULL OR EXISTS (SELECT 1 FROM ready r WHERE r.session_pk = s.pk))
LIMIT 1

-- name: erase_notices
-- Where a row is the message itself its text stays. What quotes somebody who is erased must not.
UPDATE deliveries SET text = '', asked = '' WHERE kind <> 'reply' AND text <> '' AND state IN ('sent', 'unknown')

-- name: erase_notices_to
UPDATE deliveries SET text = '', asked = '' WHERE person = :person AND kind <> 'reply' AND text <> '' AND state IN ('sent', 'unknown')
