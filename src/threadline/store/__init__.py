"""Durable sessions and transcripts, on SQLite and on PostgreSQL."""
