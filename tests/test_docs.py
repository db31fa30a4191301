"""
The pages against the code: each table that repeats one of the code's, each command
that is shown, each output, each link. How they are written: docs/contributing/tests.md.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vyane_cli import errors
from vyane_cli.channels import ADAPTERS
from vyane_cli.cli.message import BODY_KEYS
from vyane_cli.delivery import gating
from vyane_cli.delivery.gating import GATES, MATRIX
from vyane_cli.delivery.why import RULES
from vyane_cli.errors import EXIT_CODES
from vyane_cli.kernel.config import CHANNEL_KEYS, DeliveryLimits
from vyane_cli.mail.mailbox import FINAL, NEXT, Op
from vyane_cli.mail.message import (
    DIRECTIONS,
    PAYLOADS,
    Lane,
    Message,
    MessageKind,
    MessageStatus,
    ToKind,
)
from vyane_cli.mail.send import MessageDraft, _payload
from vyane_cli.projects.claim_rules import ENDS
from vyane_cli.projects.task import TRANSITIONS
from vyane_cli.storage.layout import Layout

sys.path.insert(0, str(Path(__file__).parent))

from docs import pages, stages, tables, terminals

ROOT = pages.ROOT
REFERENCE = ROOT / "docs" / "reference"
PAGES = pages.pages()


def relative(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return tables.describe()


# --- the command line ----------------------------------------------------------------------


def test_the_cli_page_has_every_command_with_its_arguments_options_and_defaults(described) -> None:
    text = tables.CLI.read_text()
    for name, about in tables.every_command(described["commands"]):
        section = tables.section(text, name)

        assert section is not None, f"{name} has no section"
        first, _, table = tables.parts(section)
        assert first == tables.first_words(about), name
        assert table == tables.parameters(about), name


def test_the_cli_page_has_no_command_that_is_not_there(described) -> None:
    headings = re.findall(r"^#+ (vyane .*)$", tables.CLI.read_text(), re.M)

    assert sorted(headings) == sorted(n for n, _ in tables.every_command(described["commands"]))


def command_lines(page: Path) -> list[tuple[str, str]]:
    """(where, command) of each `vyane …` in the page's shell blocks and its inline code."""
    found = []
    for block in pages.blocks(page):
        if block.language == "console":
            lines = [c.text for c in pages.commands(block)]
        elif block.language == "sh":
            lines = re.sub(r"\\\n", " ", "\n".join(block.lines)).splitlines()
        else:
            continue
        found += [(f"{relative(page)}:{block.line}", line) for line in lines]
    inline = re.findall(r"`(vyane [^`]+)`", pages.prose(page))
    return found + [(relative(page), line) for line in inline]


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_each_command_and_option_that_a_page_shows_is_there(page, described) -> None:
    for where, line in command_lines(page):
        for words in re.findall(r"(?<![\w/.-])vyane ((?:[^\s|;&)>#]+ ?)+)", line):
            assert (problem := misfit(words.split(), described)) == "", f"{where}: {problem}"


def misfit(words: list[str], described: dict[str, Any]) -> str:
    """What is wrong with the words after `vyane`; empty when nothing is."""
    around, commands = {"--home", "--json", "--version", "--help", "-h"}, described["commands"]
    known, name = set(around), ""
    quoted = False
    for word in words:
        quoted ^= word.count('"') % 2 == 1 or word.count("'") % 2 == 1
        if quoted:
            continue
        if word in commands:
            name, about = f"{name} {word}", commands[word]
            commands = about.get("commands", {})
            for one in (about, commands.get("read", {"params": []})):  # `timeline W --history`
                known |= {n for p in one["params"] for n in p["names"] if n.startswith("-")}
        elif not name and word not in around and not word.isupper() and word[0].islower():
            return f"vyane {word}: no such command"
        elif re.fullmatch(r"--?[a-z][\w-]*(=.*)?", word) and word.split("=")[0] not in known:
            return f"vyane{name}: no option {word}"
    return ""


