-- fragment: lock_address
FOR NO KEY UPDATE OF a

-- fragment: lock_state
FOR NO KEY UPDATE OF t

-- What waits for a lock sees the locked row as it is then, and all else as it was when the statement began: told by the state
-- itself, looked at both ways. Asking twice only then saves every other turn a round trip.
-- fragment: stale
t.ctid <> (SELECT u.ctid FROM session_state u WHERE u.session_pk = t.session_pk)

-- fragment: lock_row
FOR UPDATE SKIP LOCKED

-- Leases are judged by the one clock that all gateways share: the database's. The caller's counts for nothing, and is named only
-- so that both engines take the same values.
-- fragment: now
(CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) + 0 * CAST(:at AS BIGINT))

-- Every move of listed_at leaves a dead row in each index until a vacuum: here it pays to wait longer.
-- fragment: lag
10000000

-- fragment: listed
, listed_at = CASE WHEN listed_at BETWEEN CAST(:at AS BIGINT) - {lag} AND :at THEN listed_at ELSE :at END

-- Every write brings its session's place level: none is left to be moved.
-- fragment: moved
(SELECT * FROM session_state WHERE FALSE) t

-- fragment: running
state = 'running'

-- Nobody knows before the session is held: whoever had it just now may have left something there.
-- fragment: at_rest
CAST(NULL AS BIGINT)

-- One that is being written while the turn ends is not seen by the statement that ends it, and must go too.
-- fragment: has_journal
TRUE

-- PostgreSQL chooses the order itself, from its statistics.
-- fragment: then
JOIN

-- A round trip costs more than a commit: what SQLite does row by row is one statement over arrays here.
-- name: lock_append_targets
SELECT s.session_id, s.pk, t.last_seq, t.indexed_seq, t.owner, m.append_key, m.number, m.key_digest
FROM unnest(CAST(:append_key AS text[]), CAST(:session_id AS text[])) AS j(append_key, session_id)
JOIN sessions s ON s.session_id = j.session_id JOIN session_state t ON t.session_pk = s.pk
LEFT JOIN messages m ON m.number >> 24 = s.pk AND m.append_key = j.append_key AND m.key_digest IS NOT NULL
ORDER BY s.pk FOR NO KEY UPDATE OF t

-- name: fingerprints
SELECT a.digest, s.pk, s.view_version, t.last_seq, t.updated_at, u.pk, u.fence, u.state,
  (SELECT MAX(n.place) FROM journal n WHERE n.turn_pk = u.pk),
  (SELECT COUNT(*) FROM inbox i WHERE i.session_pk = s.pk AND i.fate IS NULL AND i.turn_pk IS NULL AND i.lane <> 'control'),
  (SELECT MAX(d.pk) FROM deliveries d WHERE d.lane = j.lane AND d.kind <> 'reply' AND d.text <> '')
FROM unnest(CAST(:lane AS text[]), CAST(:digest AS bytea[])) AS j(lane, digest)
JOIN addresses a ON a.digest = j.digest
JOIN sessions s ON s.pk = a.session_pk
JOIN session_state t ON t.session_pk = s.pk
LEFT JOIN turns u ON u.session_pk = s.pk AND u.state IN ('running', 'asking')

-- name: first_words
SELECT j.session_id, w.words FROM unnest(CAST(:session_id AS text[])) AS j(session_id)
JOIN LATERAL (
  SELECT SUBSTR(m.body, 1, 800) AS words
  FROM sessions s
  JOIN spans v ON v.session_pk = s.pk AND v.version = s.view_version AND v.folded = 0
  JOIN messages m ON m.number BETWEEN v.lo AND v.hi
  WHERE s.session_id = j.session_id AND m.role = 'user'
  ORDER BY v.place, m.number LIMIT 1
) w ON TRUE

-- name: history_lengths
SELECT s.session_id, CAST(SUM({span_length}) AS BIGINT)
FROM unnest(CAST(:session_id AS text[])) AS j(session_id)
JOIN sessions s ON s.session_id = j.session_id JOIN session_state t ON t.session_pk = s.pk
JOIN spans v ON v.session_pk = s.pk AND v.version = s.view_version
GROUP BY s.session_id

