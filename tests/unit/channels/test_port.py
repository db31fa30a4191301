"""References to conversations: one form, however they are written."""

import pytest

from vyane_cli.channels.port import Conversation, binding_id, normalise, parse_conversation
from vyane_cli.errors import InvalidInputError

PLACE = Conversation("file", "default", "thread-1", "folder")


def test_a_reference_is_the_same_however_it_is_written() -> None:
    written = parse_conversation({"channel": "File ", "accountId": "DEFAULT",
                                  "conversationId": " thread-1 "})  # fmt: skip

    assert written == normalise(Conversation("file", "default", "thread-1"))
    assert binding_id(written) == binding_id(PLACE)
    assert binding_id(written._replace(account="work")) != binding_id(PLACE)


@pytest.mark.parametrize(
    "data",
    [None, [], {"channel": ""}, {"channel": "../x"}, {"channel": "a", "other": 1},
     {"channel": "a", "conversation_id": "x" * 300}, {"channel": "a", "conversation_id": "a\nb"},
     {"channel": ["a"]}],
)  # fmt: skip
def test_what_is_no_reference_is_refused_by_field(data) -> None:
    with pytest.raises(InvalidInputError):
        parse_conversation(data)
