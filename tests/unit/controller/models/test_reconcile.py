"""The state kept for an object is dropped with it, however it is deleted and whoever queried its source."""

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.admission.catalog.memory import MemoryCatalog
from controller.manager.event_recorder import EventRecorder
from controller.models.act import ModelActor
from controller.models.drift import DriftChecker
from controller.models.finalizers import OWN_FINALIZER
from controller.models.observe import ModelObserver
from controller.models.reconcile import ModelReconciler
from controller.models.resolver import Resolver
from controller.sources.credentials import Secrets
from controller.sources.manifests import Manifests
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from controller.state.live_reader import object_path
from controller.state.progress import ProgressTracker
from shared.kube.errors import NotFound, Unreachable
from shared.kube.objects import Key
from shared.sources.settings import SourceSettings
from tests.builders.api_server import Objects, serving
from tests.builders.cluster import cache, fresh_cluster

KEY = ModelKey("ClusterModelCache", "", "m")
PERIOD_S = 1000.0


class ReconcilerRig:
    """A reconciler of one cluster state, whose drift watch knows an object once it was checked."""

    def __init__(self, reconciler: ModelReconciler, cluster: ClusterState, asked: list[str]) -> None:
        self.reconciler, self.cluster, self.asked = reconciler, cluster, asked

    async def see(self, **fields: str) -> None:
        self.cluster.cluster_model_caches.upsert(cache("m", finalizers=[OWN_FINALIZER], **fields))
        with suppress(NotFound):  # the server has no object to write to
            await self.reconciler.reconcile(KEY)

    def known(self) -> set[str]:
        return set(self.reconciler.drift._due)


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[ReconcilerRig]:
    cluster, settings, server = fresh_cluster(), SourceSettings(), Objects()
    async with serving(server, tmp_path) as kube:
        resolver = Resolver(Secrets(kube, "ns", settings), Manifests(kube, "ns"), settings, lambda: 0.0, lambda _: None)
        drift = DriftChecker(resolver.read_upstream_revision, PERIOD_S, lambda: 0.0, lambda _: None)
        observer = ModelObserver(cluster, resolver, ProgressTracker(lambda: 0.0, lambda *_: None), drift)
        actor = ModelActor(kube, cluster.ownership, EventRecorder(kube, _now), _now)
        reconciler = ModelReconciler(observer, actor, resolver, drift, MemoryCatalog(), _now, 60.0)
        yield ReconcilerRig(reconciler, cluster, server.asked)


def _now() -> datetime:
    return datetime.now(UTC)


async def test_a_resolution_is_forgotten_with_its_object(rig: ReconcilerRig) -> None:
    await rig.see()
    assert rig.known() == {"uid-m"}
    rig.cluster.cluster_model_caches.remove(Key("", "m"))
    await rig.reconciler.reconcile(KEY)
    assert rig.known() == set()


async def test_a_resolution_is_forgotten_when_another_object_has_the_name(rig: ReconcilerRig) -> None:
    await rig.see()
    await rig.see(uid="uid-other")
    assert rig.known() == {"uid-other"}


class UnreadableServices(MemoryCatalog):
    async def services_of(self, *_: str) -> Sequence[str]:
        raise Unreachable("conversion webhook for serving.kserve.io/v1beta1 failed")


async def test_a_deleted_model_says_that_its_users_cannot_be_read(rig: ReconcilerRig) -> None:
    rig.reconciler.users = UnreadableServices()
    await rig.see(deletion_timestamp="2026-01-01T00:00:00Z")  # raises nothing but what the write of the status does
    assert rig.asked[-1] == f"GET {object_path(KEY)}/status"
