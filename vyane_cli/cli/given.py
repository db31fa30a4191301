"""A value that is given says something: `--idempotency-key "$UNSET"` is no call without a key."""

from collections.abc import Callable
from typing import Any

from vyane_cli.errors import InvalidInputError

MAY_BE_EMPTY = frozenset({"to", "text", "summary", "value", "reason", "code"})
"""Parameters whose operation knows what an empty one means."""


def refuse_empty(command: Any) -> Any:
    """The command, and those below it, with a check of what the command line gives as empty."""
    for param in command.params:
        if param.name not in MAY_BE_EMPTY:
            param.callback = _checked(param.callback)
    for below in getattr(command, "commands", {}).values():
        refuse_empty(below)
    return command


def _checked(before: Callable[..., Any] | None) -> Callable[..., Any]:
    def callback(context: Any, param: Any, value: Any) -> Any:
        many = isinstance(value, (list, tuple))
        if "" in (value if many else (value,)):
            source = context.get_parameter_source(param.name)
            if source is not None and source.name == "COMMANDLINE":
                name = max(param.opts, key=len).lstrip("-").replace("_", "-")
                hint = "give it a value" if param.required else "leave it out, or give it a value"
                raise InvalidInputError(name, "", "given: it is empty", missing=True, hint=hint)
        return before(context, param, value) if before else value

    return callback
