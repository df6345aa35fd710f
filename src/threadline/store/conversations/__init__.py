"""Operations on conversations: sessions, transcripts, search, files."""
