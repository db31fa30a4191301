"""What a host's hook call says, and what is answered: values without any host's spelling."""

from __future__ import annotations

from vyane_cli.kernel.process import Process
from vyane_cli.kernel.values import NamedTuple, StrEnum


class HostEvent(StrEnum):
    """The moments of a host's life that vyane knows. A host module maps its names to these."""

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
    CALL = "call"  # a host without hooks asks for its mail
    RERUN = "rerun"  # the tick before this one was killed by a signal
    OTHER = "other"


class Trigger(StrEnum):
    """What made a prompt."""

    HUMAN = "human"
    WAKE = "wake"
    PEER = "peer"
    HOST = "host"
    DELIVERY = "delivery"
    QUEUED = "queued"
    PRODUCER = "producer"


class ToolCall(NamedTuple):
    """One finished tool call: names and outcome only, never input or output."""

    id: str
    name: str
    ok: bool = True


class HookCall(NamedTuple):
    """One call of one hook. What the host did not say is empty."""

    host: str
    event: HostEvent
    name: str
    """The host's own name of the event, as it must be echoed."""
    session: str
    rewake: bool = False
    """The asynchronous handler, whose exit 2 begins a turn."""
    attended: bool = True
    subagent: bool = False
    turn: str = ""
    """The host's id of the turn (Claude Code: prompt_id)."""
    trigger: Trigger = Trigger.HUMAN
    prompt_digest: str = ""
    prompt_chars: int = 0
    named_ids: tuple[str, ...] = ()
    """Message ids that the prompt names: the receipt of a watch."""
    source: str = ""
    """How the session began, or why it ended."""
    cwd: str = ""
    transcript: str = ""
    tools: tuple[ToolCall, ...] = ()
    result: str = ""
    result_digest: str = ""
    error: str = ""
    stop_active: bool = False
    file: str = ""
    digest: str = ""
    """Of the whole payload: two byte-equal calls have the same."""
    process: Process | None = None
    """The host's process, not ours."""
    config_dir: str = ""
    worker: str = ""
    """The worker that a spawned session was made for."""
    terminal: tuple[str, ...] = ()
    """The terminal multiplexer's socket and the pane in it, if the host runs in one."""
    problem: str = ""
    """Why the payload could not be read in full, for the log."""


class Reply(NamedTuple):
    """What the host shall be told. Empty: nothing is printed."""

    event: str = ""
    context: str = ""
    deny: str = ""
    """Reason why the tool must not run."""
    stop: str = ""
    """The turn ends: reason."""
    watch: tuple[str, ...] = ()
    wake: str = ""
    """Text of a new turn: goes out as the wake of an asynchronous handler."""
    text: str = ""
    """Plain text, for a host without hooks."""

    @property
    def empty(self) -> bool:
        """Whether there is nothing to say."""
        return self == Reply(event=self.event)


TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Protocol

    class Host(Protocol):
        """What an operation asks of a host's module: its own records of a session."""

        WORKER_TYPE: str

        def variables(self, folder: str, environ: Mapping[str, str]) -> dict[str, str]:
            """What a new process needs in its environment to find sessions of this folder."""
            ...

        def says_idle(self, folder: str, pid: int, session: str, since_s: float) -> bool:
            """Whether the host's record says that the session has turned idle since then."""
            ...

        def shows_another(self, folder: str, pid: int) -> bool:
            """Whether the host's record says that its terminal shows another session."""
            ...

        def input_text(self, screen: str) -> str | None:
            """What stands in the input box of the interactive program; None: there is no box."""
            ...

        def was_interrupted(self, transcript: str) -> bool:
            """Whether the transcript ends in the note of an interrupt."""
            ...

        def transcript_size(self, transcript: str) -> int:
            """Bytes of the transcript now."""
            ...

        def read_answer(self, transcript: str, wanted: str) -> str | None:
            """The whole text of an answer by its digest; None when it is not there."""
            ...

        def read_turn(
            self, transcript: str, start: int
        ) -> tuple[tuple[ToolCall, ...], dict[str, Any] | None, str]:
            """(tool calls, usage, problem) of the turn from this byte on."""
            ...
