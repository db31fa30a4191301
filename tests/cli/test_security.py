"""What others wrote, named or linked: into paths, terminals, JSON, argument lists and scripts."""

import ast
import inspect
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.simulated import Host, fast_folder, machine, vyane
from vyane_cli.errors import VyaneError
from vyane_cli.home import Home
from vyane_cli.hosts import claude_settings
from vyane_cli.kernel.runtimes import BUILT_IN, fill
from vyane_cli.setup import home, hooks
from vyane_cli.storage.layout import Layout

PACKAGE = Path(__file__).parents[2] / "vyane_cli"
ESCAPES = "a\x1b]0;pwned\x07\x1b[2J\x9b31m\u202eb\u200b\U000e0041"
OF_A_TERMINAL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


# ------------------------------------------------------------------ no shell


def calls() -> list[tuple[str, ast.Call]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call):
                where = f"{path.relative_to(PACKAGE)}:{node.lineno}"
                found.append((where, node))
    return found


def test_no_shell_and_no_code_from_data_anywhere_in_the_package():
    """Programs get a list of arguments; nothing is evaluated, unpickled or given to a shell."""
    forbidden = {"system", "popen", "getoutput", "getstatusoutput", "eval", "exec", "compile"}
    found = []
    for where, call in calls():
        name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        name = call.func.id if isinstance(call.func, ast.Name) else name
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        of_re = isinstance(owner, ast.Name) and owner.id == "re"
        if name in forbidden and not of_re:
            found.append(f"{where}: {name}")
        if any(word.arg == "shell" for word in call.keywords):
            found.append(f"{where}: shell=")
        of_subprocess = isinstance(owner, ast.Name) and owner.id == "subprocess"
        if of_subprocess and call.args:
            first = call.args[0]
            text = isinstance(first, ast.JoinedStr) or (
                isinstance(first, ast.Constant) and isinstance(first.value, str)
            )
            if text:
                found.append(f"{where}: a command that is a text")
    source = "\n".join(path.read_text() for path in PACKAGE.rglob("*.py"))

    assert found == []
    assert not re.search(r"^\s*(import|from) (pickle|marshal|shelve|yaml)\b", source, re.M)


def test_a_shell_runs_only_what_is_written_here():
    """`doctor` asks what yours prints before the guard; a mirror is left behind by `"$@" &`."""
    named = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.py"))
        if re.search(r"[\"'](/bin/)?(sh|bash|zsh)[\"'],\s*[\"']-l?c[\"']", path.read_text())
    ]

    assert named == [
        "conversations/after_stop.py",
        "health/machine.py",
    ]
    assert """'"$@" &', "sh", *command""" in (PACKAGE / named[0]).read_text()


# ------------------------------------------------------------------ arguments


@pytest.mark.parametrize("way", ["spawn", "resume", "interactive"])
@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("text", ["--dangerously-skip-permissions", "-c x", "--settings={}", "- a"])
def test_a_prompt_is_never_an_option_of_the_program_that_gets_it(name, way, text):
    """By standard input, or as an argument that begins with no dash."""
    line = getattr(BUILT_IN[name], way)
    values = dict.fromkeys(("prompt_file", "session_id", "cwd", "worker"), "x")
    filled = fill(line, {**values, "prompt": text})
    options = [word for word in filled if word.startswith("-")]

    assert options == [word for word in line if word.startswith("-")]
    assert all(text == word.strip() for word in filled if text in word)


@given(st.text(min_size=1, max_size=30))
def test_what_is_filled_in_is_one_argument_and_not_looked_at_again(text):
    """Braces in a prompt are text; nothing is split."""
    filled = fill(("p", "{prompt}", "--in={prompt}"), {"prompt": text})

    assert len(filled) == 3
    assert filled[1].removeprefix(" ") == text.removeprefix(" ")
    assert filled[2] == f"--in={text}"


def test_words_that_look_like_options_are_text_after_two_dashes(host):
    one = host()
    one.start()
    sent = vyane(one.home, "--json", "send", "project", "--", "--help; rm -rf $(pwd) `id`")

    assert sent.status == 0
    assert "--help; rm -rf $(pwd) `id`" in one.prompt().text + one.batch().text


