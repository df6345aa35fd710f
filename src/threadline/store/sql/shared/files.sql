-- name: has_file
SELECT 1 FROM files WHERE digest = :digest {lock_row}

-- name: add_file
INSERT INTO files (digest, size, body) VALUES (:digest, :size, :body) ON CONFLICT (digest) DO NOTHING

-- name: name_file
INSERT INTO file_senders (person, digest, name, mime, at) VALUES (:person, :digest, :name, :mime, :at)
ON CONFLICT (person, digest) DO UPDATE SET name = excluded.name, mime = excluded.mime, at = excluded.at

-- name: hold_turn
-- An update that changes nothing, because it waits for the row: who is erased meanwhile is erased after this, file and all.
UPDATE turns SET fence = fence WHERE pk = :key AND fence = :fence AND state = 'running' RETURNING origin

-- name: find_file_of
SELECT s.name, s.mime, f.size FROM file_senders s {then} files f ON f.digest = s.digest
WHERE s.person = :person AND s.digest = :digest

-- name: file_body
SELECT body FROM files WHERE digest = :digest

-- name: use_file
INSERT INTO file_uses (number, digest) VALUES (:number, :digest) ON CONFLICT (number, digest) DO NOTHING

-- name: files_used_between
SELECT DISTINCT digest FROM file_uses WHERE number BETWEEN :lo AND :hi

-- name: drop_file_uses
DELETE FROM file_uses WHERE number BETWEEN :lo AND :hi

-- name: drop_unused_names
-- No message shows it: whoever sent it took it back.
DELETE FROM file_senders WHERE digest = :digest AND NOT EXISTS (SELECT 1 FROM file_uses u WHERE u.digest = file_senders.digest)

-- name: drop_unused_file
-- Nobody's any more.
DELETE FROM files WHERE digest = :digest AND NOT EXISTS (SELECT 1 FROM file_senders s WHERE s.digest = files.digest)

-- name: unused_files
-- Those that never came with a message, the oldest first.
SELECT s.digest FROM file_senders s
WHERE s.at < :before AND NOT EXISTS (SELECT 1 FROM file_uses u WHERE u.digest = s.digest)
ORDER BY s.at LIMIT :limit

-- name: files_of_person
SELECT s.digest, s.name, s.mime, s.at, f.size FROM file_senders s {then} files f ON f.digest = s.digest
WHERE s.person = :person AND s.digest > :after ORDER BY s.digest LIMIT :limit

-- name: drop_file_names_of
DELETE FROM file_senders WHERE person = :person
