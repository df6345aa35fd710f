-- The gateway: what came in, what runs, what goes out, and who is who.

-- Exactly once in: the same event again finds its row. A fate is given once; with it goes the text, which the transcript has.
CREATE TABLE inbox (
  pk          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  platform    TEXT NOT NULL,
  account     TEXT NOT NULL,
  dedupe_key  TEXT COLLATE "C" NOT NULL,
  session_pk  BIGINT,
  lane        TEXT NOT NULL,                        -- talk, session (a command that takes its turn), control (one that does not)
  event       TEXT NOT NULL,                        -- JSON
  person      TEXT,
  role        TEXT NOT NULL,
  accepted_at BIGINT NOT NULL,
  turn_pk     BIGINT,                              -- the turn that took it
  fate        TEXT,                                 -- NULL: it waits, or its turn runs
  fate_at     BIGINT,
  note        TEXT,
  UNIQUE (platform, account, dedupe_key)
);
CREATE INDEX inbox_waiting ON inbox(session_pk, pk) WHERE fate IS NULL AND turn_pk IS NULL AND lane <> 'control';
CREATE INDEX inbox_control ON inbox(pk) WHERE fate IS NULL AND lane = 'control';
CREATE INDEX inbox_of_turn ON inbox(turn_pk) WHERE turn_pk IS NOT NULL;
CREATE INDEX inbox_of_person ON inbox(person, pk) WHERE person IS NOT NULL;
CREATE INDEX inbox_unreadable ON inbox(platform, pk) WHERE fate = 'parked' AND person IS NULL;

-- Sessions that have something to do and nothing running.
CREATE TABLE ready (
  session_pk BIGINT PRIMARY KEY,
  platform   TEXT NOT NULL,
  due_at     BIGINT NOT NULL,
  first_at   BIGINT NOT NULL
);
CREATE INDEX ready_due ON ready(platform, due_at);

-- Every write of a worker names its fence; a turn that was taken over has another.
CREATE TABLE turns (
  pk          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  turn_id     TEXT COLLATE "C" NOT NULL UNIQUE,
  session_pk  BIGINT NOT NULL,
  lane        TEXT NOT NULL,
  state       TEXT NOT NULL,                        -- waiting, running, asking, done
  outcome     TEXT,
  attempts    BIGINT NOT NULL DEFAULT 1,
  fence       BIGINT NOT NULL DEFAULT 1,
  owner       TEXT,
  lease_until BIGINT,
  replay      TEXT NOT NULL DEFAULT 'safe',
  tools       BIGINT NOT NULL DEFAULT 0,           -- a tool was called
  stop        TEXT,                                 -- somebody wants it to end: stop, interrupt
  person      TEXT,
  platform    TEXT NOT NULL,
  role        TEXT NOT NULL,
  origin      TEXT NOT NULL,                        -- where its answer goes
  created_at  BIGINT NOT NULL,
  ended_at    BIGINT,
  error       TEXT
);
CREATE UNIQUE INDEX turns_live ON turns(session_pk) WHERE state IN ('running', 'asking');
CREATE INDEX turns_waiting ON turns(session_pk) WHERE state = 'waiting';
CREATE INDEX turns_leased ON turns(platform, lease_until) WHERE state = 'running';
CREATE INDEX turns_cut_short ON turns(session_pk, pk) WHERE outcome IN ('failed', 'stopped', 'interrupted', 'parked');

-- What a running turn has said and done, until its transcript has it.
CREATE TABLE journal (
  turn_pk BIGINT NOT NULL,
  place   BIGINT NOT NULL,
  event   TEXT NOT NULL,
  PRIMARY KEY (turn_pk, place)
);

-- What a turn may not do without somebody's word. It goes with the turn's end.
CREATE TABLE asks (
  pk         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  turn_pk    BIGINT NOT NULL,
  session_pk BIGINT NOT NULL,
  code       TEXT NOT NULL,
  event      TEXT NOT NULL,                         -- the question as the agent put it, as JSON
  least      TEXT NOT NULL,                         -- the least role that may answer
  question   TEXT NOT NULL,                         -- the delivery that shows it
  state      TEXT NOT NULL,                         -- open, granted, told (to a run that has not ended), used, denied, closed
  asked_at   BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  decided_by TEXT
);
CREATE UNIQUE INDEX asks_open ON asks(session_pk) WHERE state = 'open';
CREATE INDEX asks_ending ON asks(expires_at) WHERE state = 'open';
CREATE INDEX asks_of_turn ON asks(turn_pk);
CREATE INDEX asks_of_session ON asks(session_pk);
CREATE INDEX asks_by_person ON asks(decided_by) WHERE decided_by IS NOT NULL;

