"""The gateway: every message to one turn, every turn to one reply."""
