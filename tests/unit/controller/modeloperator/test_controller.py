"""What triggers a reconcile of a Model."""

from typing import Any, cast

from controller.downloads.progress import ProgressReader
from controller.modeloperator.controller import model_operator_controller
from controller.modeloperator.keys import ModelObjectKey
from controller.modeloperator.observe import ModelOperatorObserver
from controller.modeloperator.reconcile import ModelOperatorReconciler
from shared.api.kinds import MODEL
from tests.builders.cluster import fresh_cluster
from tests.builders.models_on_claims import model


def test_models_are_reconciled_again_when_their_definition_gets_back_its_label() -> None:
    cluster, queued, none = fresh_cluster(), set[ModelObjectKey](), cast("Any", None)
    progress: ProgressReader[ModelObjectKey] = ProgressReader(lambda: 0.0, lambda _: None)
    observer = ModelOperatorObserver(cluster, none, progress)
    reconciler = ModelOperatorReconciler(observer, none, none, none)
    controller = model_operator_controller(observer, reconciler, enabled=True)
    (watch,) = controller.for_
    assert watch.informer is not None
    watch.listen(cast("Any", queued))
    watch.informer.sink.replace([model()], ())
    cluster.ownership.set_foreign(MODEL.kind, foreign=True)
    assert not list(controller.all_keys())
    queued.clear()
    cluster.ownership.set_foreign(MODEL.kind, foreign=False)
    assert queued == {ModelObjectKey("team", "llama")}
