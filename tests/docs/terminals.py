"""Terminals: the `console` blocks of a page are run, in one shell per terminal, in a new home.

A command must print exactly the output on the page. Ids, times of day, durations and the number of
spaces between words may differ; one id of the page always stands for the same id of the run. A line
`…` stands for any number of lines. A command that only reads is repeated for up to PATIENCE_S
seconds until its output matches the page, because sessions change in the meantime.

`python -m docs.terminals PAGE …` (in tests/) writes the present output into the pages, where it
differs. In a new command, `@2` stands for the second message id of the page.
"""

import fcntl
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from docs import pages, stages

ID = r"[0-7][0-9A-HJKMNP-TV-Z]{25}|(?<![\w-])(?:w|vs)-[0-9a-f]{12}\b|(?<![\w-])g-[0-9a-f]{16}\b"
CHANGING = re.compile(
    "|".join(
        (
            rf"(?P<id>{ID})",
            r"(?P<clock>\b\d\d:\d\d:\d\d\b)",
            r"(?P<unix>\b1\d{9}(?:\.\d+)?\b)",
            r"(?P<decimal>\b\d+\.\d\b(?! (?:ms|s|min|h|d)\b))",
            r"(?P<span>\b\d+(?:\.\d+)? (?:ms|s|min|h|d)\b)",
            r"(?P<pid>(?<=process )\d+|(?<=\"pid\": )\d+)",
            r"(?P<gap>\s+)",
        )
    )
)
PATTERNS = {
    "clock": r"\d\d:\d\d:\d\d",
    "unix": r"\d{10}(?:\.\d+)?",
    "decimal": r"\d+(?:\.\d+)?",
    "span": r"\d+(?:\.\d+)? (?:ms|s|min|h|d)",
    "pid": r"\d+",
    "gap": r"\s+",
}
HOME = "/home/user"
ANY = "…"
LOOKS = re.compile(r"vyane (?:inbox|why|show|status|workers$|workers --)")
PATIENCE_S = 20.0


class Ids:
    """The ids of a page, and the corresponding ids of this run."""

    def __init__(self) -> None:
        self.ours: dict[str, str] = {}
        """Id of the page → id of this run."""

    def pattern(self, line: str) -> str:
        """Return a regular expression for a line of the page, with a group for each new id."""
        out, end, fresh = [], 0, []
        for match in CHANGING.finditer(line):
            out.append(re.escape(line[end : match.start()]))
            end = match.end()
            kind = str(match.lastgroup)
            if kind != "id":
                out.append(PATTERNS[kind])
            elif match[0] in self.ours:
                out.append(re.escape(self.ours[match[0]]))
            elif match[0] in fresh:
                out.append(f"(?P=id{fresh.index(match[0])})")
            else:
                out.append(f"(?P<id{len(fresh)}>{ID})")
                fresh.append(match[0])
        return "".join(out) + re.escape(line[end:])

    def matches(self, line: str, printed: str) -> bool:
        """Return whether a printed line matches a line of the page; if so, learn its ids."""
        match = re.fullmatch(self.pattern(line.strip()), printed.strip())
        if match is None:
            return False
        fresh = dict.fromkeys(i for i in re.findall(ID, line) if i not in self.ours)
        self.ours.update(zip(fresh, match.groups(), strict=True))
        return True

    def agree(self, expected: tuple[str, ...], printed: list[str]) -> bool:
        """Return whether the output matches the page."""
        left = list(printed)
        for position, line in enumerate(expected):
            if line.strip() == ANY:
                rest = expected[position + 1 :]
                return len(rest) <= len(left) and self.agree(rest, left[len(left) - len(rest) :])
            if not left or not self.matches(line, left.pop(0)):
                return False
        return not left

    def learn(self, expected: tuple[str, ...], printed: list[str]) -> None:
        """Pair the ids in the order of their first appearance, for output that has changed."""
        old = [i for i in re.findall(ID, "\n".join(expected)) if i not in self.ours]
        new = [i for i in re.findall(ID, "\n".join(printed)) if i not in self.ours.values()]
        self.ours.update(zip(dict.fromkeys(old), dict.fromkeys(new), strict=False))

    def here(self, text: str) -> str:
        """Return a command of the page with the ids of this run."""
        return re.sub(ID, lambda match: self.ours.get(match[0], match[0]), text)

    def there(self, text: str) -> str:
        """Return printed text with the ids of the page; ids that are not on the page stay."""
        back = {ours: theirs for theirs, ours in self.ours.items()}
        return re.sub(ID, lambda match: back.get(match[0], match[0]), text)


