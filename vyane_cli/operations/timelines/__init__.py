"""What happened: read, followed, exported, verified, written by other producers."""
