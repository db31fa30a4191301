"""Child sessions: spawn, launch, report, result, cancel, and the marks of stale workers."""
