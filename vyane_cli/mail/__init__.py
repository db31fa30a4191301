"""Messages: addresses, inboxes, sending, looking up, archiving."""
