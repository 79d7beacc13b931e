"""The lists of files of one namespace cannot take all memory of an agent."""

import msgspec

from tests.builders.archives import tar_gz
from tests.integration.agent.node_under_test import Bench, Model

MANY = {f"part-{i:03}": b"%d" % i for i in range(300)}  # a list of about 265 KiB
LISTS = ("--file-list-bytes", str(600 * 1024))


def fetches(bench: Bench, model: Model) -> int:
    """Return how often the agent asked for the model's manifest."""
    return bench.controller.asked.count(f"/v1/manifests/{model.entry.manifest}")


def test_a_list_that_does_not_fit_is_fetched_once_and_downloaded_when_there_is_room(bench: Bench) -> None:
    first, second = bench.add_model("team_first", MANY), bench.add_model("team_second", MANY | {"more": b""})
    bench.want(first.entry)
    bench.start(*LISTS)
    bench.wait_phase(first, "Ready")

    bench.want(first.entry, second.entry)
    message = bench.wait_phase(second, "Failed", "TooManyFilesOnNode").message
    assert "301 files" in message
    assert "namespace team" in message

    other = bench.add_model("other_small", {"config.json": b"{}"})
    bench.want(first.entry, second.entry, other.entry)
    bench.wait_phase(other, "Ready")  # its end makes the others ask again
    bench.wait_phase(second, "Failed", "TooManyFilesOnNode")
    assert fetches(bench, second) == 1
    assert bench.count("entry_failed") == 1

    bench.want(msgspec.structs.replace(first.entry, state="Absent"), second.entry, other.entry)
    bench.wait_phase(second, "Ready")
    assert bench.is_complete(second)


def test_complete_models_stay_and_are_repaired_when_lists_take_more_than_their_limit(bench: Bench) -> None:
    model = bench.add_model("team_first", MANY)
    bench.want(model.entry)
    bench.start(*LISTS).stop()
    bench.start(*LISTS)
    bench.wait_phase(model, "Ready")
    bench.agents[-1].stop()
    bench.damage(model, "part-007").write_bytes(b"damaged")
    bench.start("--file-list-bytes", "1000")
    bench.wait_for(lambda: bench.is_complete(model), "the repair")
    bench.wait_phase(model, "Ready")


def test_the_files_of_an_archive_count_and_it_is_dropped_until_they_fit(bench: Bench) -> None:
    first = bench.add_model("team_first", MANY)
    found = bench.add_model("team_packed", {"m.tar.gz": tar_gz(MANY)})
    packed = Model(found.entry, found.manifest, MANY)
    bench.want(first.entry)
    bench.start(*LISTS)
    bench.wait_phase(first, "Ready")

    bench.want(first.entry, packed.entry)
    message = bench.wait_phase(packed, "Failed", "TooManyFilesOnNode").message
    assert "300 files" in message
    bench.wait_for(lambda: not list((bench.root / "partial").glob("*.*")), "the archive to be dropped")
    other = bench.add_model("other_small", {"config.json": b"{}"})
    bench.want(first.entry, packed.entry, other.entry)
    bench.wait_phase(other, "Ready")
    assert len(bench.hub.journal.requests("*m.tar.gz", method="GET")) == 1

    bench.want(msgspec.structs.replace(first.entry, state="Absent"), packed.entry, other.entry)
    bench.wait_phase(packed, "Ready")
    assert bench.is_complete(packed)
