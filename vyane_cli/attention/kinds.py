"""Need kinds: one table of the causes for which the person is called.

A row defines the fields of an entry's key, the text that the person reads, the act asked of the
person, and the event that ends the entry. Keys are built and parsed only here. `upkeep.ended_needs`
reads the files that concern an open entry; `upkeep.ending_rules` decides by the row's `ended_by`
whether they end it.
"""

from __future__ import annotations

from collections.abc import Mapping

from vyane_cli.kernel.values import NamedTuple, StrEnum


class NeedKind(StrEnum):
    """The kinds of need. The value begins the key of an entry."""

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
    """The evidence that the cause of an entry is gone."""

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
    """One kind of need entry. Its texts are templates, filled with the fields that a call gives."""

    kind: NeedKind
    fields: tuple[str, ...]
    """Fields of the key, in order. Only the last may contain a colon."""
    when: str
    text: str
    ask: str
    ended_by: EndedBy
    reason: str = ""
    """The reason why only the person ends an entry of this kind."""
    forms: Mapping[str, tuple[str, str]] = {}
    """Further (text, ask) pairs for the same key, by the name of the form."""


_UNCLEAR = "a round cannot tell how the project stands ({kind}): {why}"
_LOOK = "look at `vyane logs {worker}`, then resolve this to let it start"
_NOT_STARTED = "the worker {name} for {task} was not started (dispatch_not_started): {why}"
_WAITING = "there is work that cannot start: {lines}"
_PENDING = "`vyane task report {task} --project {project} --state pending`"


def _unclear(kind: NeedKind, when: str, ask: str) -> NeedRow:
    """Return the row of a kind whose cause is a reason of cell E."""
    return NeedRow(
        kind=kind,
        fields=("project", "digest"),
        when=when,
        text=_UNCLEAR,
        ask=ask,
        ended_by=EndedBy.OTHER_ROUND,
    )


