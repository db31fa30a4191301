"""Adapters to the programs that run agents; the port, and one module for each host."""
