-- fragment: entry
a.key, s.session_id, s.created_at, t.updated_at, t.active_at, s.origin, t.platform, s.chat_type, s.display_name, s.title,
t.input_tokens, t.output_tokens, t.cache_read_tokens, t.cache_write_tokens, t.reasoning_tokens, t.last_prompt_tokens,
t.cost_micros, t.cost_status, s.auto_reset_reason, s.reset_had_activity, s.flushed_seq, t.last_seq, s.model, t.cwd, s.runtime,
s.parent_session_id, s.ended_at, s.end_reason, t.message_count, t.owner,
s.pk, s.address_pk, s.chat, s.view_version, s.redo, s.redo_seq, t.had_activity, a.session_pk, t.listed_at

-- fragment: entry_tables
sessions s
{then} session_state t ON t.session_pk = s.pk
{then} addresses a ON a.pk = s.address_pk

-- fragment: of_address
FROM addresses a {then} sessions s ON s.pk = a.session_pk {then} session_state t ON t.session_pk = s.pk
WHERE a.digest = :digest {lock_address}

-- name: find_current
-- The session that an address points at. Locks the address: of two callers who find it stale, one resets it and the other
-- sees the new one.
SELECT {entry}
{of_address}

-- name: find_current_and_inbound
-- The same for whoever takes an event in: also whether it was here before, the session again if it is known to be at rest, and
-- whether any turn runs anywhere.
SELECT {entry}, EXISTS (SELECT 1 FROM inbox i WHERE i.platform = :platform AND i.account = :account AND i.dedupe_key = :dedupe_key),
  {at_rest}, EXISTS (SELECT 1 FROM turns WHERE {running})
{of_address}

-- name: peek_current
-- The same without the lock: for those who only want to know.
SELECT {entry}
FROM addresses a {then} sessions s ON s.pk = a.session_pk {then} session_state t ON t.session_pk = s.pk
WHERE a.digest = :digest

-- name: find_address
SELECT a.pk, a.key, a.chat_type, a.owner, a.chat, a.session_pk FROM addresses a WHERE a.digest = :digest {lock_address}

-- name: find_address_by_pk
SELECT a.pk, a.key, a.chat_type, a.owner, a.chat, a.session_pk FROM addresses a WHERE a.pk = :pk {lock_address}

-- fragment: called
-- Its own key goes before one that it was adopted with.
a.pk = COALESCE((SELECT o.pk FROM addresses o WHERE o.key = :key), (SELECT k.address_pk FROM key_aliases k WHERE k.key = :key))

-- name: find_address_by_key
SELECT a.pk, a.key, a.chat_type, a.owner, a.chat, a.session_pk FROM addresses a WHERE {called} {lock_address}

-- name: key_is_taken
SELECT 1 FROM addresses WHERE key = :key

-- name: add_address
-- Two callers at once: one inserts, the other waits for it and inserts nothing.
INSERT INTO addresses (digest, key, chat_type, owner, chat) VALUES (:digest, :key, :chat_type, :owner, :chat)
ON CONFLICT (digest) DO NOTHING

-- name: point_address
UPDATE addresses SET session_pk = :session_pk, expired = NULL WHERE pk = :address_pk

-- name: unpoint_session
UPDATE addresses SET session_pk = NULL, expired = NULL WHERE session_pk = :session_pk

-- name: add_session
INSERT INTO sessions (session_id, address_pk, chat_type, chat, origin, display_name, model, runtime, parent_session_id,
                      created_at, auto_reset_reason, reset_had_activity, notice_user, notice_agent)
VALUES (:session_id, :address_pk, :chat_type, :chat, :origin, :display_name, :model, :runtime, :parent_session_id,
        :created_at, :auto_reset_reason, :reset_had_activity, :notice_user, :notice_agent)
RETURNING pk

-- name: add_state
INSERT INTO session_state (session_pk, owner, platform, cwd, updated_at, listed_at, active_at, borrows)
VALUES (:session_pk, :owner, :platform, :cwd, :at, :at, :at, :borrows)

-- name: find_session
SELECT {entry} FROM {entry_tables} WHERE s.session_id = :session_id

