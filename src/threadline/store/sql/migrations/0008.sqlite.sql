-- Sessions that come from elsewhere: other keys of a conversation, and what was taken in from a folder of another program.

CREATE TABLE key_aliases (
  key        TEXT PRIMARY KEY,
  address_pk INTEGER NOT NULL REFERENCES addresses(pk) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;
CREATE INDEX key_aliases_of_address ON key_aliases(address_pk);

-- Kept when the session is deleted or erased: what was taken in once never comes back.
CREATE TABLE adoptions (
  session_id TEXT PRIMARY KEY,
  state      TEXT NOT NULL                          -- waiting (the transcript is still to be read), done, exported (the file is ours)
) STRICT, WITHOUT ROWID;
CREATE INDEX adoptions_waiting ON adoptions(session_id) WHERE state = 'waiting';
