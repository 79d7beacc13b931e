"""How the throttles of node groups apply to downloads on claims. No input or output, no clock."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from controller.downloads.job import DEADLINE_S
from controller.jobs.observed_jobs import Job, JobPod

_STARTS_WITHIN = timedelta(minutes=2)
_ENDS_WITHIN = timedelta(seconds=DEADLINE_S)


def rate_limit(limits: Iterable[int]) -> int:
    """Return the smallest limit of the nodes that a download may run on; 0 means no limit."""
    return min((limit for limit in limits if limit > 0), default=0)


def holds_slot(job: Job | None, pods: Sequence[JobPod], now: datetime) -> bool:
    """Return whether a download counts towards the limits: its pod runs, or its Job is new.

    A Job that waits longer for its node, volume or image gives up its slot. So does one that outlives its deadline,
    which its namespace can change.
    """
    if job is None or job.end is not None:
        return False
    age = now - datetime.fromisoformat(job.metadata.creation_timestamp)
    return age < _STARTS_WITHIN or (age < _ENDS_WITHIN and any(pod.status.phase == "Running" for pod in pods))


def why_wait(namespace: str, groups: Mapping[str, int], running: Iterable[tuple[str, Collection[str]]]) -> str:
    """Return why a download may not start yet, or an empty string.

    A namespace may start another while it holds fewer slots of a group than are free, so that the last ones stay for
    others. What it takes beyond that, by suspending and resuming Jobs or creating its own, counts against nobody else.

    Args:
        namespace: Namespace of the download.
        groups: The groups whose nodes it may run on, with the number of their concurrent downloads; 0 for no limit.
        running: Namespace and groups of each download that runs.
    """
    held: dict[str, Counter[str]] = {name: Counter() for name, most in groups.items() if most > 0}
    for other, reached in running:
        for name in held.keys() & set(reached):
            held[name][other] += 1
    for name in sorted(held):
        most_of_one = (groups[name] + 1) // 2  # what a single namespace can get by this rule
        free = groups[name] - sum(min(count, most_of_one) for count in held[name].values())
        if held[name][namespace] >= free:
            return (
                f"ModelCacheNodeGroup {name} allows {groups[name]} concurrent downloads (maxConcurrentNodes); "
                f"{held[name].total()} are running, {held[name][namespace]} of them for namespace {namespace}"
            )
    return ""
