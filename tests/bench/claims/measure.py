"""Requests many claims at once on a real API server, while their consumer is killed."""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from rig.control_plane import ControlPlane
from rig.processes import Process, Program, wait_until
from tests.bench.claims.consumer import BURST, OWNER_LABEL

_CREATED, _ATTEMPTED, _CLAIMS = "created", "attempted", "/api/v1/persistentvolumeclaims"


@dataclass(frozen=True, slots=True)
class QueueResult:
    """The outcome of the requests.

    Args:
        claims: Claims that exist in the end.
        twice: Claims that the consumers created more than once.
        out_of_order: Claims that were created before one of an older owner of their namespace.
        per_second: Claims created per second while a consumer worked, without its first burst. It works from its first
            attempt on, whose response may take long.
        seconds: From the first request to the last claim.
        lives: Claims that each of the consumers created.
    """

    claims: int
    twice: int
    out_of_order: int
    per_second: float
    seconds: float
    lives: tuple[int, ...]


@dataclass(slots=True)
class ClaimQueue:
    """Owners on a control plane, and the consumer that creates their claims."""

    plane: ControlPlane
    state: Path
    qps: float
    _consumer: Process | None = None
    _lives: int = 0

    def add_owners(self, count: int, namespaces: list[str]) -> None:
        """Create owners in the namespaces, in rotation."""
        for name in namespaces:
            self.plane.api.ensure("/api/v1/namespaces", {"metadata": {"name": name}})

        def add(number: int) -> None:
            meta = {"name": f"owner-{number:05}", "labels": {OWNER_LABEL: ""}}
            path = f"/api/v1/namespaces/{namespaces[number % len(namespaces)]}/configmaps"
            self.plane.api.create(path, {"metadata": meta})

        with ThreadPoolExecutor(1) as threads:  # one after another, so that names show the order
            list(threads.map(add, range(count)))

    def start(self) -> None:
        """Start a consumer."""
        argv = [sys.executable, "-m", "tests.bench.claims.consumer", str(self.plane.kubeconfig), str(self.qps)]
        self._lives += 1
        log = self.state / f"created-{self._lives}"
        self._consumer = Process(Program("consumer", [*argv, str(log)]), self.state / f"consumer-{self._lives}.log")

    def kill(self) -> None:
        """Kill the consumer, as a crash would."""
        if self._consumer is not None:
            self._consumer.kill()
            self._consumer = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run a consumer during the block."""
        self.start()
        try:
            yield
        finally:
            self.kill()

    def claims(self) -> dict[str, int]:
        """Return the claims with the revision of the cluster at which they were created."""
        found = self.plane.api.get(_CLAIMS)["items"]
        metas = [claim["metadata"] for claim in found]
        return {f"{meta['namespace']}/{meta['name']}": int(meta["resourceVersion"]) for meta in metas}

    def wait(self, count: int, within_s: float) -> None:
        """Wait until this many claims exist."""
        wait_until(lambda: self._count() >= count, within_s, f"{count} claims")

    def _count(self) -> int:
        """Return how many claims exist, without listing them, which would slow down the measurement."""
        found = self.plane.api.get(f"{_CLAIMS}?limit=1")
        return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))

    def events(self, what: str = _CREATED) -> list[list[tuple[float, str]]]:
        """Return the lines of each consumer: time and owner."""
        lives = [self.state / f"created-{number}" for number in range(1, self._lives + 1)]
        lines = [path.read_text().splitlines() if path.exists() else [] for path in lives]
        fields = [[line.split(" ", 3) for line in life if line.count(" ") >= len("two")] for life in lines]
        return [[(float(line[1]), line[2]) for line in life if line[0] == what] for life in fields]

    def result(self) -> QueueResult:
        """Return the outcome of the requests so far."""
        claims, lives, attempts = self.claims(), self.events(), self.events(_ATTEMPTED)
        created = Counter(owner for life in lives for _, owner in life)
        ends = [at_s for life in lives for at_s, _ in life]
        served = sum(max(0, len(life) - BURST) for life in lives)
        busy_s = sum(life[-1][0] - tried[0][0] for life, tried in zip(lives, attempts, strict=True) if life)
        return QueueResult(
            claims=len(claims),
            twice=sum(count > 1 for count in created.values()),
            out_of_order=_out_of_order(claims),
            per_second=served / busy_s if busy_s else 0.0,
            seconds=max(ends, default=0) - min(ends, default=0),
            lives=tuple(len(life) for life in lives),
        )


def _out_of_order(claims: dict[str, int]) -> int:
    """Return how many claims came before one of an older owner in their namespace; names show the age."""
    names = defaultdict[str, list[str]](list)
    for claim in sorted(claims, key=claims.__getitem__):
        names[claim.partition("/")[0]].append(claim)
    return sum(later < earlier for of_one in names.values() for earlier, later in pairwise(of_one))


def kill_twice(queue: ClaimQueue, count: int, notify: Callable[[str], None] = lambda _: None) -> QueueResult:
    """Let three consumers in succession create claims, kill two of them, and return the outcome."""
    began = time.monotonic()
    for part in (1, 2):
        queue.start()
        queue.wait(count * part // 3, within_s=600)
        queue.kill()
        notify(f"killed after {time.monotonic() - began:.0f} s with {len(queue.claims())} claims")
    with queue.running():
        queue.wait(count, within_s=600)
        last = f"/{count - 1:05}"
        wait_until(lambda: any(owner.endswith(last[1:]) for _, owner in queue.events()[-1]), 60, "the last line")
    return queue.result()
