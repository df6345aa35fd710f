-- One proof of every lease: a fence that grows with each claim and never shrinks, as turns have it. Attempts, which are set back, proved
-- it before: a program that claims without raising the fence must not use this schema.
ALTER TABLE deliveries ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
ALTER TABLE flushes ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
ALTER TABLE named_leases ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
