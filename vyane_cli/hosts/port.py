"""The host port: hook calls and replies as values that do not depend on any host's format."""

from __future__ import annotations

from vyane_cli.kernel.process import Process
from vyane_cli.kernel.values import NamedTuple, StrEnum


class HostEvent(StrEnum):
    """The events of a host that vyane knows. Each host module maps its own names to these."""

    SESSION_START = "session-start"
    PROMPT = "prompt"
    TOOL = "tool"
    BATCH = "batch"
    PERMISSION = "permission"  # the person is asked whether a tool may run
    STOP = "stop"
    STOP_FAILURE = "stop-failure"
    SESSION_END = "session-end"
    FILE_CHANGED = "file-changed"
    CWD_CHANGED = "cwd-changed"
    IDLE = "idle"
    SUBAGENT = "subagent"
    CALL = "call"  # a host without hooks polls for its mail
    RERUN = "rerun"  # the tick before this one was killed by a signal
    OTHER = "other"


class Trigger(StrEnum):
    """The origin of a prompt."""

    HUMAN = "human"
    WAKE = "wake"
    PEER = "peer"
    HOST = "host"
    DELIVERY = "delivery"
    QUEUED = "queued"
    PRODUCER = "producer"


class ToolCall(NamedTuple):
    """One finished tool call: id, name and outcome only, never input or output."""

    id: str
    name: str
    ok: bool = True


class HookCall(NamedTuple):
    """One call of one hook. Fields that the host did not fill are empty."""

    host: str
    event: HostEvent
    name: str
    """The host's own name of the event, which the reply must repeat."""
    session: str
    rewake: bool = False
    """Whether this is the asynchronous handler, whose exit status 2 starts a turn."""
    attended: bool = True
    subagent: bool = False
    turn: str = ""
    """The host's id of the turn (Claude Code: prompt_id)."""
    trigger: Trigger = Trigger.HUMAN
    prompt_digest: str = ""
    prompt_chars: int = 0
    named_ids: tuple[str, ...] = ()
    """Message ids that the prompt names: they confirm a delivery by watch."""
    source: str = ""
    """How the session started, or why it ended."""
    cwd: str = ""
    transcript: str = ""
    tools: tuple[ToolCall, ...] = ()
    result: str = ""
    result_digest: str = ""
    error: str = ""
    stop_active: bool = False
    file: str = ""
    digest: str = ""
    """Digest of the whole payload: two byte-equal calls have the same digest."""
    process: Process | None = None
    """The host's process, not the process of the hook."""
    config_dir: str = ""
    worker: str = ""
    """Id of the worker for which a spawned session was started."""
    terminal: tuple[str, ...] = ()
    """Socket of the terminal multiplexer and id of the pane, if the host runs in one."""
    problem: str = ""
    """The reason why the payload could not be read in full, for the log."""


class Reply(NamedTuple):
    """The reply to a hook call. If it is empty, nothing is printed."""

    event: str = ""
    context: str = ""
    deny: str = ""
    """The reason why the tool must not run."""
    stop: str = ""
    """The reason why the turn must end."""
    watch: tuple[str, ...] = ()
    wake: str = ""
    """Text that starts a new turn, as the wake of an asynchronous handler."""
    text: str = ""
    """Plain text, for a host without hooks."""

    @property
    def empty(self) -> bool:
        """Return whether the reply says nothing to the host."""
        return self == Reply(event=self.event)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    class Host(Protocol):
        """The functions that a host module must have: access to the host's records of a session."""

        WORKER_TYPE: str

        def variables(self, folder: str, environ: Mapping[str, str]) -> dict[str, str]:
            """Return the variables that a new process needs to find the sessions of this folder."""
            ...

        def says_idle(self, folder: str, pid: int, session: str, since_s: float) -> bool:
            """Return whether the host's record says that the session became idle since then."""
            ...

        def shows_another(self, folder: str, pid: int) -> bool:
            """Return whether the host's record says that its terminal shows another session."""
            ...

        def input_text(self, screen: str) -> str | None:
            """Return the text in the interactive program's input box; None if no box exists."""
            ...

        def was_interrupted(self, transcript: str) -> bool:
            """Return whether the transcript ends with the note of an interrupt."""
            ...

        def transcript_size(self, transcript: str) -> int:
            """Return the current size of the transcript in bytes."""
            ...

        def read_answer(self, transcript: str, wanted: str) -> str | None:
            """Return the whole text of an answer, found by its digest; None if it is not there."""
            ...

        def read_turn(
            self, transcript: str, start: int
        ) -> tuple[tuple[ToolCall, ...], dict[str, Any] | None, str]:
            """Return (tool calls, usage, problem) of the turn from this byte on."""
            ...
