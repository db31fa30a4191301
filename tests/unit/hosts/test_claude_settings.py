"""The entries in a settings file of Claude Code: added, found, removed; nothing else is moved."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vyane_cli import __version__
from vyane_cli.errors import ExitCode, InvalidInputError
from vyane_cli.hosts import claude_settings
from vyane_cli.hosts.json_edit import DEPTH_MAX, scan
from vyane_cli.storage.settings import data_folder

GUARD = "/home/user/.config/vyane/hooks/claude-code/guard"
OTHER = "/srv/vyane/hooks/claude-code/guard"
WANTED = claude_settings.entries(GUARD)
EVENTS = sorted({entry.event for entry in WANTED})
PLUGIN = Path(data_folder("hooks"), "claude-code", "plugin")


def ours(handler) -> bool:
    return handler.get("command") == GUARD


def install(text: str) -> str:
    return claude_settings.add(text, WANTED)


def uninstall(text: str, known=None) -> str:
    return claude_settings.remove(text, ours, known=known)


def disallow(text: str, known=None) -> str:
    return claude_settings.disallow(text, known=known)


def recorded(before: str, after: str, known=None):
    """What an install or uninstall leaves in the record."""
    return claude_settings.stood(before, after, known or {})


def without_ours(hooks):
    """The `hooks` of a file without the groups that hold handlers of ours."""
    return {
        event: [group for group in groups if not any(map(ours, group["hooks"]))]
        for event, groups in hooks.items()
    }


# --- any document, in any layout --------------------------------------------------------------

words = st.text(max_size=6)
space = st.text(" \t\n\r", max_size=3)
plain = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
)
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
handlers = st.fixed_dictionaries({"type": st.just("command"), "command": words})
groups = st.fixed_dictionaries(
    {"hooks": st.lists(handlers, max_size=2)}, optional={"matcher": words}
)
hooks = st.dictionaries(st.sampled_from(EVENTS) | words, st.lists(groups, max_size=2), max_size=3)
documents = st.builds(
    lambda rest, own, last: rest | own if last else own | rest,
    st.dictionaries(words.filter(lambda word: word not in ("hooks", "permissions")), values),
    st.fixed_dictionaries(
        {},
        optional={
            "hooks": hooks,
            "permissions": st.fixed_dictionaries({}, optional={"allow": st.lists(words)}),
        },
    ),
    st.booleans(),
)


@st.composite
def texts(draw, value) -> str:
    """A document printed with white space of any kind in any place."""

    def show(one) -> str:
        match one:
            case dict():
                parts = [
                    json.dumps(name) + draw(space) + ":" + draw(space) + show(inner)
                    for name, inner in one.items()
                ]
                return enclosed("{", parts, "}")
            case list():
                return enclosed("[", [show(inner) for inner in one], "]")
            case _:
                return json.dumps(one, ensure_ascii=draw(st.booleans()))

    def enclosed(opener, parts, closer) -> str:
        if not parts:
            return opener + draw(space) + closer
        return opener + ",".join(draw(space) + part + draw(space) for part in parts) + closer

    return draw(space) + show(draw(value)) + draw(space)


LAYOUTS = [
    {"indent": 2},
    {"indent": 4},
    {"indent": "\t"},
    {"separators": (",", ":")},
    {},
]
usual_texts = st.builds(
    lambda value, layout, end, newline: (json.dumps(value, **layout) + end).replace("\n", newline),
    documents,
    st.sampled_from(LAYOUTS),
    st.sampled_from(["\n", ""]),
    st.sampled_from(["\n", "\r\n"]),
)


@given(texts(documents) | usual_texts)
def test_install_puts_every_entry_in_force_and_changes_nothing_else(text) -> None:
    installed = install(text)
    before, after = json.loads(text), json.loads(installed)
    hooks_before, hooks_after = before.pop("hooks", {}), after.pop("hooks")

    assert sorted(map(str, claude_settings.find(installed))) == sorted(map(str, WANTED))
    assert after == before
    assert without_ours(hooks_after) == {event: [] for event in EVENTS} | hooks_before


@given(texts(documents) | usual_texts)
def test_install_only_inserts_characters(text) -> None:
    """Every byte of the old file is still there, in its order."""
    rest = iter(install(text))

    assert all(character in rest for character in text)


@given(texts(documents) | usual_texts)
def test_install_twice_is_install_once(text) -> None:
    once = install(text)

    assert install(once) == once


@given(texts(documents) | usual_texts, st.booleans())
def test_uninstall_gives_back_the_same_bytes(text, rule_first) -> None:
    """Whatever the layout, and in whichever order the entries and the rule come out again."""
    entered = install(text)
    known = recorded(text, entered)
    now = claude_settings.allow(entered)
    known = {**known, **recorded(entered, now, known)}
    for take_out in (disallow, uninstall) if rule_first else (uninstall, disallow):
        before, now = now, take_out(now, known)
        known = recorded(before, now, known)

    assert now == text
    assert known == {}


@given(texts(documents) | usual_texts)
def test_an_upgrade_in_between_changes_nothing_of_that(text) -> None:
    """An older vyane had fewer events, and other words in its entries."""
    older = [one._replace(handler={**one.handler, "timeout": 1}) for one in WANTED[2:]]
    first = claude_settings.add(text, older)
    known = recorded(text, first)
    second = claude_settings.add(first, WANTED, known=known)
    known = {**known, **recorded(first, second, known)}

    assert uninstall(second, known) == text


@given(texts(documents))
def test_uninstall_without_a_record_loses_nothing_but_what_is_empty(text) -> None:
    """As of an installation by a version that kept none."""
    assert bare(uninstall(install(text))) == bare(text)
    assert bare(claude_settings.disallow(claude_settings.allow(text))) == bare(text)


def bare(text: str):
    """The document without the containers that say nothing to the host when they are empty."""
    value = json.loads(text)
    if "hooks" in value:
        kept = {event: groups for event, groups in value["hooks"].items() if groups}
        value["hooks"] = kept
    permissions = value.get("permissions", {})
    if not permissions.get("allow", True):
        del permissions["allow"]
    return {k: v for k, v in value.items() if v or k not in ("hooks", "permissions")}


@given(texts(documents) | usual_texts)
def test_a_file_without_our_entries_is_not_touched_by_uninstall(text) -> None:
    assert uninstall(text) == text


@given(texts(values))
def test_every_value_is_found_where_it_stands(text) -> None:
    """The places agree with the standard library's own reading."""
    whole = '{"a":' + text + "}"
    (node,) = scan(whole).items

    assert whole[node.start : node.end] == text.strip(" \t\r\n")
    assert node.value(whole) == json.loads(text)


