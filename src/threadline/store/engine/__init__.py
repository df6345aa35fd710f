"""The engines: what a database promises, and SQLite and PostgreSQL, which keep the promise."""
