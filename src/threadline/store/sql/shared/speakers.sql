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
