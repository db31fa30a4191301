"""A scenario on a home of its own, with simulated sessions."""
