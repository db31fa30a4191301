"""Messages: addresses, inboxes, sending, look-up, undelivered mail, archive."""
