"""The project as a user gets it: a wheel in a virtual environment of its own, offline."""

import importlib.metadata
import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

REPOSITORY = Path(__file__).resolve().parents[2]
EXTRA = "discord"


@dataclass(frozen=True, slots=True)
class Installation:
    """One virtual environment that holds vyane."""

    root: Path

    @property
    def bin(self) -> Path:
        """What goes on PATH."""
        return self.root / "bin"

    @property
    def python(self) -> Path:
        """The interpreter that runs vyane."""
        return self.bin / "python"

    @property
    def site(self) -> Path:
        """The site-packages folder."""
        (found,) = (self.root / "lib").glob("python*/site-packages")
        return found

    @property
    def package(self) -> Path:
        """The folder of vyane's code, its data folders in it."""
        return self.site / "vyane_cli"

    @property
    def plugin(self) -> Path:
        """The folder that `claude --plugin-dir` takes."""
        return self.package / "hooks" / "claude-code"


def build_wheel(folder: Path) -> Path:
    """Build the project's wheel into an empty folder."""
    options = ["--quiet", "--no-deps", "--wheel-dir", str(folder)]
    if importlib.util.find_spec("hatchling"):
        options.append("--no-build-isolation")
    _run(sys.executable, "-m", "pip", "wheel", *options, REPOSITORY)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, root: Path) -> Installation:
    """A new virtual environment with the wheel and what it needs at run time, nothing else."""
    _run(sys.executable, "-m", "venv", "--without-pip", root)
    made = Installation(root)
    for distribution in requirements_of(wheel):
        _copy(distribution, made.site)
    options = ["--quiet", "--no-deps", "--no-index"]
    _run(sys.executable, "-m", "pip", "--python", made.python, "install", *options, wheel)
    return made


def requirements_of(wheel: Path) -> list[importlib.metadata.Distribution]:
    """What the wheel and its extra need, and what that needs, from what runs the tests."""
    (own,) = importlib.metadata.distributions(path=[str(wheel)])
    found: dict[str, importlib.metadata.Distribution] = {}
    todo = [*_names(own), *_names(own, EXTRA)]
    while todo:
        name = todo.pop()
        if name not in found:
            try:
                found[name] = importlib.metadata.distribution(name)
            except importlib.metadata.PackageNotFoundError:
                raise RuntimeError(
                    f"{name} is not installed beside pytest: install requirements/dev.txt"
                ) from None
            todo += _names(found[name])
    return list(found.values())


def _names(distribution: importlib.metadata.Distribution, extra: str = "") -> Iterator[str]:
    for text in distribution.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement.name


def _copy(distribution: importlib.metadata.Distribution, site: Path) -> None:
    for file in distribution.files or ():
        if ".." not in file.parts and "__pycache__" not in file.parts:
            target = site / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(str(file.locate()), target)


def _run(*command: str | Path) -> None:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
