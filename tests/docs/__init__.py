"""Helpers of tests/test_docs.py: read pages, run their commands, make their tables."""
