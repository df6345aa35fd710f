"""The same work through other programs that keep conversations, each in an environment of its own."""
