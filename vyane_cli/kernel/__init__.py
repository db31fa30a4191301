"""Values and rules that every room uses. Pure, and imports no other room."""
