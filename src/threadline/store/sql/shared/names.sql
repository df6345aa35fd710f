-- name: take_name
-- One statement: of several who want a name the row lets one through. Zero rows: somebody else holds it.
INSERT INTO named_leases (name, owner, lease_until) VALUES (:name, :owner, {now} + :lease)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until
WHERE named_leases.owner = excluded.owner OR named_leases.lease_until < {now}

-- name: release_name
-- Only its holder gives it back. Zero rows: it is another's by now.
DELETE FROM named_leases WHERE name = :name AND owner = :owner

-- name: held_names
SELECT name, owner, lease_until FROM named_leases WHERE lease_until >= {now} ORDER BY name

-- name: void_names
UPDATE named_leases SET lease_until = 0 WHERE owner LIKE :owners