ROWS: tuple[NeedRow, ...] = (
    NeedRow(
        kind=NeedKind.ASK,
        fields=(
            "project",
            "speaker",
            "why",
        ),  # a speaker may contain a colon: nothing parses what follows
        when="Somebody asked for you with `vyane need-user add`.",
        text="{text}",
        ask="{sentence}",
        ended_by=EndedBy.PERSON,
        reason="whether it is answered is yours to say",
    ),
    NeedRow(
        kind=NeedKind.BLOCKED,
        fields=("project", "task", "changed_at"),
        when="A task is blocked, and nothing else of the project can go on.",
        text="{task} ({title}) is blocked: {why}",
        ask=f"when it can go on: {_PENDING}, then `vyane schedule resume --project {{project}}`",
        ended_by=EndedBy.TASK_GOES_ON,
    ),
    NeedRow(
        kind=NeedKind.LATE,
        fields=("project", "task", "deadline_at"),
        when="A task is past its deadline.",
        text="{task} ({title}) is past its deadline, and is {status}",
        ask="see what holds it up, or `vyane task edit {task} --project {project} --deadline WHEN`",
        ended_by=EndedBy.TASK_IN_TIME,
    ),
    NeedRow(
        kind=NeedKind.START,
        fields=("project", "task", "worker"),
        when="The worker of a task was not started, or the task is not started again.",
        text=_NOT_STARTED,
        ask="nothing yet: a round tries again by itself when it is gone, as often as "
        "`wake.attempts` allows; `vyane logs {worker}` shows what is known",
        ended_by=EndedBy.TASK_DONE,
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
        kind=NeedKind.WAITING,
        fields=("project", "digest"),
        when="There is work, and a round could start none of it.",
        text=_WAITING,
        ask="see `vyane task list --project {project}`",
        ended_by=EndedBy.WORK_CAN_START,
        forms={
            "blocked": (_WAITING, f"when it can go on: {_PENDING}"),
            "idle": (_WAITING, f"to have a worker started for it: {_PENDING}"),
        },
    ),
    NeedRow(
        kind=NeedKind.GAP,
        fields=("project", "digest"),
        when="The goal is open, and several rounds in a row found nothing queued.",
        text="the goal is open, and {rounds} rounds found nothing queued; left: {left}",
        ask="add tasks, or talk to the main worker",
        ended_by=EndedBy.OTHER_ROUND,
    ),
    NeedRow(
        kind=NeedKind.MAIN_EXITED,
        fields=("project", "worker"),
        when="The main worker has exited, and there is something that it should see.",
        text="{name}, the main worker, has exited and does not see what changed or what is left",
        ask="start it again, or read {page} and add tasks",
        ended_by=EndedBy.MAIN_IS_BACK,
    ),
    NeedRow(
        kind=NeedKind.ROUND,
        fields=("project", "slug", "digest"),
        when="A round could not do its work.",
        text="a round could not do its work: {message}",
        ask="{hint}",
        ended_by=EndedBy.ROUND_STARTS,
    ),
    NeedRow(
        kind=NeedKind.ALONE,
        fields=("project", "schedules_at"),
        when="Something is left to do, nobody works, and no round comes.",
        text="nobody works, something is left to do, and no round is due within the hour",
        ask="`{way}`",
        ended_by=EndedBy.SCHEDULES_CHANGED,
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
        kind=NeedKind.CLAIM,
        fields=("path",),
        when="A claim cannot be read: its task counts as claimed.",
        text="a claim cannot be read, and its task is not started until then: {message}",
        ask="when nobody works on that task: remove {path}",
        ended_by=EndedBy.FILE_IS_SOUND,
    ),
    NeedRow(
        kind=NeedKind.PROJECT,
        fields=("path",),
        when="The file of a project cannot be read.",
        text="no round can run for a project whose file cannot be read: {message}",
        ask="mend {path} by hand",
        ended_by=EndedBy.FILE_IS_SOUND,
    ),
    NeedRow(
        kind=NeedKind.DAMAGED,
        fields=("path",),
        when="A session cannot see to its project, because a file is damaged.",
        text="{message}",
        ask="{hint}",
        ended_by=EndedBy.FILE_IS_SOUND,
    ),
    NeedRow(
        kind=NeedKind.CHANNEL,
        fields=("channel", "slug"),
        when="A round cannot open a channel.",
        text="rounds cannot show sessions in {channel}, nor hear you there: {message}",
        ask="{hint}",
        ended_by=EndedBy.CHANNEL_WORKS,
    ),
    NeedRow(
        kind=NeedKind.RESUME,
        fields=("worker",),
        when="A closed session was to be opened for its mail, and that failed.",
        text="{name} ({worker}) was to be resumed for its mail: {why}; `vyane logs {worker}` shows "
        "what it said, `vyane inbox {worker}` what waits",
        ask="",
        ended_by=EndedBy.SESSION_IS_BACK,
    ),
    NeedRow(
        kind=NeedKind.ORPHAN,
        fields=("worker",),
        when="A child goes on although its parent's session ended long ago.",
        text="{name} ({worker}) goes on without its parent {parent}: look after it, or stop it "
        "with `vyane cancel {worker}`",
        ask="",
        ended_by=EndedBy.PARENT_IS_BACK,
    ),
    NeedRow(
        kind=NeedKind.STALE,
        fields=("worker", "stale_since"),
        when="A worker that somebody waits for gives no sign.",
        text="{name} ({worker}) has given no sign for {minutes} minutes: look after it, or stop it "
        "with `vyane cancel {worker}`",
        ask="",
        ended_by=EndedBy.SIGN_OF_LIFE,
    ),
    NeedRow(
        kind=NeedKind.EXPIRED,
        fields=("message",),
        when="A message of yours was not delivered in its time.",
        text="what you wrote did not reach {target} in its time: {said}",
        ask="send it again if it still matters: `vyane show {message}` has it whole",
        ended_by=EndedBy.PERSON,
        reason="whether it still matters is yours to say",
    ),
    NeedRow(
        kind=NeedKind.DELIVERY,
        fields=("worker", "text"),
        when="A session did not start the turn that its mail asks for, or starts too many.",
        text="{text}",
        ask="",
        ended_by=EndedBy.PERSON,
        reason="no file says why a turn did not start, "
        "or that sessions answer each other no longer",
    ),
)
NEEDS: Mapping[NeedKind, NeedRow] = {row.kind: row for row in ROWS}
"""The rows by kind. Total: each kind has one row."""