-- name: work_at_hand
SELECT s.session_id,
  (SELECT SUBSTR(i.event, 1, 2000) FROM inbox i WHERE i.turn_pk = u.pk AND i.fate IS NULL ORDER BY i.pk LIMIT 1),
  (SELECT SUBSTR(i.event, 1, 2000) FROM inbox i
   WHERE i.session_pk = s.pk AND i.fate IS NULL AND i.turn_pk IS NULL AND i.lane <> 'control' ORDER BY i.pk LIMIT 1)
FROM unnest(CAST(:session_id AS text[])) AS j(session_id)
JOIN sessions s ON s.session_id = j.session_id
LEFT JOIN turns u ON u.session_pk = s.pk AND u.state IN ('running', 'asking')
WHERE u.pk IS NOT NULL OR EXISTS (SELECT 1 FROM ready r WHERE r.session_pk = s.pk)

-- name: add_messages
INSERT INTO messages (number, role, at, author, append_key, key_digest, body)
SELECT * FROM unnest(CAST(:number AS bigint[]), CAST(:role AS text[]), CAST(:at AS bigint[]), CAST(:author AS text[]),
  CAST(:append_key AS text[]), CAST(:key_digest AS bytea[]), CAST(:body AS text[]))

-- name: advance_states
UPDATE session_state t SET last_seq = j.last_seq, message_count = t.message_count + j.added, had_activity = t.had_activity | j.active,
  updated_at = j.at, active_at = CASE WHEN j.active = 1 THEN j.at ELSE t.active_at END,
  listed_at = CASE WHEN t.listed_at BETWEEN j.at - {lag} AND j.at THEN t.listed_at ELSE j.at END
FROM unnest(CAST(:last_seq AS bigint[]), CAST(:added AS bigint[]), CAST(:active AS bigint[]), CAST(:at AS bigint[]), CAST(:session_pk AS bigint[]))
  AS j(last_seq, added, active, at, session_pk)
WHERE t.session_pk = j.session_pk

-- name: mark_unindexed
INSERT INTO unindexed (session_pk) SELECT * FROM unnest(CAST(:session_pk AS bigint[])) ON CONFLICT (session_pk) DO NOTHING

-- name: add_externals
INSERT INTO platform_messages (session_pk, external_id, number)
SELECT * FROM unnest(CAST(:session_pk AS bigint[]), CAST(:external_id AS text[]), CAST(:number AS bigint[]))
ON CONFLICT (session_pk, external_id) DO UPDATE SET number = excluded.number

-- name: add_spans
INSERT INTO spans (session_pk, version, folded, place, lo, hi)
SELECT * FROM unnest(CAST(:session_pk AS bigint[]), CAST(:version AS bigint[]), CAST(:folded AS bigint[]), CAST(:place AS bigint[]),
  CAST(:lo AS bigint[]), CAST(:hi AS bigint[]))

-- name: drop_messages
DELETE FROM messages WHERE number = ANY(CAST(:number AS bigint[]))

-- name: drop_documents
DELETE FROM documents WHERE number = ANY(CAST(:number AS bigint[])) AND (part = 0 OR part > 0)

-- name: add_documents
INSERT INTO documents (number, part, words)
SELECT j.number, j.part, CAST(j.words AS tsvector)
FROM unnest(CAST(:number AS bigint[]), CAST(:part AS bigint[]), CAST(:words AS text[])) AS j(number, part, words)

-- The limit stands inside each span too: PostgreSQL would sort a whole span before it cuts.
-- name: load_bodies
SELECT m.body
FROM sessions s
JOIN spans v ON v.session_pk = s.pk AND v.version = s.view_version AND v.folded = 0
CROSS JOIN LATERAL (SELECT number, body FROM messages WHERE number BETWEEN v.lo AND v.hi ORDER BY number DESC LIMIT :limit) m
WHERE s.session_id = :session_id
ORDER BY v.place DESC, m.number DESC
LIMIT :limit

-- name: load_view
SELECT v.place, m.number, m.role, m.at, m.author, m.redacted_at, m.body
FROM spans v CROSS JOIN LATERAL (
  SELECT * FROM messages WHERE number BETWEEN v.lo AND v.hi AND (v.place, number) < (:before_place, :before_number)
  ORDER BY number DESC LIMIT :limit) m
