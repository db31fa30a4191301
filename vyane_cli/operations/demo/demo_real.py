"""The demo with the real client: two sessions in tmux, offline, against a scripted model.

Uses the test laboratory of a checkout (`tests/hostlab`), which is not part of an installation.
"""

import importlib
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vyane_cli.errors import NotFoundError
from vyane_cli.operations.demo.demo import Scene
from vyane_cli.operations.demo.simulation import PROGRAM, Stage
from vyane_cli.store import files, templates


def play_real(stage: Stage) -> Iterator[Scene]:
    """Two real sessions: a message to one that works, and one to it when it is idle."""
    lab_module = _laboratory()
    root = Path(stage.folder)
    with lab_module.Lab(root / "lab") as lab:
        _put_on_path(lab, root / "bin")
        lab.env["VYANE_HOME"] = stage.layout.root
        environ = {**lab.user_environment(), "LC_ALL": "C.UTF-8"}
        scene = Scene("set up")
        for words in (("init",), ("hooks", "install", "--scope", "user")):
            ran = stage.vyane(*words, environ=environ)
            scene.say("you", "$ vyane " + " ".join(words), ran.err)
            scene.expect(ran.status == 0, f"vyane {words[0]} ended well")
        yield scene
        ann, bob = lab.client("ann"), lab.client("bob")
        bob.script(lab_module.turn("Hello."))
        with bob.tui() as screen:
            screen.submit("hello")
            bob.request(1)
            screen.wait_status("idle")
            name = _name(stage, environ, screen.session_id)
            yield _working(lab_module, lab, ann, bob, screen, name)
            yield _idle(stage, environ, bob, screen, name)


def _working(lab_module: Any, lab: Any, ann: Any, bob: Any, screen: Any, name: str) -> Scene:
    scene = Scene("a message to a session that is working")
    hold = lab.hold()
    bob.script(lab_module.turn(hold.call), lab_module.turn("Done."))
    screen.submit("run the tests")
    hold.reached()
    scene.say("bob", f"claude runs, as {name}: its tool is at work")
    text = "The token endpoint moved to /v2/token."
    ann.script(
        lab_module.turn(lab_module.bash(f"vyane send {name} '{text}'")), lab_module.turn("Sent.")
    )
    ann.run(f"tell {name}")
    scene.say("ann", f"claude -p: its agent runs vyane send {name} …")
    hold.release()
    request = bob.request_with(text)
    scene.say("bob", "the model's next request holds it")
    scene.expect(request.text.count(text) == 1, "once")
    screen.wait_status("idle")
    return scene


def _idle(stage: Stage, environ: dict[str, str], bob: Any, screen: Any, name: str) -> Scene:
    scene = Scene("a message to an idle session: it wakes")
    before = len(bob.requests())
    text = "Can you review my change?"
    bob.script({"blocks": ["I will."]})
    ran = stage.vyane("send", name, text, "--from-kind", "human", "--json", environ=environ)
    scene.say("you", f'$ vyane send {name} "{text}"', json.loads(ran.out)["outlook"])
    request = bob.request_with(text, after=before)
    scene.expect(text in request.text, "the idle session began a turn with it")
    screen.wait_status("idle")
    scene.say("bob", "its screen:", _conversation(screen.screen()))
    return scene


def _conversation(screen: str) -> str:
    """What stands above the input box, without empty lines."""
    lines = [line.rstrip() for line in screen.splitlines() if line.strip()]
    boxes = [number for number, line in enumerate(lines) if line.startswith("─────")]
    return "\n".join(lines[: boxes[-2]] if len(boxes) > 1 else lines)


def _laboratory() -> Any:
    """`hostlab.lab` of the checkout; NotFoundError that says what is missing."""
    tests = os.path.join(os.path.dirname(templates.PACKAGE), "tests")
    if not os.path.isfile(os.path.join(tests, "hostlab", "lab.py")):
        raise NotFoundError(
            "laboratory", os.path.join(tests, "hostlab"), hint="--real needs a checkout of vyane"
        )
    client = os.environ.get("HOSTLAB_CLAUDE", "")
    if not os.access(client, os.X_OK) or not os.path.isfile(client):
        raise NotFoundError(
            "client",
            client or "$HOSTLAB_CLAUDE",
            hint="set HOSTLAB_CLAUDE to the native binary of Claude Code; "
            "`eval $(scripts/install-test-tools)` installs one and sets it",
        )
    if tests not in sys.path:
        sys.path.insert(0, tests)
    return importlib.import_module("hostlab.lab")


def _put_on_path(lab: Any, folder: Path) -> None:
    """A `vyane` that is this one."""
    package = os.path.dirname(templates.PACKAGE)
    script = f"#!{sys.executable} -P\nimport sys\nsys.argv.insert(1, {package!r})\n{PROGRAM}\n"
    files.make_directories(str(folder))
    files.replace(str(folder / "vyane"), script.encode(), mode=0o700)
    lab.path = f"{folder}:{lab.path}"


def _name(stage: Stage, environ: dict[str, str], session: str) -> str:
    rows = json.loads(stage.vyane("workers", "--json", environ=environ).out)
    for row in rows:
        if row["session_id"] == session:
            return str(row["name"])
    raise NotFoundError("worker of session", session)
