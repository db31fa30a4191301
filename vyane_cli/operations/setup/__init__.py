"""A state folder made, set up, and removed."""
