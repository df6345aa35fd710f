-- The ground floor: addresses, sessions, logs, views, search, usage.

CREATE TABLE addresses (
  pk          INTEGER PRIMARY KEY AUTOINCREMENT,
  digest      BLOB NOT NULL UNIQUE,                 -- the identity; 16 bytes
  key         TEXT NOT NULL UNIQUE,                 -- the readable name
  chat_type   TEXT NOT NULL,
  owner       TEXT,                                 -- NULL: shared
  chat        TEXT,
  session_pk  INTEGER UNIQUE                        -- the current session: a session has one address at a time
) STRICT;
CREATE INDEX addresses_by_owner ON addresses(owner) WHERE owner IS NOT NULL;

CREATE TABLE sessions (
  pk                INTEGER PRIMARY KEY AUTOINCREMENT,  -- never reused: message numbers are made from it
  session_id        TEXT NOT NULL UNIQUE,
  address_pk        INTEGER NOT NULL REFERENCES addresses(pk),
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
  created_at        INTEGER NOT NULL,
  ended_at          INTEGER,
  end_reason        TEXT,
  auto_reset_reason TEXT,
  reset_had_activity INTEGER NOT NULL DEFAULT 0,
  notice_user       INTEGER NOT NULL DEFAULT 0,
  notice_agent      INTEGER NOT NULL DEFAULT 0,
  flushed_seq       INTEGER NOT NULL DEFAULT 0,
  view_version      INTEGER NOT NULL DEFAULT 1,
  redo              TEXT NOT NULL DEFAULT '[]',
  redo_seq          INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX sessions_by_title ON sessions(title_key) WHERE title_key IS NOT NULL;
CREATE INDEX sessions_by_address ON sessions(address_pk);
CREATE INDEX sessions_by_chat ON sessions(chat);

-- What moves with every message, kept narrow so that a commit touches few pages.
CREATE TABLE session_state (
  session_pk         INTEGER PRIMARY KEY REFERENCES sessions(pk),
  owner              TEXT,
  platform           TEXT NOT NULL,
  ended              INTEGER NOT NULL DEFAULT 0,
  updated_at         INTEGER NOT NULL,
  listed_at          INTEGER NOT NULL,              -- updated_at, or a little less: what the indexes go by
  active_at          INTEGER NOT NULL,
  last_seq           INTEGER NOT NULL DEFAULT 0,
  indexed_seq        INTEGER NOT NULL DEFAULT 0,
  message_count      INTEGER NOT NULL DEFAULT 0,
  had_activity       INTEGER NOT NULL DEFAULT 0,
  borrows            INTEGER NOT NULL DEFAULT 0,    -- its view shows messages of another session's log
  input_tokens       INTEGER NOT NULL DEFAULT 0,
  output_tokens      INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens  INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  reasoning_tokens   INTEGER NOT NULL DEFAULT 0,
  last_prompt_tokens INTEGER NOT NULL DEFAULT 0,
  cost_micros        INTEGER NOT NULL DEFAULT 0,
  cost_status        TEXT NOT NULL DEFAULT 'unknown'
) STRICT;
CREATE INDEX state_newest ON session_state(ended, listed_at);
CREATE INDEX state_of_owner ON session_state(owner, listed_at);
CREATE INDEX state_by_owner ON session_state(owner, session_pk) WHERE owner IS NOT NULL;
CREATE INDEX state_borrowing ON session_state(owner) WHERE borrows = 1;
CREATE INDEX state_of_platform ON session_state(platform, listed_at);

-- number = session pk << 24 | place in the log. So a log is one range of the primary key, and needs no other index.
CREATE TABLE messages (
  number      INTEGER PRIMARY KEY,
  role        TEXT NOT NULL,
  at          INTEGER NOT NULL,
  author      TEXT,                                 -- who wrote it in a shared session
  redacted_at INTEGER,
  append_key  TEXT,                                 -- the idempotency key, on the first message of its append
  key_digest  BLOB,                                 -- what its messages said; NULL once any of it was redacted
  body        TEXT NOT NULL                         -- JSON, to the letter
) STRICT;
CREATE UNIQUE INDEX messages_once ON messages((number >> 24), append_key) WHERE append_key IS NOT NULL;
CREATE INDEX messages_by_author ON messages(author) WHERE author IS NOT NULL;

CREATE TABLE spans (
  session_pk INTEGER NOT NULL,
  version    INTEGER NOT NULL,
  folded     INTEGER NOT NULL,
  place      INTEGER NOT NULL,
  lo         INTEGER NOT NULL,
  hi         INTEGER NOT NULL,
  PRIMARY KEY (session_pk, version, folded, place),
  CHECK (lo <= hi AND (lo >> 24) = (hi >> 24))
) STRICT, WITHOUT ROWID;
CREATE INDEX spans_over ON spans(lo, hi);

-- The platform's own ids of messages, received and delivered: a thread hangs on one of them.
CREATE TABLE platform_messages (
  session_pk  INTEGER NOT NULL,
  external_id TEXT NOT NULL,
  number      INTEGER NOT NULL,
  PRIMARY KEY (session_pk, external_id)
) STRICT, WITHOUT ROWID;

-- Sessions whose log is longer than what search knows of it.
CREATE TABLE unindexed (session_pk INTEGER PRIMARY KEY) STRICT;

CREATE TABLE documents (
  doc    INTEGER PRIMARY KEY AUTOINCREMENT,
  number INTEGER NOT NULL UNIQUE
) STRICT;
CREATE VIRTUAL TABLE words USING fts5(
  body, scope, content='', contentless_delete=1, tokenize='ascii', detail=full
);
INSERT INTO words(words, rank) VALUES ('rank', 'bm25(1.0, 0.0)');

CREATE TABLE usage (
  session_pk         INTEGER NOT NULL,
  turn_id            TEXT NOT NULL,
  session_id         TEXT NOT NULL,
  person             TEXT,
  platform           TEXT NOT NULL,
  model              TEXT,
  at                 INTEGER NOT NULL,
  input_tokens       INTEGER NOT NULL,
  output_tokens      INTEGER NOT NULL,
  cache_read_tokens  INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  reasoning_tokens   INTEGER NOT NULL,
  cost_micros        INTEGER NOT NULL,
  cost_status        TEXT NOT NULL,
  PRIMARY KEY (session_pk, turn_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_by_time ON usage(at);
CREATE INDEX usage_by_person ON usage(person, at) WHERE person IS NOT NULL;

-- Logs of deleted sessions, until no view shows any of their messages and they are gone.
CREATE TABLE deleted_logs (
  log        INTEGER PRIMARY KEY,
  session_id TEXT NOT NULL UNIQUE,
  scope      TEXT NOT NULL,                         -- the filter tokens of its messages, to index them anew
  pending    INTEGER NOT NULL DEFAULT 1             -- 0: all that is left is shown by some fork
) STRICT;
CREATE INDEX deleted_logs_pending ON deleted_logs(log) WHERE pending = 1;
