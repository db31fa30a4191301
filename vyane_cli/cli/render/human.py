"""Results for people: printed with Rich on a terminal, and as plain text elsewhere.

Rich is imported on first use: a sentence that goes to a pipe or a file does not need it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property

from vyane_cli.kernel.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

STYLES = {
    "busy": "yellow", "idle": "green", "exited": "dim", "unknown": "magenta",
    "pending": "yellow", "delivered": "cyan", "consumed": "green", "expired": "dim",
    "failed": "red", "control": "bold red", "direct": "cyan", "normal": "", "quiet": "dim",
    "ok": "green", "FAIL": "bold red", "success": "green", "error": "red", "cancelled": "yellow",
    "interrupted": "yellow", "RUNNING": "yellow", "IDLE": "green", "RELEASED": "dim",
    "FAILED": "red", "COMPLETED": "green", "KILLED": "red", "STALE": "magenta",
}  # fmt: skip
"""The style of a cell that consists of this word."""

PLAIN_WIDTH = 240
TYPED_MAX = 26
"""The length of a message's id, in characters; a longer cell is a text and may be wrapped."""


def safe(text: object) -> str:
    """Return foreign text on one line, with escape sequences and line ends made visible."""
    return neutralise(str(text)).replace("\n", "⏎ ").replace("\t", " ")


class Screen:
    """Standard output for a person."""

    def __init__(self) -> None:
        self.terminal = sys.stdout.isatty()
        self.plain = not (self.terminal or os.environ.get("FORCE_COLOR"))

    @cached_property
    def console(self) -> Console:
        """Return the console that Rich prints on."""
        from rich.console import Console

        return Console(
            highlight=False,
            emoji=False,
            markup=False,
            soft_wrap=not self.terminal,
            width=None if self.terminal else PLAIN_WIDTH,
            no_color=bool(os.environ.get("NO_COLOR")) or None,
        )

    def say(self, text: str, style: str = "") -> None:
        """Print vyane's own text; a terminal wraps its lines between words."""
        self._print(text, style, wrap=self.terminal)

    def body(self, text: str) -> None:
        """Print foreign text, neutralised, with its lines kept."""
        self._print(neutralise(text), "", wrap=False)

    def _print(self, text: str, style: str, *, wrap: bool) -> None:
        if self.plain:
            print(text)
            return
        from rich.text import Text

        self.console.print(Text(text, style=style), soft_wrap=not wrap)

    def line(self, text: str, word: str = "") -> None:
        """Print a line of vyane's own text in the style of a word."""
        self.say(text, STYLES.get(word, word))

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], object]]:
        """Show a progress bar on a terminal. Yield the function that updates it: (done, all)."""
        if not self.terminal:
            yield lambda done, whole: None
            return
        from rich.progress import Progress

        with Progress(console=self.console, transient=True) as bar:
            task = bar.add_task(what, total=None)
            yield lambda done, whole: bar.update(task, completed=done, total=whole)

    def heading(self, text: str) -> None:
        """Print a heading."""
        self.say(text, "bold")

    @property
    def narrow(self) -> bool:
        """Return whether this is a terminal of less than 100 columns."""
        return self.terminal and self.console.width < 100

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Print a table without lines; a cell whose word has a style gets this style.

        When a table is too wide for the terminal, long texts and the last column are wrapped, so
        that a value that people type, such as an id, stays whole.
        """
        from rich.table import Table

        table = Table(box=None, pad_edge=False, header_style="bold", show_header=bool(columns))
        cells = [[cell(value) for value in row] for row in rows]
        width = max((len(row) for row in cells), default=len(columns))
        for position in range(width):
            name = columns[position] if position < len(columns) else ""
            longest = max(
                (len(row) > position and row[position].cell_len for row in cells), default=0
            )
            wraps = position == width - 1 or longest > TYPED_MAX
            table.add_column(name, no_wrap=not wraps, overflow="fold" if wraps else "ellipsis")
        for row in cells:
            table.add_row(*row)
        if self.terminal:
            self.console.print(table)
        else:
            with self.console.capture() as captured:
                self.console.print(table)
            for line in captured.get().splitlines():
                print(line.rstrip())

    def pairs(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Print names and values, one pair a line."""
        from rich.text import Text

        self.table((), [(Text(name, style="dim"), value) for name, value in pairs])


def cell(value: object) -> Text:
    """Return a value as a cell of a table; None becomes an empty cell."""
    from rich.text import Text

    if isinstance(value, Text):
        return value
    text = "" if value is None else safe(value)
    return Text(text, style=STYLES.get(text, ""))


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: `1 turn`, `2 turns`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def ago(at_s: float | None, now_s: float | None = None) -> str:
    """Return how long ago a time (Unix seconds) was, in one unit; "" without a time."""
    if not at_s:
        return ""
    age = max((time.time() if now_s is None else now_s) - at_s, 0)
    return f"{span(age)} ago"


def span(seconds: float) -> str:
    """Return a duration in the one unit that suits its size."""
    for limit, divisor, unit in (
        (1, 0.001, "ms"),
        (90, 1, "s"),
        (5400, 60, "min"),
        (129600, 3600, "h"),
    ):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit}"
    return f"{seconds / 86400:.0f} d"


def clock_time(at_s: float) -> str:
    """Return the local time of day, with the date when it is not today."""
    then, now = time.localtime(at_s), time.localtime()
    form = "%H:%M:%S" if then[:3] == now[:3] else "%Y-%m-%d %H:%M:%S"
    return time.strftime(form, then)


def complain(message: str, hint: str, message_id: str = "") -> None:
    """Print an error on stderr: the message, a message id, and the next step."""
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    line = Text()
    line.append("vyane: ", style="bold red")
    line.append(neutralise(message))
    below = [Text(f"id {message_id}")] if message_id else []
    below += [Text(neutralise(hint), style="dim")] if hint else []
    if console.is_terminal:
        console.print(line, *(Padding(one, (0, 0, 0, 7), expand=False) for one in below), sep="\n")
    else:
        console.print(
            line, *(Text("       ").append(one) for one in below), sep="\n", soft_wrap=True
        )


def shorten(path: str) -> str:
    """Return a path with the home folder shortened to `~`."""
    home = os.path.expanduser("~")
    return "~" + path[len(home) :] if path == home or path.startswith(home + os.sep) else path
