-- Folders of editors' sessions are listed by, files go out with deliveries, agents remember, and one gateway alone listens.

ALTER TABLE session_state ADD COLUMN cwd TEXT COLLATE "C";
UPDATE session_state SET cwd = sessions.cwd FROM sessions
 WHERE sessions.pk = session_state.session_pk AND sessions.cwd IS NOT NULL;
ALTER TABLE sessions DROP COLUMN cwd;

DROP INDEX state_newest;
DROP INDEX state_of_platform;
CREATE INDEX state_of_platform ON session_state(platform, ended, listed_at, session_pk);
-- A path may be longer than an index takes: its start finds few, and the whole is compared.
CREATE INDEX state_of_cwd ON session_state(platform, substr(cwd, 1, 200), ended, listed_at, session_pk) WHERE cwd IS NOT NULL;

-- The key first: keys are mostly made in the order of time, so those of many sessions that write at once are neighbours.
DROP INDEX messages_once;
CREATE UNIQUE INDEX messages_once ON messages(append_key, (number >> 24)) WHERE append_key IS NOT NULL;

ALTER TABLE deliveries ADD COLUMN files TEXT NOT NULL DEFAULT '[]';   -- JSON; of what was sent only how many there were

-- What an agent wants back with a session's next turn.
CREATE TABLE memories (
  session_pk BIGINT NOT NULL,
  agent      TEXT NOT NULL,
  text       TEXT NOT NULL,
  PRIMARY KEY (session_pk, agent)
);

-- What one gateway at a time may do, by a name that holds no secret: listen with a key, say. Who does not renew loses it.
CREATE TABLE named_leases (
  name        TEXT COLLATE "C" PRIMARY KEY,
  owner       TEXT NOT NULL,
  lease_until BIGINT NOT NULL
);
