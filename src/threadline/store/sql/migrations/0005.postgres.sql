-- A turn costs fewer pages: what it appends happens once because the turn ends once, and no index has to say so again.

-- Digests that were forgotten are empty from now on; none at all is what a turn's own appends have.
UPDATE messages SET key_digest = '' WHERE append_key IS NOT NULL AND key_digest IS NULL;
DROP INDEX messages_once;
CREATE UNIQUE INDEX messages_once ON messages(append_key, (number >> 24)) WHERE key_digest IS NOT NULL;

-- A program of the schema before that is connected forgets a digest as it is used to; the key must stay used all the same.
CREATE FUNCTION empty_digest() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.key_digest := '';
  RETURN NEW;
END
$$;
CREATE TRIGGER key_stays BEFORE UPDATE OF key_digest ON messages FOR EACH ROW
  WHEN (OLD.key_digest IS NOT NULL AND NEW.key_digest IS NULL) EXECUTE FUNCTION empty_digest();
