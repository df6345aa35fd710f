-- A turn costs fewer pages: what it appends happens once because the turn ends once, and no index has to say so again.

-- Digests that were forgotten are empty from now on; none at all is what a turn's own appends have.
UPDATE messages SET key_digest = x'' WHERE append_key IS NOT NULL AND key_digest IS NULL;
DROP INDEX messages_once;
CREATE UNIQUE INDEX messages_once ON messages(append_key, (number >> 24)) WHERE key_digest IS NOT NULL;

-- A program of the schema before that has the file open forgets a digest as it is used to; the key must stay used all the same.
CREATE TRIGGER key_stays AFTER UPDATE OF key_digest ON messages WHEN OLD.key_digest IS NOT NULL AND NEW.key_digest IS NULL
BEGIN
  UPDATE messages SET key_digest = x'' WHERE number = NEW.number;
END;

-- Few turns run at once: turns_live finds them.
DROP INDEX turns_leased;
