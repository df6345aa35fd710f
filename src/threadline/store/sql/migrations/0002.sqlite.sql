-- The gateway: what came in, what runs, what goes out, and who is who.

-- Exactly once in: the same event again finds its row. A fate is given once; with it goes the text, which the transcript has.
CREATE TABLE inbox (
  pk          INTEGER PRIMARY KEY AUTOINCREMENT,
  platform    TEXT NOT NULL,
  account     TEXT NOT NULL,
  dedupe_key  TEXT NOT NULL,
  session_pk  INTEGER,
  lane        TEXT NOT NULL,                        -- talk, session (a command that takes its turn), control (one that does not)
  event       TEXT NOT NULL,                        -- JSON
  person      TEXT,
  role        TEXT NOT NULL,
  accepted_at INTEGER NOT NULL,
  turn_pk     INTEGER,                              -- the turn that took it
  fate        TEXT,                                 -- NULL: it waits, or its turn runs
  fate_at     INTEGER,
  note        TEXT,
  UNIQUE (platform, account, dedupe_key)
);
CREATE INDEX inbox_waiting ON inbox(session_pk, pk) WHERE fate IS NULL AND turn_pk IS NULL AND lane <> 'control';
CREATE INDEX inbox_control ON inbox(pk) WHERE fate IS NULL AND lane = 'control';
CREATE INDEX inbox_of_turn ON inbox(turn_pk) WHERE turn_pk IS NOT NULL;
CREATE INDEX inbox_of_person ON inbox(person) WHERE person IS NOT NULL;

-- Sessions that have something to do and nothing running.
CREATE TABLE ready (
  session_pk INTEGER PRIMARY KEY,
  platform   TEXT NOT NULL,
  due_at     INTEGER NOT NULL,
  first_at   INTEGER NOT NULL
);
CREATE INDEX ready_due ON ready(platform, due_at);

-- Every write of a worker names its fence; a turn that was taken over has another.
CREATE TABLE turns (
  pk          INTEGER PRIMARY KEY AUTOINCREMENT,
  turn_id     TEXT NOT NULL UNIQUE,
  session_pk  INTEGER NOT NULL,
  lane        TEXT NOT NULL,
  state       TEXT NOT NULL,                        -- waiting, running, asking, done
  outcome     TEXT,
  attempts    INTEGER NOT NULL DEFAULT 1,
  fence       INTEGER NOT NULL DEFAULT 1,
  owner       TEXT,
  lease_until INTEGER,
  replay      TEXT NOT NULL DEFAULT 'safe',
  tools       INTEGER NOT NULL DEFAULT 0,           -- a tool was called
  stop        TEXT,                                 -- somebody wants it to end: stop, interrupt
  person      TEXT,
  platform    TEXT NOT NULL,
  role        TEXT NOT NULL,
  origin      TEXT NOT NULL,                        -- where its answer goes
  created_at  INTEGER NOT NULL,
  ended_at    INTEGER,
  error       TEXT
);
CREATE UNIQUE INDEX turns_live ON turns(session_pk) WHERE state IN ('running', 'asking');
CREATE INDEX turns_waiting ON turns(session_pk) WHERE state = 'waiting';
CREATE INDEX turns_leased ON turns(owner, lease_until) WHERE state = 'running';

-- What a running turn has said and done, until its transcript has it.
CREATE TABLE journal (
  turn_pk INTEGER NOT NULL,
  place   INTEGER NOT NULL,
  event   TEXT NOT NULL,
  PRIMARY KEY (turn_pk, place)
) WITHOUT ROWID;

CREATE TABLE deliveries (
  pk          INTEGER PRIMARY KEY AUTOINCREMENT,
  delivery_id TEXT NOT NULL UNIQUE,
  lane        TEXT NOT NULL,                        -- what is delivered in order
  platform    TEXT NOT NULL,
  account     TEXT NOT NULL,
  target      TEXT NOT NULL,
  session_pk  INTEGER,
  turn_pk     INTEGER,
  kind        TEXT NOT NULL,                        -- reply, notice
  text        TEXT NOT NULL,
  reply_to    TEXT,
  state       TEXT NOT NULL,
  doubtful    INTEGER NOT NULL DEFAULT 0,           -- an earlier try may have arrived
  attempts    INTEGER NOT NULL DEFAULT 0,
  due_at      INTEGER NOT NULL,
  created_at  INTEGER NOT NULL,
  owner       TEXT,
  lease_until INTEGER,
  external_id TEXT,
  error       TEXT,
  sent_at     INTEGER
);
CREATE UNIQUE INDEX deliveries_flying ON deliveries(lane) WHERE state = 'sending';
CREATE INDEX deliveries_waiting ON deliveries(lane, pk) WHERE state IN ('pending', 'sending');
CREATE INDEX deliveries_due ON deliveries(platform, account, due_at) WHERE state = 'pending';
CREATE INDEX deliveries_leased ON deliveries(lease_until) WHERE state = 'sending';
CREATE INDEX deliveries_of_turn ON deliveries(turn_pk) WHERE turn_pk IS NOT NULL;
CREATE INDEX deliveries_of_session ON deliveries(session_pk) WHERE session_pk IS NOT NULL;
CREATE INDEX deliveries_parked ON deliveries(pk) WHERE state = 'parked';

-- What the agent is told of a session's surroundings: the same bytes until it starts afresh.
CREATE TABLE contexts (
  session_pk INTEGER PRIMARY KEY,
  block      TEXT NOT NULL
);

CREATE TABLE people (
  person TEXT PRIMARY KEY,
  role   TEXT NOT NULL,
  name   TEXT,
  since  INTEGER NOT NULL
) WITHOUT ROWID;

-- A stranger who asked to be let in. Of the code only a keyed digest is kept.
CREATE TABLE pairings (
  pk         INTEGER PRIMARY KEY AUTOINCREMENT,
  platform   TEXT NOT NULL,
  account    TEXT NOT NULL,
  person     TEXT NOT NULL UNIQUE,
  name       TEXT,
  target     TEXT NOT NULL,
  code       BLOB NOT NULL,
  asked_at   INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
);
CREATE INDEX pairings_pending ON pairings(platform, expires_at);

-- One row, locked by whoever asks for a code or approves one; how often somebody approved wrongly survives a restart.
CREATE TABLE pairing_guard (
  pk           INTEGER PRIMARY KEY CHECK (pk = 1),
  wrong        INTEGER NOT NULL,
  wrong_at     INTEGER NOT NULL,
  locked_until INTEGER NOT NULL
);
