"""Tasks: what may be said of one, and tasks.json."""

import pytest

from vyane_cli.errors import InvalidInputError
from vyane_cli.projects.queue import add
from vyane_cli.projects.task import (
    TRANSITIONS,
    Ledger,
    Task,
    TaskStatus,
    parse_ledger,
    render_ledger,
)


def ledger_of(*tasks: Task) -> Ledger:
    ledger = Ledger()
    for task in tasks:
        ledger, _ = add(ledger, task, 1.0)
    return ledger


def titled(title: str = "a task", **more: object) -> Task:
    return Task("", title, **more)  # type: ignore[arg-type]


def test_the_table_of_transitions_is_total():
    assert set(TRANSITIONS) == set(TaskStatus)


def test_a_number_is_never_used_twice():
    ledger = ledger_of(titled(), titled())
    ledger = parse_ledger({**render_ledger(ledger), "tasks": render_ledger(ledger)["tasks"][:1]})

    assert add(ledger, titled(), 2.0)[1].id == "T3"


@pytest.mark.parametrize(
    "field, value",
    [("title", ""), ("title", "a\nb"), ("title", "x" * 201), ("line", "a b"), ("text", "a\0b")],
)
def test_texts_that_are_not_taken_are_named(field, value):
    with pytest.raises(InvalidInputError) as caught:
        add(Ledger(), titled()._replace(**{field: value}), 1.0)

    assert caught.value.field == field


# ------------------------------------------------------------------ tasks.json


def test_a_task_of_an_id_and_a_title_is_enough():
    (task,) = parse_ledger({"tasks": [{"id": "T4", "title": "by hand"}]}).tasks

    assert (task.status, task.order, task.after) == (TaskStatus.PENDING, 4, ())


@pytest.mark.parametrize(
    "data, says",
    [
        ({}, '"tasks" is not a list'),
        ({"tasks": {}}, '"tasks" is not a list'),
        ({"tasks": ["T1"]}, "tasks[0] is not an object"),
        ({"tasks": [{"title": "x"}]}, "tasks[0].id: None is not an id"),
        ({"tasks": [{"id": "T1"}]}, "tasks[0] (T1).title"),
        ({"tasks": [{"id": "T1", "title": 3}]}, "tasks[0] (T1).title: 3 is not a text"),
        ({"tasks": [{"id": "T1", "title": "x", "status": "doing"}]}, "'doing' is not one of"),
        ({"tasks": [{"id": "T1", "title": "x", "status": []}]}, "[] is not one of"),
        ({"tasks": [{"id": "T1", "title": "x", "status": "blocked"}]}, "(T1).reason"),
        ({"tasks": [{"id": "T1", "title": "x", "status": "done"}]}, "(T1).artifact"),
        ({"tasks": [{"id": "T1", "title": "x", "after": "T2"}]}, "is not a list of ids"),
        ({"tasks": [{"id": "T1", "title": "x", "order": "1"}]}, "is not a whole number"),
        ({"tasks": [{"id": "T1", "title": "x", "deadline_at": "noon"}]}, "Unix seconds"),
        ({"tasks": [{"id": "T1", "title": "x", "deadline_at": float("nan")}]}, "Unix seconds"),
        ({"tasks": [{"id": "T1", "title": "x"}, {"id": "t1", "title": "y"}]}, "two tasks"),
        ({"tasks": [], "next": "3"}, "next: '3' is not a whole number"),
    ],
)
def test_what_is_wrong_in_an_edited_ledger_is_named_by_its_place(data, says):
    with pytest.raises(ValueError, match=r".+") as caught:
        parse_ledger(data)

    assert says in str(caught.value)


def test_fields_that_are_not_known_survive():
    data = {"tasks": [{"id": "T1", "title": "x", "colour": "red"}], "_about": "mine", "later": 1}

    rendered = render_ledger(parse_ledger(data))
    assert rendered["_about"] == "mine"
    assert rendered["later"] == 1
    assert rendered["tasks"][0]["colour"] == "red"
