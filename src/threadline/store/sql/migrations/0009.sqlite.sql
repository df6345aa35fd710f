-- One proof of every lease: a fence that grows with each claim and never shrinks, as turns have it. Attempts, which are set back, proved
-- it before: a program that claims without raising the fence must not use this schema.
ALTER TABLE deliveries ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE flushes ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE named_leases ADD COLUMN fence INTEGER NOT NULL DEFAULT 0;

-- A program of an earlier schema that has the file open already claims without raising the fence: it must fail.
CREATE TRIGGER deliveries_fenced BEFORE UPDATE OF owner ON deliveries
WHEN NEW.owner IS NOT NULL AND NEW.owner IS NOT OLD.owner AND NEW.fence = OLD.fence
BEGIN
  SELECT RAISE(ABORT, 'this database has a newer schema: restart Threadline');
END;
CREATE TRIGGER flushes_fenced BEFORE UPDATE OF owner ON flushes
WHEN NEW.owner IS NOT NULL AND NEW.owner IS NOT OLD.owner AND NEW.fence = OLD.fence
BEGIN
  SELECT RAISE(ABORT, 'this database has a newer schema: restart Threadline');
END;
CREATE TRIGGER named_leases_fenced BEFORE UPDATE OF owner ON named_leases
WHEN NEW.owner <> '' AND NEW.owner <> OLD.owner AND NEW.fence = OLD.fence
BEGIN
  SELECT RAISE(ABORT, 'this database has a newer schema: restart Threadline');
END;
