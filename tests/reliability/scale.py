"""How much of everything: `RELIABILITY=quick` (each change) or `full` (before a release)."""

import os
import random

FULL = os.environ.get("RELIABILITY") == "full"
SEED = int(os.environ.get("RELIABILITY_SEED", "20260601"))


def size(quick: int, full: int) -> int:
    """A number of rounds."""
    return full if FULL else quick


def dice(name: str) -> random.Random:
    """Random numbers that are the same in every run with the same `RELIABILITY_SEED`."""
    return random.Random(f"{SEED} {name}")
