"""`vyane spawn --worktree`: a git work tree of its own, whole or not at all."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.children import inbox, spawn, wait
from tests.operations.faults import stopped_at
from tests.simulated import vyane
from vyane_cli.children import spawn as spawning
from vyane_cli.children.order import Order
from vyane_cli.sessions import registry

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="there is no git")


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=ann", "-c", "user.email=ann@example.org"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """With one commit, and a folder in it."""
    folder = tmp_path / "shop"
    (folder / "api").mkdir(parents=True)
    (folder / "api" / "file").write_text("one\n")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "one")
    return folder


def trees(repository: Path) -> list[str]:
    lines = git(repository, "worktree", "list", "--porcelain").splitlines()
    return [line.split(" ", 1)[1] for line in lines if line.startswith("worktree ")]


def branches(repository: Path) -> list[str]:
    return git(repository, "branch", "--format=%(refname:short)").split()


def test_the_child_works_on_its_branch_beside_the_repository(world, repository):
    """In the folder that was asked for; the work tree stays when the child has ended."""
    child = spawn(
        world, "pwd; git branch --show-current; echo two > file", "--runtime", "sh",
        "--cwd", str(repository / "api"), "--worktree", "fix/Tax 1".replace(" ", "-"),
    )  # fmt: skip
    wait(world, child["id"])
    path = repository.parent / "shop-fix-tax-1"
    (message,) = inbox(world, "bob")
    assert message["payload"]["summary"].split() == [str(path / "api"), "fix/Tax-1"]
    assert child["cwd"] == str(path / "api")
    assert (path / "api" / "file").read_text() == "two\n"
    assert (repository / "api" / "file").read_text() == "one\n"
    assert trees(repository) == [str(repository), str(path)]


def test_an_existing_branch_is_checked_out_and_a_free_work_tree_of_it_is_used_again(
    world,
    repository,
):
    """A second child of the branch waits for the first to end; then it has what that one left."""
    git(repository, "branch", "old")
    words = ("--runtime", "sh", "--cwd", str(repository), "--worktree", "old")
    first = spawn(world, "sleep 600", *words)
    again = vyane(world.layout.root, "spawn", "x", "--parent", "bob", *words)
    assert again.status == 4
    assert b"works in" in again.err
    vyane(world.layout.root, "cancel", first["id"], "--force", "--from-kind", "human")
    second = spawn(world, "git branch --show-current", *words)
    assert second["cwd"] == first["cwd"]
    assert wait(world, second["id"])[0]["summary"] == "old"
    assert len(trees(repository)) == 2


@pytest.mark.parametrize(
    "branch, where, status, says",
    [
        ("a..b", "api", 2, "the name of a branch"),
        ("-f", "api", 2, "the name of a branch"),
        ("main", "api", 4, "checked out in"),
        ("new", "..", 2, "in a git repository"),
        ("taken", "api", 4, "is there already"),
    ],
)
def test_what_git_would_refuse_leaves_nothing(world, repository, branch, where, status, says):
    """No child, no work tree, no branch."""
    (repository.parent / "shop-taken").mkdir()
    before = branches(repository)
    ran = vyane(
        world.layout.root, "spawn", "x", "--parent", "bob", f"--worktree={branch}",
        "--cwd", str(repository / where),
    )  # fmt: skip
    assert ran.status == status, ran.err
    assert says in ran.err.decode()
    assert [worker.name for worker in registry.Registry(world.layout).listing()] == ["bob"]
    assert (trees(repository), branches(repository)) == ([str(repository)], before)


def test_a_repository_without_a_commit_is_refused(world, tmp_path):
    """There is nothing to check out."""
    git(tmp_path, "init", "-q", "empty")
    ran = vyane(
        world.layout.root, "spawn", "x", "--parent", "bob", "--worktree", "b",
        "--cwd", str(tmp_path / "empty"),
    )  # fmt: skip
    assert ran.status == 2
    assert b"with a commit" in ran.err


def test_a_child_that_does_not_come_to_be_leaves_no_work_tree(world, repository):
    """Its name is taken: the branch that was made for it goes too."""
    ran = vyane(
        world.layout.root, "spawn", "x", "--parent", "bob", "--name", "bob", "--worktree", "new",
        "--cwd", str(repository),
    )  # fmt: skip
    assert ran.status == 4
    assert (trees(repository), branches(repository)) == ([str(repository)], ["main"])


def test_a_variable_of_a_git_hook_does_not_lead_to_another_repository(world, repository, tmp_path):
    """GIT_DIR is set inside one."""
    git(tmp_path, "init", "-q", "other")
    child = spawn(
        world, "true", "--runtime", "sh", "--cwd", str(repository), "--worktree", "b",
        environ={"GIT_DIR": str(tmp_path / "other" / ".git")},
    )  # fmt: skip
    assert child["cwd"] == str(repository.parent / "shop-b")


def test_a_spawn_that_is_killed_leaves_a_work_tree_that_the_next_one_takes(
    world,
    repository,
    monkeypatch,
):
    """At every call: a child on its branch, or none; and the same command works afterwards."""
    monkeypatch.setattr(spawning, "start_launcher", lambda *rest: None)

    def order(branch: str) -> Order:
        return Order("x", "bob", cwd=str(repository), worktree=branch)

    def children() -> list[Any]:
        return [w for w in registry.Registry(world.layout).listing() if w.parent_worker_id]

    def action(branch: str) -> Any:
        return lambda say: say(spawning.spawn(world, order(branch)).id)

    for k in (1, 3, 6, 12, 18, 24):
        before = len(children())
        outcome = stopped_at(k, action(f"b{k}"))
        if len(children()) == before:  # killed before the commit point
            assert not outcome.said, outcome.at
            spawning.spawn(world, order(f"b{k}"))
        made = children()[-1]
        assert made.cwd == str(repository.parent / f"shop-b{k}")
        assert Path(made.cwd, "api", "file").exists()
        assert git(Path(made.cwd), "branch", "--show-current") == f"b{k}"
