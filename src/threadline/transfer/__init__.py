"""Readers of the formats that other programs keep their conversations in, and the writers of exports."""
