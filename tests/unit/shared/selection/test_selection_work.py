"""Untrusted names and patterns are compared within bounds."""

import pytest

from shared.errors import TooManyFiles
from shared.manifest import File, Manifest
from shared.selection.choice import make_selection
from shared.selection.select import select_files


def test_the_longest_names_are_not_compared_with_the_longest_patterns() -> None:
    name = "a" * 990
    manifest = Manifest("hf://o/m@c", "c", tuple(File(f"{name}{n}", 1) for n in range(1_000)))
    many = make_selection(ignore=["*" + f"{n:03}" + "a" * 500 for n in range(100)])
    with pytest.raises(TooManyFiles, match="write fewer or shorter patterns"):
        select_files(manifest, many)
    few = make_selection(ignore=["*" + "a" * 500 + "b"])
    assert len(select_files(manifest, few)[0].files) == 1_000
