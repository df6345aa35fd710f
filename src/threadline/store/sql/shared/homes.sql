-- name: list_homes
SELECT platform, account, chat_id, chat_type, thread_id, name, person FROM homes ORDER BY platform, account

-- name: keep_home
-- One for each account: a later one takes the place of the earlier.
INSERT INTO homes (platform, account, chat_id, chat_type, thread_id, name, person)
VALUES (:platform, :account, :chat_id, :chat_type, :thread_id, :name, :person)
ON CONFLICT (platform, account) DO UPDATE SET chat_id = excluded.chat_id, chat_type = excluded.chat_type,
  thread_id = excluded.thread_id, name = excluded.name, person = excluded.person

-- name: drop_home
DELETE FROM homes WHERE platform = :platform AND account = :account

-- name: homes_of_person
SELECT platform, account, chat_id, thread_id FROM homes WHERE person = :person ORDER BY platform, account

-- name: drop_homes_of
DELETE FROM homes WHERE person = :person
