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
"""What may stand in braces in an argument. Nothing else in braces is touched."""

SCRUBBED = ("CLAUDE", "CODEX_", "GEMINI_")
"""Variables that begin so tell a program in which host it runs: a child is in none yet."""


class ChildRuntime(NamedTuple):
    """How a child of this kind is started and resumed. Argument lists, never a shell's line."""

    spawn: tuple[str, ...]
    resume: tuple[str, ...] = ()
    hooks: bool = False
    """Its own hooks register it and see its answer; else the launcher does both."""
    keep: tuple[str, ...] = ()
    """Variables that it gets although their names are scrubbed."""
    interactive: tuple[str, ...] = ()
    """How it is started in a pane of its own, for a person to look in."""


BUILT_IN: Mapping[str, ChildRuntime] = {
    "claude": ChildRuntime(
        ("claude", "-p", "--session-id", "{session_id}"),
        ("claude", "-p", "--resume", "{session_id}"),
        hooks=True,
        interactive=("claude", "--session-id", "{session_id}", "{prompt}"),
    ),
    "codex": ChildRuntime(
        # the prompt comes on standard input, the last answer goes to standard output
        ("codex", "exec", "--skip-git-repo-check", "--cd", "{cwd}", "-"),
        interactive=("codex", "--cd", "{cwd}", "{prompt}"),
    ),
}

_KEYS = ("spawn", "resume", "hooks", "keep", "interactive")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")


def parse_runtimes(data: object) -> Mapping[str, ChildRuntime]:
    """The tables of a parsed file; InvalidInputError names the key that is wrong."""
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
    """The runtime of this name; InvalidInputError lists those there are."""
    known = {**BUILT_IN, **configured}
    if name not in known:
        table = f"[runtimes.{shortened(name)}]"
        hint = f"known: {', '.join(sorted(known))}; add one as {table} to config.toml"
        raise InvalidInputError("runtime", name, "a runtime", hint=hint, slug="unknown_runtime")
    return known[name]


def fill(arguments: Sequence[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """The arguments with their placeholders filled; what was filled in is not looked at again.

    None becomes an option by it: a text that begins with a dash gets a space before it.
    """
    pattern = re.compile("{(" + "|".join(PLACEHOLDERS) + ")}")
    filled = [pattern.sub(lambda match: values[match[1]], one) for one in arguments]
    return tuple(
        " " + text if text.startswith("-") and not one.startswith("-") else text
        for one, text in zip(arguments, filled, strict=True)
    )


def takes_prompt(arguments: Sequence[str]) -> bool:
    """Whether the prompt goes by an argument. Else it goes by standard input."""
    return any("{prompt}" in one or "{prompt_file}" in one for one in arguments)


def child_environment(
    environ: Mapping[str, str], runtime: ChildRuntime, home: str, worker: str
) -> dict[str, str]:
    """The environment of a child: its parent's host ids are gone, its own worker is in it."""
    kept = {
        name: value
        for name, value in environ.items()
        if name in runtime.keep or not name.startswith(SCRUBBED)
    }
    return {**kept, "VYANE_HOME": home, "VYANE_WORKER": worker}
