"""Upkeep: expire, archive, retire and delete state, close ended needs, run rounds."""
