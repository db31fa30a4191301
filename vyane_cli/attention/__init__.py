"""What a person is needed for: the table of kinds, the open entries, the notifications."""