WHERE v.session_pk = :session_pk AND v.version = :version AND v.folded = 0 AND v.place <= :before_place
ORDER BY v.place DESC, m.number DESC
LIMIT :limit

-- name: load_view_onward
SELECT v.place, m.number, m.role, m.at, m.author, m.redacted_at, m.body
FROM spans v CROSS JOIN LATERAL (
  SELECT * FROM messages
  WHERE number BETWEEN CASE WHEN v.place = :after_place THEN :after_number + 1 ELSE v.lo END AND v.hi
  ORDER BY number LIMIT :limit) m
WHERE v.session_pk = :session_pk AND v.version = :version AND v.folded = 0 AND v.place >= :after_place
ORDER BY v.place, m.number
LIMIT :limit

-- name: load_roles
SELECT v.place, m.number, m.role
FROM spans v CROSS JOIN LATERAL (
  SELECT number, role FROM messages WHERE number BETWEEN v.lo AND v.hi AND (v.place, number) < (:before_place, :before_number)
  ORDER BY number DESC LIMIT :limit) m
WHERE v.session_pk = :session_pk AND v.version = :version AND v.folded = 0 AND v.place <= :before_place
ORDER BY v.place DESC, m.number DESC
LIMIT :limit

-- A long message has several rows; the first that matches speaks for it. Asked in two halves, as the index is.
-- fragment: first_match
(d.part = 0 OR NOT EXISTS (SELECT 1 FROM documents e WHERE e.number = d.number AND e.words @@ CAST(:match AS tsquery)
                           AND (e.part = 0 OR e.part > 0 AND e.part < d.part)))

-- By how often the words stand there, against how many words there are: that number is at hand, the length would be counted.
-- fragment: rank
ts_rank(words, CAST(:match AS tsquery), 16)

-- name: search_ranked
SELECT d.number, d.score, {first_match}, {hit}
FROM (SELECT number, part, doc, -{rank} AS score FROM documents
      WHERE words @@ CAST(:match AS tsquery) ORDER BY score, doc DESC LIMIT :window OFFSET :offset) d
JOIN {hit_tables}
ORDER BY d.score, d.doc DESC

-- name: search_newest
SELECT d.number, d.score, {first_match}, {hit}
FROM (SELECT number, part, doc, CAST(0 AS float8) AS score FROM documents
      WHERE words @@ CAST(:match AS tsquery) ORDER BY doc DESC LIMIT :window OFFSET :offset) d
JOIN {hit_tables}
ORDER BY d.score, d.doc DESC

-- ts_rank looks at the matching rows alone anyway.
-- name: search_close
SELECT d.number, d.score, {first_match}, {hit}
FROM (SELECT number, part, doc, -{rank} AS score FROM documents
      WHERE words @@ CAST(:match AS tsquery) ORDER BY score, doc DESC LIMIT :window OFFSET :offset) d
JOIN {hit_tables}
ORDER BY d.score, d.doc DESC

-- name: count_matches
SELECT COUNT(*) FROM (SELECT 1 FROM documents WHERE words @@ CAST(:match AS tsquery) LIMIT :limit) x

-- name: find_views
SELECT s.pk, v.folded, v.lo, v.hi FROM sessions s JOIN spans v ON v.session_pk = s.pk AND v.version = s.view_version
WHERE s.pk = ANY(CAST(:session_pk AS bigint[])) ORDER BY s.pk, v.folded, v.place

-- name: find_messages
SELECT number, role, at, author, redacted_at, body FROM messages WHERE number = ANY(CAST(:number AS bigint[]))

-- name: stray_documents
SELECT DISTINCT d.number FROM documents d LEFT JOIN messages m ON m.number = d.number
WHERE m.number IS NULL OR m.redacted_at IS NOT NULL LIMIT :limit

-- name: indexed_part
SELECT m.number, m.redacted_at, m.body, m.number & 16777215 <= t.indexed_seq, d.doc, CAST(d.words AS text)
FROM messages m LEFT JOIN documents d ON d.number = m.number AND d.part = 0 LEFT JOIN session_state t ON t.session_pk = m.number >> 24
WHERE m.number BETWEEN :lo AND {stretch_end} ORDER BY m.number
