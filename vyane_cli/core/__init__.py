"""Rules, states and plans as values: no I/O, no clock, no randomness, no environment."""