@pytest.mark.parametrize(
    "name", ["a b", "it's", "$(touch pwned)", "`touch pwned`", '"; touch pwned; "', "a\\nb", "-x"]
)
def test_the_guard_of_any_state_root_runs_nothing_of_its_name(name, tmp_path):
    """The script quotes what it is given; settings.json holds the path as data."""
    root = tmp_path / name / "vyane"
    settings = tmp_path / "settings.json"
    home = Home(str(root), environ={"HOME": str(tmp_path)})
    hooks.install(home, claude_settings, str(settings))
    guard = home.layout.guard
    before = sorted(str(p) for p in tmp_path.rglob("pwned"))
    for event in ("PreToolUse", "SessionStart"):
        ran = subprocess.run(
            [guard, event],
            input=b"{}",
            capture_output=True,
            cwd=tmp_path,
            env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            check=False,
        )
        assert (ran.returncode, ran.stdout) == (0, b""), ran.stderr
    commands = [entry.handler["command"] for entry in claude_settings.find(settings.read_text())]

    assert set(commands) == {guard}
    assert sorted(str(p) for p in tmp_path.rglob("pwned")) == before


# ------------------------------------------------------------------ paths


COMPUTED = ("archive", "key")
"""A month and a digest: no text of anybody's."""


def path_makers() -> list[str]:
    return [
        name
        for name, made in inspect.getmembers(Layout, inspect.isfunction)
        if not name.startswith("__") and name not in COMPUTED
    ]


@pytest.mark.parametrize("name", path_makers())
@given(
    text=st.text(max_size=200) | st.sampled_from(["..", ".", "/", "a/../../b", "\0", "a\nb", ""])
)
def test_no_id_or_name_makes_a_path_outside_of_the_state_root(name, text):
    """Refused, or a path below the root."""
    layout = Layout("/srv/of/the/state")
    method = getattr(layout, name)
    wanted = [
        1 if parameter.annotation in (int, "int") else text
        for parameter in inspect.signature(method).parameters.values()
    ]
    try:
        path = method(*wanted)
    except (VyaneError, ValueError):
        return

    assert os.path.normpath(path) == path
    assert path.startswith("/srv/of/the/state/")
    assert "\0" not in path


def test_a_purge_follows_no_link_out_of_the_state_root(host, tmp_path, monkeypatch):
    """What a link points to is somebody else's."""
    one = host()
    one.start()
    outside = tmp_path / "precious"
    outside.mkdir()
    (outside / "file").write_text("kept")
    os.symlink(outside, Path(one.home) / "messages" / "link")
    monkeypatch.setattr(home, "SETTLE_S", 0.0)
    ran = vyane(one.home, "uninstall", "--purge", "--yes")

    assert ran.status == 0, ran.err
    assert not os.path.exists(one.home)
    assert (outside / "file").read_text() == "kept"


# ------------------------------------------------------------------ modes


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o777])
def test_every_file_of_the_state_is_private_whatever_the_umask(mask):
    """Folders 0700 and files 0600; the scripts of hosts are 0700."""
    with machine() as make:
        one = make()
        shutil.rmtree(one.home)

        def masked() -> None:
            os.umask(mask)

        def run(*words: str) -> None:
            ran = vyane(one.home, *words, first=masked)
            assert ran.status == 0, ran.err

        run("init")
        run("hooks", "install")
        for name in ("SessionStart-startup-interactive", "UserPromptSubmit"):
            assert one.hook(name, popen={"preexec_fn": masked}).status == 0
        run("workers", "register", "bob")
        run("send", "project", "hello")
        run("send", "all", "to all", "--idempotency-key", "k")
        run("project", "create", "alpha", "--dir", one.cwd, "--main", "bob")
        run("task", "add", "write", "--project", "alpha")
        for name in ("PostToolBatch", "Stop", "FileChanged"):
            assert one.hook(name, popen={"preexec_fn": masked}).status in (0, 2)
        run("watch", "project", "--history", "--consumer", "me")
        run("gc", "--older-than", "0.001s")
        wrong = []
        for path in [Path(one.home), *Path(one.home).rglob("*")]:
            mode = stat.S_IMODE(path.lstat().st_mode)
            script = path.parent.name == "claude-code" and path.name in ("guard", "vyane")
            if mode != (0o700 if path.is_dir() or script else 0o600):
                wrong.append(f"{path}: {mode:04o}")

        assert wrong == []


# ------------------------------------------------------------------ terminals and JSON


@pytest.fixture
def hostile(host) -> Host:
    """A session whose every text that others choose holds escape sequences."""
    one = host()
    one.start(cwd=f"{one.cwd}/{ESCAPES.replace(chr(0), '')}", model=ESCAPES)
    one.prompt(text=ESCAPES)
    one.world.send(one.worker, ESCAPES, summary="s " + ESCAPES[:60])
    one.tool(tool_name=ESCAPES)
    one.batch(tool_calls=[{"tool_name": ESCAPES, "tool_use_id": ESCAPES}])
    one.world.send(one.worker, ESCAPES)
    one.stop(last_assistant_message=ESCAPES)
    return one


