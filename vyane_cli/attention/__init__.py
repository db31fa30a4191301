"""Calls to the person: the table of kinds, the open entries, the notifications."""
