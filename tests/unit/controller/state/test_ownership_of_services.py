"""Services of a kind that another product defined are never managed, whatever their annotations."""

from controller.inferenceservices.keys import ServiceKey
from controller.state.kinds.ownership import ManagedSink
from shared.api.inference_service import InferenceService
from shared.api.kinds import INFERENCE_SERVICE
from tests.builders.cluster import WokenKeys, fresh_cluster
from tests.builders.services import service


def test_services_appear_and_disappear_with_the_ownership_of_their_kind() -> None:
    cluster = fresh_cluster()
    woken = WokenKeys(cluster)
    sink: ManagedSink[InferenceService] = ManagedSink(
        INFERENCE_SERVICE.kind, cluster.ownership, cluster.inference_services, lambda *_: None
    )
    sink.upsert(service(metadata={"annotations": {"larder.dev/managed": "true"}, "resource_version": "1"}))
    assert woken.take() == {ServiceKey("team", "svc")}
    cluster.ownership.set_foreign(INFERENCE_SERVICE.kind, foreign=True)
    assert list(cluster.inference_services) == []
    woken.take()
    cluster.ownership.set_foreign(INFERENCE_SERVICE.kind, foreign=False)
    assert woken.take() == {ServiceKey("team", "svc")}
