"""Readers of the formats that other programs keep their conversations in."""
