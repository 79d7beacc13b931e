"""What the controller is told while downloads and removals run."""

from agent.meters import COMPLETE, DOWNLOAD, Ending, Meters, Removal

KEY, OTHER = ("m", "r1"), ("m", "r0")


def told(meters: Meters) -> list[tuple[str, str, int, int]]:
    return [(e.id, e.revision, e.done, e.total) for e in meters.report().entries]


def test_downloads_and_removals_are_told_side_by_side_while_they_run() -> None:
    meters = Meters()
    progress = meters.start(KEY, "hf://o/m", DOWNLOAD)
    progress.total = 10
    progress.receive(4)
    meters.removals[OTHER] = Removal(20)
    meters.free(OTHER, 5)
    meters.free(OTHER, 0)  # a blob that another snapshot keeps
    assert told(meters) == [("m", "r1", 4, 10), ("m", "r0", 5, 20)]
    meters.end(KEY, DOWNLOAD, Ending(COMPLETE))
    meters.removals.pop(OTHER)
    assert told(meters) == []


def test_what_is_freed_counts_though_nobody_follows_it() -> None:
    meters = Meters()
    meters.free(OTHER, 5)
    assert meters.freed_bytes == 5


def test_a_removal_of_nothing_that_has_a_size_is_not_told() -> None:
    meters = Meters(removals={OTHER: Removal(0)})
    assert told(meters) == []
