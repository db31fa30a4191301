"""
The order of the rooms, what may decide, how modules and classes may be called, and
what a hook may load. Each checker takes a package folder and returns its findings,
so that the tests below can also show it a package that breaks the rule.
"""

import ast
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.docs.rooms import ORDER
from tests.projects import make_project
from vyane_cli.home import Home
from vyane_cli.mail.send import MessageDraft, send

PACKAGE = Path(__file__).parent.parent / "vyane_cli"

# The entries: they may import any room, and no room imports them.
DOORS = {
    "__main__": {"hook"},  # the doors that a door may open, besides the rooms
    "hook": set(),
    "launcher": set(),  # the entry of the process beside a child
    "api": set(),  # the entry for programs, as cli/ is for people
    "__init__": {"api"},  # on first use: to import the package alone loads nothing
}
OPEN_TO_ALL = {"errors", "__init__"}
LARGEST_ROOM = 0.15  # of the lines

# The modules that decide: no I/O, no clock, no randomness, no environment, and nothing imported
# but each other. A rule that shares its noun with files lies beside them in `X_rules`.
# fmt: off
PURE = {
    "kernel": "clock config durations ids json opaque process runtimes text values",
    "channels": "port",
    "hosts": "port",
    "timeline": "check cursors events turns",
    "history": "otlp story tokens",
    "sessions": "liveness_rules session speaker worker",
    "attention": "kinds need",
    "mail": "envelope mailbox message routing",
    "delivery": "decide deliver evidence gating plan resume_rules",
    "children": "cancel_rules order result_rules stale_rules",
    "conversations": "binding chat_commands narration route_rules state_rules",
    "upkeep": "ending_rules",
    "projects": (
        "claim_rules goal notice_rules project queue recurrence retry_rules round_rules"
        " schedule_rules task"
    ),
}
# fmt: on

# No I/O, clock, randomness or environment comes with these.
PURE_STDLIB = set(
    "_json __future__ base64 binascii collections dataclasses datetime difflib enum functools"
    " hashlib itertools json math operator re shlex string types typing unicodedata zlib".split()
)
PURE_CALLS = {"open", "print", "input", "breakpoint"}
CLOCK_READS = {"now", "utcnow", "today"}  # of datetime, which is allowed for its arithmetic

CHANGING_CALLS = set(
    "chmod chown fchmod ftruncate link makedirs mkdir pwrite remove rename replace rmdir rmtree"
    " symlink truncate unlink utime".split()
)  # of os and shutil
WRITING_FLAGS = {"O_CREAT", "O_TRUNC", "O_APPEND", "O_WRONLY"}
AROUND_THE_SEAM = {
    "storage/files.py": "it is the seam",
    "storage/locks.py": "lock files, which hold nothing",
    "channels/file/adapter.py": "a person's folder, with a seam of its own",
    "cli/streams.py": "/dev/null, in place of a closed output",
    "children/launches.py": "the log that a child prints to, opened for it",
    "history/export.py": "a pipe of the person's, or a device",
    "health/repairs.py": "a mode, announced at the seam",
    "history/delete.py": "a folder that was moved out of sight",
    "setup/home.py": "the whole state folder, after everything else",
    "setup/demo.py": "a temporary folder of its own",
}

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}

# What docstrings and comments do not say: there is a plain word for each.
RIDDLES = re.compile(
    r"\b(mends?|mended|anew|is over|told of|tells of|as it stands|whatever|shall|of ours"
    r"|holds? up|makes? up for|is none|is no failure|comes? to rest)\b"
)

HOOK_MAY_NOT_LOAD = set(
    "asyncio concurrent.futures ctypes datetime importlib.metadata inspect logging"
    " enum multiprocessing pathlib socket ssl subprocess tempfile tomllib typing urllib.request"
    " filelock orjson psutil pydantic rich tomlkit typer ulid".split()
)


@dataclass(frozen=True, slots=True)
class Import:
    file: Path
    line: int
    part: str
    target: str  # absolute, dotted

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.part} imports {self.target}"


def modules_of(package: Path) -> list[Path]:
    return sorted(package.rglob("*.py"))


def part_of(package: Path, file: Path) -> str:
    return file.relative_to(package).with_suffix("").parts[0]


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_bytes(), str(file))


