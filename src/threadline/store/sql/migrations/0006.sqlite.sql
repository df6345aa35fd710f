-- Where a row is the message itself, it keeps which command it answers: the transcript has neither.
ALTER TABLE deliveries ADD COLUMN asked TEXT NOT NULL DEFAULT '';   -- in the sender's words; it goes with the text
