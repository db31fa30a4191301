"""A stand-in for the part of Discord's REST API that the channel adapter uses."""

from .clock import snowflake_at
from .contract import Contract
from .oracles import fence_problems, lines_as_read, repeated
from .server import MockDiscord

__all__ = ["Contract", "MockDiscord", "fence_problems", "lines_as_read", "repeated", "snowflake_at"]
