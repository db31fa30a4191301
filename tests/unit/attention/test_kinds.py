"""The table of what the person is called for: its keys and its calls."""

import ast
import string
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vyane_cli
from vyane_cli.attention.kinds import (
    KEY_MAX,
    NEEDS,
    ROUND_KINDS,
    ROWS,
    EndedBy,
    NeedKey,
    NeedKind,
    call_of,
    is_of,
    key_of,
    parse_key,
)
from vyane_cli.projects.round_rules import MATRIX, Cell
from vyane_cli.upkeep.ending_rules import ENDINGS

PACKAGE = Path(vyane_cli.__file__).parent


part = st.text(st.characters(exclude_characters=":", codec="utf-8"), max_size=20)
free = st.text(max_size=20)


def forms() -> Iterator[tuple[NeedKind, str]]:
    for row in ROWS:
        yield from ((row.kind, form) for form in ("", *row.forms))


def names_in(template: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


# --- the table is total ---------------------------------------------------------------------


def test_each_kind_has_one_row_and_each_ending_a_rule():
    assert list(NEEDS) == list(NeedKind)
    assert len(ROWS) == len(NEEDS)
    assert set(ENDINGS) == set(EndedBy)
    assert {row.ended_by for row in ROWS} == set(EndedBy)


def test_each_kind_is_ended_by_something_or_says_why_it_is_not():
    for row in ROWS:
        assert bool(row.reason) == (row.ended_by is EndedBy.PERSON), row.kind


def test_each_reason_of_cell_e_and_the_open_goal_have_a_kind():
    reasons = {row.reason for row in MATRIX if row.cell is Cell.E}

    assert set(ROUND_KINDS) == reasons | {"goal-open"}
    assert set(ROUND_KINDS.values()) == {
        row.kind for row in ROWS if row.ended_by is EndedBy.OTHER_ROUND
    }


# --- keys ------------------------------------------------------------------------------------


@given(st.data())
def test_a_key_that_was_built_is_parsed_into_its_parts(data):
    kind = data.draw(st.sampled_from(list(NeedKind)))
    names = NEEDS[kind].fields
    fields = {name: data.draw(part) for name in names[:-1]} | {names[-1]: data.draw(free)}
    if kind is NeedKind.DELIVERY:
        fields["worker"] = "w-" + fields["worker"]

    assert parse_key(key_of(kind, **fields)) == NeedKey(kind, fields)


@given(st.sampled_from(list(NeedKind)), free)
def test_a_key_that_was_parsed_is_built_again_as_it_was(kind, rest):
    need = parse_key(f"{kind}:{rest}")

    assert need is not None
    if len(need.fields) == len(NEEDS[need.kind].fields):
        assert key_of(need.kind, **need.fields) == f"{kind}:{rest}"


# fmt: off
KEYS = {
    "ask:shop:agent:7:no key": (NeedKind.ASK, {"project": "shop", "speaker": "agent",
                                               "why": "7:no key"}),
    "blocked:p:T1:1700000000.250": (NeedKind.BLOCKED, {"project": "p", "task": "T1",
                                                       "changed_at": 1700000000.25}),
    "late:p:T1:1700000000": (NeedKind.LATE, {"project": "p", "task": "T1",
                                             "deadline_at": 1700000000.0}),
    "start:p:T1:w-1": (NeedKind.START, {"project": "p", "task": "T1", "worker": "w-1"}),
    "waiting:p:0a": (NeedKind.WAITING, {"project": "p", "digest": "0a"}),
    "gap:p:0a": (NeedKind.GAP, {"project": "p", "digest": "0a"}),
    "main_exited:p:w-1": (NeedKind.MAIN_EXITED, {"project": "p", "worker": "w-1"}),
    "round:p:storage:0a": (NeedKind.ROUND, {"project": "p", "slug": "storage", "digest": "0a"}),
    "alone:p:1700000000.250000": (NeedKind.ALONE, {"project": "p",
                                                   "schedules_at": 1700000000.25}),
    "goal_unknown:p:0a": (NeedKind.GOAL_UNKNOWN, {"project": "p", "digest": "0a"}),
    "claim:/s/projects/p/claims/T1.json": (NeedKind.CLAIM,
                                           {"path": "/s/projects/p/claims/T1.json"}),
    "project:/s/a:b.json": (NeedKind.PROJECT, {"path": "/s/a:b.json"}),
    "damaged:/s/x.json": (NeedKind.DAMAGED, {"path": "/s/x.json"}),
    "channel:file:refused": (NeedKind.CHANNEL, {"channel": "file", "slug": "refused"}),
    "resume:w-1": (NeedKind.RESUME, {"worker": "w-1"}),
    "orphan:w-1": (NeedKind.ORPHAN, {"worker": "w-1"}),
    "stale:w-1:0.000": (NeedKind.STALE, {"worker": "w-1", "stale_since": 0.0}),
    "expired:01ABC": (NeedKind.EXPIRED, {"message": "01ABC"}),
    "w-1:bob did not start": (NeedKind.DELIVERY, {"worker": "w-1", "text": "bob did not start"}),
    ":of a channel": (NeedKind.DELIVERY, {"worker": "", "text": "of a channel"}),
}


# fmt: on
@pytest.mark.parametrize("key", KEYS)
def test_the_keys_that_are_on_disk_keep_their_form(key):
    kind, fields = KEYS[key]

    assert key_of(kind, **fields) == key
    need = parse_key(key)
    assert need is not None
    assert key_of(need.kind, **need.fields) == key
    assert need.kind is kind


def test_a_text_that_no_row_makes_is_no_key():
    assert parse_key("k1") is None
    assert not is_of(NeedKind.ASK, "asked")


def test_the_key_of_a_long_question_is_cut():
    key = key_of(NeedKind.ASK, project="p", speaker="ann", why="x" * 900)

    assert len(key) == KEY_MAX
    assert is_of(NeedKind.ASK, key)


# --- calls -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, form", list(forms()))
def test_a_call_fills_in_its_row(kind, form):
    row = NEEDS[kind]
    text, ask = row.forms[form] if form else (row.text, row.ask)
    wanted = (names_in(text) | names_in(ask) | set(row.fields)) - {"kind"}
    made = call_of(kind, form, who="ann", **{name: f"<{name}>" for name in wanted})

    assert is_of(kind, made.key)
    assert made.who == "ann"
    assert made.text
    assert "{" not in made.text + made.ask
    assert made.project == ("<project>" if "project" in wanted else "")


def test_braces_in_what_others_wrote_are_left_as_they_are():
    made = call_of(NeedKind.BLOCKED, project="p", task="T1", changed_at=1.0, title="{x}", why="{0}")

    assert made.text == "T1 ({x}) is blocked: {0}"


def calls_in(file: Path) -> Iterator[ast.Call]:
    yield from (
        node for node in ast.walk(ast.parse(file.read_bytes())) if isinstance(node, ast.Call)
    )


def test_no_call_and_no_key_is_made_past_the_table():
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        for node in ast.walk(ast.parse(file.read_bytes())):
            match node:
                case ast.Call(func=ast.Name(id="NeedCall")) if name != "attention/kinds.py":
                    found.append(f"{name}:{node.lineno}: makes a NeedCall")
                case ast.Call(func=ast.Attribute(value=ast.Name(id="needs"), attr="add")) if (
                    name != "attention/call.py"
                ):
                    found.append(f"{name}:{node.lineno}: adds an entry past call_person")
                case ast.JoinedStr(values=[ast.Constant(value=str(begin)), ast.FormattedValue(), *_]
                ) if begin in {f"{kind}:" for kind in NeedKind}:  # fmt: skip
                    found.append(f"{name}:{node.lineno}: writes a key by hand")
                case _:
                    pass
    assert not found, "\n".join(found)


def test_each_kind_is_called_for_somewhere():
    used = set()
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in calls_in(file):
            if ast.unparse(node.func) == "call_of":
                used.add(ast.unparse(node.args[0]))
    by_reason = {f"NeedKind.{kind.name}" for kind in ROUND_KINDS.values()}

    assert "kind" in used  # of the reason of cell E
    assert used - {"kind"} <= {f"NeedKind.{kind.name}" for kind in NeedKind}
    assert {f"NeedKind.{kind.name}" for kind in NeedKind} <= used | by_reason


def test_the_table_loads_nothing_that_a_hook_may_not():
    program = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r});"
        "import vyane_cli.attention.kinds; print(*sys.modules)"
    )
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=True
    )

    assert not set(ran.stdout.split()) & {"typing", "enum", "dataclasses", "json", "re"}
