"""Diagnosis and repair of an installation and its state."""
