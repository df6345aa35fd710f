-- name: find_timezone
SELECT timezone FROM preferences WHERE person = :person

-- name: keep_timezone
INSERT INTO preferences (person, timezone) VALUES (:person, :timezone)
ON CONFLICT (person) DO UPDATE SET timezone = excluded.timezone

-- name: drop_preferences
DELETE FROM preferences WHERE person = :person
