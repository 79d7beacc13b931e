"""A leader that is asked to stop releases the lease at once, and the other replica takes over."""

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import httpx
import pytest

from rig.errors import CallRefused
from rig.larder.cluster_driver import TIMEOUT_S
from rig.larder.site import Site

LEASE = "/apis/coordination.k8s.io/v1/namespaces/larder-system/leases/larder-controller"
GRACE_S = 25.0  # of the pod's 30 s, because the first five pass before the signal
Load = Callable[[Site], object]


def holder(site: Site) -> str:
    return str(site.api.get(LEASE)["spec"].get("holderIdentity", ""))


@contextmanager
def nothing(_: Site) -> Iterator[None]:
    yield


@contextmanager
def many_models(site: Site) -> Iterator[None]:
    """Users declare models as fast as they can, so the leader writes continuously."""
    done, names = threading.Event(), list[str]()

    def declare() -> None:
        while not done.is_set():
            with suppress(CallRefused, httpx.HTTPError):
                names.append(site.cache("hf://org/none"))

    threads = [threading.Thread(target=declare) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        site.until(lambda: len(names) > 20, "some models")
        yield
    finally:
        done.set()
        for thread in threads:
            thread.join()
        for name in names:
            site.delete("ClusterModelCache", name)


@contextmanager
def silent_sources(site: Site) -> Iterator[None]:
    """The leader waits for sources that accept the connection but never respond."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        names = [site.cache(f"https://127.0.0.1:{server.getsockname()[1]}/m{i}.bin") for i in range(4)]
        server.settimeout(TIMEOUT_S)
        connection, _ = server.accept()
        with connection:
            yield
        for name in names:
            site.delete("ClusterModelCache", name)


@pytest.mark.parametrize("load", [nothing, many_models, silent_sources])
def test_a_leader_that_is_stopped_releases_the_lease(site: Site, load: Load) -> None:
    first = site.leader()
    other = next(c for c in site.cluster.controllers if c is not first)
    site.cluster.aim_webhooks(other)
    with load(site):  # type: ignore[attr-defined]
        os.kill(first.process.pid, signal.SIGTERM)
        seen = set[str]()

        def ended() -> bool:
            seen.add(holder(site).partition("_")[0])
            return first.process.exit_code is not None

        site.until(ended, "the first to end", GRACE_S)
        assert first.process.exit_code == 0
        assert holder(site).partition("_")[0] != first.name, "the lease names a program that has ended"
        site.until(lambda: site.leader() is other, "the other to lead")
        assert seen <= {first.name, "", other.name}
    assert "election_failed" not in first.log.read_text().rpartition('"stopping"')[2]
    first.start()
    site.cluster.aim_webhooks(site.cluster.controllers[0])


def test_a_candidate_that_stops_does_not_affect_the_leader(site: Site) -> None:
    first = site.leader()
    other = next(c for c in site.cluster.controllers if c is not first)
    site.cluster.aim_webhooks(first)
    other.process.stop(GRACE_S)
    assert other.process.exit_code == 0
    assert site.leader() is first
    other.start()
    site.cluster.aim_webhooks(site.cluster.controllers[0])
