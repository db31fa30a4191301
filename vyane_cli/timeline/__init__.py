"""What happened in a session, as it is kept on disk."""
