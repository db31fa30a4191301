"""Workers that a session started: spawned, waited for, read, cancelled."""