SHOWN = [
    ("inbox", "NAME", "--all"),
    ("workers",),
    ("status",),
    ("topology", "--messages"),
    ("timeline", "show", "NAME"),
    ("timeline", "read", "NAME", "--history"),
    ("timeline", "export", "NAME", "--format", "markdown"),
    ("doctor",),
]


@pytest.mark.parametrize("words", SHOWN, ids=" ".join)
def test_nothing_that_others_wrote_reaches_a_terminal_as_a_command_to_it(hostile, words):
    ran = vyane(hostile.home, *(hostile.worker if w == "NAME" else w for w in words))
    text = (ran.out + ran.err).decode()

    assert not OF_A_TERMINAL.search(text), repr(text)


def test_a_message_is_shown_and_explained_without_its_escapes(hostile):
    entries = hostile.world.inbox(hostile.worker).mailbox.entries
    for words in (("show",), ("show", "--full"), ("why",)):
        for entry in entries:
            ran = vyane(hostile.home, words[0], entry.message.id, *words[1:])
            assert ran.status == 0
            assert not OF_A_TERMINAL.search((ran.out + ran.err).decode()), words


@pytest.mark.parametrize("words", SHOWN[:4], ids=" ".join)
def test_json_gives_back_what_was_written_and_stays_one_document(hostile, words):
    named = [hostile.worker if word == "NAME" else word for word in words]
    ran = vyane(hostile.home, "--json", *named)

    json.loads(ran.out)
    assert not any(byte < 32 and byte != 10 for byte in ran.out)


def test_an_agent_reads_no_invisible_text(hostile):
    """Tag characters spell words that no person sees; format characters hide and turn others."""
    text = hostile.prompt().text + hostile.batch().text
    hidden = [c for c in text if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t"]

    assert hidden == []


# ------------------------------------------------------------------ secrets and sizes


def test_no_secret_of_the_environment_is_kept_anywhere(tmp_path):
    """Of a sender, of a child's parent, of a hook: not in state, logs or error texts."""
    secret = "s3cr3t-0123456789-token"
    with fast_folder() as folder:
        home = folder / "vyane"
        environ = {"ANTHROPIC_API_KEY": secret, "MY_TOKEN": secret, "CLAUDE_CODE_OAUTH": secret}

        def run(*words: str) -> bytes:
            ran = vyane(home, *words, environ=environ)
            return ran.out + ran.err

        said = run("init") + run("workers", "register", "bob")
        (home / "config.toml").write_text(
            f"[runtimes.echo]\nspawn = {json.dumps([sys.executable, '-c', 'print(1)'])}\n"
        )
        said += run("spawn", "do it", "--parent", "bob", "--runtime", "echo")
        said += run("send", "bob", "hello") + run("send", "nobody", "x") + run("doctor")
        said += run("wait", "bob", "--timeout", "0.1s") + run("logs", "bob")
        kept = b"".join(p.read_bytes() for p in home.rglob("*") if p.is_file())

    assert secret.encode() not in said
    assert secret.encode() not in kept


@pytest.mark.parametrize(
    "words, field",
    [
        (("send", "project", "-"), "payload"),
        (("send", "project", "x", "--summary", "x" * 100_000), "summary"),
        (("send", "project", "x", "--idempotency-key", "x" * 10_000), "idempotency-key"),
        (("send", "project", "x", "--task-id", "x" * 10_000), "task-id"),
        (("workers", "register", "x" * 10_000), "name"),
        (("watch", "project", "--history", "--consumer", "x" * 10_000), "consumer"),
        (("watch", "project", "--history", "--after", "vc1." + "A" * 100_000), "cursor"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_oversized_input_is_refused_by_its_field_and_nothing_is_stored(host, words, field):
    one = host()
    one.start()
    data = b"x" * 5_000_000 if words[-1] == "-" else b""
    before = sorted(str(p) for p in Path(one.home).rglob("*.json*"))
    ran = vyane(one.home, "--json", *words, stdin=data)
    error = json.loads(ran.err)["error"]

    assert ran.status == 2
    assert field in error["message"]
    assert len(error["message"]) < 1_000
    assert sorted(str(p) for p in Path(one.home).rglob("*.json*")) == before
