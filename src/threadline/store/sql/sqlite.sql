-- One writer at a time: there is nothing to lock.
-- fragment: lock_address
-- fragment: lock_state
-- fragment: lock_row
-- fragment: stale
0

-- One machine, one clock: the caller's.
-- fragment: now
:at

-- How far, in microseconds, a session's place in the indexes of listings may lag behind updated_at and nobody takes note of it. Part
-- of what is stored: a trigger notes what lags further.
-- fragment: lag
50000

-- To move it changes up to two pages of every index: triggers note what has moved, and it is brought level behind the writes.
-- fragment: listed
-- fragment: moved
moved v CROSS JOIN session_state t ON t.session_pk = v.session_pk

-- Turns that run. Those that run or ask have an index; one more, of those that run alone, would be two pages more in each turn.
-- fragment: running
state IN ('running', 'asking') AND state = 'running'

-- Nobody else writes meanwhile: what is seen here holds.
-- fragment: at_rest
CASE WHEN NOT EXISTS (SELECT 1 FROM inbox w WHERE w.session_pk = s.pk AND w.fate IS NULL AND w.turn_pk IS NULL AND w.lane <> 'control')
  AND NOT EXISTS (SELECT 1 FROM turns u WHERE u.session_pk = s.pk AND u.state IN ('running', 'asking'))
  AND NOT EXISTS (SELECT 1 FROM turns u WHERE u.session_pk = s.pk AND u.state = 'waiting') THEN s.pk END

-- fragment: has_journal
EXISTS (SELECT 1 FROM journal j WHERE j.turn_pk = :key)

-- SQLite takes CROSS JOIN as an order: the planner keeps the loops as they are written, whatever its statistics say.
-- fragment: then
CROSS JOIN

-- SQLite has no convert_to, and joins in the order in which it reads, which is that of the numbers: to sort again takes ten times as long.
-- name: joined_between
SELECT COUNT(*), CAST(string_agg({replayed_line}, :separator) AS BLOB) FROM messages m WHERE m.number BETWEEN :lo AND :hi

-- The outer loops follow the inner query's order, ties included: a page goes on exactly where the one before it ended.
-- name: search_ranked
SELECT d.number, c.score, 1, {hit}
FROM (SELECT rowid AS doc, rank AS score FROM words WHERE words MATCH :match ORDER BY rank LIMIT :window OFFSET :offset) c
CROSS JOIN documents d ON d.doc = c.doc CROSS JOIN {hit_tables}

-- name: search_newest
SELECT d.number, c.score, 1, {hit}
FROM (SELECT rowid AS doc, 0.0 AS score FROM words WHERE words MATCH :match ORDER BY rowid DESC LIMIT :window OFFSET :offset) c
CROSS JOIN documents d ON d.doc = c.doc CROSS JOIN {hit_tables}

-- bm25 would read all that is indexed of each word; where few match, our own function looks at those alone.
-- name: search_close
SELECT d.number, c.score, 1, {hit}
FROM (SELECT rowid AS doc, match_rank(words) AS score FROM words WHERE words MATCH :match ORDER BY score, rowid DESC LIMIT :window OFFSET :offset) c
CROSS JOIN documents d ON d.doc = c.doc CROSS JOIN {hit_tables}

-- name: count_matches
SELECT COUNT(*) FROM (SELECT 1 FROM words WHERE words MATCH :match LIMIT :limit)

-- name: add_document
INSERT INTO documents (number) VALUES (:number) RETURNING doc

-- name: add_words
INSERT INTO words (rowid, body, scope) VALUES (:doc, :body, :scope)

-- name: drop_words
DELETE FROM words WHERE rowid = (SELECT doc FROM documents WHERE number = :number)

-- name: drop_documents
DELETE FROM documents WHERE number = :number

-- name: stray_documents
-- Documents whose message is gone or redacted.
SELECT d.number FROM documents d LEFT JOIN messages m ON m.number = d.number
WHERE m.number IS NULL OR m.redacted_at IS NOT NULL LIMIT :limit

-- name: indexed_part
-- A stretch of messages with what the index says of each: how many tokens it holds, or NULL.
SELECT m.number, m.redacted_at, m.body, m.number & 16777215 <= t.indexed_seq, d.doc,
  (SELECT sz FROM words_docsize WHERE id = d.doc)
FROM messages m LEFT JOIN documents d ON d.number = m.number LEFT JOIN session_state t ON t.session_pk = m.number >> 24
WHERE m.number BETWEEN :lo AND {stretch_end} ORDER BY m.number