@given(st.text('{}[]",:\\u0a1-.e+tnfrl /\n\t\x00\ufeff', max_size=12))
def test_what_the_standard_library_refuses_is_refused(text) -> None:
    def refuse(word):
        raise ValueError(word)

    try:
        good = isinstance(json.loads(text.removeprefix("\ufeff"), parse_constant=refuse), dict)
    except ValueError:
        good = not text.strip("\ufeff \t\r\n")
    if good:
        scan(text)
    else:
        with pytest.raises(InvalidInputError):
            scan(text)


# --- layouts that people have -------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "{}\n",
        "{ }",
        "{\n}\n",
        "\ufeff{}",
        '\ufeff{\r\n    "a": 1\r\n}',
        '{"a":1}',
        '{"a": 1, "hooks": {}}',
        '{\n  "hooks": {}\n}\n',
        '{\n  "hooks": {\n  }\n}\n',
        '{\n  "hooks": {\n    }\n}\n',
        '{\n  "hooks": {"Stop": []}\n}\n',
        '{\n  "hooks": {\n    "Stop": [\n    ]\n  }\n}\n',
        '{\n\t"hooks": {\n\t\t"Stop": [ { "hooks": [] } ]\n\t}\n}',
        '{\n  "hooks" : {"Stop" :[{"hooks":[{"type":"command","command":"x"}]}]  } , "b":2}\n\n',
        '{"hooks":{"Stop":[]},"hooks":{"Stop":[ ]}}',
        '{"permissions": {"allow": ["Bash"], "allow": []}}',
        '{"\\u0068ooks": {}}',
        '{\n"a": {\n"b": 1\n}\n}',
        '{"a": 1.0e5, "b": 12345678901234567890123, "c": "\\ud83d"}',
    ],
)
def test_odd_files_come_back_byte_for_byte(text) -> None:
    installed = claude_settings.allow(install(text))

    assert len(claude_settings.find(installed)) == len(WANTED)
    assert claude_settings.allows(installed)
    known = recorded(text, installed)
    assert uninstall(disallow(installed, known), known) == text
    assert disallow(uninstall(installed, known), known) == text


@pytest.mark.parametrize("text", ["", "\n", " \t\r\n", "\ufeff", "\ufeff\n"])
def test_an_empty_file_is_one_without_settings(text) -> None:
    installed = install(text)

    assert claude_settings.find(text) == ()
    assert uninstall(text) == text
    assert uninstall(installed) == ("\ufeff{}\n" if "\ufeff" in text else "{}\n")


