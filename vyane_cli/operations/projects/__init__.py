"""Ledger, graph, goal, and the rounds that keep a project moving."""