-- name: lock_session
-- Whoever changes a session's log, view or state holds this lock, and changes its state too: numbers in a log are taken in commit
-- order. The last column: somebody did while this waited, and only the state is what it is now. Ask again, the lock is held.
SELECT {entry}, {stale} FROM {entry_tables} WHERE s.session_id = :session_id {lock_state}

-- name: lock_session_pk
-- The same lock, for those who need to know nothing of the session but that it is there.
SELECT t.session_pk FROM sessions s {then} session_state t ON t.session_pk = s.pk WHERE s.session_id = :session_id {lock_state}

-- name: find_session_by_pk
SELECT {entry} FROM {entry_tables} WHERE s.pk = :session_pk

-- name: touch_session
-- Zero rows: it has ended meanwhile.
UPDATE session_state SET updated_at = :at, active_at = :at{listed} WHERE session_pk = :session_pk AND ended = 0

-- name: mark_updated
UPDATE session_state SET updated_at = :at, listed_at = :at WHERE session_pk = :session_pk

-- name: moved_sessions
SELECT t.session_pk FROM {moved} LIMIT :limit

-- name: unlisted_sessions
-- Sessions that listings may miss.
SELECT s.session_id FROM session_state t {then} sessions s ON s.pk = t.session_pk
WHERE NOT t.listed_at BETWEEN t.updated_at - {lag} AND t.updated_at AND t.session_pk NOT IN (SELECT t.session_pk FROM {moved})
ORDER BY t.session_pk LIMIT :limit

-- name: relist_session
UPDATE session_state SET listed_at = updated_at WHERE session_pk = :session_pk

-- name: end_session
UPDATE sessions SET ended_at = :at, end_reason = :reason WHERE pk = :session_pk AND ended_at IS NULL

-- name: end_state
UPDATE session_state SET ended = 1, updated_at = :at, listed_at = :at WHERE session_pk = :session_pk

-- name: reopen_session
-- Held elsewhere from now on: what is said there is not the old chat's to see.
UPDATE sessions SET ended_at = NULL, end_reason = NULL, address_pk = :address_pk, chat_type = :chat_type, chat = :chat
WHERE pk = :session_pk

-- name: reopen_state
UPDATE session_state SET ended = 0, updated_at = :at, listed_at = :at, active_at = :at WHERE session_pk = :session_pk

-- name: set_title
UPDATE sessions SET title = :title, title_key = :title_key WHERE pk = :session_pk

-- name: set_runtime
UPDATE sessions SET model = :model, runtime = :runtime WHERE pk = :session_pk

-- name: set_cwd
UPDATE session_state SET cwd = :cwd WHERE session_pk = :session_pk

-- name: mark_flushed
-- Never back: what was flushed stays so.
UPDATE sessions SET flushed_seq = :seq WHERE pk = :session_pk AND flushed_seq < :seq

-- name: take_user_notice
UPDATE sessions SET notice_user = 0 WHERE pk = :session_pk AND notice_user = 1

-- name: take_agent_notice
UPDATE sessions SET notice_agent = 0 WHERE pk = :session_pk AND notice_agent = 1

-- name: find_titled
SELECT {entry} FROM {entry_tables} WHERE s.title_key = :title_key ORDER BY t.updated_at DESC, s.pk DESC

-- name: any_session_besides
SELECT 1 FROM sessions WHERE session_id <> :besides LIMIT 1

-- The indexes go by listed_at, which is never later than updated_at, and at most {lag} microseconds earlier except for what has moved.
-- The n-th newest by the index bounds the n-th newest for real, so that much more of the index, and all that has moved, holds every
-- row of the page; those are then sorted exactly. (One lower bound in each loop: SQLite enters an index by one of several, not by
-- the best.)
-- fragment: page_tables
{then} session_state t ON t.session_pk = p.session_pk
{then} sessions s ON s.pk = t.session_pk
{then} addresses a ON a.pk = s.address_pk

-- name: list_of_owner
SELECT {entry} FROM (
  SELECT t.session_pk, t.updated_at FROM session_state t {where_list_of_owner}
    AND t.listed_at >= (SELECT MIN(n.listed_at) FROM (SELECT t.listed_at FROM session_state t {where_list_of_owner}
                        AND t.listed_at >= :since - {lag} ORDER BY t.listed_at DESC LIMIT :limit) n) - {lag}
  UNION SELECT t.session_pk, t.updated_at FROM {moved} {where_list_of_owner}
  ORDER BY updated_at DESC, session_pk DESC LIMIT :limit
) p
{page_tables} ORDER BY t.updated_at DESC, t.session_pk DESC

