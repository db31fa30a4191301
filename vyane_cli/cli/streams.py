"""Standard streams of a command: always open, in UTF-8, and with failed output reported."""

import io
import os
import sys
from typing import Any

from vyane_cli.errors import InvalidInputError

STDIN_MAX = 16 << 20
"""Most bytes read from standard input: more than any stored text, so endless input ends here."""


class Output(io.FileIO):
    """Standard output that remembers why a write failed; a broken pipe does not count."""

    refused = ""

    def write(self, data: Any, /) -> int:
        """Write the data as a file does, and remember the reason of a failure."""
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            self.refused = (error.strerror or str(error)).lower()
            raise


def prepare() -> None:
    """Replace the streams that the caller closed, and set UTF-8 in every locale.

    The number of a closed stream (`vyane … >&-`) would go to the next file that is opened, perhaps
    a state file. A descriptor that can be read but not written takes this number: the output of a
    `tick` then fails, and its messages do not count as delivered.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDONLY)  # gets the lowest free number, which is the stream's
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
        del os.environ["COLUMNS"]  # a terminal of unknown width sets it to 0


def read(field: str) -> str:
    """Return all of standard input, for an option or argument whose value is `-`.

    Raises InvalidInputError for input that cannot be read or is longer than STDIN_MAX.
    """
    try:
        data = sys.stdin.buffer.read(STDIN_MAX + 1)
    except (OSError, ValueError) as error:  # standard input is a folder, or only for writing
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInputError(field, "-", f"readable: {reason.lower()}") from None
    if len(data) > STDIN_MAX:
        raise InvalidInputError(field, "-", f"at most {STDIN_MAX >> 20} MiB")
    return data.decode("utf-8", "replace")


def finish() -> str:
    """Flush the output. Return why some of it could not be written, or an empty text."""
    try:
        sys.stdout.flush()
    except OSError:
        discard(1)
    return refused()


def discard(number: int) -> None:
    """Send the rest of a stream's output to /dev/null, because the interpreter flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), number)


def refused() -> str:
    """Return why a write to standard output failed, or an empty text."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw.refused if isinstance(raw, Output) else ""
