-- One proof of every lease: a fence that grows with each claim and never shrinks, as turns have it. Attempts, which are set back, proved
-- it before: a program that claims without raising the fence must not use this schema.
ALTER TABLE deliveries ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
ALTER TABLE flushes ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
ALTER TABLE named_leases ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;

-- A program of an earlier schema that is connected already claims without raising the fence: it must fail.
CREATE FUNCTION refuse_unfenced_claim() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'this database has a newer schema: restart Threadline';
END $$;
CREATE TRIGGER deliveries_fenced BEFORE UPDATE OF owner ON deliveries FOR EACH ROW
  WHEN (NEW.owner IS NOT NULL AND NEW.owner IS DISTINCT FROM OLD.owner AND NEW.fence = OLD.fence) EXECUTE FUNCTION refuse_unfenced_claim();
CREATE TRIGGER flushes_fenced BEFORE UPDATE OF owner ON flushes FOR EACH ROW
  WHEN (NEW.owner IS NOT NULL AND NEW.owner IS DISTINCT FROM OLD.owner AND NEW.fence = OLD.fence) EXECUTE FUNCTION refuse_unfenced_claim();
CREATE TRIGGER named_leases_fenced BEFORE UPDATE OF owner ON named_leases FOR EACH ROW
  WHEN (NEW.owner <> '' AND NEW.owner <> OLD.owner AND NEW.fence = OLD.fence) EXECUTE FUNCTION refuse_unfenced_claim();
