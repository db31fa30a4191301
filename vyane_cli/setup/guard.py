"""Guard: the script that hosts call, written and looked at.

It outlives the entries that name it: an open session may still call it. So it is replaced by
rename only, and lies outside of the package.
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
"""The form of the call between guard and tick; status names a guard of another one."""

CHECK_S = 10.0


@dataclass(frozen=True, slots=True)
class GuardStatus:
    """The guard, and whether a call of it reaches vyane."""

    path: str
    present: bool = False
    executable: bool = False
    current: bool = False  # just as this vyane writes it
    protocol: int | None = None
    works: bool = False  # its interpreter started, and found vyane
    detail: str = ""


def install_guard(home: Home, *, dry_run: bool = False) -> bool:
    """Write the guard, and the `vyane` that a plugin finds beside it; whether one changed.

    By rename, so that a running guard is never half of one. The interpreter is recorded as it was
    called, not resolved: the link in a virtual environment is what makes it that environment's.
    """
    command(home)  # raises for a root that cannot be named in a settings file
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
    """The guard's path as a settings file names it: absolute, with forward slashes."""
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
    """A script of `hooks/claude-code/`, its `@WORD@`s filled in, each inside single quotes."""
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
    """Run the guard once as no host does, with nothing to read, and see what answers."""
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
    """The guard's protocol, None with the reason if nothing answers."""
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
    """The bytes of a file; None if there is none."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(path, error) from error
