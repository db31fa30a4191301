"""Guard: the script that hosts call; how to install it, and how to check that it works.

The guard outlives the settings entries that name it, because an open session may still call it. So
the guard is only ever replaced by a rename, and its file is outside the package.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from vyane_cli.errors import InvalidInputError, StorageError, VyaneError
from vyane_cli.home import Home
from vyane_cli.storage import files, settings

PROTOCOL = 1
"""Version of the call between guard and tick; `hooks status` reports a guard of another version."""

CHECK_S = 10.0


@dataclass(frozen=True, slots=True)
class GuardStatus:
    """The state of the guard, and whether a call of the guard reaches vyane."""

    path: str
    present: bool = False
    executable: bool = False
    current: bool = False  # the file is exactly what this vyane writes
    protocol: int | None = None
    works: bool = False  # the guard's interpreter started and found vyane of the same protocol
    detail: str = ""


def install_guard(home: Home, *, dry_run: bool = False) -> bool:
    """Write the guard and, beside it, the `vyane` that plugins use. Return whether one changed.

    With `dry_run` nothing is written. Each file is replaced by a rename, so that a running guard
    is never half written. The interpreter's path is recorded as it was called, without resolving
    links: the link in a virtual environment is what selects that environment.
    """
    command(home)  # raises for a root that a settings file cannot name
    changed = False
    for name in ("guard", "vyane"):
        path, data = _beside_guard(home, name), rendered(home, name)
        if read(path) == data and os.stat(path).st_mode & 0o777 == 0o700:
            continue
        changed = True
        if not dry_run:
            files.make_directories(os.path.dirname(path))
            files.replace(path, data, mode=0o700)
    if not dry_run:
        for folder in ("beat", "wake"):
            files.make_directories(home.layout(folder))
    return changed


def command(home: Home) -> str:
    """Return the guard's path as a settings file names it: absolute, with forward slashes.

    Raises InvalidInputError for a state root whose path is not UTF-8.
    """
    path = home.layout.guard
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidInputError(
            "state root",
            os.fsencode(home.layout.root).decode("utf-8", "replace"),
            "UTF-8, so no settings file can name it",
            hint="set VYANE_HOME to another folder",
        ) from None
    return path.replace(os.sep, "/")


def rendered(home: Home, name: str) -> bytes:
    """Return a script of `hooks/claude-code/` with each `@WORD@` replaced by its value.

    In the script each `@WORD@` is inside single quotes, so the values are escaped for these.
    """
    template = os.path.join(settings.data_folder("hooks"), "claude-code", name)
    if not os.path.isabs(sys.executable or ""):
        raise InvalidInputError("interpreter", sys.executable or "", "an absolute path")
    root = home.layout.root
    values = {
        "HOME": root,
        "HOMEJSON": json.dumps(root, ensure_ascii=False)[1:-1],
        "PYTHON": sys.executable,
        "PACKAGE": os.path.dirname(settings.PACKAGE),
        "PROTOCOL": str(PROTOCOL),
    }
    text = os.fsdecode(read(template) or b"")
    if not text:
        raise StorageError(template, FileNotFoundError(2, "no such file: install vyane again"))
    filled = re.sub(r"@([A-Z]+)@", lambda word: values[word[1]].replace("'", "'\\''"), text)
    return os.fsencode(filled)


def _beside_guard(home: Home, name: str) -> str:
    return os.path.join(os.path.dirname(home.layout.guard), name)


def guard_status(home: Home) -> GuardStatus:
    """Run the guard once with `--check` and no input. Return what was found.

    No host calls the guard in this way, so the check delivers nothing.
    """
    path = home.layout.guard
    try:
        data = read(path)
        current = data is not None and data == rendered(home, "guard")
    except VyaneError as error:
        return GuardStatus(path, present=True, detail=error.message)
    if data is None:
        return GuardStatus(path, detail="it is not there: `vyane hooks install` writes it")
    executable = os.access(path, os.X_OK)
    protocol, works, detail = None, False, "it is not executable"
    if executable:
        protocol, detail = _check(path, home.environ)
        works = protocol == PROTOCOL
    return GuardStatus(
        path=path,
        present=True,
        executable=executable,
        current=current,
        protocol=protocol,
        works=works,
        detail=detail,
    )


def _check(guard: str, environ: Mapping[str, str]) -> tuple[int | None, str]:
    """Run `GUARD --check`. Return the guard's protocol and the reason why it does not work.

    The protocol is None when the guard does not answer; the reason is empty when it works.
    """
    try:
        done = subprocess.run(
            [guard, "--check"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CHECK_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    answer = re.fullmatch(rb"vyane guard ([0-9]+) ready\n", done.stdout)
    if answer is None:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return None, said[-1] if said else "its call does not reach vyane"
    protocol = int(answer[1])
    detail = "" if protocol == PROTOCOL else "it is of another version: run `vyane hooks install`"
    return protocol, detail


def read(path: str) -> bytes | None:
    """Return the bytes of a file, or None if the file does not exist."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(path, error) from error