class Terminal:
    """A shell with a controlling terminal, whose output is read through a pipe."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        self.master, self.slave = os.openpty()

        def control() -> None:
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=dict(environ),
            cwd=folder,
            text=True,
            start_new_session=True,
            preexec_fn=control,
            pass_fds=(self.slave,),
        )

    def run(self, command: str) -> list[str]:
        """Run a command. Return its output as lines."""
        assert self.shell.stdin
        assert self.shell.stdout
        end = "--the-command-has-ended--"
        self.shell.stdin.write(f"{{ {command}\n}} </dev/null; echo {end}\n")
        self.shell.stdin.flush()
        lines: list[str] = []
        for line in self.shell.stdout:  # ends at the latest when the shell exits
            if line.rstrip("\n").endswith(end):
                if head := line.rstrip("\n").removesuffix(end):
                    lines.append(head)
                return lines
            lines.append(line.rstrip("\n"))
        self.shell.wait()
        return lines

    @property
    def ended(self) -> bool:
        """Return whether the shell has exited."""
        return self.shell.poll() is not None

    def close(self) -> None:
        """End the shell and its background processes, which hold the pipe open."""
        with suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.communicate()
        os.close(self.master)
        os.close(self.slave)


class Run:
    """One run of a page's commands."""

    def __init__(self, page: Path, folder: Path) -> None:
        self.page, self.home = page, folder / "user"
        self.home.mkdir(parents=True)
        self.ids, self.terminals = Ids(), dict[str, Terminal]()
        bin_folder = Path(sys.executable).parent
        self.environ = {
            "HOME": str(self.home),
            "PATH": f"{bin_folder}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "LOGNAME": "user",
            "USER": "user",
            "LC_ALL": "C.UTF-8",
            "TERM": "dumb",
        }
        self.seen: dict[str, None] = {}
        """Message ids in the order in which they were printed; the values are unused."""
        self.stage = stages.STAGES.get(page.relative_to(pages.ROOT).as_posix())

    def commands(self) -> list[tuple[pages.Command, list[str]]]:
        """Run every command of the page. Return each with its output."""
        done = []
        staged = self.stage(self.home, self.environ) if self.stage else None
        try:
            for block in pages.blocks(self.page):
                if block.language == "console":
                    done += [(one, self.run(one)) for one in pages.commands(block)]
        finally:
            for terminal in self.terminals.values():
                terminal.close()
            if staged:
                staged.close()
        return done

    def text(self, command: pages.Command) -> str:
        """Return the text of a command with the ids of this run."""
        seen = list(self.seen)
        numbered = re.sub(r"@(\d)\b", lambda m: seen[int(m[1]) - 1], command.text)
        return self.ids.here(numbered)

    def run(self, command: pages.Command) -> list[str]:
        """Run one command, and learn the ids in its output. Return the output as lines."""
        terminal = self.terminals.get(command.terminal)
        if terminal is None or terminal.ended:
            self.terminals[command.terminal] = Terminal(self.environ, self.home)
        text, end = self.text(command), time.monotonic() + PATIENCE_S
        while True:
            lines = self.terminals[command.terminal].run(text)
            lines = [line.replace(str(self.home), HOME).rstrip() for line in lines]
            agree = self.ids.agree(command.output, lines)
            if agree or not self.stage or not LOOKS.match(text) or time.monotonic() > end:
                break
            time.sleep(0.3)
        if not agree:
            self.ids.learn(command.output, lines)
        self.seen.update(dict.fromkeys(i for i in re.findall(ID, "\n".join(lines)) if len(i) == 26))
        return lines


def differences(page: Path, folder: Path) -> list[str]:
    """Return a text for each command whose output differs from the page."""
    run = Run(page, folder)
    found = []
    for command, printed in run.commands():
        if not run.ids.agree(command.output, printed):
            shown = "\n".join(command.output)
            now = run.ids.there("\n".join(printed))
            found.append(f"$ {command.text}\n--- the page\n{shown}\n--- now\n{now}\n")
    return found


def write(page: Path) -> bool:
    """Write the present output into the page where it differs. Return whether anything differed."""
    folder = Path(tempfile.mkdtemp())
    try:
        run = Run(page, folder)
        done = run.commands()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    text = page.read_text()
    position = 0
    changed = False
    for command, printed in done:
        first, *more = command.text.split("\n")
        prompt = "" if command.terminal == "you" else command.terminal
        head = "\n".join([f"{prompt}$ {first}", *(f"> {line}" for line in more)])
        old = "\n".join([head, *command.output]) + "\n"
        at = text.index(old, position)
        position = at + len(old)
        if run.ids.agree(command.output, printed):
            continue
        if "@" in head:
            head = run.ids.there(re.sub(r"@(\d)\b", lambda m: list(run.seen)[int(m[1]) - 1], head))
        new = "\n".join([head, *(run.ids.there(line) for line in printed)]) + "\n"
        text = text[:at] + new + text[at + len(old) :]
        position = at + len(new)
        changed = True
    if changed:
        page.write_text(text)
    return changed


if __name__ == "__main__":
    for name in sys.argv[1:]:
        print(name, "written" if write(Path(name).resolve()) else "as it was")
