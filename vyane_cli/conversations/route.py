"""Route report: where the router sends the result of a session. Changes nothing, takes no text."""

from __future__ import annotations

from dataclasses import dataclass, field

from vyane_cli.channels.port import Conversation
from vyane_cli.conversations import bindings
from vyane_cli.conversations.binding import Binding, render_binding
from vyane_cli.conversations.bindings import exact_key
from vyane_cli.conversations.route_rules import Reason, RouteMode, check_event, route
from vyane_cli.kernel.values import InJson

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteReport:
    """Where the result of a session goes, and why."""

    mode: RouteMode
    reason: Reason
    binding: Binding | None = field(metadata={InJson: InJson(form=render_binding)})
    """None if no binding gets the result."""


def find_destination(
    home: Home,
    session: str,
    requester: Conversation | None,
    *,
    event: str,
    fail_closed: bool = True,
) -> RouteReport:
    """Return the binding that gets the result, or the fallback, with the reason by name."""
    check_event(event)
    key = exact_key(home, session) if session else ""
    found = bindings.load(home.layout).values()
    chosen = route(found, key, requester, home.clock().at, fail_closed=fail_closed)
    return RouteReport(mode=chosen.mode, reason=chosen.reason, binding=chosen.binding)
