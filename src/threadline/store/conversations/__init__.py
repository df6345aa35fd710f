"""Operations on what is said: sessions, transcripts, search, files."""
