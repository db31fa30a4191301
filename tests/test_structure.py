"""
The direction of the imports, what core/ may know, how modules may be called, and
what a hook may load. Each checker takes a package folder and returns its findings,
so that the tests below can also show it a package that breaks the rule.
"""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.projects import make_project
from vyane_cli.operations.send import Draft, send
from vyane_cli.runtime import Runtime

PACKAGE = Path(__file__).parent.parent / "vyane_cli"

# A part is a module or a folder directly below the package. Left: the part; right: the
# parts that it may import, itself aside. `errors` and the package's own `__init__` are
# open to all. A part that is not listed is a finding: it needs a place in the direction.
MIDDLE = {"operations", "hosts", "channels", "render"}
# fmt: off
MAY_IMPORT: dict[str, set[str]] = {
    "__main__":   {"hook", "app"},
    "hook":       {"runtime", "store", "core", *MIDDLE},
    "app":        {"commands", "runtime", "core", *MIDDLE},
    "launcher":   {"runtime", "core", *MIDDLE},  # the entry of the process beside a child
    "api":        {"runtime", "store", "core", *MIDDLE},  # the entry for programs
    "commands":   {"runtime", "core", *MIDDLE},
    "runtime":    {"store", "core"},  # the composition point: an entry point builds it, once
    "operations": {"runtime", "store", "core"},
    "hosts":      {"core"},
    "channels":   {"core"},
    "render":     {"core"},
    "store":      {"core"},
    "core":       set(),
    "errors":     set(),
    "__init__":   {"api"},  # on first use: to import the package alone loads nothing
}
# fmt: on
OPEN_TO_ALL = {"errors", "__init__"}

# The folders of operations/: a family, and the families that it may import besides what lies
# directly in operations/, which imports none of them. So a hook loads no family unless it says so.
# fmt: off
FAMILIES: dict[str, set[str]] = {
    "children":      set(),
    "timelines":     set(),
    "demo":          set(),
    "conversations": {"children"},
    "upkeep":        {"timelines"},
    "projects":      {"children", "conversations", "upkeep"},
    "setup":         {"projects"},
    "health":        {"conversations", "upkeep", "projects"},
}
# fmt: on

# No I/O, clock, randomness or environment comes with these.
CORE_STDLIB = set(
    "_json __future__ base64 binascii collections dataclasses datetime difflib enum functools"
    " hashlib itertools json math operator re shlex string types typing unicodedata zlib".split()
)
CORE_CALLS = {"open", "print", "input", "breakpoint"}
CLOCK_READS = {"now", "utcnow", "today"}  # of datetime, which is allowed for its arithmetic

CHANGING_CALLS = set(
    "chmod chown fchmod ftruncate link makedirs mkdir pwrite remove rename replace rmdir rmtree"
    " symlink truncate unlink utime".split()
)  # of os and shutil
WRITING_FLAGS = {"O_CREAT", "O_TRUNC", "O_APPEND", "O_WRONLY"}
AROUND_THE_SEAM = {
    "store/files.py": "it is the seam",
    "store/locks.py": "lock files, which hold nothing",
    "channels/file.py": "a person's folder, with a seam of its own",
    "channels/file_disk.py": "the same",
    "commands/streams.py": "/dev/null, in place of a closed output",
    "store/launches.py": "the log that a child prints to, opened for it",
    "operations/timelines/export.py": "a pipe of the person's, or a device",
    "operations/health/repairs.py": "a mode, announced at the seam",
    "operations/timelines/delete.py": "a folder that was moved out of sight",
    "operations/setup/removal.py": "the whole state folder, after everything else",
    "operations/demo/demo.py": "a temporary folder of its own",
}

VAGUE_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc"}

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


def imported_part(package: Path, target: str) -> str | None:
    """The part of the package that an import reaches; None if it is outside of the package."""
    root, *rest = target.split(".")
    if root != package.name:
        return None
    if rest and ((package / rest[0]).is_dir() or (package / f"{rest[0]}.py").is_file()):
        return rest[0]
    return rest[0] if rest and rest[0] in MAY_IMPORT else "__init__"


