"""Operations on what is queued: messages that came in, turns, deliveries, expiry."""
