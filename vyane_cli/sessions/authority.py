"""Authority: the acts reserved for a person, and the record of an agent's attempt at one."""

from __future__ import annotations

from vyane_cli.errors import InvalidInputError, RefusedError
from vyane_cli.sessions.identity import login_name
from vyane_cli.sessions.speaker import FromKind, Speaker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vyane_cli.home import Home


def claim_kind(home: Home, given: str | None, speaker: Speaker) -> Speaker:
    """Return the speaker under `--from-kind`.

    RefusedError (exit 5) for an agent that claims to be a person.
    """
    if given is None or given == speaker.kind:
        return speaker
    if given not in tuple(FromKind):
        raise InvalidInputError("from-kind", given, "one of " + ", ".join(FromKind))
    if given == FromKind.WORKER:
        raise InvalidInputError(
            "from-kind",
            given,
            "yours: this command does not run in a known session",
            hint="set VYANE_WORKER to the worker's id, or register it: vyane workers register",
        )
    if given == FromKind.HUMAN:
        require_person(home, speaker, "speak as a person")
    name = login_name(home.environ)
    return Speaker(FromKind(given), name, name, speaker.session)


def require_person(home: Home, speaker: Speaker, what: str) -> None:
    """Refuse an agent that uses the person's authority, and note the attempt in its timeline."""
    if not speaker.in_host or is_authorised(home, speaker):
        return
    if speaker.session is not None:
        from vyane_cli.sessions.facts import diagnose

        diagnose(home, speaker.session, "direction", f"refused: {what}")
    whose = f": this is the session of {speaker.session.name}" if speaker.session else ""
    raise RefusedError(
        f"an agent may not {what}{whose}",
        slug="direction",
        hint="the person runs this in a terminal, or lists the worker under [authority]",
    )


def is_authorised(home: Home, speaker: Speaker) -> bool:
    """Return whether `[authority] workers` lists the speaker's id.

    A name would not do: it can be taken.
    """
    return speaker.id in home.config["authority.workers"]
