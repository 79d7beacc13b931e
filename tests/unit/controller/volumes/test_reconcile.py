"""What a reconciler of claims remembers between two leaderships."""

from typing import Any, cast

from controller.provisioning.creations import Creations
from controller.volumes.keys import VolumeKey
from controller.volumes.observe import VolumeObserver
from controller.volumes.reconcile import VolumeReconciler
from shared.api.core import PersistentVolumeClaim
from shared.kube.objects import Meta
from tests.builders.cluster import fresh_cluster

KEY = VolumeKey("team", "llama")


async def test_a_claim_is_not_unused_for_as_long_as_another_replica_led() -> None:
    now_s, none, cluster = [0.0], cast("Any", None), fresh_cluster()
    cluster.volumes.claims.upsert(PersistentVolumeClaim(metadata=Meta(name="llama", namespace="team", uid="c1")))
    observer = VolumeObserver(cluster, none, lambda: now_s[0])
    reconciler = VolumeReconciler(observer, none, Creations(none, none, lambda: now_s[0]), none)
    assert observer.view(KEY, None).unused_s == 0
    now_s[0] = 20.0
    assert observer.view(KEY, None).unused_s == 20
    await reconciler.stop()
    now_s[0] = 1000.0
    assert observer.view(KEY, None).unused_s == 0
