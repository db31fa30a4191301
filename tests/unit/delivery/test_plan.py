"""What a plan is made from: the moments of a host, the order of the lanes, the boxes."""

import pytest

from tests.unit.scripted import HUMAN, message
from vyane_cli.delivery.gating import Moment
from vyane_cli.delivery.plan import UNTURNED, moment_of
from vyane_cli.hosts.port import HookCall, HostEvent
from vyane_cli.mail.message import MessageKind


def test_a_pull_takes_all_lanes_in_order(one):
    """Control, direct, normal, quiet, then by position."""
    control = one.say("t", kind=MessageKind.TAKEOVER, from_kind=HUMAN)
    quiet = one.say("q", kind=MessageKind.INFO)
    normal1, normal2 = one.say("n1"), one.say("n2")
    direct = one.say("d", from_kind=HUMAN)
    one.prompt()

    assert one.shown == [control, direct, normal1, normal2, quiet]


@pytest.mark.parametrize("event", ["watch", "idle", "rewake"])
def test_an_unattended_session_is_never_woken_and_never_slept_for(one, event):
    """Its exit 2 would be a block, and a sleeper would hold the run open."""
    one.attended = False
    one.say(from_kind=HUMAN)
    plan = getattr(one, event)()

    assert plan.reply.wake == ""
    assert not plan.sleeps
    assert plan.showing is None


def test_the_logical_sessions_box_is_read_too(one):
    """Mail to `vs-…` stays in its own file; the current worker folds both."""
    one.boxes.append(one.boxes[0])
    own, other = one.say("own"), one.put(message(500, "to vs"), box=1).id
    one.prompt()
    one.tool()

    assert one.shown == [own, other]
    assert one.status(own) == one.status(other) == "consumed"


@pytest.mark.parametrize("event", HostEvent)
@pytest.mark.parametrize("rewake", [True, False])
@pytest.mark.parametrize("attended", [True, False])
def test_every_event_has_its_moment_or_none(event, rewake, attended):
    """Total; a subagent never has one; an unattended wake never exists."""
    call = HookCall("h", event, "x", "s", rewake=rewake, attended=attended)
    moment = moment_of(call)

    assert moment is None or isinstance(moment, Moment)
    assert moment_of(call._replace(subagent=True)) is None
    if not attended:
        assert moment not in (Moment.WATCH, Moment.REWAKE)
    assert set(UNTURNED) <= set(Moment)