-- fragment: where_list_of_owner
WHERE t.owner = :owner AND t.ended <= :ended AND t.platform = COALESCE(CAST(:platform AS TEXT), t.platform) AND t.listed_at <= :before_at AND (t.updated_at, t.session_pk) < (:before_at, :before_pk)
  AND t.updated_at >= :since AND t.active_at >= :since

-- name: platforms
-- Those that there are sessions of, by a leap each through the index: the cost is that of the platforms, not of the sessions.
WITH RECURSIVE p(platform) AS (
  SELECT MIN(t.platform) FROM session_state t
  UNION ALL
  SELECT (SELECT MIN(t.platform) FROM session_state t WHERE t.platform > p.platform) FROM p WHERE p.platform IS NOT NULL
)
SELECT p.platform FROM p WHERE p.platform IS NOT NULL

-- name: list_of_platform
SELECT {entry} FROM (
  SELECT t.session_pk, t.updated_at FROM session_state t {where_list_of_platform}
    AND t.listed_at >= (SELECT MIN(n.listed_at) FROM (SELECT t.listed_at FROM session_state t {where_list_of_platform}
                        AND t.listed_at >= :since - {lag} ORDER BY t.listed_at DESC LIMIT :limit) n) - {lag}
  UNION SELECT t.session_pk, t.updated_at FROM {moved} {where_list_of_platform}
  ORDER BY updated_at DESC, session_pk DESC LIMIT :limit
) p
{page_tables} ORDER BY t.updated_at DESC, t.session_pk DESC

-- fragment: where_list_of_platform
WHERE t.platform = :platform AND t.ended = :ended AND t.listed_at <= :before_at AND (t.updated_at, t.session_pk) < (:before_at, :before_pk)
  AND t.updated_at >= :since AND t.active_at >= :since

-- name: list_of_cwd
SELECT {entry} FROM (
  SELECT t.session_pk, t.updated_at FROM session_state t {where_list_of_cwd}
    AND t.listed_at >= (SELECT MIN(n.listed_at) FROM (SELECT t.listed_at FROM session_state t {where_list_of_cwd}
                        AND t.listed_at >= :since - {lag} ORDER BY t.listed_at DESC LIMIT :limit) n) - {lag}
  UNION SELECT t.session_pk, t.updated_at FROM {moved} {where_list_of_cwd}
  ORDER BY updated_at DESC, session_pk DESC LIMIT :limit
) p
{page_tables} ORDER BY t.updated_at DESC, t.session_pk DESC

-- fragment: where_list_of_cwd
{where_list_of_platform} AND t.cwd IS NOT NULL AND substr(t.cwd, 1, 200) = substr(CAST(:cwd AS TEXT), 1, 200) AND t.cwd = :cwd

-- name: list_of_chat
SELECT {entry} FROM {entry_tables}
WHERE s.chat = :chat AND (t.owner IS NULL OR t.owner = :owner) AND t.ended <= :ended
  AND (t.updated_at, t.session_pk) < (:before_at, :before_pk)
  AND t.updated_at >= :since AND t.active_at >= :since AND t.platform = COALESCE(CAST(:platform AS TEXT), t.platform)
ORDER BY t.updated_at DESC, t.session_pk DESC LIMIT :limit

-- name: count_sessions
SELECT COUNT(*), CAST(COALESCE(SUM(ended), 0) AS BIGINT) FROM session_state

-- name: find_meta
SELECT value FROM meta WHERE name = :name

-- name: set_meta
INSERT INTO meta (name, value) VALUES (:name, :value) ON CONFLICT (name) DO UPDATE SET value = excluded.value

-- name: find_external
SELECT number FROM platform_messages WHERE session_pk = :session_pk AND external_id = :external_id

-- name: add_external
INSERT INTO platform_messages (session_pk, external_id, number) VALUES (:session_pk, :external_id, :number)
ON CONFLICT (session_pk, external_id) DO UPDATE SET number = excluded.number

-- name: find_address_session
SELECT s.session_id FROM addresses a {then} sessions s ON s.pk = a.session_pk WHERE {called}
