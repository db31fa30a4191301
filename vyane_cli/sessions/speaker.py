"""Who speaks: a person, a worker, or a program from outside."""

from __future__ import annotations

from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.sessions.session import HostSession


class FromKind(StrEnum):
    """Who speaks."""

    WORKER = "worker"
    HUMAN = "human"
    EXTERNAL = "external"


class Speaker(NamedTuple):
    """The one who runs this command."""

    kind: FromKind
    id: str
    name: str
    session: HostSession | None = None

    @property
    def in_host(self) -> bool:
        """Whether an agent's session is behind it: such a speaker has no person's authority."""
        return self.kind is FromKind.WORKER or self.id.startswith("agent:")
