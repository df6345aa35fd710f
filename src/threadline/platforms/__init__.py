"""Chat platforms: the registry that creates them, the text functions that they share, and the built-in ones."""
