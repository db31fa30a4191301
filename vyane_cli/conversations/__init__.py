"""Bindings between sessions and channels, and the mirror over them."""
