-- One convention for every leased table: owner, fence, lease_until. A claim or a takeover raises the fence; nothing lowers it.
-- fragment: lease_taken
owner = :owner, fence = fence + 1, lease_until = {now} + :duration

-- fragment: lease_ended
owner = NULL, lease_until = NULL

-- name: renew_turns_lease
-- Only the holder of this fence may renew, and only while the work goes on. Zero rows: the lease is lost, stop working.
UPDATE turns SET lease_until = {now} + :duration WHERE pk = :key AND fence = :fence AND state = 'running'

-- name: renew_deliveries_lease
-- A send may take longer than a lease; as long as its sender lives nobody else sends it.
UPDATE deliveries SET lease_until = {now} + :duration WHERE pk = :key AND fence = :fence AND state = 'sending'

-- name: renew_flushes_lease
UPDATE flushes SET lease_until = {now} + :duration WHERE session_pk = :key AND fence = :fence AND owner IS NOT NULL

-- name: renew_named_leases_lease
UPDATE named_leases SET lease_until = {now} + :duration WHERE name = :key AND fence = :fence AND owner <> ''

-- name: hold_turns_lease
-- An update that changes nothing, because it waits for the row and keeps it until the commit. Zero rows: the lease is lost.
UPDATE turns SET fence = fence WHERE pk = :key AND fence = :fence AND state = 'running'

-- name: expire_turns_leases
-- Their owner is dead for certain: nobody waits for a lease to run out.
UPDATE turns SET lease_until = 0 WHERE {running} AND owner LIKE :owners

-- name: expire_deliveries_leases
UPDATE deliveries SET lease_until = 0 WHERE state = 'sending' AND owner LIKE :owners

-- name: expire_flushes_leases
UPDATE flushes SET lease_until = 0 WHERE owner LIKE :owners

-- name: expire_named_leases_leases
UPDATE named_leases SET lease_until = 0 WHERE owner LIKE :owners

-- name: acquire_name
-- One statement: of two who take a free name at once one waits for the other's row, and finds it taken. No row: another holds it. The
-- fence starts at the time: a program of an earlier schema deletes the row.
INSERT INTO named_leases (name, owner, fence, lease_until) VALUES (:name, :owner, {now}, {now} + :duration)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, lease_until = excluded.lease_until,
  fence = CASE WHEN named_leases.owner = excluded.owner THEN named_leases.fence ELSE named_leases.fence + 1 END
WHERE named_leases.owner = excluded.owner OR named_leases.lease_until < {now}
RETURNING fence

-- name: release_name
-- The row stays, so that its fence never starts again: who held the name before may still be at work.
UPDATE named_leases SET owner = '', lease_until = 0 WHERE name = :key AND fence = :fence

-- name: held_names
SELECT name, owner, lease_until FROM named_leases WHERE lease_until >= {now} AND owner <> '' ORDER BY name
