"""The Discord channel, over its REST API."""
