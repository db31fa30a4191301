"""vyane: coding-agent sessions on one machine work together through plain files."""

__version__ = "0.1.0"
