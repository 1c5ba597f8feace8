from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from busbw.errors import UsageError
from busbw.registry import Registry


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A package of three plug-ins and two helpers."""
    package = tmp_path / "plugins_for_test"
    package.mkdir()
    for name in ("__init__", "ring", "tree", "double_tree", "_helper", "base"):
        (package / f"{name}.py").write_text(f"THING = {name!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield package.name
    for name in [name for name in sys.modules if name.startswith(package.name)]:
        del sys.modules[name]


def test_names_are_the_files_sorted_and_nothing_is_imported(folder: str) -> None:
    registry: Registry[str] = Registry(folder, "THING", "thing", skip=("base",))
    assert registry.names() == ("double_tree", "ring", "tree")
    assert [name for name in sys.modules if name.startswith(f"{folder}.")] == []


def test_get_imports_one_file_only(folder: str) -> None:
    registry: Registry[str] = Registry(folder, "THING", "thing")
    assert registry.get("ring") == "ring"
    assert [name for name in sys.modules if name.startswith(f"{folder}.")] == [f"{folder}.ring"]


def test_iterating_gives_the_objects_in_the_order_of_their_names(folder: str) -> None:
    registry: Registry[str] = Registry(folder, "THING", "thing", skip=("base",))
    assert list(registry) == ["double_tree", "ring", "tree"]


@pytest.mark.parametrize("name", ["rings", "_helper", "__init__", "base", "", "ring.x"])
def test_an_unknown_name_gets_the_kind_and_the_choices(folder: str, name: str) -> None:
    registry: Registry[str] = Registry(folder, "THING", "thing", skip=("base",))
    with pytest.raises(UsageError) as caught:
        registry.get(name)
    assert str(caught.value).startswith(f"unknown thing {name!r}: choose from double_tree, ring, tree")


def test_a_typing_slip_gets_a_hint(folder: str) -> None:
    registry: Registry[str] = Registry(folder, "THING", "thing")
    with pytest.raises(UsageError, match=r"did you mean double_tree\?"):
        registry.get("doubletree")
