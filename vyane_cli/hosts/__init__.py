"""Hosts: adapters to the programs that run agents. One port, and one module for each host."""
