"""Projects: which one a folder means, and who belongs to one."""

import pytest

from vyane_cli.errors import InvalidInputError, NotFoundError
from vyane_cli.projects.project import (
    Project,
    check_name,
    find_project,
    members,
    parse_project,
    project_of_folder,
    project_of_worker,
    render_project,
)
from vyane_cli.sessions.worker import Worker

SHOP = Project("shop", "/src/shop", main="w-main", folders=("/trees/shop-2",))
API = Project("api", "/src/shop/api")
ALL = (SHOP, API)


@pytest.mark.parametrize("folder, name", [
    ("/src/shop", "shop"), ("/src/shop/web/src", "shop"), ("/src/shop/api", "api"),
    ("/src/shop/api/v2", "api"), ("/src/shop/apis", "shop"), ("/trees/shop-2/x", "shop"),
    ("/src", None), ("/src/shopping", None), ("/", None),
])  # fmt: skip
def test_a_folder_means_the_nearest_project_above_it(folder, name):
    found = project_of_folder(folder, ALL)

    assert (found.name if found else None) == name


def test_the_root_may_be_a_project():
    assert project_of_folder("/any/where", (Project("all", "/"),)) is not None


def worker(name: str, parent: str = "", project: str | None = None) -> Worker:
    return Worker(name, name, "claude", "", parent_worker_id=parent or None, project=project)


def test_a_worker_belongs_where_it_was_declared_or_its_nearest_declared_ancestor_was():
    listed = [
        worker("w-main"), worker("w-a", "w-main"), worker("w-b", "w-a", "api"),
        worker("w-c", "w-b"), worker("w-x"), worker("w-y", "w-z"), worker("w-z", "w-y"),
    ]  # fmt: skip
    workers = {one.id: one for one in listed}

    assert {one.id: project_of_worker(one, workers, ALL) for one in listed} == {
        "w-main": "shop", "w-a": "shop", "w-b": "api", "w-c": "api", "w-x": "", "w-y": "",
        "w-z": "",
    }  # fmt: skip
    assert [one.id for one in members(API, workers, ALL)] == ["w-b", "w-c"]


def test_an_unknown_project_names_the_nearest():
    with pytest.raises(NotFoundError) as caught:
        find_project("shopp", ALL)

    assert "shop" in caught.value.hint


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b", "-x", "x" * 41, "é"])
def test_a_name_that_cannot_be_a_folder_is_refused(name):
    with pytest.raises(InvalidInputError):
        check_name(name)


def test_a_project_comes_back_as_it_was():
    rendered = render_project(SHOP._replace(unknown={"colour": "red"}))

    assert rendered["colour"] == "red"
    assert parse_project(rendered) == SHOP._replace(unknown={"colour": "red"})


@pytest.mark.parametrize("data", [
    {}, {"name": "x"}, {"name": 1, "dir": "/"}, {"name": "x", "dir": "/", "folders": "y"},
    {"name": "x", "dir": "/", "created_at": "now"}, {"name": "x", "dir": "/", "main": []},
    {"name": "x", "dir": "/a\0b"}, {"name": "x", "dir": "/", "folders": ["/a\0b"]},
])  # fmt: skip
def test_what_is_no_project_is_damage(data):
    with pytest.raises(ValueError, match=r".+"):
        parse_project(data)
