"""What `larder status` and `larder why` report about files that nodes do not fetch."""

import msgspec

from controller.cli.status.report import ObservedModel, report_of
from shared.api.kinds import CLUSTER_MODEL_CACHE
from shared.api.meta import LeftOut
from shared.selection.left_out import left_out_message

LEFT = {"files": 4, "size": 3 * 2**30, "duplicateSize": 2 * 2**30, "names": ["b.bin", "c.pth", "d.md", "e.md"]}


def test_copies_are_distinguished_from_what_patterns_leave_out() -> None:
    reported = left_out_message(
        LeftOut(files=4, size=3 * 2**30, duplicate_size=2 * 2**30, names=["b.bin", "c", "d", "e"])
    )
    assert reported == (
        "4 files of the source are not downloaded, which saves 3.0 GiB (2.0 GiB in duplicate weights): b.bin, c, d, ..."
    )
    assert left_out_message(LeftOut(files=1, size=10, names=["a"])).endswith("which saves 10 B: a")


def test_files_left_out_are_reported_as_a_note_and_not_as_a_problem() -> None:
    body = {"metadata": {"name": "m"}, "status": {"leftOut": LEFT}}
    report = report_of(CLUSTER_MODEL_CACHE, msgspec.convert(body, ObservedModel))
    assert len(report.notes) == 1
    assert report.notes[0].startswith("cmc/m: 4 files of the source are not downloaded")
    assert report.problems == []
