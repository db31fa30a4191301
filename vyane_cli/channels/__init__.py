"""Adapters of channels: conversation ↔ messages and events. A module is the adapter."""

from collections.abc import Mapping

from vyane_cli.channels import file
from vyane_cli.core.conversations import Adapter

ADAPTERS: Mapping[str, Adapter] = {adapter.NAME: adapter for adapter in (file,)}
"""Every channel by its name. Importing one loads nothing that only a request needs."""
