-- A session's place in listings follows behind the writes: to move it changes up to two pages of every index.

-- Sessions whose listed_at is more than the lag behind updated_at. Listings look at these as well as at their index.
CREATE TABLE moved (session_pk INTEGER PRIMARY KEY) STRICT;

CREATE TRIGGER state_moved AFTER UPDATE OF updated_at ON session_state WHEN NEW.updated_at > NEW.listed_at + 50000
BEGIN
  INSERT INTO moved (session_pk) VALUES (NEW.session_pk) ON CONFLICT (session_pk) DO NOTHING;
END;

-- A clock that went back: listed_at is never the later of the two, or listings would not know where to stop.
CREATE TRIGGER state_went_back AFTER UPDATE OF updated_at ON session_state WHEN NEW.updated_at < NEW.listed_at
BEGIN
  UPDATE session_state SET listed_at = NEW.updated_at WHERE session_pk = NEW.session_pk;
END;

CREATE TRIGGER state_listed AFTER UPDATE OF listed_at ON session_state
BEGIN
  DELETE FROM moved WHERE session_pk = NEW.session_pk;
END;

CREATE TRIGGER state_gone AFTER DELETE ON session_state
BEGIN
  DELETE FROM moved WHERE session_pk = OLD.session_pk;
END;

-- A copy that came from PostgreSQL may lag further.
INSERT INTO moved (session_pk) SELECT session_pk FROM session_state WHERE updated_at > listed_at + 50000;
UPDATE session_state SET listed_at = updated_at WHERE listed_at > updated_at;
