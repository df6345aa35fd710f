"""Platforms: the registry that makes them, what they share about text, and those that come with Threadline."""
