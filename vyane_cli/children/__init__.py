"""Child sessions: spawn, launch, result, cancel, topology."""
