-- name: find_current_by_alias
-- The session of the conversation that was adopted with this key. Locks the address, as find_current does.
SELECT {entry}
FROM key_aliases k {then} addresses a ON a.pk = k.address_pk {then} sessions s ON s.pk = a.session_pk
{then} session_state t ON t.session_pk = s.pk
WHERE k.key = :key {lock_address}

-- name: add_key_alias
-- The first conversation that is adopted with a key keeps it.
INSERT INTO key_aliases (key, address_pk) VALUES (:key, :address_pk) ON CONFLICT (key) DO NOTHING

-- name: find_adoption
SELECT state FROM adoptions WHERE session_id = :session_id

-- name: set_adoption
INSERT INTO adoptions (session_id, state) VALUES (:session_id, :state)
ON CONFLICT (session_id) DO UPDATE SET state = excluded.state

-- name: settle_adoption
-- A session that is deleted before its old transcript was taken in: that stays where it is.
UPDATE adoptions SET state = 'done' WHERE session_id = :session_id AND state = 'waiting'

-- name: waiting_adoptions
SELECT session_id FROM adoptions WHERE state = 'waiting' AND session_id > :after ORDER BY session_id LIMIT :limit

-- name: rename_deleted_log
-- An id that is used again names the new session from now on.
UPDATE deleted_logs SET session_id = session_id || '~' || CAST(log AS TEXT) WHERE session_id = :session_id

-- name: set_session_fields
UPDATE sessions SET created_at = :created_at, display_name = :display_name, origin = :origin, flushed_seq = :flushed_seq
WHERE pk = :session_pk

-- name: set_state_fields
UPDATE session_state SET updated_at = :updated_at, active_at = :updated_at, listed_at = :updated_at,
  input_tokens = :input_tokens, output_tokens = :output_tokens, cache_read_tokens = :cache_read_tokens,
  cache_write_tokens = :cache_write_tokens, last_prompt_tokens = :last_prompt_tokens, cost_micros = :cost_micros,
  cost_status = :cost_status
WHERE session_pk = :session_pk

-- name: set_session_place
-- The session is held at another address from now on; nobody points at it yet.
UPDATE sessions SET address_pk = :address_pk WHERE pk = :session_pk

-- name: set_state_place
UPDATE session_state SET owner = :owner, platform = :platform WHERE session_pk = :session_pk

-- name: peek_current_by_alias
-- The same as find_current_by_alias without the lock: for those who only want to know.
SELECT {entry}
FROM key_aliases k {then} addresses a ON a.pk = k.address_pk {then} sessions s ON s.pk = a.session_pk
{then} session_state t ON t.session_pk = s.pk
WHERE k.key = :key

-- name: count_shown
SELECT COUNT(*) FROM spans v {then} messages m ON m.number BETWEEN v.lo AND v.hi
WHERE v.session_pk = :session_pk AND v.version = :version AND v.folded = 0