CREATE TABLE deliveries (
  pk          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  delivery_id TEXT COLLATE "C" NOT NULL UNIQUE,
  lane        TEXT NOT NULL,                        -- what is delivered in order
  platform    TEXT NOT NULL,
  account     TEXT NOT NULL,
  target      TEXT NOT NULL,
  session_pk  BIGINT,
  turn_pk     BIGINT,
  person      TEXT,                                 -- whom it is for; NULL: a session that several people share
  kind        TEXT NOT NULL,                        -- reply, notice, alarm
  text        TEXT NOT NULL,
  reply_to    TEXT,
  buttons     TEXT NOT NULL DEFAULT '[]',           -- JSON
  state       TEXT NOT NULL,
  doubtful    BIGINT NOT NULL DEFAULT 0,           -- an earlier try may have arrived
  attempts    BIGINT NOT NULL DEFAULT 0,
  due_at      BIGINT NOT NULL,
  created_at  BIGINT NOT NULL,
  owner       TEXT,
  lease_until BIGINT,
  external_id TEXT,
  error       TEXT,
  sent_at     BIGINT
);
CREATE UNIQUE INDEX deliveries_flying ON deliveries(lane) WHERE state = 'sending';
CREATE INDEX deliveries_waiting ON deliveries(lane, pk) WHERE state IN ('pending', 'sending');
CREATE INDEX deliveries_due ON deliveries(platform, account, due_at) WHERE state = 'pending';
CREATE INDEX deliveries_leased ON deliveries(lease_until) WHERE state = 'sending';
CREATE INDEX deliveries_of_turn ON deliveries(turn_pk) WHERE turn_pk IS NOT NULL;
CREATE INDEX deliveries_of_session ON deliveries(session_pk) WHERE session_pk IS NOT NULL;
CREATE INDEX deliveries_to_person ON deliveries(person, pk) WHERE person IS NOT NULL;
CREATE INDEX deliveries_alarming ON deliveries(lane) WHERE kind = 'alarm';
CREATE INDEX deliveries_parked ON deliveries(pk) WHERE state = 'parked';
CREATE INDEX deliveries_told ON deliveries(lane, pk) WHERE kind <> 'reply' AND text <> '';

-- Why the current session of an address has ended by itself; its next message starts a new one, which tells. NULL: it goes on.
ALTER TABLE addresses ADD COLUMN expired TEXT;

-- How far the watcher has looked: every session up to that place in the index has ended, is not current, or stands in expiry_again.
CREATE TABLE expiry_places (
  platform   TEXT COLLATE "C" NOT NULL,
  chat_type  TEXT COLLATE "C" NOT NULL,
  listed_at  BIGINT NOT NULL,
  session_pk BIGINT NOT NULL,
  PRIMARY KEY (platform, chat_type)
);

-- Sessions that the watcher has passed and that had not ended: busy, or not stale yet.
CREATE TABLE expiry_again (
  session_pk BIGINT PRIMARY KEY,
  platform   TEXT COLLATE "C" NOT NULL,
  chat_type  TEXT COLLATE "C" NOT NULL,
  due_at     BIGINT NOT NULL
);
CREATE INDEX expiry_again_due ON expiry_again(platform, chat_type, due_at, session_pk);

-- Ended sessions that their agent is yet to see once more, for its memory. The attempt is the fence.
CREATE TABLE flushes (
  session_pk  BIGINT PRIMARY KEY,
  platform    TEXT COLLATE "C" NOT NULL,
  upto        BIGINT NOT NULL,                       -- the last message that it covers
  attempts    BIGINT NOT NULL DEFAULT 0,
  due_at      BIGINT NOT NULL,
  owner       TEXT,
  lease_until BIGINT
);
CREATE INDEX flushes_due ON flushes(platform, due_at, session_pk);

-- What the agent is told of a session's surroundings: the same bytes until it starts afresh.
CREATE TABLE contexts (
  session_pk BIGINT PRIMARY KEY,
  block      TEXT NOT NULL
);

-- Who spoke under which name where several people do: of two with the same name the first to use it is called by it alone.
CREATE TABLE speakers (
  pk         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session_pk BIGINT NOT NULL,
  person     TEXT COLLATE "C" NOT NULL,                         -- '': nobody says who
  name       TEXT COLLATE "C" NOT NULL,
  UNIQUE (session_pk, person, name)
);
CREATE INDEX speakers_by_person ON speakers(person);

CREATE TABLE people (
  person TEXT COLLATE "C" PRIMARY KEY,
  role   TEXT NOT NULL,
  name   TEXT,
  since  BIGINT NOT NULL
);

-- What people said of themselves.
CREATE TABLE preferences (
  person   TEXT COLLATE "C" PRIMARY KEY,
  timezone TEXT NOT NULL
);