def direction_findings(package: Path) -> list[str]:
    found = []
    for file in modules_of(package):
        part = part_of(package, file)
        if part not in MAY_IMPORT:
            found.append(f"{file.relative_to(package.parent)}:1: {part} has no row in MAY_IMPORT")
            continue
        open_to_part = MAY_IMPORT[part] | OPEN_TO_ALL | {part}
        for one in imports_of(package, file):
            reached = imported_part(package, one.target)
            if reached is not None and reached not in open_to_part:
                found.append(f"{one}, but may only import {sorted(open_to_part)}")
    return found


def family_findings(package: Path) -> list[str]:
    found = []
    operations = package / "operations"
    for file in modules_of(operations):
        inside = file.relative_to(operations).parts[:-1]
        family = inside[0] if inside else None
        if family is not None and family not in FAMILIES:
            found.append(f"{file.relative_to(package.parent)}:1: {family} has no row in FAMILIES")
            continue
        may = {family, *FAMILIES[family]} if family is not None else set()
        for one in imports_of(package, file):
            root, *reached = one.target.split(".")
            if root != package.name or reached[:1] != ["operations"] or len(reached) < 2:
                continue
            if (operations / reached[1]).is_dir() and reached[1] not in may:
                found.append(f"{one}, a family that {family or 'operations/ itself'} may not use")
    return found


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


def core_findings(package: Path) -> list[str]:
    found = []
    for file in modules_of(package / "core"):
        for one in imports_of(package, file):
            root = one.target.split(".")[0]
            if root not in CORE_STDLIB | {package.name}:
                found.append(f"{one}, which is not on core's list")
        for node in ast.walk(parsed(file)):
            shown = f"{file.relative_to(package.parent)}:{getattr(node, 'lineno', 1)}"
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in CORE_CALLS:
                    found.append(f"{shown}: core calls {name}()")
                case ast.Attribute(attr=name) if name in CLOCK_READS:
                    found.append(f"{shown}: core reads a clock: .{name}")
                case _:
                    pass
    return found


def seam_findings(package: Path) -> list[str]:
    """Where a file is changed past `store/files`: no test stops, fails or replays that call."""
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
                    found.append(f"{shown}: {name} past store/files")
                case ast.Call(
                    func=ast.Name(id="open"), args=[_, ast.Constant(value=str(mode))]
                ) if set(mode) & set("wax+"):
                    found.append(f"{shown}: open for writing past store/files")
                case _:
                    pass
    return found


def turn_findings(package: Path) -> list[str]:
    """Where a turn is begun or ended past `core/turns`: nobody else may say that one is over."""
    return [
        f"{file.relative_to(package.parent)}:{node.lineno}: makes a {arg.attr} past core/turns"
        for file in modules_of(package)
        if file.relative_to(package).as_posix() != "core/turns.py"
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Call)
        for arg in [*node.args, *(keyword.value for keyword in node.keywords)]
        if isinstance(arg, ast.Attribute) and arg.attr in ("TURN_STARTED", "TURN_FINISHED")
    ]


