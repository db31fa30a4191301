"""Rendering of results: for people and for programs."""