ROUND_KINDS: Mapping[str, NeedKind] = {
    "goal-open": NeedKind.GAP,
    **{
        row.kind.replace("_", "-"): row.kind
        for row in ROWS
        if row.ended_by is EndedBy.OTHER_ROUND and row.kind is not NeedKind.GAP
    },
}
"""Reason of a round → the kind that holds in it: reasons of cell E, and cell B without progress."""


class NeedCall(NamedTuple):
    """A call to the person, in words. `call_of` builds it."""

    key: str
    text: str
    who: str = ""
    """Name of the one who waits; empty when no name is known."""
    ask: str = ""
    """The one answer or act that is needed from the person."""
    project: str = ""


def call_of(kind: NeedKind, form: str = "", *, who: str = "", **given: object) -> NeedCall:
    """Fill in the row of a kind. Return the call, with `project` if that field is given."""
    row = NEEDS[kind]
    text, ask = row.forms[form] if form else (row.text, row.ask)
    words = {"kind": str(kind), **given}
    return NeedCall(
        key=key_of(kind, **{name: given[name] for name in row.fields}),
        text=text.format_map(words),
        who=who,
        ask=ask.format_map(words),
        project=str(given.get("project", "")),
    )


def kept_call(key: str, text: str) -> NeedCall:
    """Return a call that was saved with its key, to be made later."""
    return NeedCall(key, text)


# ------------------------------------------------------------------ keys

KEY_MAX = 500
"""Longest key of a question, in characters: a free text may be long. No other key is cut."""
_FORMATS: Mapping[str, str] = {
    "changed_at": ".3f",
    "deadline_at": ".0f",
    "stale_since": ".3f",
    "schedules_at": ".6f",
}
"""Format of a timestamp in a key, by the name of its field."""


_BY_NAME: Mapping[str, NeedKind] = {str(kind): kind for kind in NeedKind}


class NeedKey(NamedTuple):
    """The parsed key of a need entry."""

    kind: NeedKind
    fields: Mapping[str, str]

    def get(self, name: str) -> str:
        """Return a field of the key; an empty string when the key lacks it."""
        return self.fields.get(name, "")


def key_of(kind: NeedKind, **fields: object) -> str:
    """Build the key of an entry. Numbers are timestamps, written in the format of their field."""
    begin = () if kind is NeedKind.DELIVERY else (str(kind),)
    row = NEEDS[kind]
    key = ":".join((*begin, *(_written(name, fields[name]) for name in row.fields)))
    return key[:KEY_MAX] if kind is NeedKind.ASK else key


def parse_key(key: str) -> NeedKey | None:
    """Parse the key of an entry. Return None for a key that no row makes."""
    name, colon, rest = key.partition(":")
    if not colon:
        return None
    kind = _BY_NAME.get(name, NeedKind.DELIVERY)
    if kind is NeedKind.DELIVERY:
        rest = key
    row = NEEDS[kind]
    return NeedKey(kind, dict(zip(row.fields, rest.split(":", len(row.fields) - 1), strict=False)))


def is_of(kind: NeedKind, key: str) -> bool:
    """Return whether a key belongs to a kind."""
    need = parse_key(key)
    return need is not None and need.kind is kind


def _written(name: str, value: object) -> str:
    return value if isinstance(value, str) else format(value, _FORMATS.get(name, ""))
