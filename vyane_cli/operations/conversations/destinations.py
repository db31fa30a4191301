"""Route: ask the router where the result of a session goes. Changes nothing, and takes no text."""

from vyane_cli.core.conversations import Conversation
from vyane_cli.core.destinations import Destination, check_event, route
from vyane_cli.operations.conversations.bindings import exact_key
from vyane_cli.store import bindings as book

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.runtime import Runtime


def find_destination(
    runtime: "Runtime",
    session: str,
    requester: Conversation | None,
    *,
    event: str,
    fail_closed: bool = True,
) -> Destination:
    """The binding that gets the result, or the fallback, with the reason by name."""
    check_event(event)
    key = exact_key(runtime, session) if session else ""
    found = book.load(runtime.layout).values()
    return route(found, key, requester, runtime.clock().at, fail_closed=fail_closed)
