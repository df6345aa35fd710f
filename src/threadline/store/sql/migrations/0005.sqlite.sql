-- A turn costs fewer pages: what it appends happens once because the turn ends once, and no index has to say so again.

-- Digests that were forgotten are empty from now on; none at all is what a turn's own appends have.
UPDATE messages SET key_digest = x'' WHERE append_key IS NOT NULL AND key_digest IS NULL;
DROP INDEX messages_once;
CREATE UNIQUE INDEX messages_once ON messages(append_key, (number >> 24)) WHERE key_digest IS NOT NULL;

-- Few turns run at once: turns_live finds them.
DROP INDEX turns_leased;