def imports_of(package: Path, file: Path) -> Iterator[Import]:
    """Every import of a file, inside functions and under TYPE_CHECKING too.

    `from a import b` gives `a.b`: b may be a module.
    """
    part = part_of(package, file)
    shown = file.relative_to(package.parent)
    folder = shown.parent.parts  # what one leading dot stands for
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else ()
            origin = ".".join([*above, *([node.module] if node.module else [])])
            targets = [f"{origin}.{alias.name}" for alias in node.names]
        else:
            continue
        for target in targets:
            yield Import(shown, node.lineno, part, target)


def reached_part(package: Path, target: str) -> str | None:
    """The part of the package that an import reaches; None if it is outside of the package."""
    root, *rest = target.split(".")
    if root != package.name:
        return None
    if rest and ((package / rest[0]).is_dir() or (package / f"{rest[0]}.py").is_file()):
        return rest[0]
    return rest[0] if rest and rest[0] in (*ORDER, *DOORS) else "__init__"


def order_findings(package: Path) -> list[str]:
    """Where a room imports a room behind it, or a door that it may not open."""
    found = []
    for file in modules_of(package):
        part = part_of(package, file)
        if part not in (*ORDER, *DOORS, *OPEN_TO_ALL):
            found.append(f"{file.relative_to(package.parent)}:1: {part} has no place in ORDER")
            continue
        for one in imports_of(package, file):
            reached = reached_part(package, one.target)
            if reached is None or reached == part or reached in OPEN_TO_ALL:
                continue
            if reached in DOORS:
                right = reached in DOORS.get(part, ())
            elif reached in ORDER:
                right = part in DOORS or ORDER.index(reached) < in_order(part)
            else:
                right = False
            if not right:
                found.append(f"{one}, which stands behind {part}")
    return found


def in_order(part: str) -> int:
    return ORDER.index(part) if part in ORDER else -1


def pure_files(package: Path) -> dict[str, Path]:
    """The modules of PURE by their dotted name below the package."""
    return {
        f"{room}.{name}": package / room / f"{name}.py"
        for room, names in PURE.items()
        for name in names.split()
    }


def circle_findings(package: Path) -> list[str]:
    """A circle of modules, if there is one; imports inside functions and for types count too."""
    known = {".".join(file.relative_to(package.parent).with_suffix("").parts): file
             for file in modules_of(package)}  # fmt: skip
    graph: dict[str, set[str]] = {}
    for name, file in known.items():
        targets = [one.target for one in imports_of(package, file)]
        reached = {t if t in known else t.rpartition(".")[0] for t in targets}
        graph[name] = {one for one in reached if one in known} - {name}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["a circle: " + " → ".join(reversed(error.args[1]))]
    return []


def pure_findings(package: Path) -> list[str]:
    """I/O, clocks, randomness, the environment, and impure modules where PURE allows none."""
    files = {name: file for name, file in pure_files(package).items() if file.exists()}
    pure = {f"{package.name}.{name}" for name in files}
    found = [
        f"{file.relative_to(package.parent)}:1: is called rules and is not in PURE"
        for file in modules_of(package)
        if file.stem.endswith("_rules") and file not in files.values()
    ]
    for file in files.values():
        for one in imports_of(package, file):
            root, _, below = one.target.partition(".")
            if root != package.name:
                if root not in PURE_STDLIB:
                    found.append(f"{one}, which is not on the list of the pure")
            elif not ({one.target, one.target.rpartition(".")[0]} & pure) and (
                below.split(".")[0] not in OPEN_TO_ALL
            ):
                found.append(f"{one}, which is not pure")
        for node in ast.walk(parsed(file)):
            shown = f"{file.relative_to(package.parent)}:{getattr(node, 'lineno', 1)}"
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in PURE_CALLS:
                    found.append(f"{shown}: a pure module calls {name}()")
                case ast.Attribute(attr=name) if name in CLOCK_READS:
                    found.append(f"{shown}: a pure module reads a clock: .{name}")
                case _:
                    pass
    return found


def class_findings(package: Path) -> list[str]:
    """Class names that mean two things: a name is unique in the whole package."""
    places: dict[str, list[str]] = {}
    for file in modules_of(package):
        for node in parsed(file).body:
            if isinstance(node, ast.ClassDef):
                shown = f"{file.relative_to(package.parent)}:{node.lineno}"
                places.setdefault(node.name, []).append(shown)
    return [f"{at[1]}: {name} is a class at {at[0]} too" for name, at in places.items() if at[1:]]


