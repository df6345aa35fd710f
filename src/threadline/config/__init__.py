"""Settings: declared once, read in one place, with defaults that work without any."""
