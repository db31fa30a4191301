"""Bindings between sessions and channels, and the mirror that shows sessions in them."""
