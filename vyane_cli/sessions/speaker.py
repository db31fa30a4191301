"""The speaker of a command: a person, a worker, or an external program."""

from __future__ import annotations

from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.sessions.session import HostSession


class FromKind(StrEnum):
    """The kinds of speaker."""

    WORKER = "worker"
    HUMAN = "human"
    EXTERNAL = "external"


class Speaker(NamedTuple):
    """The person, worker or program that runs this command."""

    kind: FromKind
    id: str
    name: str
    session: HostSession | None = None

    @property
    def in_host(self) -> bool:
        """Return whether the speaker is an agent's session, which has no person's authority."""
        return self.kind is FromKind.WORKER or self.id.startswith("agent:")
