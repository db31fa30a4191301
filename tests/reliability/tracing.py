"""A command under strace: its calls that change a file, or one of them failed or made its last."""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

CALLS = (
    "openat pwrite64 write fsync fdatasync ftruncate rename renameat renameat2 unlink unlinkat"
    " rmdir mkdir mkdirat"
).split()
HEX = r"((?:\\x[0-9a-f]{2})*)"
LINE = re.compile(r"^(?P<pid>\d+) +(?P<name>\w+)\((?P<args>.*)\) += (?P<result>-?\d+)")
STRING = re.compile(f'"{HEX}"')
OF_FD = re.compile(f"^-?\\w+<{HEX}>")


class Call(NamedTuple):
    """One call that came to its end well."""

    name: str
    path: str
    """Of the file or folder; of the new name for a rename."""
    data: bytes = b""
    number: int = 0
    """Offset of a write, size of a truncation."""
    flags: str = ""
    source: str = ""
    fd: int = -1


def _text(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def parse(text: str, *, alone: bool = True) -> Iterator[Call]:
    """The calls of a trace that was written with `-xx -y`; not `alone`: of its first process."""
    halves: dict[str, str] = {}
    first = text.split(" ", 1)[0]
    for line in text.splitlines():
        pid = line.split(" ", 1)[0]
        if not alone and pid != first:
            continue
        if line.endswith("<unfinished ...>"):
            halves[pid] = line.removesuffix("<unfinished ...>")
            continue
        if "resumed>" in line[:60]:
            line = halves.pop(pid, "") + line.split("resumed>", 1)[1]
        match = LINE.match(line)
        if match is None or int(match["result"]) < 0:
            continue
        call = _call(match["name"], match["args"], int(match["result"]))
        if call is not None:
            yield call


def _call(name: str, args: str, result: int) -> Call | None:
    words = [_text(found) for found in STRING.findall(args)]
    of_fd = OF_FD.match(args)
    about = _text(of_fd[1]).decode() if of_fd else ""
    fd = int(args.split("<")[0]) if of_fd and args.split("<")[0].isdecimal() else -1
    rest = args.rsplit('"', 1)[-1]
    match name:
        case "openat":
            return Call(name, os.path.join(about, words[0].decode()), flags=rest)
        case "pwrite64":
            offset = int(rest.rsplit(",", 1)[1])
            return Call(name, about, words[0][:result], offset, fd=fd)
        case "write":
            return Call(name, about, words[0][:result], -1, fd=fd)
        case "fsync" | "fdatasync":
            return Call("fsync", about)
        case "ftruncate":
            return Call(name, about, number=int(args.rsplit(",", 1)[1]))
        case "rename" | "renameat" | "renameat2":
            return Call("rename", words[1].decode(), source=words[0].decode())
        case "unlink" | "rmdir" | "mkdir":
            return Call(name, words[0].decode())
        case "unlinkat":
            gone = "rmdir" if "AT_REMOVEDIR" in rest else "unlink"
            return Call(gone, os.path.join(about, words[0].decode()))
        case "mkdirat":
            return Call("mkdir", os.path.join(about, words[0].decode()))
        case _:
            return None


class Traced(NamedTuple):
    """What a traced command did and printed."""

    calls: list[Call]
    status: int
    out: bytes
    err: bytes


def command(words: Sequence[str], fault: str = "") -> list[str]:
    """The command line of a vyane of its own, with a fault planted if one is named."""
    if fault:
        return [sys.executable, "-m", "tests.reliability.seeded", fault, *words]
    return [sys.executable, "-m", "vyane_cli", *words]


def trace(
    words: Sequence[str],
    environ: Mapping[str, str],
    data: bytes = b"",
    *,
    cwd: str,
    fault: str = "",
    alone: bool = True,
) -> Traced:
    """Run a command to its end; what it changed, call by call, in order.

    Not `alone`: what it starts in the background comes to its end too, and is left out.
    """
    with tempfile.NamedTemporaryFile(suffix=".trace") as file:
        strace = ["strace", "-f", "-qq", "-xx", "-y", "-s", "20000000", "-o", file.name]
        ran = subprocess.run(
            [*strace, "-e", "trace=" + ",".join(CALLS), *command(words, fault)],
            input=data,
            capture_output=True,
            env=dict(environ),
            cwd=cwd,
            check=False,
            start_new_session=True,
        )
        calls = list(parse(file.read().decode("ascii", "replace"), alone=alone))
    return Traced(calls, ran.returncode, ran.stdout, ran.stderr)


def injected(
    inject: str, argv: Sequence[str], environ: Mapping[str, str], data: bytes
) -> tuple[int, bytes, bytes]:
    """Run a command with one kind of call failed or killed: `fsync:error=EIO:when=3`."""
    # without --seccomp-bpf: quicker, but in some sandboxes it injects nothing
    strace = ["strace", "-f", "-qq", "-o", "/dev/null"]
    name = inject.split(":")[0]
    ran = subprocess.run(
        [*strace, "-e", f"trace={name}", "-e", f"inject={inject}", *argv],
        input=data,
        capture_output=True,
        env={**environ, "PYTHONDONTWRITEBYTECODE": "1"},
        check=False,
        start_new_session=True,
    )
    return ran.returncode, ran.stdout, ran.stderr
