-- name: remember
-- The session's row is locked: one that is being deleted is either gone, and nothing is kept, or takes this along.
INSERT INTO memories (session_pk, agent, text)
SELECT o.session_pk, CAST(:agent AS TEXT), CAST(:text AS TEXT)
FROM (SELECT t.session_pk FROM session_state t WHERE t.session_pk = :session_pk {lock_state}) o
WHERE 1 = 1
ON CONFLICT (session_pk, agent) DO UPDATE SET text = excluded.text

-- name: remembered
SELECT text FROM memories WHERE session_pk = :session_pk AND agent = :agent

-- name: memories_of
SELECT agent, text FROM memories WHERE session_pk = :session_pk ORDER BY agent

-- name: drop_memories
DELETE FROM memories WHERE session_pk = :session_pk

-- name: drop_memories_of
-- Those kept with the session that a message was said in, and with all that show it. The places in a log that the original
-- API has matched hold no words, and what it had matched must not answer for another message.
DELETE FROM memories WHERE agent <> 'threadline.compat' AND (session_pk = CAST(:number AS BIGINT) >> 24 OR session_pk IN (
  SELECT v.session_pk FROM spans v WHERE v.lo BETWEEN (CAST(:number AS BIGINT) >> 24) << 24 AND :number AND v.hi >= :number))
