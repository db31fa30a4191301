"""The three streams of a command: there, in UTF-8, and never lost without a word."""

import io
import os
import sys
from typing import Any

from vyane_cli.errors import InvalidInputError

STDIN_MAX = 16 << 20
"""More than anything that is kept: what never ends must not fill the memory."""


class Output(io.FileIO):
    """Standard output that remembers why it took no more. A reader that has gone is no reason."""

    refused = ""

    def write(self, data: Any, /) -> int:
        """As a file does."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            self.refused = (error.strerror or str(error)).lower()
            raise


def prepare() -> None:
    """Stand in for streams that the caller closed; UTF-8 whatever the locale.

    A closed one (`vyane … >&-`) would give its number to the next file that is opened, which may
    be one of the state. Its place is taken by something that can be read and not written: a `tick`
    whose output goes nowhere has not delivered.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDONLY)  # gets the lowest number that is free: the stream's
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_RDWR), mode))
        elif name == "stdout" and isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout = io.TextIOWrapper(
                io.BufferedWriter(Output(1, "wb", closefd=False)),
                line_buffering=sys.stdout.line_buffering,
            )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")
    if not os.environ.get("COLUMNS", "1").strip("0"):
        del os.environ["COLUMNS"]  # a terminal that does not know its width says 0


def read(field: str) -> str:
    """All of standard input, for an option or argument that says `-`."""
    try:
        data = sys.stdin.buffer.read(STDIN_MAX + 1)
    except (OSError, ValueError) as error:  # a folder, or a stream to write to
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(field, "-", f"readable: {reason.lower()}") from None
    if len(data) > STDIN_MAX:
        raise InvalidInputError(field, "-", f"at most {STDIN_MAX >> 20} MiB")
    return data.decode("utf-8", "replace")


def finish() -> str:
    """Write what is left of the output; why some of it could not be written, or nothing."""
    try:
        sys.stdout.flush()
    except OSError:
        discard(1)
    return refused()


def discard(number: int) -> None:
    """What is still to be written to a stream goes nowhere: the interpreter tries at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def refused() -> str:
    """Why standard output took no more, or nothing."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.refused if isinstance(raw, Output) else ""
