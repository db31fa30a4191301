"""The host lab: the real client against a scripted model, on loopback only."""
