"""A host without hooks: it asks for its mail and gets plain text."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.hosts.port import HookCall, HostEvent, Reply

NAME = "generic"
WORKER_TYPE = "generic"


def parse(session: str) -> HookCall:
    """A call for the mail of one registered worker's session."""
    return HookCall(NAME, HostEvent.CALL, "call", session)


def render(reply: Reply) -> tuple[bytes, bytes]:
    """(stdout, stderr): the messages as text, or nothing."""
    return (reply.text + "\n").encode("utf-8", "replace") if reply.text else b"", b""


def variables(folder: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Such a host keeps nothing anywhere."""
    return {}


def says_idle(folder: str, pid: int, session: str, since_s: float) -> bool:
    """Such a host keeps no record."""
    return False


def shows_another(folder: str, pid: int) -> bool:
    """Nor of what a terminal shows."""
    return False


def input_text(screen: str) -> None:
    """Nor a screen that is known."""
    return


def was_interrupted(transcript: str) -> bool:
    """Nor a transcript."""
    return False


def transcript_size(transcript: str) -> int:
    """Nor a transcript."""
    return 0


def read_answer(transcript: str, wanted: str) -> None:
    """Nor a transcript."""


def read_turn(transcript: str, start: int) -> tuple[tuple[()], None, str]:
    """Nor a transcript."""
    return (), None, ""
