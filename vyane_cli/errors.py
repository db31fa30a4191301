"""Errors: each has an exit code, a slug for programs and a hint for the next step."""

from __future__ import annotations


class ExitCode:
    """The exit codes of `vyane` for people and scripts. `tick` on behalf of a host exits 0.

    Plain numbers, because importing `enum` costs a hook 5 ms (see `kernel.values`).
    """

    DONE = 0
    INTERNAL = 1
    INVALID_INPUT = 2
    NOT_FOUND = 3
    CONFLICT = 4
    REFUSED = 5
    LOCK_TIMEOUT = 6
    CORRUPT = 7
    DURABILITY_UNKNOWN = 8


EXIT_CODES = {name.lower(): code for name, code in vars(ExitCode).items() if name.isupper()}
"""Each exit code by its name in lower case."""


def shortened(text: str, limit: int = 80) -> str:
    """Shorten a text for an error message: an argument may be 100,000 characters long."""
    return text if len(text) <= limit else text[: limit - 3] + "..."


class VyaneError(Exception):
    """An error with an exit code, a stable slug for programs, and a hint for people."""

    exit_code = ExitCode.INTERNAL
    slug = "internal"
    hint = ""

    def __init__(self, message: str, *, hint: str = "", slug: str = "") -> None:
        super().__init__(message)
        self.message = message
        if hint:
            self.hint = hint
        if slug:
            self.slug = slug


class InvalidInputError(VyaneError):
    """A given value is not accepted. Nothing was written."""

    exit_code, slug = ExitCode.INVALID_INPUT, "invalid_input"

    def __init__(
        self,
        field: str,
        value: object,
        expected: str,
        *,
        missing: bool = False,
        hint: str = "",
        slug: str = "",
    ) -> None:
        """Build the message `FIELD: VALUE is not EXPECTED`.

        If `missing` is set and the value is empty, the message leaves the value out.
        """
        text = value if isinstance(value, str) else repr(value)
        said = f"{field}: {shortened(text)!r}"
        if missing and value in ("", None):
            said = field
        super().__init__(f"{said} is not {expected}", hint=hint, slug=slug)
        self.field, self.value, self.expected = field, value, expected


class NotFoundError(VyaneError):
    """No worker, session or message of that name exists. Nothing was written."""

    exit_code, slug = ExitCode.NOT_FOUND, "not_found"

    def __init__(self, what: str, name: str, nearest: tuple[str, ...] = (), hint: str = "") -> None:
        if nearest and not hint:
            hint = "did you mean " + " or ".join(nearest) + "?"
        super().__init__(f"there is no {what} {shortened(name, 300)!r}", hint=hint)
        self.name, self.nearest = name, nearest


class ConflictError(VyaneError):
    """The request conflicts with the existing state. Nothing was written."""

    exit_code, slug = ExitCode.CONFLICT, "conflict"


class RefusedError(VyaneError):
    """A rule refused the request, or a wait timed out. The slug is the rule's name."""

    exit_code, slug = ExitCode.REFUSED, "refused"


class LockTimeoutError(VyaneError):
    """Another process held a lock until the deadline."""

    exit_code, slug = ExitCode.LOCK_TIMEOUT, "lock_timeout"
    hint = "`vyane doctor` names the holder"

    def __init__(self, path: str, waited_s: float) -> None:
        super().__init__(f"{path} stayed locked for {waited_s:.1f} s")
        self.path, self.waited_s = path, waited_s


class CorruptStateError(VyaneError):
    """A state file is damaged, or newer than this program. The file was not changed."""

    exit_code, slug = ExitCode.CORRUPT, "corrupt"
    hint = "`vyane doctor` says what it found; `vyane doctor --fix` sets damaged bytes aside"

    def __init__(
        self, path: str, reason: str, *, line: int | None = None, slug: str = "", hint: str = ""
    ) -> None:
        where = path if line is None else f"{path}, line {line}"
        super().__init__(f"{where}: {reason}", slug=slug, hint=hint)
        self.path, self.line, self.reason = path, line, reason


class TooNewError(CorruptStateError):
    """A newer version wrote the file. It is not damaged, and must not be changed."""

    slug = "too_new"
    hint = "a newer vyane wrote it: upgrade this one"


class StorageError(VyaneError):
    """The file system refused: no space, no permission, read-only. Nothing was stored."""

    exit_code, slug = ExitCode.INTERNAL, "storage"

    def __init__(self, path: str, error: OSError) -> None:
        reason = (error.strerror or str(error)).lower()
        hint = _STORAGE_HINTS.get(error.errno or 0, "")
        super().__init__(f"{shortened(path, 300)}: {reason}", hint=hint)
        self.path, self.errno = path, error.errno


class DurabilityUnknownError(VyaneError):
    """The data is stored and will be delivered, but the disk did not confirm the write."""

    exit_code, slug = ExitCode.DURABILITY_UNKNOWN, "durability_unknown"
    hint = "the same command with the same --idempotency-key is harmless"

    def __init__(self, path: str, error: OSError) -> None:
        super().__init__(f"{path}: written, but flushing failed: {(error.strerror or '').lower()}")
        self.path, self.message_id = path, ""


class OutputError(VyaneError):
    """The command succeeded, but its answer could not be written to standard output."""

    exit_code, slug = ExitCode.DURABILITY_UNKNOWN, "output"
    hint = "it was done all the same; only its answer is lost"

    def __init__(self, reason: str) -> None:
        super().__init__(f"standard output: {reason}")


_STORAGE_HINTS = {  # errno → the next step. Numbers: `errno` would be one more import in a hook
    28: "free some space, then run the same command again",
    122: "free some space in your quota, then run the same command again",
    30: "the state folder is on a read-only file system; set VYANE_HOME to one that can be written",
    13: "check who owns the state folder; `vyane doctor` lists the modes it expects",
    1: "check who owns the state folder; `vyane doctor` lists the modes it expects",
}
