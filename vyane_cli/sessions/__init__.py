"""Who is there: workers, host sessions, identity, liveness."""
