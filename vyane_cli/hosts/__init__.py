"""One module per host: what it says to a hook, and what it understands in return."""