@pytest.mark.parametrize(
    "line", ["vyane sent bob", "vyane send bob hi --lane direct", "vyane hooks install --scpe user"]
)
def test_a_command_or_option_that_is_not_there_is_found(line, described) -> None:
    assert misfit(line.split()[1:], described)


NOT_RUN = {"docs/explanation/performance.md"}  # benchmarks: minutes
RUN = [
    page
    for page in PAGES
    if relative(page) not in NOT_RUN and any(b.language == "console" for b in pages.blocks(page))
]


@pytest.mark.parametrize("page", RUN, ids=relative)
def test_the_commands_of_a_page_print_what_the_page_shows(page, tmp_path) -> None:
    assert not (found := terminals.differences(page, tmp_path)), "\n".join(found)


def test_a_page_that_shows_something_else_is_found(tmp_path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ echo one\none\n$ echo two\n2\n```\n")
    (tmp_path / "home").mkdir()

    run = terminals.Run.__new__(terminals.Run)
    run.ids = terminals.Ids()

    (block,) = pages.blocks(page)
    one, two = pages.commands(block)
    assert run.ids.agree(one.output, ["one"])
    assert not run.ids.agree(two.output, ["two"])


# --- settings, exit codes, variables -------------------------------------------------------


def test_the_settings_page_has_every_key_with_its_default_and_meaning() -> None:
    section = tables.section(tables.CONFIG.read_text(), "Keys")

    assert section is not None
    assert tables.parts(section)[2] == tables.settings()


def test_the_settings_page_has_every_channel_with_its_keys() -> None:
    text = tables.CONFIG.read_text()
    pairs = {"Every channel": CHANNEL_KEYS}
    pairs |= {f"The `{name}` channel": adapter.SETTINGS for name, adapter in ADAPTERS.items()}

    for heading, keys in pairs.items():
        section = tables.section(text, heading)
        assert section is not None, heading
        assert tables.parts(section)[2] == tables.settings(keys)


def test_the_page_of_what_you_are_needed_for_has_every_kind_with_what_ends_it() -> None:
    section = tables.section(tables.ATTENTION.read_text(), "Kinds")

    assert section is not None
    assert tables.parts(section)[2] == tables.attention()


def test_the_exit_codes_page_has_every_code() -> None:
    rows = pages.table(REFERENCE / "exit-codes.md", "Codes")

    assert {pages.code(r["name"]): int(r["code"]) for r in rows} == EXIT_CODES


def slugs_of_the_code() -> dict[str, int | None]:
    """Each constant that is given as a slug, with its exit code where the same call says it."""
    found: dict[str, int | None] = {}
    for file in sorted((ROOT / "vyane_cli").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            pairs: list[tuple[ast.AST, ast.AST]] = []
            if isinstance(node, ast.Call):
                error = getattr(errors, ast.unparse(node.func), None)
                for one in node.keywords:
                    if one.arg == "slug":
                        for constant in ast.walk(one.value):
                            if isinstance(constant, ast.Constant):
                                code = int(error.exit_code) if error else None
                                found.setdefault(constant.value, code)
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                        pairs += zip(target.elts, node.value.elts, strict=True)
                    else:
                        pairs.append((target, node.value))
            for target, value in pairs:
                name = getattr(target, "attr", getattr(target, "id", ""))
                if name == "slug" and isinstance(value, ast.Constant):
                    found.setdefault(value.value, None)
    for name in dir(errors):
        one = getattr(errors, name)
        if isinstance(one, type) and issubclass(one, errors.VyaneError):
            found[one.slug] = int(one.exit_code)
    return {slug: code for slug, code in found.items() if slug}


def test_the_exit_codes_page_has_every_slug() -> None:
    rows = pages.table(REFERENCE / "exit-codes.md", "Errors")

    listed = {
        slug: {int(code) for code in re.findall(r"\d", row["exit code"])}
        for row in rows
        for slug in pages.codes(row["slug"])
    }
    known = slugs_of_the_code()
    assert sorted(listed) == sorted(known)
    assert not {s: listed[s] for s, c in known.items() if c is not None and c not in listed[s]}
    assert set().union(*listed.values()) == set(EXIT_CODES.values()) - {0}


VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{2,}")


def variables_of_the_code() -> set[str]:
    """Names that the code looks up in an environment, and those that the scripts expand."""
    found = set()
    for file in sorted((ROOT / "vyane_cli").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            match node:
                case ast.Call(func=ast.Attribute(value=owner, attr="get"), args=[arg, *_]):
                    pass
                case ast.Subscript(value=owner, slice=arg):
                    pass
                case _:
                    continue
            if ast.unparse(owner).endswith(("environ", "environment")) and isinstance(
                arg, ast.Constant
            ):
                found.add(str(arg.value))
    for script in (ROOT / "hooks").rglob("*"):
        if script.is_file() and script.read_bytes()[:2] == b"#!":
            found |= set(re.findall(r"\$\{?([A-Z][A-Z0-9_]+)", script.read_text()))
    return {name for name in found if VARIABLE.fullmatch(name)}


def test_the_environment_page_has_every_variable() -> None:
    text = (REFERENCE / "environment.md").read_text()
    listed = set(re.findall(r"^\|.*", text, re.M))
    names = {code for row in listed for code in pages.codes(row.split("|")[1])}

    assert variables_of_the_code() - {"PATH"} <= names


def test_the_page_for_scripts_has_every_key_of_a_message_as_json() -> None:
    text = (ROOT / "docs" / "how-to" / "scripts-and-json.md").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("Keys: ")]

    assert set(pages.codes(line.partition(". What the system")[0])) == set(BODY_KEYS)


# --- messages and gating -------------------------------------------------------------------

MESSAGES = REFERENCE / "messages.md"
GATING = REFERENCE / "gating.md"


def test_the_messages_page_has_each_kind_with_its_payload_and_its_senders() -> None:
    rows = {pages.code(row["kind"]): row for row in pages.table(MESSAGES, "Kinds")}

    assert list(rows) == list(MessageKind)
    for kind in MessageKind:
        keys = pages.codes(rows[kind]["payload keys"])
        assert keys == (list(PAYLOADS[kind]) or ["text"]), kind  # `info` is free in form
        assert pages.codes(rows[kind]["may be sent by"]) == [str(r) for r in DIRECTIONS[kind]]


def test_the_key_in_bold_is_the_one_that_the_text_fills() -> None:
    for row in pages.table(MESSAGES, "Kinds"):
        kind = MessageKind(pages.code(row["kind"]))
        (bold,) = re.findall(r"\*\*`([^`*]+)\*?`\*\*", row["payload keys"])
        assert list(_payload(kind, MessageDraft("bob", "words", kind))) == [bold]


def test_the_messages_page_has_every_address_lane_field_and_status() -> None:
    def first(heading: str) -> list[str]:
        rows = pages.table(MESSAGES, heading)
        return [code for row in rows for code in pages.codes(next(iter(row.values())))]

    assert first("Addresses") == list(ToKind)
    assert set(first("Lanes")) == set(Lane)
    assert sorted(first("Fields")) == sorted(Message._fields)
    assert first("Statuses") == list(MessageStatus)
    finals = [r["status"] for r in pages.table(MESSAGES, "Statuses") if r["final"] == "yes"]
    assert {pages.code(one) for one in finals} == set(FINAL)


def test_the_life_of_a_message_is_the_table_of_the_code() -> None:
    shown: dict[str, dict[str, str]] = {MessageStatus.PENDING: {}, MessageStatus.DELIVERED: {}}
    for row in pages.table(MESSAGES, "The life of a message"):
        for status, cells in shown.items():
            if cell := row[f"`{status}`"]:
                cells[pages.code(row["record"])] = pages.code(cell)

    for status, onward in NEXT.items():
        assert shown.get(status, {}) == {str(op): str(after) for op, after in onward.items()}
    said = {code for code in pages.codes(MESSAGES.read_text()) if code in tuple(Op)}
    assert said == set(Op)


def test_the_delivery_table_is_that_of_the_code() -> None:
    rows = {pages.code(row["moment"]): row for row in pages.table(GATING, "The delivery table")}

    assert list(rows) == list(MATRIX)
    for moment, by_lane in MATRIX.items():
        assert {lane: rows[moment][f"`{lane}`"] for lane in Lane} == {
            lane: str(by_lane[lane]) for lane in Lane
        }, moment


def test_the_gates_of_each_lane_are_those_of_the_code() -> None:
    table = pages.table(GATING, "Gates")
    rows = {pages.code(r["lane"]): pages.codes(r["gates"]) for r in table if "`" in r["lane"]}
    (notices,) = [pages.codes(r["gates"]) for r in table if "`" not in r["lane"]]

    assert notices == [str(gate) for gate in gating.NOTICE_GATES]
    assert rows == {str(lane): [str(gate) for gate in gates] for lane, gates in GATES.items()}
    about = (GATING.read_text()).split("| gate | closed while |")[1]
    named = re.findall(r"^\| `([a-z-]+)` \|", about.split("\n\n")[0], re.M)
    assert set(named) == set(gating.Gate)


def test_the_limits_are_those_of_the_code() -> None:
    rows = pages.table(GATING, "Limits")

    shown = {}
    for row in rows:
        name, (number, *unit) = pages.code(row["limit"]), row["default"].split()
        shown[name] = int(number) * (1000 if unit == ["s"] else 1)
    assert shown == DeliveryLimits()._asdict()


def test_the_rules_are_those_of_the_code_with_the_same_words() -> None:
    rows = pages.table(GATING, "Rules")

    assert {pages.code(row["rule"]): row["meaning"] for row in rows} == dict(RULES)


# --- tasks ---------------------------------------------------------------------------------

TASKS = REFERENCE / "tasks.md"


def test_the_life_of_a_task_is_the_table_of_the_code() -> None:
    rows = pages.table(TASKS, "The life of a task")

    assert {pages.code(row["from"]): set(pages.codes(row["to"])) for row in rows} == {
        str(before): {str(after) for after in onward} for before, onward in TRANSITIONS.items()
    }


def test_the_ends_of_a_claim_are_those_of_the_code() -> None:
    rows = pages.table(TASKS, "Claims")

    assert {pages.code(row["holder"]): row["the claim ends"] for row in rows} == dict(ENDS)


@pytest.mark.parametrize(
    "heading, table",
    [
        ("The matrix of a round", tables.matrix),
        ("The throttles of notices", tables.throttles),
    ],
)
def test_the_tables_of_rounds_and_notices_are_those_of_the_code(heading, table) -> None:
    section = tables.section(tables.ROUNDS.read_text(), heading)

    assert section is not None
    assert tables.parts(section)[2] == table()


# --- the map of the package ----------------------------------------------------------------


def test_the_map_has_every_room_in_its_order_with_its_sentence_and_modules() -> None:
    section = tables.section(tables.MAP.read_text(), "Rooms")

    assert section is not None
    assert tables.parts(section)[2] == tables.rooms()


def absent_code(text: str) -> list[str]:
    """What a text names, as `room/module.name`, that the package has not."""
    found = []
    for named in re.findall(r"`([a-z_]+(?:/[a-z_]+)*\.[\w.]+)`", text):
        path, *names = named.split(".")
        file = ROOT / "vyane_cli" / f"{path}.py"
        body = ast.parse(file.read_bytes()).body if file.is_file() else []
        for name in names:
            one = next((node for node in body if getattr(node, "name", "") == name), None)
            body = getattr(one, "body", [])
        if not body:
            found.append(named)
    return found


def test_the_way_of_a_message_names_code_that_is_there() -> None:
    text = tables.section(tables.MAP.read_text(), "How to follow a message through the house")

    assert text is not None
    assert len(re.findall(r"^\d+\. ", text, re.M)) == 10
    assert absent_code(text.partition("1. ")[2]) == []


@pytest.mark.parametrize(
    "named", ["mail/sent.send", "mail/send.sent", "delivery/transaction.Desk.sell", "hook.name"]
)
def test_code_that_is_not_there_is_found(named) -> None:
    assert absent_code(f"It is `mail/send.send`, then `{named}`.") == [named]


# --- JSON ----------------------------------------------------------------------------------


def documents(home: Path) -> dict[str, Any]:
    """What each command prints with --json, on a state in which something has happened."""
    environ = {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "LOGNAME": "user",
        "LC_ALL": "C.UTF-8",
    }

    def run(*words: str) -> Any:
        done = subprocess.run(
            ["vyane", *words, "--json"], env=environ, cwd=home, capture_output=True, check=False
        )
        lines = done.stdout.splitlines()
        assert lines, (words, done.stderr)
        return json.loads(lines[0])

    found = {"init": run("init")}
    staged = stages.TwoSessions(home, environ)
    try:
        run("workers", "register", "bob")
        found["send"] = run("send", "bob", "hello")
        found["inbox"] = run("inbox", "bob")
        found["show"] = run("show", found["send"]["id"])
        found["tick --dry-run"] = run("tick", "--host", "generic", "--worker", "bob", "--dry-run")
        found["tick --host generic"] = run("tick", "--host", "generic", "--worker", "bob")
        found["why"] = run("why", found["send"]["id"])
        found["workers"] = run("workers")
        found["status"] = run("status")
        found["watch"] = run("watch", "api-main", "--history")
        found["timeline show"] = run("timeline", "show", "api-main")
        found["timeline verify"] = run("timeline", "verify", "api-main")
        found["timeline export"] = run("timeline", "export", "api-main", "--output", "out")
        with (home / ".config" / "vyane" / "config.toml").open("a") as file:
            file.write('[runtimes.vyane]\nspawn = ["vyane", "report", "--result", "x", "--json"]\n')
        child = run("spawn", "x", "--parent", "bob", "--runtime", "vyane")["id"]
        found["wait"] = run("wait", child)
        found["report"] = run("logs", child, "--follow")
        found["topology"] = run("topology", "bob")
        person = ("--from-kind", "human")
        found["takeover"] = run("takeover", "bob", "x", "--timeout", "0.1s", *person)
        found["cancel"] = run("cancel", "bob", "--wait", "0.1s", *person)
        with (home / ".config" / "vyane" / "config.toml").open("a") as file:
            file.write("[channels.file]\n")
        found["mirror push"] = run("mirror", "push")
        found["mirror pull"] = run("mirror", "pull")
        found["mirror status"] = run("mirror", "status")
        next(home.rglob("threads")).joinpath("notes.md").touch()
        found["bind"] = run("bind", "bob", "--channel", "file", "--conversation", "notes")
        found["bindings list"] = run("bindings", "list")
        found["route"] = run("route", "bob")
        found["unbind"] = run("unbind", "--session", "bob", "--reason", "done")
        found["project"] = run("project", "create", "shop", "--dir", ".", "--main", "bob")
        del found["project"]["created"], found["project"]["files"]
        found["task"] = run("task", "add", "build it")
        found["goal set"] = run("goal", "set", "ship", "--accept", "tests")
        found["goal status"] = run("goal", "status")
        found["taskgraph"] = run("taskgraph")
        found["need-user"] = run("need-user", "add", "--reason", "x", "--ask", "y")
        found["need-user notify"] = run("need-user", "notify")
        found |= rounds_and_schedules(run)
        found["config list"] = run("config", "list")
        found["config get"] = run("config", "get", "language")
        found["hooks install"] = run("hooks", "install")
        found["hooks status"] = run("hooks", "status")
        found["doctor"] = run("doctor")
        found["gc"] = run("gc")
        found["completion"] = run("completion", "bash")
        found["describe"] = run("describe")
    finally:
        staged.close()
    found["uninstall"] = run("uninstall")
    found["demo"] = run("demo")
    return found


def rounds_and_schedules(run: "Callable[..., Any]") -> dict[str, Any]:
    """What the commands for rounds print; there is a project by now."""
    systemd = ("--with", "systemd", "--print")
    return {
        "wake": run("wake", "--dry-run"),
        "schedule list": run("schedule", "list"),
        "schedule install": run("schedule", "install", *systemd),
        "schedule remove": run("schedule", "remove"),
        "schedule pause": run("schedule", "pause"),
    }


def test_each_json_document_has_the_keys_of_the_page(tmp_path) -> None:
    page = REFERENCE / "json.md"
    text = page.read_text()
    printed = documents(tmp_path)

    assert sorted(printed.pop("show")) == sorted(printed["inbox"][0])
    assert sorted(re.findall(r"^## `vyane (.+) --json`$", text, re.M)) == sorted(printed)
    for name, document in printed.items():
        rows = pages.table(page, f"vyane {name} --json")
        listed = [code for row in rows for code in pages.codes(row["key"])]
        one = document[0] if isinstance(document, list) else document
        if name == "inbox":
            listed += Message._fields
        assert sorted(one) == sorted(listed), name
    allowed = set(pages.codes(text.split("A step has ")[1].split("\n")[0]))
    assert {key for step in printed["why"]["steps"] for key in step} <= allowed
    rows = {r["key"]: r for r in pages.table(page, "vyane hooks status --json")}
    status = printed["hooks status"]
    assert list(status["guard"]) == pages.codes(rows["`guard`"]["meaning"])
    assert list(status["scopes"][0]) == pages.codes(rows["`scopes`"]["meaning"])


# --- the pages themselves ------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_each_link_leads_somewhere(page) -> None:
    for link in pages.links(page):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page

        assert target.exists(), f"{relative(page)}: {link}"
        assert target.is_relative_to(ROOT), f"{relative(page)}: {link} leaves the project"
        if anchor:
            assert anchor in pages.anchors(target), f"{relative(page)}: {link}"


def test_the_index_names_every_page() -> None:
    index = ROOT / "docs" / "index.md"
    named = {(index.parent / link.partition("#")[0]).resolve() for link in pages.links(index)}

    assert {page for page in PAGES if page != index} <= named


# Put together here, so that this file does not hold what it looks for.
FOREIGN = re.compile(
    "|".join(
        (
            r"(?<![\w.$}~-])/" + r"root(?:/|\b)",
            r"(?<![\w.$}~-])/" + r"work/",
            r"/" + r"home/(?!user\b)\w+",
            r"py" + r"pi\.org",
            r"python" + r"hosted\.org",
            r"npm" + r"js\.(?:org|com)",
            r"regis" + r"try\.[a-z]+\.",
        )
    )
)


def tracked() -> list[Path]:
    """The project's files, those that are not committed yet included."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode:
        pytest.skip("not a git checkout")
    names = [os.fsdecode(name) for name in listing.stdout.split(b"\0") if name]
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def test_no_file_names_a_path_of_a_machine_or_the_host_of_a_registry() -> None:
    found = []
    for file in tracked():
        try:
            text = file.read_text()
        except UnicodeDecodeError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if match := FOREIGN.search(line):
                found.append(f"{relative(file)}:{number}: {match[0]}")

    assert not found, "\n".join(found)


@pytest.mark.parametrize("line", ["/home/" + "ann/x", "cd /" + "root/x", "https://py" + "pi.org/"])
def test_a_path_of_a_machine_is_found(line) -> None:
    assert FOREIGN.search(line)
    assert not FOREIGN.search("/home/" + "user/x and $ROOT/wo" + "rk/x")


def test_the_page_of_state_files_has_every_path_of_the_layout() -> None:
    page = (REFERENCE / "state-files.md").read_text()
    texts = [getattr(member, "__doc__", None) or "" for member in vars(Layout).values()]
    paths = [match[1] for match in map(re.compile(r"`([^`]+)`").match, texts) if match]

    assert len(paths) > 25
    assert [path for path in paths if f"\n## `{path}`\n" not in page] == []


def test_each_state_file_says_who_writes_it_under_which_lock_and_what_a_crash_leaves() -> None:
    page = (REFERENCE / "state-files.md").read_text()
    sections = re.split(r"^## ", page, flags=re.MULTILINE)[1:]
    files_ = [section for section in sections if section.startswith("`")]

    assert len(files_) > 15
    for section in files_:
        for word in ("Owner", "Writers", "Lock", "Commit point", "A crash leaves", "By hand"):
            assert f"| {word} |" in section, section.splitlines()[0]
