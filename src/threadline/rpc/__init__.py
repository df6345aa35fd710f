"""JSON-RPC over lines: one message a line, requests and notifications in both directions."""