@pytest.mark.parametrize("indent", ["  ", "    ", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_is_added_follows_the_indentation_and_the_line_ends_of_the_file(
    indent, newline
) -> None:
    text = json.dumps({"a": {"b": 1}, "hooks": {"Stop": [{"hooks": []}]}}, indent=indent)
    lines = install(text.replace("\n", newline)).split(newline)

    assert not any("\n" in line for line in lines)
    for line in lines:
        lead = re.match(r"\s*", line)[0]
        assert lead == indent * (len(lead) // len(indent))
    assert f'{indent * 2}"SessionStart": [' in lines


def test_a_file_on_one_line_stays_on_one_line() -> None:
    assert "\n" not in install('{"a":1}')
    assert "\n" not in install('{"a": 1, "hooks": {}}')


@pytest.mark.parametrize(
    "text, left",
    [
        ('{\n  "a": 1\n}\n', '{\n  "a": 1\n}\n'),
        ('{"hooks": {}}', "{}"),
        ('{"hooks": {"Stop": []}, "a": 1}', '{"a": 1}'),
        ('{"hooks": {"Stop": [], "Mine": []}}', '{"hooks": {"Mine": []}}'),
    ],
)
def test_without_a_record_each_container_that_becomes_empty_goes(text, left) -> None:
    """Nobody can tell who made it, and an empty one says nothing to the host."""
    assert uninstall(install(text)) == left


def test_a_container_that_others_have_emptied_since_is_left_to_them() -> None:
    theirs = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "mine"}]}]}}'
    installed = install(theirs)
    value = json.loads(installed)
    del value["hooks"]["Stop"][0]

    left = uninstall(json.dumps(value), recorded(theirs, installed))

    assert json.loads(left) == {"hooks": {"Stop": []}}


def test_a_file_that_the_host_has_printed_anew_loses_the_entries_and_their_containers() -> None:
    again = json.dumps(json.loads(install('{"a": 1, "b": []}')), indent=2)

    assert uninstall(again) == json.dumps({"a": 1, "b": []}, indent=2)


def test_entries_of_others_that_came_in_between_stay() -> None:
    value = json.loads(install('{"a": 1}'))
    mine = {"type": "command", "command": "mine"}
    value["hooks"]["Stop"][0]["hooks"].insert(0, mine)
    value["hooks"]["Stop"].append({"hooks": [mine]})
    value["hooks"]["PreCompact"] = [{"hooks": [mine]}]

    rest = json.loads(uninstall(json.dumps(value)))

    assert rest == {
        "a": 1,
        "hooks": {
            "Stop": [{"hooks": [mine]}, {"hooks": [mine]}],
            "PreCompact": [{"hooks": [mine]}],
        },
    }


# --- whose an entry is ----------------------------------------------------------------------------


def test_an_older_entry_of_the_same_root_is_replaced() -> None:
    value = json.loads(install("{}"))
    value["hooks"]["Stop"][0]["hooks"][0]["args"] = ["stop", "--old"]
    value["hooks"]["PreToolUse"] = [{"matcher": "Bash", **value["hooks"]["PreToolUse"][0]}]
    value["hooks"]["PostToolUse"] = [{"hooks": [{"type": "command", "command": GUARD}]}]

    assert json.loads(install(json.dumps(value, indent=2))) == json.loads(install("{}"))


def test_an_entry_that_is_there_twice_is_there_once_after_an_install() -> None:
    value = json.loads(install("{}"))
    value["hooks"]["Stop"] *= 2

    assert json.loads(install(json.dumps(value))) == json.loads(install("{}"))


def test_two_roots_live_side_by_side() -> None:
    other = claude_settings.add("{}\n", claude_settings.entries(OTHER))
    both = install(other)

    assert len(claude_settings.find(both)) == 2 * len(WANTED)
    assert claude_settings.add(both, claude_settings.entries(OTHER)) == both
    assert uninstall(both) == other


def test_a_command_that_only_mentions_the_guard_is_not_ours() -> None:
    commands = [f"sh {GUARD} Stop", "/x/claude-code/guard", 7, None, [GUARD]]
    value = {"hooks": {"Stop": [{"hooks": [{"command": one} for one in commands]}]}}

    assert claude_settings.find(json.dumps(value)) == ()


def test_of_a_name_that_occurs_twice_the_last_one_is_in_force() -> None:
    text = '{"hooks": {"Stop": []}, "hooks": {"Stop": [], "Stop": [1]}}'
    installed = install(text)

    assert installed.startswith('{"hooks": {"Stop": []}, "hooks": {"Stop": [], "Stop": [1, {')
    assert json.loads(installed)["hooks"]["Stop"][1]["hooks"][0]["command"] == GUARD


