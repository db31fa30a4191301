"""What the words of people in a conversation are taken for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli.channels.port import Incoming
from vyane_cli.conversations.chat_commands import Command, Intent, understand


@pytest.mark.parametrize(
    "text, intent, command, rest",
    [
        ("hello", Intent.MESSAGE, None, "hello"),
        ("  ", Intent.IGNORE, None, ""),
        ("/takeover do B\nand C", Intent.COMMAND, Command.TAKEOVER, "do B\nand C"),
        ("/TakeOver x", Intent.COMMAND, Command.TAKEOVER, "x"),
        ("/cancel", Intent.COMMAND, Command.CANCEL, ""),
        ("/cancel\nbecause", Intent.COMMAND, Command.CANCEL, "because"),
        ("/relay bob hi", Intent.COMMAND, Command.RELAY, "bob hi"),
        ("/etc/passwd is a file", Intent.MESSAGE, None, "/etc/passwd is a file"),
        ("see /cancel", Intent.MESSAGE, None, "see /cancel"),
        ("    code\n", Intent.MESSAGE, None, "    code"),
    ],
)
def test_a_message_is_a_command_when_its_first_word_is_one(text, intent, command, rest) -> None:
    heard = understand(Incoming("1", "ann", "Ann", text), ["ann"], edited=False)

    assert (heard.intent, heard.command, heard.text) == (intent, command, rest)


@pytest.mark.parametrize(
    "text, left",
    [
        ("/topology", ()),
        ("/topology\n\n/takeover now this", ("/takeover now this",)),
        ("/topology please", ("please",)),
        ("/takeover do B\nand C", ()),
        ("/takeover do B\n\n/cancel", ("/cancel",)),
        ("do B\n/cancel it\n\n/help", ("/cancel it", "/help")),
        ("see\n```\n/cancel it\n```\n/etc/hosts", ()),
        ("do B, not /cancel", ()),
    ],
)
def test_a_command_that_is_not_followed_is_named(text, left) -> None:
    assert understand(Incoming("1", "ann", "Ann", text), ["ann"], edited=False).left == left
    assert understand(Incoming("1", "eve", "Eve", text), ["ann"], edited=False).left == ()


@given(st.text(), st.booleans())
def test_who_is_not_on_the_list_runs_nothing_and_an_edit_runs_nothing(text, edited) -> None:
    stranger = understand(Incoming("1", "eve", "Eve", text), ["ann"], edited=edited)
    again = understand(Incoming("1", "ann", "Ann", text), ["ann"], edited=True)

    assert stranger.intent in (Intent.IGNORE, Intent.STRANGER)
    assert again.intent in (Intent.IGNORE, Intent.NOTE)
    assert understand(Incoming("1", "ann", "", text), [], edited=False).intent in (
        Intent.IGNORE, Intent.STRANGER
    )  # fmt: skip
