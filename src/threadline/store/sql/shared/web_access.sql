-- A login or an invite is found by the digest of a secret of 256 bits. How long a look-up takes tells nothing of use about it:
-- whoever guesses does not know which digest their guess has.

-- name: keep_login
INSERT INTO web_logins (digest, person, name, created_at, seen_at, expires_at)
VALUES (:digest, :person, :name, :at, :at, :expires_at) ON CONFLICT (digest) DO NOTHING

-- name: find_login
SELECT l.person, l.name, l.seen_at, p.role FROM web_logins l LEFT JOIN people p ON p.person = l.person
WHERE l.digest = :digest AND l.expires_at > :at

-- name: touch_login
-- Never makes a row: a login that was ended meanwhile stays ended.
UPDATE web_logins SET seen_at = :at, expires_at = :expires_at WHERE digest = :digest AND seen_at < :at

-- name: drop_login
DELETE FROM web_logins WHERE digest = :digest

-- name: drop_logins_of
DELETE FROM web_logins WHERE person = :person

-- name: drop_older_logins
-- All of a person's but the newest.
DELETE FROM web_logins WHERE person = :person AND digest NOT IN (
  SELECT digest FROM web_logins WHERE person = :person ORDER BY created_at DESC, digest LIMIT :keep)

-- name: drop_ended_logins
DELETE FROM web_logins WHERE expires_at <= :at

-- name: logins_of
SELECT name, created_at, seen_at, expires_at FROM web_logins WHERE person = :person ORDER BY created_at, digest

-- name: keep_invite
INSERT INTO web_invites (digest, person, name, role, created_at, expires_at)
VALUES (:digest, :person, :name, :role, :at, :expires_at) ON CONFLICT (digest) DO NOTHING

-- name: take_invite
-- Found and gone in one statement: of two who use a code at the same time one finds it.
DELETE FROM web_invites WHERE digest = :digest AND expires_at > :at RETURNING person, name, role

-- name: drop_invites_of
DELETE FROM web_invites WHERE person = :person

-- name: drop_invites_named
-- Of somebody new: of others their person tells.
DELETE FROM web_invites WHERE name = :name AND person IS NULL

-- name: drop_ended_invites
DELETE FROM web_invites WHERE expires_at <= :at

-- name: invites_of
SELECT name, created_at, expires_at FROM web_invites WHERE person = :person ORDER BY created_at, digest

-- name: open_invites
SELECT person, name, role, created_at, expires_at FROM web_invites WHERE expires_at > :at ORDER BY created_at, digest

-- name: people_between
-- The people of a platform: their names stand together.
SELECT p.person, p.role, p.name, p.since,
  (SELECT COUNT(*) FROM web_logins l WHERE l.person = p.person AND l.expires_at > :at),
  (SELECT MAX(l.seen_at) FROM web_logins l WHERE l.person = p.person AND l.expires_at > :at)
FROM people p WHERE p.person >= :first AND p.person < :after ORDER BY p.since, p.person

-- name: count_logins
SELECT COUNT(*), MAX(seen_at) FROM web_logins WHERE person = :person AND expires_at > :at