def test_an_entry_under_a_name_that_is_not_in_force_is_removed_too() -> None:
    early = install("{}")[:-1].rstrip()

    assert GUARD not in uninstall(early + ', "hooks": {}}')


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, place",
    [
        ('{"a": 1,}', "line 1, column 9"),
        ('{\n  "a": 1\n  "b": 2\n}', "line 3, column 3"),
        ('{\n  // mine\n  "a": 1\n}', "line 2, column 3"),
        ('{"a": tru}', "line 1, column 7"),
        ('{"a": NaN}', "line 1, column 7"),
        ('{"a": 01}', "line 1, column 7"),
        ('{"a": "\t"}', "line 1, column 7"),
        ("{'a': 1}", "line 1, column 2"),
        ('{"a": 1', "line 1, column 8"),
        ('{"a": 1} x', "line 1, column 10"),
        ("[]", "line 1, column 1"),
        ("null", "line 1, column 1"),
        ('{"hooks": []}', "line 1, column 11"),
        ('{"hooks": null}', "line 1, column 11"),
        ('{"hooks": {"Stop": {}}}', "line 1, column 20"),
        ('{"hooks": {\n"Stop": "x"}}', "line 2, column 9"),
        ('{"a":' + "[" * 5000 + "]" * 5000 + "}", "line 1, column"),
    ],
)
def test_a_file_that_cannot_be_edited_safely_is_refused_with_file_and_place(text, place) -> None:
    with pytest.raises(InvalidInputError) as caught:
        claude_settings.add(text, WANTED, "/home/user/.claude/settings.json")

    assert caught.value.message.startswith(f"/home/user/.claude/settings.json, {place}")
    assert caught.value.exit_code is ExitCode.INVALID_INPUT
    assert "nothing was written" in caught.value.hint


@pytest.mark.parametrize("text", ['{"hooks": 1}', "[]", "{", '{"hooks": "x"}'])
def test_uninstall_refuses_what_it_cannot_read(text) -> None:
    with pytest.raises(InvalidInputError):
        uninstall(text)


@pytest.mark.parametrize("text", ['{"permissions": []}', '{"permissions": {"allow": "Bash"}}'])
def test_the_rule_is_refused_where_permissions_have_another_shape(text) -> None:
    with pytest.raises(InvalidInputError):
        claude_settings.allow(text)


def test_nesting_is_read_to_a_stated_depth() -> None:
    def nested(depth: int) -> str:
        return '{"a":' + "[" * depth + "]" * depth + "}"

    scan(nested(DEPTH_MAX))
    with pytest.raises(InvalidInputError):
        scan(nested(DEPTH_MAX + 1))


# --- what is installed --------------------------------------------------------------------------


def test_every_handler_has_its_path_as_command_and_its_event_as_argument() -> None:
    """A shell line, or an interpreter with a path, exits 2 when the file is gone: that blocks."""
    for entry in WANTED:
        assert entry.handler["command"] == GUARD
        assert entry.handler["args"][0] == entry.event
        assert ("rewake" in entry.handler["args"]) == entry.handler.get("asyncRewake", False)


def test_the_plugin_has_the_same_table() -> None:
    written = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())
    entries = claude_settings.entries("${CLAUDE_PLUGIN_ROOT}/hooks/guard")
    by_event = {one: [e for e in entries if e.event == one] for one in EVENTS}

    assert written["hooks"] == {one: claude_settings.groups_of(by_event[one]) for one in EVENTS}


def test_the_plugin_has_the_version_of_the_package() -> None:
    manifest = json.loads((PLUGIN / ".claude-plugin" / "plugin.json").read_text())

    assert (manifest["name"], manifest["version"]) == ("vyane", __version__)


def test_the_page_lists_what_is_installed() -> None:
    page = Path(data_folder("hooks")).parent / "docs" / "reference" / "hooks.md"
    rows = re.findall(r"^\| `(\w+)`(?: \(`(\w+)`\))? \| (.*?) \| (.*?) \|", page.read_text(), re.M)

    assert rows == [
        (
            row.event,
            row.matcher or "",
            "in the background" if row.rewake else "waited for",
            f"{row.timeout_s} s" if row.timeout_s else "the host's own, 1.5 s",
        )
        for row in claude_settings.TABLE
    ]


def test_off_switches_and_plugins_are_seen() -> None:
    text = (
        '{"disableAllHooks": true, "enabledPlugins": {"vyane@x": true, "vyane@y": false, "z": 1}}'
    )

    assert claude_settings.hooks_are_off(text)
    assert claude_settings.plugins(text) == ("vyane@x",)
    assert not claude_settings.hooks_are_off("{}")
    assert claude_settings.plugins('{"enabledPlugins": []}') == ()
