"""Runtimes: the command lines that start a child, from `[runtimes.NAME]` of config.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from vyane_cli.errors import InvalidInputError, shortened
from vyane_cli.kernel.values import NamedTuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PLACEHOLDERS = ("prompt_file", "prompt", "session_id", "cwd", "worker")
"""The placeholders that an argument may contain in braces. Other braces are left unchanged."""

SCRUBBED = ("CLAUDE", "CODEX_", "GEMINI_")
"""Prefixes of variables that say in which host a program runs. They are wrong for a new child."""


class ChildRuntime(NamedTuple):
    """The commands that start and resume a child: lists of arguments, never a shell line."""

    spawn: tuple[str, ...]
    resume: tuple[str, ...] = ()
    hooks: bool = False
    """Whether the child's own hooks register it and record its answer; else the launcher does."""
    keep: tuple[str, ...] = ()
    """Names of variables that the child gets although their prefix is in `SCRUBBED`."""
    interactive: tuple[str, ...] = ()
    """The command that starts the child in its own pane, where a person can watch it."""


BUILT_IN: Mapping[str, ChildRuntime] = {
    "claude": ChildRuntime(
        ("claude", "-p", "--session-id", "{session_id}"),
        ("claude", "-p", "--resume", "{session_id}"),
        hooks=True,
        interactive=("claude", "--session-id", "{session_id}", "{prompt}"),
    ),
    "codex": ChildRuntime(
        # codex reads the prompt from standard input and prints its last answer
        ("codex", "exec", "--skip-git-repo-check", "--cd", "{cwd}", "-"),
        interactive=("codex", "--cd", "{cwd}", "{prompt}"),
    ),
}

_KEYS = ("spawn", "resume", "hooks", "keep", "interactive")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


def parse_runtimes(data: object) -> Mapping[str, ChildRuntime]:
    """Parse the `[runtimes.NAME]` tables of a file; InvalidInputError names the wrong key."""
    if not isinstance(data, Mapping):
        raise InvalidInputError("runtimes", data, "a table of tables, [runtimes.NAME]")
    return {name: _parse_runtime(name, table) for name, table in data.items()}


def _parse_runtime(name: str, table: object) -> ChildRuntime:
    where = f"runtimes.{name}"
    if not _NAME.fullmatch(name):
        raise InvalidInputError(where, name, "a name: a-z, 0-9, _ and -, at most 40")
    if not isinstance(table, Mapping):
        raise InvalidInputError(where, table, "a table with `spawn`")
    for key in table:
        if key not in _KEYS:
            known = "known: " + ", ".join(_KEYS)
            raise InvalidInputError("config key", f"{where}.{key}", "a key", hint=known)
    before = BUILT_IN.get(name, ChildRuntime(()))
    hooks = table.get("hooks", before.hooks)
    if not isinstance(hooks, bool):
        raise InvalidInputError(f"{where}.hooks", hooks, "true or false")
    lists: dict[str, tuple[str, ...]] = {}
    for key in ("spawn", "resume", "keep", "interactive"):
        lists[key] = _texts(f"{where}.{key}", table.get(key, list(getattr(before, key))))
    if not lists["spawn"] or not lists["spawn"][0]:
        raise InvalidInputError(f"{where}.spawn", [], "a command: a list of arguments")
    return ChildRuntime(hooks=hooks, **lists)


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise InvalidInputError(key, value, "a list of texts")
    if any("\0" in one for one in value):
        raise InvalidInputError(key, value, "free of NUL characters")
    return tuple(value)


def find_runtime(name: str, configured: Mapping[str, ChildRuntime]) -> ChildRuntime:
    """Return the runtime of this name; InvalidInputError lists the known runtimes."""
    known = {**BUILT_IN, **configured}
    if name not in known:
        table = f"[runtimes.{shortened(name)}]"
        hint = f"known: {', '.join(sorted(known))}; add one as {table} to config.toml"
        raise InvalidInputError("runtime", name, "a runtime", hint=hint, slug="unknown_runtime")
    return known[name]


def fill(arguments: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the arguments with their placeholders filled. Filled-in values are not expanded.

    A filled-in value must not turn an argument into an option: if a filled argument begins with a
    dash and its template did not, put a space before it.
    """
    pattern = re.compile("{(" + "|".join(PLACEHOLDERS) + ")}")
    filled = [pattern.sub(lambda match: values[match[1]], one) for one in arguments]
    return tuple(
        " " + text if text.startswith("-") and not one.startswith("-") else text
        for one, text in zip(arguments, filled, strict=True)
    )


def takes_prompt(arguments: Sequence[str]) -> bool:
    """Return whether an argument passes the prompt. Otherwise standard input does."""
    return any("{prompt}" in one or "{prompt_file}" in one for one in arguments)


def child_environment(
    environ: Mapping[str, str], runtime: ChildRuntime, home: str, worker: str
) -> dict[str, str]:
    """Return the environment of a child: without its parent's host ids, with its own worker id."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in runtime.keep or not name.startswith(SCRUBBED)
    }
    return {**kept, "VYANE_HOME": home, "VYANE_WORKER": worker}
