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
CREATE INDEX inbox_of_person ON inbox(person) WHERE person IS NOT NULL;

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
CREATE INDEX turns_leased ON turns(owner, lease_until) WHERE state = 'running';

-- What a running turn has said and done, until its transcript has it.
CREATE TABLE journal (
  turn_pk BIGINT NOT NULL,
  place   BIGINT NOT NULL,
  event   TEXT NOT NULL,
  PRIMARY KEY (turn_pk, place)
);

CREATE TABLE deliveries (
  pk          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  delivery_id TEXT COLLATE "C" NOT NULL UNIQUE,
  lane        TEXT NOT NULL,                        -- what is delivered in order
  platform    TEXT NOT NULL,
  account     TEXT NOT NULL,
  target      TEXT NOT NULL,
  session_pk  BIGINT,
  turn_pk     BIGINT,
  kind        TEXT NOT NULL,                        -- reply, notice
  text        TEXT NOT NULL,
  reply_to    TEXT,
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
CREATE INDEX deliveries_parked ON deliveries(pk) WHERE state = 'parked';

-- What the agent is told of a session's surroundings: the same bytes until it starts afresh.
CREATE TABLE contexts (
  session_pk BIGINT PRIMARY KEY,
  block      TEXT NOT NULL
);

CREATE TABLE people (
  person TEXT COLLATE "C" PRIMARY KEY,
  role   TEXT NOT NULL,
  name   TEXT,
  since  BIGINT NOT NULL
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
