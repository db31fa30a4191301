"""What is wrong with an installation or its state, and what may be mended without asking."""