def channel_findings(package: Path) -> list[str]:
    """Where a channel is called by its name outside of its adapter: each is as good as another."""
    return [
        f"{file.relative_to(package.parent)}:{node.lineno}: names the channel {node.value}"
        for part in ("core", "operations", "store", "hosts", "render")
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


def test_imports_point_from_the_entries_to_the_core() -> None:
    assert modules_of(PACKAGE)
    assert not (found := direction_findings(PACKAGE)), "\n".join(found)


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert not (found := circle_findings(PACKAGE)), "\n".join(found)


def test_the_families_of_operations_import_one_way() -> None:
    assert FAMILIES.keys() == {
        path.name
        for path in (PACKAGE / "operations").iterdir()
        if path.is_dir() and path.name != "__pycache__"
    }
    assert not (found := family_findings(PACKAGE)), "\n".join(found)


def test_the_page_on_architecture_has_the_table_of_families() -> None:
    page = (PACKAGE.parent / "docs" / "explanation" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)/` \|[^|]*\|([^|]*)\|$", page, re.M)

    shown = {family: set(re.findall(r"`(\w+)`", may)) for family, may in rows}

    assert {family: may for family, may in shown.items() if family in FAMILIES} == FAMILIES


def test_the_core_has_no_io_no_clock_no_randomness_and_no_environment() -> None:
    assert modules_of(PACKAGE / "core")
    assert not (found := core_findings(PACKAGE)), "\n".join(found)


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


def test_a_module_is_named_after_its_idea() -> None:
    assert not (found := name_findings(PACKAGE)), "\n".join(found)


def test_importing_the_hook_loads_a_few_modules_of_the_standard_library() -> None:
    assert not (found := hook_findings(PACKAGE)), "\n".join(found)


# --- the checkers, on a package that keeps the rules and on some that do not -----------------

SOUND = {
    "__init__.py": "__version__ = '1'\n",
    "__main__.py": "def main():\n    from pkg import app, hook\n",
    "app.py": "import typer\nfrom pkg.commands import send\nfrom pkg.errors import VyaneError\n",
    "errors.py": "import enum\n",
    "hook.py": "import os\nimport sys\n\ndef main():\n    from pkg.operations import tick\n",
    "runtime.py": "from pkg.store import journal\n",
    "commands/__init__.py": "",
    "commands/send.py": "from .. import __version__\nfrom ..operations import send\n",
    "core/__init__.py": "",
    "core/ids.py": "import re\nfrom collections.abc import Set\nfrom datetime import UTC\n",
    "core/messages.py": "from pkg.core import ids\nfrom .ids import ulid\n",
    "hosts/__init__.py": "",
    "hosts/codex.py": "from pkg.core.ids import ulid\n",
    "operations/__init__.py": "",
    "operations/send.py": "from pkg.store import journal\nfrom pkg.runtime import Runtime\n",
    "operations/upkeep/__init__.py": "",
    "operations/upkeep/gc.py": "from pkg.operations.send import send\n",
    "render/__init__.py": "",
    "render/human.py": "from rich.table import Table\n",
    "store/__init__.py": "",
    "store/journal.py": "import os\nfrom pkg.core import ids\nfrom pkg import errors\n",
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
        direction_findings,
        family_findings,
        circle_findings,
        core_findings,
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
        ("core/ids.py", "from pkg.store import journal"),
        ("core/ids.py", "from ..store import journal"),
        ("core/ids.py", "from .. import runtime"),
        ("core/ids.py", "import pkg.hosts.codex"),
        ("store/journal.py", "from pkg.operations.send import send"),
        ("store/journal.py", "from pkg.runtime import Runtime"),
        ("hosts/codex.py", "from pkg.store.journal import append"),
        ("hosts/codex.py", "from pkg.operations import send"),
        ("hosts/codex.py", "from pkg.runtime import Runtime"),
        ("render/human.py", "from ..hosts.codex import parse"),
        ("operations/send.py", "from pkg.render import human"),
        ("operations/send.py", "from pkg.hosts import codex"),
        ("operations/send.py", "from pkg import channels"),
        ("commands/send.py", "from pkg.store import journal"),
        ("commands/send.py", "from pkg.app import app"),
        ("runtime.py", "from pkg.operations import send"),
        ("hook.py", "from pkg.commands import send"),
        ("app.py", "from pkg.store import journal"),
        ("errors.py", "from pkg.core import ids"),
        ("__main__.py", "from pkg.operations import send"),
    ],
)
def test_an_import_against_the_direction_is_found_by_file_and_line(file, line, tmp_path) -> None:
    top = package_of(tmp_path, **{file: f"import sys\n{line}\n"})
    inside = package_of(tmp_path / "f", **{file: f"def late():\n    {line}\n"})
    typing = package_of(tmp_path / "t", **{file: f"if TYPE_CHECKING:\n    {line}\n"})

    for package in (top, inside, typing):
        (found,) = direction_findings(package)
        assert found.startswith(f"pkg/{file}:2: ")
        assert "imports pkg." in found


@pytest.mark.parametrize(
    "file, line",
    [
        ("operations/send.py", "from pkg.operations.upkeep import gc"),
        ("operations/send.py", "from .upkeep.gc import collect"),
        ("operations/upkeep/gc.py", "from pkg.operations.projects.wake import wake"),
        ("operations/upkeep/gc.py", "from pkg.operations import projects"),
    ],
)
def test_an_import_against_the_order_of_the_families_is_found(file, line, tmp_path) -> None:
    package = package_of(
        tmp_path, **{file: f"import sys\n{line}\n", "operations/projects/__init__.py": ""}
    )

    (found,) = family_findings(package)

    assert found.startswith(f"pkg/{file}:2: ")


def test_a_circle_of_imports_is_found_also_inside_functions_and_for_types(tmp_path) -> None:
    package = package_of(
        tmp_path,
        **{
            "core/ids.py": "if TYPE_CHECKING:\n    from pkg.core.names import Name\n",
            "core/names.py": "def late():\n    from pkg.core import messages\n",
        },
    )

    (found,) = circle_findings(package)

    assert {"pkg.core.ids", "pkg.core.names", "pkg.core.messages"} <= set(found.split())


def test_a_family_without_a_row_is_found(tmp_path) -> None:
    (found,) = family_findings(package_of(tmp_path, **{"operations/odd/end.py": ""}))

    assert found == "pkg/operations/odd/end.py:1: odd has no row in FAMILIES"


def test_a_part_without_a_place_in_the_direction_is_found(tmp_path) -> None:
    package = package_of(
        tmp_path, **{"plumbing/pipe.py": "", "store/journal.py": "import pkg.plumbing"}
    )

    assert [one.split(":")[0] for one in direction_findings(package)] == [
        "pkg/plumbing/pipe.py",
        "pkg/store/journal.py",
    ]


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
def test_io_clock_randomness_and_environment_in_the_core_are_found(line, tmp_path) -> None:
    (found,) = core_findings(package_of(tmp_path, **{"core/ids.py": f"import re\n{line}\n"}))

    assert found.startswith("pkg/core/ids.py:2: core ")


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
    (found,) = seam_findings(package_of(tmp_path, **{"operations/send.py": text}))

    assert found.startswith("pkg/operations/send.py:4: ")


def test_a_turn_that_is_ended_elsewhere_is_found(tmp_path) -> None:
    text = "from pkg.core.events import Kind\nstate = emit(state, Kind.TURN_FINISHED)\n"
    (found,) = turn_findings(package_of(tmp_path, **{"operations/send.py": text}))

    assert found.startswith("pkg/operations/send.py:2: ")


def test_a_channel_that_is_called_by_its_name_is_found(tmp_path) -> None:
    text = 'if channel == "discord":\n    pass\n'
    (found,) = channel_findings(package_of(tmp_path, **{"operations/send.py": text}))

    assert found.startswith("pkg/operations/send.py:1: ")


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
    "file", ["core/utils.py", "helpers.py", "store/_common.py", "hosts/base.py", "manager/lock.py"]
)
def test_a_vague_name_is_found(file, tmp_path) -> None:
    (found,) = name_findings(package_of(tmp_path, **{file: ""}))

    assert found.startswith(f"pkg/{file.removesuffix('/lock.py')}: ")


@pytest.mark.parametrize("name", ["typing", "pathlib", "subprocess", "logging", "datetime"])
def test_a_slow_module_on_the_hook_path_is_found_though_another_loads_it(name, tmp_path) -> None:
    changes = {"hook.py": "from pkg.core import ids\n", "core/ids.py": f"import {name}\n"}

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
            send(Runtime(str(home), environ={}), Draft(worker, "hello"))
        printed, loaded = hook(home, event)
        assert ("hello" in printed) == (event == "PostToolBatch")

    assert "vyane_cli.core.settling" in loaded
    assert not loaded & set(TICK_MAY_NOT_LOAD)
    assert not [name for name in loaded if name.rpartition(".")[2] in OF_PROJECTS]


OF_PROJECTS = ("supervise", "notices", "projections", "ledger", "projects", "goals", "rounds")


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
            make_project(Runtime(str(home), environ={}), worker, str(tmp_path))

    assert "vyane_cli.operations.supervise" in loaded
    assert (home / "projects" / "p" / "TO_MAIN.md").exists()
    assert not loaded & set(TICK_MAY_NOT_LOAD)
    assert not loaded & {
        f"vyane_cli.operations.{name}" for name in ("storing", "children.spawn", "liveness")
    }
