"""The generic host: a program without hooks that polls for its mail and gets plain text."""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.hosts.port import HookCall, HostEvent, Reply

NAME = "generic"
WORKER_TYPE = "generic"


def parse(session: str) -> HookCall:
    """Return the call that asks for the mail of a registered worker's session."""
    return HookCall(NAME, HostEvent.CALL, "call", session)


def render(reply: Reply) -> tuple[bytes, bytes]:
    """Render a reply as (stdout, stderr): the messages as text, or nothing."""
    return (reply.text + "\n").encode("utf-8", "replace") if reply.text else b"", b""


def variables(folder: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return no variables: a generic host has no configuration folder."""
    return {}


def says_idle(folder: str, pid: int, session: str, since_s: float) -> bool:
    """Return False: a generic host keeps no record of its sessions."""
    return False


def shows_another(folder: str, pid: int) -> bool:
    """Return False: a generic host keeps no record of its terminal."""
    return False


def input_text(screen: str) -> None:
    """Return None: the screen of a generic host has no known form."""
    return


def was_interrupted(transcript: str) -> bool:
    """Return False: a generic host has no transcript."""
    return False


def transcript_size(transcript: str) -> int:
    """Return 0: a generic host has no transcript."""
    return 0


def read_answer(transcript: str, wanted: str) -> None:
    """Return None: a generic host has no transcript."""


def read_turn(transcript: str, start: int) -> tuple[tuple[()], None, str]:
    """Return no tools, usage or problem: a generic host has no transcript."""
    return (), None, ""
