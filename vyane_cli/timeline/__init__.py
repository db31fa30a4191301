"""Timelines: the events of a session, as stored on disk."""
