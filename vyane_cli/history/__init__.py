"""What commands and producers do with a timeline."""
