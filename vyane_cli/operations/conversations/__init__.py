"""Where people follow a session: bindings, the router's readings, the mirror both ways."""
