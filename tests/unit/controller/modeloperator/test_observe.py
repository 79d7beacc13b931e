"""What a reconcile observes about the Models of a namespace."""

from typing import Any, cast

from msgspec.structs import replace

from controller.downloads.progress import ProgressReader
from controller.modeloperator.keys import ModelObjectKey
from controller.modeloperator.observe import ModelOperatorObserver
from shared.api.meta import Condition
from shared.api.model import Model, ModelObjectStatus
from tests.builders.cluster import fresh_cluster
from tests.builders.models_on_claims import model


def named(name: str, status: ModelObjectStatus, namespace: str = "team") -> Model:
    found = model(status)
    return replace(found, metadata=replace(found.metadata, name=name, namespace=namespace))


def test_downloading_and_updating_models_are_counted_per_namespace() -> None:
    progress: ProgressReader[ModelObjectKey] = ProgressReader(lambda: 0.0, lambda _: None)
    observer = ModelOperatorObserver(fresh_cluster(), cast("Any", None), progress)
    updating = [Condition(type="Updating", status="True", reason="Queued", last_transition_time="t")]
    for found in (
        named("a", ModelObjectStatus(phase="Downloading")),
        named("b", ModelObjectStatus(phase="Ready")),
        named("c", ModelObjectStatus(phase="Ready", conditions=updating)),
        named("d", ModelObjectStatus(), "other"),
    ):
        observer.models.upsert(found)
    assert [observer.waiting_in(namespace) for namespace in ("team", "other", "none")] == [2, 1, 0]
    observer.models.remove(named("a", ModelObjectStatus()).key)
    assert observer.waiting_in("team") == 1
