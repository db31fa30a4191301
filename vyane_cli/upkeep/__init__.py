"""Garbage collection: expire, archive, retire, delete."""
