-- A death of a gateway is known by the turns that it left behind. Those are suspects, and run again after a back-off.
ALTER TABLE turns ADD COLUMN deaths INTEGER NOT NULL DEFAULT 0;   -- that it is suspected of
ALTER TABLE turns ADD COLUMN died_at INTEGER NOT NULL DEFAULT 0;   -- when it was found left behind
