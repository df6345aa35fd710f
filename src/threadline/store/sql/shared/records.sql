-- name: list_homes
SELECT platform, account, chat_id, chat_type, thread_id, name, person FROM homes ORDER BY platform, account

-- name: keep_home
-- One for each account: a later one takes the place of the earlier.
INSERT INTO homes (platform, account, chat_id, chat_type, thread_id, name, person)
VALUES (:platform, :account, :chat_id, :chat_type, :thread_id, :name, :person)
ON CONFLICT (platform, account) DO UPDATE SET chat_id = excluded.chat_id, chat_type = excluded.chat_type,
  thread_id = excluded.thread_id, name = excluded.name, person = excluded.person

-- name: drop_home
DELETE FROM homes WHERE platform = :platform AND account = :account

-- name: homes_of_person
SELECT platform, account, chat_id, thread_id FROM homes WHERE person = :person ORDER BY platform, account

-- name: drop_homes_of
DELETE FROM homes WHERE person = :person

-- name: find_timezone
SELECT timezone FROM preferences WHERE person = :person

-- name: keep_timezone
INSERT INTO preferences (person, timezone) VALUES (:person, :timezone)
ON CONFLICT (person) DO UPDATE SET timezone = excluded.timezone

-- name: drop_preferences
DELETE FROM preferences WHERE person = :person

-- name: speakers_of
-- In the order in which they first used their names. One turn runs in a session at a time: nobody adds to these meanwhile.
SELECT person, name FROM speakers WHERE session_pk = :session_pk ORDER BY pk LIMIT :limit

-- name: add_speaker
INSERT INTO speakers (session_pk, person, name) VALUES (:session_pk, :person, :name) ON CONFLICT (session_pk, person, name) DO NOTHING

-- name: copy_speakers
-- A copy shows what was said under these names.
INSERT INTO speakers (session_pk, person, name) SELECT :session_pk, person, name FROM speakers WHERE session_pk = :parent_pk ORDER BY pk

-- name: names_of_speaker
SELECT DISTINCT name FROM speakers WHERE person = :person ORDER BY name LIMIT :limit

-- name: drop_speakers
DELETE FROM speakers WHERE session_pk = :session_pk

-- name: drop_speaker
DELETE FROM speakers WHERE person = :person

-- name: save_state
-- The session's row is locked: one that is being deleted is either gone, and nothing is kept, or takes this along.
INSERT INTO memories (session_pk, agent, text)
SELECT o.session_pk, CAST(:agent AS TEXT), CAST(:text AS TEXT)
FROM (SELECT t.session_pk FROM session_state t WHERE t.session_pk = :session_pk {lock_state}) o
WHERE 1 = 1
ON CONFLICT (session_pk, agent) DO UPDATE SET text = excluded.text

-- name: load_state
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