-- Where messages go that answer nobody, as an owner said it in the chat: one chat for each of our accounts.
CREATE TABLE homes (
  platform  TEXT COLLATE "C" NOT NULL,
  account   TEXT COLLATE "C" NOT NULL,
  chat_id   TEXT NOT NULL,
  chat_type TEXT NOT NULL,
  thread_id TEXT,
  name      TEXT NOT NULL,
  person    TEXT,                                   -- whose direct chat it is
  PRIMARY KEY (platform, account)
);

-- What only the owner can mend and was told of: once, however often it fails and however many gateways see it.
CREATE TABLE alarms (
  name  TEXT COLLATE "C" PRIMARY KEY,                        -- what fails: agent:NAME, platform:NAME@ACCOUNT
  text  TEXT NOT NULL,
  since BIGINT NOT NULL,
  told  BIGINT NOT NULL,                            -- 0: there was nowhere to say it
  known_at BIGINT NOT NULL                          -- when a gateway last said that its configuration has what this is about
);

-- A stranger who asked to be let in. Of the code only a keyed digest is kept.
CREATE TABLE pairings (
  pk         BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  platform   TEXT NOT NULL,
  account    TEXT NOT NULL,
  person     TEXT NOT NULL UNIQUE,
  name       TEXT,
  target     TEXT NOT NULL,
  code       BYTEA NOT NULL,
  asked_at   BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX pairings_pending ON pairings(platform, expires_at);

-- One row, locked by whoever asks for a code or approves one; how often somebody approved wrongly survives a restart.
CREATE TABLE pairing_guard (
  pk           BIGINT PRIMARY KEY CHECK (pk = 1),
  wrong        BIGINT NOT NULL,
  wrong_at     BIGINT NOT NULL,
  locked_until BIGINT NOT NULL
);

-- Browsers that somebody is logged in with. Of the cookie only a digest is kept.
CREATE TABLE web_logins (
  digest     BYTEA PRIMARY KEY,
  person     TEXT COLLATE "C" NOT NULL,
  name       TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  seen_at    BIGINT NOT NULL,                      -- to the hour: looking at a page is no write
  expires_at BIGINT NOT NULL
);
CREATE INDEX web_logins_of ON web_logins(person, created_at);
CREATE INDEX web_logins_ending ON web_logins(expires_at);

-- Links that let somebody in on the page, once. Of the code only a digest is kept.
CREATE TABLE web_invites (
  digest     BYTEA PRIMARY KEY,
  person     TEXT COLLATE "C",                                 -- NULL: somebody new
  name       TEXT NOT NULL,
  role       TEXT,                                  -- NULL: the one that they have
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);
CREATE INDEX web_invites_ending ON web_invites(expires_at);

-- Whose words a message may hold that a rewrite put in the place of several people's: whoever of them is erased, it goes.
CREATE TABLE possible_authors (
  number BIGINT NOT NULL,
  author TEXT NOT NULL,
  PRIMARY KEY (number, author)
);
CREATE INDEX possible_authors_of ON possible_authors(author, number);

-- Ids that a platform has given up for others. Looked at only where an id is not known: a conversation is found under any of them.
CREATE TABLE moves (
  platform TEXT COLLATE "C" NOT NULL,
  account  TEXT COLLATE "C" NOT NULL,
  what     TEXT COLLATE "C" NOT NULL,                           -- chat, user
  old_id   TEXT COLLATE "C" NOT NULL,
  new_id   TEXT COLLATE "C" NOT NULL,
  old_name TEXT NOT NULL,                           -- the ids as they stand beside conversations: telegram:7
  new_name TEXT NOT NULL,
  person   TEXT,                                    -- who it is, or whose direct chat
  at       BIGINT  NOT NULL,                        -- when we were told: an old id may be another's later
  PRIMARY KEY (platform, account, what, old_id, new_id)
);
CREATE INDEX moves_to ON moves(platform, account, what, new_id);

-- Files that came with messages, each kept once however often it was sent.
CREATE TABLE files (
  digest TEXT PRIMARY KEY,                          -- of what is in it: SHA-256, in hex
  size   BIGINT NOT NULL,
  body   BYTEA NOT NULL
);

-- Who sent a file, and what it is called by them.
CREATE TABLE file_senders (
  person TEXT NOT NULL,
  digest TEXT NOT NULL,
  name   TEXT NOT NULL,
  mime   TEXT NOT NULL,
  at     BIGINT NOT NULL,
  PRIMARY KEY (person, digest)
);
CREATE INDEX file_senders_of ON file_senders(digest);
CREATE INDEX file_senders_by_age ON file_senders(at);

-- The messages that a file came with. With the last of them the file goes.
CREATE TABLE file_uses (
  number BIGINT NOT NULL,
  digest TEXT NOT NULL,
  PRIMARY KEY (number, digest)
);
CREATE INDEX file_uses_of ON file_uses(digest);
