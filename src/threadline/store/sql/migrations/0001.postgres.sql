-- The ground floor: addresses, sessions, logs, views, search, usage.

CREATE TABLE addresses (
  pk          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  digest      BYTEA NOT NULL UNIQUE,                 -- the identity; 16 bytes
  key         TEXT COLLATE "C" NOT NULL UNIQUE,                 -- the readable name
  chat_type   TEXT NOT NULL,
  owner       TEXT,                                 -- NULL: shared
  chat        TEXT,
  session_pk  BIGINT UNIQUE                        -- the current session: a session has one address at a time
);
CREATE INDEX addresses_by_owner ON addresses(owner) WHERE owner IS NOT NULL;

CREATE TABLE sessions (
  pk                BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- never reused: message numbers are made from it
  session_id        TEXT COLLATE "C" NOT NULL UNIQUE,
  address_pk        BIGINT NOT NULL REFERENCES addresses(pk),
  chat_type         TEXT NOT NULL,
  chat              TEXT,
  origin            TEXT NOT NULL,
  display_name      TEXT,
  title             TEXT,
  title_key         TEXT,
  model             TEXT,
  cwd               TEXT,
  runtime           TEXT NOT NULL DEFAULT '{}',
  parent_session_id TEXT,
  created_at        BIGINT NOT NULL,
  ended_at          BIGINT,
  end_reason        TEXT,
  auto_reset_reason TEXT,
  reset_had_activity BIGINT NOT NULL DEFAULT 0,
  notice_user       BIGINT NOT NULL DEFAULT 0,
  notice_agent      BIGINT NOT NULL DEFAULT 0,
  flushed_seq       BIGINT NOT NULL DEFAULT 0,
  view_version      BIGINT NOT NULL DEFAULT 1,
  redo              TEXT NOT NULL DEFAULT '[]',
  redo_seq          BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX sessions_by_title ON sessions(title_key) WHERE title_key IS NOT NULL;
CREATE INDEX sessions_by_address ON sessions(address_pk);
CREATE INDEX sessions_by_chat ON sessions(chat);

-- What moves with every message, kept narrow so that a commit touches few pages.
CREATE TABLE session_state (
  session_pk         BIGINT PRIMARY KEY REFERENCES sessions(pk),
  owner              TEXT,
  platform           TEXT NOT NULL,
  ended              BIGINT NOT NULL DEFAULT 0,
  updated_at         BIGINT NOT NULL,
  listed_at          BIGINT NOT NULL,              -- updated_at, or a little less: what the indexes go by
  active_at          BIGINT NOT NULL,
  last_seq           BIGINT NOT NULL DEFAULT 0,
  indexed_seq        BIGINT NOT NULL DEFAULT 0,
  message_count      BIGINT NOT NULL DEFAULT 0,
  had_activity       BIGINT NOT NULL DEFAULT 0,
  borrows            BIGINT NOT NULL DEFAULT 0,    -- its view shows messages of another session's log
  input_tokens       BIGINT NOT NULL DEFAULT 0,
  output_tokens      BIGINT NOT NULL DEFAULT 0,
  cache_read_tokens  BIGINT NOT NULL DEFAULT 0,
  cache_write_tokens BIGINT NOT NULL DEFAULT 0,
  reasoning_tokens   BIGINT NOT NULL DEFAULT 0,
  last_prompt_tokens BIGINT NOT NULL DEFAULT 0,
  cost_micros        BIGINT NOT NULL DEFAULT 0,
  cost_status        TEXT NOT NULL DEFAULT 'unknown'
) WITH (fillfactor = 60, autovacuum_vacuum_scale_factor = 0.05);   -- room for the next version beside this one
CREATE INDEX state_newest ON session_state(ended, listed_at, session_pk);
CREATE INDEX state_of_owner ON session_state(owner, listed_at, session_pk);
CREATE INDEX state_by_owner ON session_state(owner, session_pk) WHERE owner IS NOT NULL;
CREATE INDEX state_borrowing ON session_state(owner) WHERE borrows = 1;
CREATE INDEX state_of_platform ON session_state(platform, listed_at, session_pk);

-- number = session pk << 24 | place in the log. So a log is one range of the primary key, and needs no other index.
CREATE TABLE messages (
  number      BIGINT PRIMARY KEY,                   -- wide columns first, and eight in all: nothing is padded then
  at          BIGINT NOT NULL,
  redacted_at BIGINT,
  role        TEXT NOT NULL,
  author      TEXT,                                 -- who wrote it in a shared session
  append_key  TEXT COLLATE "C",                     -- the idempotency key, on the first message of its append
  key_digest  BYTEA,                                 -- what its messages said; NULL once any of it was redacted
  body        TEXT NOT NULL                         -- JSON, to the letter
);
CREATE UNIQUE INDEX messages_once ON messages((number >> 24), append_key) WHERE append_key IS NOT NULL;
CREATE INDEX messages_by_author ON messages(author, number) WHERE author IS NOT NULL;

CREATE TABLE spans (
  session_pk BIGINT NOT NULL,
  version    BIGINT NOT NULL,
  folded     BIGINT NOT NULL,
  place      BIGINT NOT NULL,
  lo         BIGINT NOT NULL,
  hi         BIGINT NOT NULL,
  PRIMARY KEY (session_pk, version, folded, place),
  CHECK (lo <= hi AND (lo >> 24) = (hi >> 24))
);
CREATE INDEX spans_over ON spans(lo, hi);

-- The platform's own ids of messages, received and delivered: a thread hangs on one of them.
CREATE TABLE platform_messages (
  session_pk  BIGINT NOT NULL,
  external_id TEXT COLLATE "C" NOT NULL,
  number      BIGINT NOT NULL,
  PRIMARY KEY (session_pk, external_id)
);

-- Sessions whose log is longer than what search knows of it.
CREATE TABLE unindexed (session_pk BIGINT PRIMARY KEY);


-- One row a message; a long one has several, so that positions stay within what a tsvector can hold. Every row has all words
-- of its message, and the positions of its own part.
CREATE TABLE documents (
  doc    BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  number BIGINT NOT NULL,
  part   SMALLINT NOT NULL,
  words  TSVECTOR NOT NULL
);
-- Most messages have one part, and an index of two columns is half as large again.
CREATE UNIQUE INDEX documents_once ON documents(number) WHERE part = 0;
CREATE UNIQUE INDEX documents_parts ON documents(number, part) WHERE part > 0;
-- Words that were not sorted in yet are read one by one by every search: a megabyte of them at most.
CREATE INDEX documents_words ON documents USING gin(words) WITH (gin_pending_list_limit = 1024);

CREATE TABLE usage (
  session_pk         BIGINT NOT NULL,
  turn_id            TEXT NOT NULL,
  session_id         TEXT NOT NULL,
  person             TEXT,
  platform           TEXT NOT NULL,
  model              TEXT,
  at                 BIGINT NOT NULL,
  input_tokens       BIGINT NOT NULL,
  output_tokens      BIGINT NOT NULL,
  cache_read_tokens  BIGINT NOT NULL,
  cache_write_tokens BIGINT NOT NULL,
  reasoning_tokens   BIGINT NOT NULL,
  cost_micros        BIGINT NOT NULL,
  cost_status        TEXT NOT NULL,
  PRIMARY KEY (session_pk, turn_id)
);
CREATE INDEX usage_by_time ON usage(at);
CREATE INDEX usage_by_person ON usage(person, at) WHERE person IS NOT NULL;

-- Logs of deleted sessions, until no view shows any of their messages and they are gone.
CREATE TABLE deleted_logs (
  log        BIGINT PRIMARY KEY,
  session_id TEXT NOT NULL UNIQUE,
  scope      TEXT NOT NULL,                         -- the filter tokens of its messages, to index them anew
  pending    BIGINT NOT NULL DEFAULT 1             -- 0: all that is left is shown by some fork
);
CREATE INDEX deleted_logs_pending ON deleted_logs(log) WHERE pending = 1;