def size_findings(package: Path) -> list[str]:
    """Rooms that hold more than their share of the lines."""
    lines: dict[str, int] = {}
    for file in modules_of(package):
        part = part_of(package, file)
        lines[part] = lines.get(part, 0) + len(file.read_bytes().splitlines())
    most = LARGEST_ROOM * sum(lines.values())
    return [f"{package.name}/{part}: {number} lines" for part, number in lines.items()
            if number > most and part in ORDER]  # fmt: skip


def seam_findings(package: Path) -> list[str]:
    """Where a file is changed past `storage/files`: no test stops, fails or replays that call."""
    found = []
    for file in modules_of(package):
        if file.relative_to(package).as_posix() in AROUND_THE_SEAM:
            continue
        for node in ast.walk(parsed(file)):
            shown = f"{file.relative_to(package.parent)}:{getattr(node, 'lineno', 1)}"
            match node:
                case ast.Attribute(value=ast.Name(id="os" | "shutil"), attr=name) if (
                    name in CHANGING_CALLS | WRITING_FLAGS
                ):
                    found.append(f"{shown}: {name} past storage/files")
                case ast.Call(
                    func=ast.Name(id="open"), args=[_, ast.Constant(value=str(mode))]
                ) if set(mode) & set("wax+"):
                    found.append(f"{shown}: open for writing past storage/files")
                case _:
                    pass
    return found


def turn_findings(package: Path) -> list[str]:
    """Where a turn is begun or ended past `timeline/turns`, which alone may say so."""
    return [
        f"{file.relative_to(package.parent)}:{node.lineno}: makes a {arg.attr} past timeline/turns"
        for file in modules_of(package)
        if file.relative_to(package).as_posix() != "timeline/turns.py"
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call)
        for arg in [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(arg, ast.Attribute) and arg.attr in ("TURN_STARTED", "TURN_FINISHED")
    ]


def channel_findings(package: Path) -> list[str]:
    """Where a channel is called by its name outside of its adapter: each is as good as another."""
    return [
        f"{file.relative_to(package.parent)}:{node.lineno}: names the channel {node.value}"
        for part in ORDER
        if part not in ("channels", "home")
        for file in modules_of(package / part)
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Constant) and node.value == "discord"
    ]


def name_findings(package: Path) -> list[str]:
    return [
        f"{path.relative_to(package.parent)}: says nothing about what it holds"
        for path in sorted(package.rglob("*"))
        if (path.is_dir() or path.suffix == ".py") and path.stem.strip("_") in VAGUE_NAMES
    ]


def word_findings(package: Path) -> list[str]:
    """Words of riddles in docstrings and comments; what commands print as help is left out."""
    found = []
    for file in modules_of(package):
        text = file.read_text()
        shown = file.relative_to(package.parent)
        said = [
            (statement.lineno, statement.value.value)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and not getattr(node, "name", "").endswith("_command")
            and not any(
                "command" in ast.unparse(one) for one in getattr(node, "decorator_list", ())
            )
            for statement in node.body
            if isinstance(statement, ast.Expr)
            and isinstance(statement.value, ast.Constant)
            and isinstance(statement.value.value, str)
        ]
        said += [
            (token.start[0], token.string)
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT
        ]
        found += [
            f"{shown}:{line}: {one[0]}" for line, words in said for one in RIDDLES.finditer(words)
        ]
    return found


def hook_findings(package: Path) -> list[str]:
    """What importing the hook loads that it may not, in an interpreter with nothing loaded."""
    program = (
        f"import sys; sys.path.insert(0, {str(package.parent)!r}); import {package.name}.hook;"
        "print(*sorted(sys.modules), sep='\\n')"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )
    if run.returncode:
        return [f"{package.name}/hook.py: does not import by itself:\n{run.stderr}"]
    known = sys.stdlib_module_names | {package.name, "__main__"}
    return [
        f"{package.name}/hook.py: loads {name}"
        for name in run.stdout.split()
        if name in HOOK_MAY_NOT_LOAD or name.split(".")[0] not in known
    ]


