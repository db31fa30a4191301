"""Results as people and as programs read them."""
