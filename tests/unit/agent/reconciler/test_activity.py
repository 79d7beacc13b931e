"""The progress that is reported to the controller while downloads and removals run."""

from agent.reconciler.activity import COMPLETE, DOWNLOAD, Activity, DownloadResult, RemovalProgress

KEY, OTHER = ("m", "r1"), ("m", "r0")


def reported(activity: Activity) -> list[tuple[str, str, int, int]]:
    return [(e.id, e.revision, e.done, e.total) for e in activity.report().entries]


def test_downloads_and_removals_are_reported_side_by_side_while_they_run() -> None:
    activity = Activity()
    progress = activity.start(KEY, "hf://o/m", DOWNLOAD)
    progress.total = 10
    progress.count_received(4)
    activity.removals[OTHER] = RemovalProgress(20)
    activity.count_freed(OTHER, 5)
    activity.count_freed(OTHER, 0)  # a blob that another snapshot keeps
    assert reported(activity) == [("m", "r1", 4, 10), ("m", "r0", 5, 20)]
    activity.end(KEY, DOWNLOAD, DownloadResult(COMPLETE))
    activity.removals.pop(OTHER)
    assert reported(activity) == []


def test_bytes_freed_by_an_untracked_removal_are_counted() -> None:
    activity = Activity()
    activity.count_freed(OTHER, 5)
    assert activity.freed_bytes == 5


def test_a_removal_without_bytes_is_not_reported() -> None:
    activity = Activity(removals={OTHER: RemovalProgress(0)})
    assert reported(activity) == []
