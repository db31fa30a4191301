"""One module per verb: load, decide, commit."""