def mirror_findings(package: Path, folder: Path) -> list[str]:
    """Files of unit tests that are not named after a module, in the folder of its room.

    Beside them lie fixtures; what several rooms call lies in the folder itself.
    """
    found = []
    for path in sorted(folder.rglob("*.py")):
        file = path.relative_to(folder)
        if path.name == "conftest.py" or (file.parent == Path() and path.name[:5] != "test_"):
            continue
        module = package / file.with_name(path.name.removeprefix("test_"))
        if path.name[:5] != "test_" or not module.is_file():
            found.append(f"{file}: is not named after a module of the package")
    return found


def imports_of_tests(folder: Path) -> list[str]:
    """The imports of a test module by another module."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            found += [
                f"{path.relative_to(folder)}:{node.lineno}: {name}"
                for name in names
                if any(part.startswith("test_") for part in name.split(".")[:-1])
                or (name.startswith("tests.") and name.split(".")[-1].startswith("test_"))
            ]
    return found


# --- the project -------------------------------------------------------------------------


def test_a_room_imports_only_the_rooms_in_front_of_it() -> None:
    assert {part_of(PACKAGE, file) for file in modules_of(PACKAGE)} >= {*ORDER, *DOORS}
    assert not (found := order_findings(PACKAGE)), "\n".join(found)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert not (found := circle_findings(PACKAGE)), "\n".join(found)


def test_what_decides_has_no_io_no_clock_no_randomness_and_no_environment() -> None:
    assert not [name for name, file in pure_files(PACKAGE).items() if not file.exists()]
    assert not (found := pure_findings(PACKAGE)), "\n".join(found)


def test_a_class_name_means_one_thing() -> None:
    assert not (found := class_findings(PACKAGE)), "\n".join(found)


def test_no_room_holds_more_than_its_share_of_the_lines() -> None:
    assert not (found := size_findings(PACKAGE)), "\n".join(found)


def test_a_file_is_changed_at_the_one_seam() -> None:
    assert not (found := seam_findings(PACKAGE)), "\n".join(found)
    assert all((PACKAGE / name).exists() for name in AROUND_THE_SEAM)


def test_a_turn_begins_and_ends_in_one_place() -> None:
    assert not (found := turn_findings(PACKAGE)), "\n".join(found)


def test_no_channel_is_called_by_its_name_outside_of_its_adapter() -> None:
    assert not (found := channel_findings(PACKAGE)), "\n".join(found)


def test_no_test_module_imports_another() -> None:
    """Fixtures are in a `conftest.py`, and what several tests call is in a plain module."""
    assert imports_of_tests(Path(__file__).parent) == []


def test_a_unit_test_is_named_after_its_module_and_lies_in_its_room() -> None:
    found = mirror_findings(PACKAGE, Path(__file__).parent / "unit")
    assert not found, "\n".join(found)


def test_docstrings_and_comments_use_plain_words() -> None:
    assert not (found := word_findings(PACKAGE)), "\n".join(found)


def test_a_module_is_named_after_its_idea() -> None:
    assert not (found := name_findings(PACKAGE)), "\n".join(found)


def test_importing_the_hook_loads_a_few_modules_of_the_standard_library() -> None:
    assert not (found := hook_findings(PACKAGE)), "\n".join(found)


# --- the checkers, on a package that keeps the rules and on some that do not -----------------

SOUND = {
    "__init__.py": "__version__ = '1'\n",
    "__main__.py": "def main():\n    from pkg.cli import app\n    from pkg import hook\n",
    "errors.py": "import enum\n",
    "hook.py": "import os\nimport sys\n\ndef main():\n    from pkg.delivery import tick\n",
    "home.py": "from pkg.storage import journal\n",
    "kernel/__init__.py": "",
    "kernel/ids.py": "import re\nfrom collections.abc import Set\nfrom datetime import UTC\n",
    "kernel/text.py": "from pkg.kernel import ids\nfrom .ids import ulid\n\nclass Words: ...\n",
    "storage/__init__.py": "",
    "storage/journal.py": "import os\nfrom pkg.kernel import ids\nfrom pkg import errors\n",
    "hosts/__init__.py": "",
    "hosts/codex.py": "from pkg.kernel.ids import ulid\n",
    "mail/__init__.py": "",
    "mail/message.py": "from pkg.kernel.ids import ulid\nfrom pkg.errors import VyaneError\n",
    "mail/send.py": "from pkg.storage import journal\nfrom pkg.home import Home\n",
    "delivery/__init__.py": "",
    "delivery/tick.py": "from pkg.mail.send import send\n",
    "cli/__init__.py": "",
    "cli/app.py": "import typer\nfrom .. import __version__\nfrom ..mail import send\n",
}


def package_of(folder: Path, **changes: str) -> Path:
    for name, text in (SOUND | changes).items():
        file = folder / "pkg" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "pkg"


@pytest.mark.parametrize(
    "findings",
    [
        order_findings,
        circle_findings,
        pure_findings,
        class_findings,
        seam_findings,
        turn_findings,
        channel_findings,
        name_findings,
        hook_findings,
    ],
)
def test_a_sound_package_has_no_findings(findings, tmp_path) -> None:
    assert findings(package_of(tmp_path)) == []


@pytest.mark.parametrize(
    "file, line",
    [
        ("kernel/ids.py", "from pkg.storage import journal"),
        ("kernel/ids.py", "from ..storage import journal"),
        ("kernel/ids.py", "from .. import home"),
        ("kernel/ids.py", "import pkg.hosts.codex"),
        ("storage/journal.py", "from pkg.mail.send import send"),
        ("storage/journal.py", "from pkg.home import Home"),
        ("hosts/codex.py", "from pkg.mail import send"),
        ("hosts/codex.py", "from pkg.home import Home"),
        ("home.py", "from pkg.mail import send"),
        ("mail/send.py", "from pkg.delivery import tick"),
        ("mail/send.py", "from pkg.delivery.tick import tick"),
        ("mail/send.py", "from pkg import hook"),
        ("delivery/tick.py", "from pkg.cli import app"),
        ("delivery/tick.py", "from pkg import health"),
        ("cli/app.py", "from pkg.hook import main"),
        ("errors.py", "from pkg.kernel import ids"),
    ],
)
def test_an_import_against_the_order_is_found_by_file_and_line(file, line, tmp_path) -> None:
    top = package_of(tmp_path, **{file: f"import sys\n{line}\n"})
    inside = package_of(tmp_path / "f", **{file: f"def late():\n    {line}\n"})
    typing = package_of(tmp_path / "t", **{file: f"if TYPE_CHECKING:\n    {line}\n"})

    for package in (top, inside, typing):
        (found,) = order_findings(package)
        assert found.startswith(f"pkg/{file}:2: ")
        assert "imports pkg." in found


def test_a_circle_of_imports_is_found_also_inside_functions_and_for_types(tmp_path) -> None:
    package = package_of(
        tmp_path,
        **{
            "kernel/ids.py": "if TYPE_CHECKING:\n    from pkg.kernel.names import Name\n",
            "kernel/names.py": "def late():\n    from pkg.kernel import text\n",
        },
    )

    (found,) = circle_findings(package)

    assert {"pkg.kernel.ids", "pkg.kernel.names", "pkg.kernel.text"} <= set(found.split())


def test_a_room_without_a_place_in_the_order_is_found(tmp_path) -> None:
    package = package_of(
        tmp_path, **{"plumbing/pipe.py": "", "storage/journal.py": "import pkg.plumbing"}
    )

    assert [one.split(":")[0] for one in order_findings(package)] == [
        "pkg/plumbing/pipe.py",
        "pkg/storage/journal.py",
    ]


def test_a_class_name_with_two_meanings_is_found(tmp_path) -> None:
    package = package_of(tmp_path, **{"mail/message.py": "class Words(tuple): ...\n"})

    (found,) = class_findings(package)

    assert found == "pkg/mail/message.py:1: Words is a class at pkg/kernel/text.py:4 too"


def test_a_room_that_holds_too_much_is_found(tmp_path) -> None:
    package = package_of(tmp_path, **{"mail/message.py": "import re\n" * 200})

    assert [one.split(":")[0] for one in size_findings(package)] == ["pkg/mail"]


def test_a_pure_module_that_imports_an_impure_one_is_found(tmp_path) -> None:
    text = "from pkg.kernel.ids import ulid\nfrom pkg.mail.send import send\n"
    (found,) = pure_findings(package_of(tmp_path, **{"mail/message.py": text}))

    assert found.startswith("pkg/mail/message.py:2: ")


def test_rules_that_are_not_on_the_list_of_the_pure_are_found(tmp_path) -> None:
    (found,) = pure_findings(package_of(tmp_path, **{"mail/odd_rules.py": ""}))

    assert found == "pkg/mail/odd_rules.py:1: is called rules and is not in PURE"


@pytest.mark.parametrize(
    "line",
    [
        *(
            f"import {name}"
            for name in "os io pathlib subprocess socket time random secrets logging tempfile"
            " shutil sys threading fcntl glob zoneinfo locale uuid orjson rich".split()
        ),
        "from os import path",
        "import os.path as where",
        "text = open('x').read()",
        "print('x')",
        "stamp = datetime.now(UTC)",
        "stamp = datetime.datetime.utcnow()",
        "day = date.today()",
    ],
)
def test_io_clock_randomness_and_environment_in_a_pure_module_are_found(line, tmp_path) -> None:
    (found,) = pure_findings(package_of(tmp_path, **{"kernel/ids.py": f"import re\n{line}\n"}))

    assert found.startswith("pkg/kernel/ids.py:2: ")


@pytest.mark.parametrize(
    "line",
    [
        "os.replace(a, b)",
        "os.makedirs(a, exist_ok=True)",
        "shutil.rmtree(a)",
        "fd = os.open(a, os.O_RDWR | os.O_CREAT)",
        "file = open(a, 'wb')",
        "file = open(a, 'r+')",
    ],
)
def test_a_change_of_a_file_past_the_seam_is_found(line, tmp_path) -> None:
    text = f"import os, shutil\nb = open('b', 'rb')\na = 'a'\n{line}\n"
    (found,) = seam_findings(package_of(tmp_path, **{"mail/send.py": text}))

    assert found.startswith("pkg/mail/send.py:4: ")


def test_a_turn_that_is_ended_elsewhere_is_found(tmp_path) -> None:
    text = "from pkg.timeline.events import Kind\nstate = emit(state, Kind.TURN_FINISHED)\n"
    (found,) = turn_findings(package_of(tmp_path, **{"mail/send.py": text}))

    assert found.startswith("pkg/mail/send.py:2: ")


def test_a_channel_that_is_called_by_its_name_is_found(tmp_path) -> None:
    text = 'if channel == "discord":\n    pass\n'
    (found,) = channel_findings(package_of(tmp_path, **{"mail/send.py": text}))

    assert found.startswith("pkg/mail/send.py:1: ")


@pytest.mark.parametrize(
    "line",
    [
        "from tests.cli.test_send import run",
        "from tests.cli import test_children",
        "import tests.cli.test_send",
        "def later():\n    from tests.cli.test_send import run",
    ],
)
def test_an_import_of_a_test_module_is_found(line, tmp_path) -> None:
    (tmp_path / "test_other.py").write_text(f"from tests.workers import grow\n{line}\n")

    (finding,) = imports_of_tests(tmp_path)
    assert finding.startswith("test_other.py:")


@pytest.mark.parametrize(
    "file",
    ["mail/test_sent.py", "kernel/test_send.py", "test_send.py", "mail/letters.py"],
)
def test_a_unit_test_that_no_module_is_named_like_is_found(file, tmp_path) -> None:
    package = package_of(tmp_path / "code", **{"mail/send.py": ""})
    folder = tmp_path / "unit"
    for name in ("scripted.py", "mail/conftest.py", "mail/test_send.py", file):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")

    (finding,) = mirror_findings(package, folder)
    assert finding.startswith(f"{file}: ")


@pytest.mark.parametrize(
    "file",
    ["kernel/utils.py", "helpers.py", "storage/_common.py", "hosts/base.py", "manager/lock.py"],
)
def test_a_vague_name_is_found(file, tmp_path) -> None:
    (found,) = name_findings(package_of(tmp_path, **{file: ""}))

    assert found.startswith(f"pkg/{file.removesuffix('/lock.py')}: ")


@pytest.mark.parametrize(
    "text",
    [
        '"""What is over is told of."""\n',
        'class Odd:\n    """Begun anew."""\n',
        'LIMIT = 3\n"""As many as there shall be."""\n',
        "x = 1  # nothing holds up the rest\n",
    ],
)
def test_a_riddle_in_a_docstring_or_comment_is_found(text, tmp_path) -> None:
    found = word_findings(package_of(tmp_path, **{"mail/send.py": text}))

    assert found
    assert all(one.startswith("pkg/mail/send.py:") for one in found)


@pytest.mark.parametrize("name", ["typing", "pathlib", "subprocess", "logging", "datetime"])
def test_a_slow_module_on_the_hook_path_is_found_though_another_loads_it(name, tmp_path) -> None:
    changes = {"hook.py": "from pkg.kernel import ids\n", "kernel/ids.py": f"import {name}\n"}

    assert f"pkg/hook.py: loads {name}" in hook_findings(package_of(tmp_path, **changes))


@pytest.mark.parametrize("name", ["typer", "rich", "filelock", "orjson", "vyane_no_such_module"])
def test_a_third_party_module_on_the_hook_path_is_found(name, tmp_path) -> None:
    beside = tmp_path / f"{name}.py"
    missing = hook_findings(package_of(tmp_path, **{"hook.py": f"import {name}\n"}))
    beside.write_text("")
    present = hook_findings(package_of(tmp_path, **{"hook.py": f"import {name}\n"}))

    assert "does not import by itself" in missing[0]
    assert present == [f"pkg/hook.py: loads {name}"]


HOOK = """
import os, sys; sys.path.insert(0, sys.argv.pop(1)); os._exit = lambda status: None
from vyane_cli.hook import main; main(sys.argv[1:])
sys.stderr.write(' '.join(sorted(sys.modules)))
"""


def hook(home: Path, event: str) -> tuple[str, set[str]]:
    """What a hook call prints, and the modules that it has loaded at its end."""
    payload = {"session_id": "s-1", "cwd": str(home.parent), "prompt_id": "p-1"}
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", HOOK, str(PACKAGE.parent), "tick", "--home", str(home)],
        input=json.dumps({**payload, "hook_event_name": event, "prompt": "go on"}),
        capture_output=True,
        text=True,
        env={"CLAUDE_CODE_SESSION_ID": "s-1", "CLAUDE_PID": str(os.getpid())},
        check=True,
    )
    return run.stdout, set(run.stderr.split())


TICK_MAY_NOT_LOAD = (*HOOK_MAY_NOT_LOAD, "json", "re")


def test_a_tick_that_delivers_loads_no_module_that_it_can_do_without(tmp_path: Path) -> None:
    """From the payload to the settlement, the standard library's light part is enough."""
    home = tmp_path / "vyane"
    home.mkdir()
    loaded: set[str] = set()
    for event in ("SessionStart", "UserPromptSubmit", "PostToolBatch"):
        if event == "PostToolBatch":
            worker = next((home / "current").iterdir()).name
            send(Home(str(home), environ={}), MessageDraft(worker, "hello"))
        printed, loaded = hook(home, event)
        assert ("hello" in printed) == (event == "PostToolBatch")

    assert "vyane_cli.delivery.deliver" in loaded
    assert not loaded & set(TICK_MAY_NOT_LOAD)
    below = {name for name in loaded if name.startswith("vyane_cli.projects.")}
    assert below == {"vyane_cli.projects.after_tick"}  # which looks whether there is a project


def test_a_tick_beside_a_project_without_news_loads_nothing_that_starts_or_stores(
    tmp_path: Path,
) -> None:
    """The books, and how to read them; not what looks at processes or writes mail."""
    home = tmp_path / "vyane"
    home.mkdir()
    loaded: set[str] = set()
    for event in ("SessionStart", "UserPromptSubmit", "Stop", "UserPromptSubmit", "Stop"):
        _, loaded = hook(home, event)
        if event == "SessionStart":
            worker = next((home / "current").iterdir()).name
            make_project(Home(str(home), environ={}), worker, str(tmp_path))

    assert "vyane_cli.projects.supervise" in loaded
    assert (home / "projects" / "p" / "TO_MAIN.md").exists()
    assert not loaded & set(TICK_MAY_NOT_LOAD)
    assert not loaded & {
        f"vyane_cli.{name}" for name in ("mail.enqueue", "children.spawn", "sessions.liveness")
    }
