"""Checks of the places where people follow sessions: channels, bindings, conversations."""

from __future__ import annotations

from vyane_cli.channels.port import Verdict
from vyane_cli.conversations import bindings as book
from vyane_cli.conversations import state as mirrors
from vyane_cli.conversations.binding import BindingStatus, has_moved, summary_of
from vyane_cli.conversations.channels import configured, is_set_up, open_channel, settings_of
from vyane_cli.conversations.status import board_rows
from vyane_cli.errors import VyaneError
from vyane_cli.health.subject import Finding, Subject, some

AGAIN = "then run `vyane mirror push --again`"


def channels(subject: Subject) -> Finding:
    """Each channel that is set up can be opened, and none was turned off by what it answered."""
    runtime, notes = subject.runtime, []
    names = configured(runtime)
    if not names:
        return Finding(True, "none is set up")
    for name in names:
        try:
            open_channel(runtime, name, "default", {})
        except VyaneError as error:
            return Finding(False, f"{name}: {error.message}", error.hint or "mend config.toml")
        state = mirrors.load_channel(subject.layout, name, "default")
        fault = state.fault
        if fault is not None and fault.verdict == Verdict.OFF:
            fix = f"{fault.fix}; {AGAIN}" if fault.fix else AGAIN
            return Finding(False, f"{name}: {fault.detail or fault.reason}", fix)
        if fault is not None and fault.fix and fault.retry_ms > subject.clock.now_ms:
            return Finding(False, f"{name}: {fault.detail}", fault.fix)
        if state.problem:
            return Finding(False, f"{name}: {state.problem}", "mend it, then `vyane mirror pull`")
        notes.append(name)
        if not settings_of(runtime, name)["allow_users"]:
            notes[-1] += " (nobody may write to sessions: allow_users is empty)"
        elif state.strangers:
            who = some([f"{user} ×{count}" for user, count in state.strangers.items()], 3)
            notes[-1] += f" (words of people who are not in allow_users: {who})"
    return Finding(True, ", ".join(notes))


def bindings(subject: Subject) -> Finding:
    """Bindings lead to channels that are set up, and results have places of their own."""
    found = list(book.load(subject.layout).values())
    counts = summary_of(found, subject.clock.at)
    active = [one for one in found if one.status is BindingStatus.ACTIVE]
    lost = [
        one.id for one in active if not is_set_up(subject.runtime, *one.conversation.account_key)
    ]
    if lost:
        fix = "set the channel up in config.toml, or `vyane unbind --id ID --reason …`"
        return Finding(False, f"their channel is not set up: {some(lost)}", fix)
    detail = f"{counts['active']} active"
    if counts["expired"]:
        detail += f", {counts['expired']} past their end (the next sweep ends them)"
    fallbacks: dict[str, int] = {}
    for name in configured(subject.runtime):
        state = mirrors.load_channel(subject.layout, name, "default")
        for reason, count in state.fallbacks.items():
            fallbacks[reason] = fallbacks.get(reason, 0) + count
    if fallbacks:
        told = ", ".join(f"{reason} ×{count}" for reason, count in sorted(fallbacks.items()))
        detail += f"; results without a place of their own: {told}"
    return Finding(True, detail)


def conversations(subject: Subject) -> Finding:
    """Nothing stands in the way of a conversation: not locked, not deleted, nothing refused."""
    waiting, held, gone, fix = 0, [], [], ""
    known = book.load(subject.layout)
    for one in known.values():
        state = mirrors.load_thread(subject.layout, one)
        if state is None:
            continue
        open_now = one.status is not BindingStatus.ENDED
        waiting += len(state.outbox) if open_now else 0
        fault = state.fault
        if fault is None or fault.verdict == Verdict.LATER:
            continue
        if fault.verdict == Verdict.GONE:
            gone += [] if has_moved(known.values(), one) else [one.conversation.id]
        elif open_now:
            held.append(f"{one.conversation.id}: {fault.detail or fault.reason}")
            fix = fix or fault.fix
    for name in configured(subject.runtime):
        channel = mirrors.load_channel(subject.layout, name, "default")
        for row in board_rows(subject.runtime, name, channel.board):
            waiting += row.waiting
            if row.waiting and row.fix:  # a rate limit has none
                held.append(f"{row.session}: {row.detail}")
                fix = fix or row.fix
        for fault in channel.refused.values():
            if fault.verdict != Verdict.LATER:
                held.append(fault.detail or fault.reason)
                fix = fix or fault.fix
    held = list(dict.fromkeys(held))
    if held:
        return Finding(False, some(held, 3), fix or f"see `vyane mirror status`; {AGAIN}")
    detail = f"{waiting} posts wait" if waiting else "nothing waits"
    if gone:
        detail += f"; deleted, and left alone: {some(gone, 3)}"
    return Finding(True, detail)
