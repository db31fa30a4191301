"""Bytes on disk: files, journals, documents, locks. It knows no nouns of the field."""
