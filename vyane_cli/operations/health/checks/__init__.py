"""What `vyane doctor` looks at, by subject. Nothing here writes, and no lock is waited for."""
