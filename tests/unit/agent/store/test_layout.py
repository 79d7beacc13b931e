from pathlib import Path

import pytest

from agent.store.layout import Layout
from shared.errors import UnsafePath

LAYOUT = Layout(Path("/root-of-the-store"))


def test_a_snapshot_is_below_its_model() -> None:
    assert LAYOUT.snapshot("team_llama", "abc") == Path("/root-of-the-store/models/team_llama/abc")


def test_a_long_id_is_cut_with_a_hash_and_stays_distinct() -> None:
    one, two = LAYOUT.model("x" * 80 + "1"), LAYOUT.model("x" * 80 + "2")
    assert one != two
    assert len(one.name) == len(two.name) == 45


@pytest.mark.parametrize("revision", ["", ".", "..", ".tmp-1", "a/b", "a\0b", "x" * 201])
def test_a_revision_that_is_not_a_directory_name_is_refused(revision: str) -> None:
    with pytest.raises(UnsafePath, match="revision"):
        LAYOUT.snapshot("llama", revision)


@pytest.mark.parametrize("identity", ["", "..", ".hidden", "a/b"])
def test_an_id_that_is_not_a_directory_name_is_refused(identity: str) -> None:
    with pytest.raises(UnsafePath, match="model id"):
        LAYOUT.model(identity)
