"""Contenders together: started first, released at the same moment, their results collected."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from benchmarks.machine import REPOSITORY


def contend(commands: Sequence[Sequence[str]]) -> tuple[list[Any], float]:
    """Run contenders at once. Return their results, and the seconds from release to last end."""
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "benchmarks.contender", *words],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for words in commands
    ]
    try:
        for process in running:
            assert process.stdout is not None
            if process.stdout.readline() != b"ready\n":
                raise RuntimeError("a contender did not start")
        began = time.monotonic()
        for process in running:
            assert process.stdin is not None
            process.stdin.close()
        results = []
        for process in running:
            assert process.stdout is not None
            results.append(json.loads(process.stdout.read()))
            process.wait()
        return results, time.monotonic() - began
    finally:
        for process in running:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
