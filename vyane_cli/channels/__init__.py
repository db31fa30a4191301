"""Adapters of channels: conversation ↔ messages and events. A module is the adapter."""
