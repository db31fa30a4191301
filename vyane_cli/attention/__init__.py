"""Attention: the table of need kinds, the open need entries, and notifications to the person."""
