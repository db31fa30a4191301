"""A mirror that is killed at every request, or loses every answer; then the threads are read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.discord.mockcord import Contract, MockDiscord
from tests.discord.sessions import Mirrored, mirrored, tell_the_seam
from tests.operations.faults import Action, stopped_at

Reading = tuple[list[Any], list[str], str]

LAST = 400
"""More steps than there are: the loop ends when one was not reached."""
EVERY = 12
"""Of the calls that change a file every so many are killed; the store's own tests kill at each."""
OPERATIONS = (
    "create_thread create_message update_message update_channel list_messages get_channel"
    " add_my_message_reaction get_active_guild_threads get_my_user"
).split()


def tell(one: Mirrored) -> None:
    """What happened before the run: two turns, a child at work, a word of Alice's."""
    one.turn("first\nmore")
    one.push()
    one.turn("second")
    one.kid = one.child("kid", "check")  # type: ignore[attr-defined]
    one.push()
    one.say("please do B")
    one.settle(one.kid, "0 " + "word " * 700 + "\n```py\n    x = 1\n```")  # type: ignore[attr-defined]
    one.turn("third")
    one.sent = one.world.send("channel:discord", "1.2 is out")  # type: ignore[attr-defined]


def run(one: Mirrored) -> None:
    """What is killed, and run again after it."""
    one.pull()
    one.push()


def story(one: Mirrored) -> Action:
    return lambda say: run(one)


def read(one: Mirrored) -> Reading:
    return one.scene(), one.words(), one.world.status(one.sent)  # type: ignore[attr-defined]


def undisturbed(contract: Contract) -> Reading:
    """What a person reads when nothing was killed."""
    server = MockDiscord(contract=contract, limits={"enabled": False})
    with server, mirrored(server) as one:
        tell(one)
        run(one)
        run(one)
        return read(one)


def killed_at_each_step(
    contract: Contract, expected: Reading, monkeypatch: pytest.MonkeyPatch, every: int = EVERY
) -> None:
    """Assert it after a kill at each request, and at each `every`-th change of a file."""
    tell_the_seam(monkeypatch)
    killed = set()
    steps = iter(range(1, LAST))
    for k in steps:
        with MockDiscord(contract=contract, limits={"enabled": False}) as server:
            with mirrored(server) as one:
                tell(one)
                ended = stopped_at(k, story(one))
                if not ended.surprise and ended.finished:
                    break
                run(one)
                run(one)
                assert read(one) == expected, ended.at
            server.assert_clean()
        killed.add(ended.at.split()[1])
        if "request" not in ended.at and "answer" not in ended.at:
            for _ in range(every - 1):
                next(steps, None)

    assert {"request", "answer"} < killed  # and some of those that change a file


def losing_each_answer(contract: Contract, expected: Reading, operation: str) -> None:
    """Assert it after each loss of an answer to this operation."""
    for skip in range(30):
        with MockDiscord(contract=contract, limits={"enabled": False}) as server:
            with mirrored(server) as one:
                tell(one)
                lost = server.fault(kind="drop", operation=operation, when="after", skip=skip)
                run(one)
                run(one)
                assert read(one) == expected, (operation, skip)
            server.assert_clean()
        if not lost.hits:
            break
    else:
        pytest.fail("more requests than a run should need")
