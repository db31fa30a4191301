"""Attention: one table of what the person is called for.

A row says what the key of an entry is made of, what the person reads, what is asked of them, and
what ends the entry. Keys are built and parsed here alone. What the files say about an entry is read
by `operations/attention`; whether that ends it is decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from vyane_cli.kernel.values import NamedTuple, StrEnum
from vyane_cli.projects.task import TaskStatus
from vyane_cli.sessions.worker import FINAL, WorkerStatus


class NeedKind(StrEnum):
    """What the person is called for. The value begins the key of an entry."""

    ASK = "ask"
    BLOCKED = "blocked"
    LATE = "late"
    START = "start"
    WAITING = "waiting"
    GAP = "gap"
    MAIN_EXITED = "main_exited"
    ROUND = "round"
    ALONE = "alone"
    SCHEDULE_UNREADABLE = "schedule_unreadable"
    UNREADABLE = "unreadable"
    MAIN_NOT_DECLARED = "main_not_declared"
    MAIN_ENDED = "main_ended"
    EXECUTING_UNKNOWN = "executing_unknown"
    GOAL_UNKNOWN = "goal_unknown"
    CLAIM = "claim"
    PROJECT = "project"
    DAMAGED = "damaged"
    CHANNEL = "channel"
    RESUME = "resume"
    ORPHAN = "orphan"
    STALE = "stale"
    EXPIRED = "expired"
    DELIVERY = "delivery"  # its keys begin with the worker


class EndedBy(StrEnum):
    """What shows that the cause of an entry is gone."""

    PERSON = "person"
    TASK_GOES_ON = "task-goes-on"
    TASK_IN_TIME = "task-in-time"
    TASK_DONE = "task-done"
    WORK_CAN_START = "work-can-start"
    OTHER_ROUND = "other-round"
    ROUND_STARTS = "round-starts"
    SCHEDULES_CHANGED = "schedules-changed"
    MAIN_IS_BACK = "main-is-back"
    FILE_IS_SOUND = "file-is-sound"
    CHANNEL_WORKS = "channel-works"
    SESSION_IS_BACK = "session-is-back"
    PARENT_IS_BACK = "parent-is-back"
    SIGN_OF_LIFE = "sign-of-life"


class NeedRow(NamedTuple):
    """One kind of entry. Texts are templates of the fields that a call gives."""

    kind: NeedKind
    fields: tuple[str, ...]
    """What the key is made of, in its order. Only the last may hold a colon."""
    when: str
    text: str
    ask: str
    ended_by: EndedBy
    reason: str = ""
    """Why nothing but the person ends it."""
    forms: Mapping[str, tuple[str, str]] = {}
    """Further pairs of text and ask, for the same key."""


_UNCLEAR = "a round cannot tell how the project stands ({kind}): {why}"
_LOOK = "look at `vyane logs {worker}`, then resolve this to let it start"
_NOT_STARTED = "the worker {name} for {task} was not started (dispatch_not_started): {why}"
_WAITING = "there is work that cannot start: {lines}"
_PENDING = "`vyane task report {task} --project {project} --state pending`"


def _unclear(kind: NeedKind, when: str, ask: str) -> NeedRow:
    """Return the row of a reason of cell E."""
    return NeedRow(kind, ("project", "digest"), when, _UNCLEAR, ask, EndedBy.OTHER_ROUND)


ROWS: tuple[NeedRow, ...] = (
    NeedRow(
        NeedKind.ASK,
        ("project", "speaker", "why"),  # a speaker may hold a colon: nothing reads what follows it
        "Somebody asked for you with `vyane need-user add`.",
        "{text}",
        "{sentence}",
        EndedBy.PERSON,
        "whether it is answered is yours to say",
    ),
    NeedRow(
        NeedKind.BLOCKED,
        ("project", "task", "changed_at"),
        "A task is blocked, and nothing else of the project can go on.",
        "{task} ({title}) is blocked: {why}",
        f"when it can go on: {_PENDING}, then `vyane schedule resume --project {{project}}`",
        EndedBy.TASK_GOES_ON,
    ),
    NeedRow(
        NeedKind.LATE,
        ("project", "task", "deadline_at"),
        "A task is past its deadline.",
        "{task} ({title}) is past its deadline, and is {status}",
        "see what holds it up, or `vyane task edit {task} --project {project} --deadline WHEN`",
        EndedBy.TASK_IN_TIME,
    ),
    NeedRow(
        NeedKind.START,
        ("project", "task", "worker"),
        "The worker of a task was not started, or the task is not started again.",
        _NOT_STARTED,
        "nothing yet: a round tries again by itself when it is gone, as often as `wake.attempts` "
        "allows; `vyane logs {worker}` shows what is known",
        EndedBy.TASK_DONE,
        forms={
            "look": (_NOT_STARTED, _LOOK),
            "again": (
                "{task} ({title}) is not started again: {attempts} started, the last came to "
                "nothing ({fate})",
                _LOOK,
            ),
        },
    ),
    NeedRow(
        NeedKind.WAITING,
        ("project", "digest"),
        "There is work, and a round could start none of it.",
        _WAITING,
        "see `vyane task list --project {project}`",
        EndedBy.WORK_CAN_START,
        forms={
            "blocked": (_WAITING, f"when it can go on: {_PENDING}"),
            "idle": (_WAITING, f"to have a worker started for it: {_PENDING}"),
        },
    ),
    NeedRow(
        NeedKind.GAP,
        ("project", "digest"),
        "The goal is open, and several rounds in a row found nothing queued.",
        "the goal is open, and {rounds} rounds found nothing queued; left: {left}",
        "add tasks, or talk to the main worker",
        EndedBy.OTHER_ROUND,
    ),
    NeedRow(
        NeedKind.MAIN_EXITED,
        ("project", "worker"),
        "The main worker has exited, and there is something that it should see.",
        "{name}, the main worker, has exited and does not see what changed or what is left",
        "start it again, or read {page} and add tasks",
        EndedBy.MAIN_IS_BACK,
    ),
    NeedRow(
        NeedKind.ROUND,
        ("project", "slug", "digest"),
        "A round could not do its work.",
        "a round could not do its work: {message}",
        "{hint}",
        EndedBy.ROUND_STARTS,
    ),
    NeedRow(
        NeedKind.ALONE,
        ("project", "schedules_at"),
        "Something is left to do, nobody works, and no round comes.",
        "nobody works, something is left to do, and no round is due within the hour",
        "`{way}`",
        EndedBy.SCHEDULES_CHANGED,
    ),
    _unclear(
        NeedKind.SCHEDULE_UNREADABLE,
        "Whether the schedule is paused cannot be told.",
        "mend that file by hand; without it A and B run every 30 minutes",
    ),
    _unclear(
        NeedKind.UNREADABLE,
        "A file that decides is damaged, or of a later version.",
        "mend by hand, or put back, what is named here: nothing writes it until then",
    ),
    _unclear(
        NeedKind.MAIN_NOT_DECLARED,
        "The project has no main worker.",
        "`vyane project edit {project} --main WORKER`",
    ),
    _unclear(
        NeedKind.MAIN_ENDED,
        "The main worker of the project has ended.",
        "`vyane project edit {project} --main WORKER`, with one that has not ended",
    ),
    _unclear(
        NeedKind.EXECUTING_UNKNOWN,
        "Whether a worker of the project works cannot be told.",
        "see by `vyane workers` whether it works; if not, `vyane cancel NAME` ends it, and "
        "`vyane project leave NAME` lets rounds go on without one that has no process",
    ),
    _unclear(
        NeedKind.GOAL_UNKNOWN,
        "Nothing is queued, and whether the goal is met cannot be told.",
        "`vyane goal set TITLE --accept NAME --project {project}`, or add tasks",
    ),
    NeedRow(
        NeedKind.CLAIM,
        ("path",),
        "A claim cannot be read: its task counts as claimed.",
        "a claim cannot be read, and its task is not started until then: {message}",
        "when nobody works on that task: remove {path}",
        EndedBy.FILE_IS_SOUND,
    ),
    NeedRow(
        NeedKind.PROJECT,
        ("path",),
        "The file of a project cannot be read.",
        "no round can run for a project whose file cannot be read: {message}",
        "mend {path} by hand",
        EndedBy.FILE_IS_SOUND,
    ),
    NeedRow(
        NeedKind.DAMAGED,
        ("path",),
        "A session cannot see to its project, because a file is damaged.",
        "{message}",
        "{hint}",
        EndedBy.FILE_IS_SOUND,
    ),
    NeedRow(
        NeedKind.CHANNEL,
        ("channel", "slug"),
        "A round cannot open a channel.",
        "rounds cannot show sessions in {channel}, nor hear you there: {message}",
        "{hint}",
        EndedBy.CHANNEL_WORKS,
    ),
    NeedRow(
        NeedKind.RESUME,
        ("worker",),
        "A closed session was to be opened for its mail, and that failed.",
        "{name} ({worker}) was to be resumed for its mail: {why}; `vyane logs {worker}` shows what "
        "it said, `vyane inbox {worker}` what waits",
        "",
        EndedBy.SESSION_IS_BACK,
    ),
    NeedRow(
        NeedKind.ORPHAN,
        ("worker",),
        "A child goes on although its parent's session ended long ago.",
        "{name} ({worker}) goes on without its parent {parent}: look after it, or stop it with "
        "`vyane cancel {worker}`",
        "",
        EndedBy.PARENT_IS_BACK,
    ),
    NeedRow(
        NeedKind.STALE,
        ("worker", "stale_since"),
        "A worker that somebody waits for gives no sign.",
        "{name} ({worker}) has given no sign for {minutes} minutes: look after it, or stop it with "
        "`vyane cancel {worker}`",
        "",
        EndedBy.SIGN_OF_LIFE,
    ),
    NeedRow(
        NeedKind.EXPIRED,
        ("message",),
        "A message of yours was not delivered in its time.",
        "what you wrote did not reach {target} in its time: {said}",
        "send it again if it still matters: `vyane show {message}` has it whole",
        EndedBy.PERSON,
        "whether it still matters is yours to say",
    ),
    NeedRow(
        NeedKind.DELIVERY,
        ("worker", "text"),
        "A session did not start the turn that its mail asks for, or starts too many.",
        "{text}",
        "",
        EndedBy.PERSON,
        "no file says why a turn did not start, or that sessions answer each other no longer",
    ),
)
NEEDS: Mapping[NeedKind, NeedRow] = {row.kind: row for row in ROWS}
"""The table. Total: each kind has one row."""

ROUND_KINDS: Mapping[str, NeedKind] = {
    "goal-open": NeedKind.GAP,
    **{
        row.kind.replace("_", "-"): row.kind
        for row in ROWS
        if row.ended_by is EndedBy.OTHER_ROUND and row.kind is not NeedKind.GAP
    },
}
"""The kind by the reason of the rounds in which it holds: cell E, and cell B without progress."""


class NeedCall(NamedTuple):
    """What the person is called for, in words. `call_of` makes it."""

    key: str
    text: str
    who: str = ""
    """Who waits."""
    ask: str = ""
    """The one sentence, or act, that is needed of the person."""
    project: str = ""


def call_of(kind: NeedKind, form: str = "", *, who: str = "", **given: object) -> NeedCall:
    """Fill in the row of a kind. Return the call, with `project` if that is given."""
    row = NEEDS[kind]
    text, ask = row.forms[form] if form else (row.text, row.ask)
    words = {"kind": str(kind), **given}
    return NeedCall(
        key_of(kind, **{name: given[name] for name in row.fields}),
        text.format_map(words),
        who,
        ask.format_map(words),
        str(given.get("project", "")),
    )


def kept_call(key: str, text: str) -> NeedCall:
    """Return a call that was kept on disk with its key, to be made later."""
    return NeedCall(key, text)


# ------------------------------------------------------------------ keys

KEY_MAX = 500
"""Length of the key of a question: what somebody writes may be long. No other key is cut."""
_FORMATS: Mapping[str, str] = {
    "changed_at": ".3f",
    "deadline_at": ".0f",
    "stale_since": ".3f",
    "schedules_at": ".6f",
}
"""How a moment is written in a key."""


_BY_NAME: Mapping[str, NeedKind] = {str(kind): kind for kind in NeedKind}


class NeedKey(NamedTuple):
    """The key of an entry, taken apart."""

    kind: NeedKind
    fields: Mapping[str, str]

    def get(self, name: str) -> str:
        """Return a field; empty when the key does not have it."""
        return self.fields.get(name, "")


def key_of(kind: NeedKind, **fields: object) -> str:
    """Build the key of an entry. Numbers are moments, and are written as the field asks."""
    begin = () if kind is NeedKind.DELIVERY else (str(kind),)
    row = NEEDS[kind]
    key = ":".join((*begin, *(_written(name, fields[name]) for name in row.fields)))
    return key[:KEY_MAX] if kind is NeedKind.ASK else key


def parse_key(key: str) -> NeedKey | None:
    """Take a key apart. Return None for a key that no row makes."""
    name, colon, rest = key.partition(":")
    if not colon:
        return None
    kind = _BY_NAME.get(name, NeedKind.DELIVERY)
    if kind is NeedKind.DELIVERY:
        rest = key
    row = NEEDS[kind]
    return NeedKey(kind, dict(zip(row.fields, rest.split(":", len(row.fields) - 1), strict=False)))


def is_of(kind: NeedKind, key: str) -> bool:
    """Return whether a key is of a kind."""
    need = parse_key(key)
    return need is not None and need.kind is kind


def _written(name: str, value: object) -> str:
    return value if isinstance(value, str) else format(value, _FORMATS.get(name, ""))


# ------------------------------------------------------------------ what ends an entry


class RoundSays(NamedTuple):
    """What a round found, for the entries of its project."""

    project: str
    cell: str
    reason: str
    waiting: bool
    """There is work, and this round could start none of it."""


class NeedFacts(NamedTuple):
    """What was read about the cause of one entry. None: not read, or it cannot be told."""

    status: str | None = None
    """Status of the task or worker that the key names; empty when it is on no record."""
    at: float | None = None
    """The moment that the key names, as it is now."""
    late: bool | None = None
    main: str | None = None
    """The main worker of the project."""
    exited: bool | None = None
    """Whether the session of the worker is over."""
    sound: bool | None = None
    """Whether the file can be read, or is gone."""
    works: bool | None = None
    """Whether a round reached the channel, or it is not set up any more."""
    says: RoundSays | None = None


class NeedEnding(NamedTuple):
    """One way in which an entry ends: in words, and as a rule over what was read."""

    doc: str
    is_over: Callable[[NeedKey, NeedFacts], bool]


def _goes_on(need: NeedKey, facts: NeedFacts) -> bool:
    if facts.status is None:
        return False
    return facts.status != TaskStatus.BLOCKED or _is_another(need, "changed_at", facts.at)


def _is_in_time(need: NeedKey, facts: NeedFacts) -> bool:
    return facts.late is not None and (not facts.late or _is_another(need, "deadline_at", facts.at))


def _is_back(need: NeedKey, facts: NeedFacts) -> bool:
    if facts.main is not None and facts.main != need.get("worker"):
        return True
    return facts.exited is False


def _can_be_reached(need: NeedKey, facts: NeedFacts) -> bool:
    return facts.status == "" or facts.status in FINAL or facts.exited is False


def _gave_a_sign(need: NeedKey, facts: NeedFacts) -> bool:
    if facts.status is None:
        return False
    return facts.status != WorkerStatus.STALE or _is_another(need, "stale_since", facts.at)


def _is_another(need: NeedKey, name: str, at: float | None) -> bool:
    """Return whether a moment is known and is not that of the key."""
    return at is not None and need.get(name) != _written(name, at)


def _landed_elsewhere(need: NeedKey, facts: NeedFacts) -> bool:
    return facts.says is not None and ROUND_KINDS.get(facts.says.reason) is not need.kind


# fmt: off
ENDINGS: Mapping[EndedBy, NeedEnding] = {
    EndedBy.PERSON:            NeedEnding(
        "only you",
        lambda need, facts: False),
    EndedBy.TASK_GOES_ON:      NeedEnding(
        "the task is not blocked any more, or became so another time",
        _goes_on),
    EndedBy.TASK_IN_TIME:      NeedEnding(
        "the task is done, gone, or has another deadline",
        _is_in_time),
    EndedBy.TASK_DONE:         NeedEnding(
        "the task is done or gone",
        lambda need, facts: facts.status in ("", TaskStatus.DONE)),
    EndedBy.WORK_CAN_START:    NeedEnding(
        "a round starts something, or finds no such work",
        lambda need, facts: facts.says is not None and not facts.says.waiting),
    EndedBy.OTHER_ROUND:       NeedEnding(
        "a round comes to another result",
        _landed_elsewhere),
    EndedBy.ROUND_STARTS:      NeedEnding(
        "a round starts a worker",
        lambda need, facts: facts.says is not None and facts.says.cell == "A"),
    EndedBy.SCHEDULES_CHANGED: NeedEnding(
        "the schedules of the project change",
        lambda need, facts: _is_another(need, "schedules_at", facts.at)),
    EndedBy.MAIN_IS_BACK:      NeedEnding(
        "it runs again, or the project has another main worker",
        _is_back),
    EndedBy.FILE_IS_SOUND:     NeedEnding(
        "the file can be read, or is gone",
        lambda need, facts: facts.sound is True),
    EndedBy.CHANNEL_WORKS:     NeedEnding(
        "a round shows sessions there, or the channel is not set up any more",
        lambda need, facts: facts.works is True),
    EndedBy.SESSION_IS_BACK:   NeedEnding(
        "the session runs again, or its worker has ended",
        _can_be_reached),
    EndedBy.PARENT_IS_BACK:    NeedEnding(
        "the parent is back, or the child has ended",
        lambda need, facts: facts.status not in (None, WorkerStatus.INTERRUPTED)),
    EndedBy.SIGN_OF_LIFE:      NeedEnding(
        "the worker gives a sign, or has ended",
        _gave_a_sign),
}
# fmt: on
"""What ends an entry. Total: what was not read ends nothing."""


def is_over(need: NeedKey, facts: NeedFacts) -> bool:
    """Decide whether the cause of an entry is gone."""
    return ENDINGS[NEEDS[need.kind].ended_by].is_over(need, facts)
