-- name: find_role
SELECT role FROM people WHERE person = :person

-- name: keep_person
-- Who had a role keeps the day since when, and the name where no other is known.
INSERT INTO people (person, role, name, since) VALUES (:person, :role, :name, :at)
ON CONFLICT (person) DO UPDATE SET role = excluded.role, name = COALESCE(excluded.name, people.name)

-- name: drop_person
DELETE FROM people WHERE person = :person

-- name: list_people
SELECT person, role, name, since FROM people ORDER BY since, person

-- name: keep_meta
-- Who comes second keeps what the first one wrote.
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO NOTHING

-- name: lock_pairing
-- Taken before anything else is looked at: requests and approvals go one after the other, so that counts hold and a code is
-- approved once. A row that is not there yet can't be locked; it is made first.
INSERT INTO pairing_guard (pk, wrong, wrong_at, locked_until) VALUES (1, 0, 0, 0)
ON CONFLICT (pk) DO UPDATE SET pk = excluded.pk RETURNING wrong, wrong_at, locked_until

-- name: find_guard
SELECT wrong, wrong_at, locked_until FROM pairing_guard WHERE pk = 1

-- name: set_guard
UPDATE pairing_guard SET wrong = :wrong, wrong_at = :wrong_at, locked_until = :locked_until WHERE pk = 1

-- name: asked_at
SELECT asked_at FROM pairings WHERE person = :person AND expires_at > :at

-- name: count_pending
SELECT COUNT(*) FROM pairings WHERE platform = :platform AND expires_at > :at AND person <> :person

-- name: keep_pairing
-- One request a person: a later code takes the place of the earlier one.
INSERT INTO pairings (platform, account, person, name, target, code, asked_at, expires_at)
VALUES (:platform, :account, :person, :name, :target, :code, :at, :expires_at)
ON CONFLICT (person) DO UPDATE SET name = excluded.name, target = excluded.target, code = excluded.code,
  asked_at = excluded.asked_at, expires_at = excluded.expires_at

-- name: pending_pairings
SELECT pk, platform, account, person, name, target, code, asked_at, expires_at FROM pairings WHERE expires_at > :at ORDER BY pk

-- name: drop_pairing_of
DELETE FROM pairings WHERE person = :person

-- name: drop_expired_pairings
DELETE FROM pairings WHERE expires_at <= :at
