"""Bytes on disk: files, journals, documents, locks. No knowledge of messages or sessions."""
