"""What `larder status` and `larder why` say of files that nodes do not fetch."""

from controller.cli.left_out import left_out_words
from controller.cli.report import build_table
from shared.api.meta import LeftOut

LEFT = {"files": 4, "size": 3 * 2**30, "duplicateSize": 2 * 2**30, "names": ["b.bin", "c.pth", "d.md", "e.md"]}


def test_copies_are_told_apart_from_what_patterns_leave_out() -> None:
    told = left_out_words(LeftOut(files=4, size=3 * 2**30, duplicate_size=2 * 2**30, names=["b.bin", "c", "d", "e"]))
    assert told == (
        "4 files of the source are left out, which saves 3.0 GiB (2.0 GiB in second copies of weights): "
        "b.bin, c, d, ..."
    )
    assert left_out_words(LeftOut(files=1, size=10, names=["a"])).endswith("which saves 10 B: a")


def test_the_table_has_a_line_for_it_beside_the_troubles() -> None:
    names = {"metadata": {"name": "m"}, "kind": "ClusterModelCache"}
    table = build_table([{**names, "status": {"leftOut": LEFT}}, {**names, "status": {}}], [])
    assert len(table.notes) == 1
    assert table.notes[0].startswith("cmc/m: 4 files of the source are left out")
    assert table.troubles == ()
