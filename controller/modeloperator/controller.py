"""The controller of Models."""

from collections.abc import Iterator
from typing import Any

from controller.jobs.observed_jobs import Job
from controller.manager.controller import Controller
from controller.manager.watches import on
from controller.modeloperator.keys import ModelObjectKey
from controller.modeloperator.objects import CLAIM_PREFIX, JOB_PREFIX, MODEL_LABEL
from controller.modeloperator.observe import ModelOperatorObserver
from controller.modeloperator.reconcile import ModelOperatorReconciler
from controller.modeloperator.state_metrics import model_gauges
from controller.state.informer import Informer
from controller.state.kinds.ownership import ManagedSink
from controller.state.signal import Signal
from shared.api.kinds import MODEL
from shared.api.model import Model
from shared.kube.cache import Cache
from shared.kube.objects import Key, Object

_JOBS = "/apis/batch/v1/jobs"


def model_operator_controller(
    observer: ModelOperatorObserver, reconciler: ModelOperatorReconciler, *, enabled: bool
) -> Controller[ModelObjectKey]:
    """Return the controller; claims and download Jobs trigger the Model that owns them.

    If the feature is off, it watches nothing.
    """
    job_changed = Signal[Object | None, Object | None]()
    ours = ManagedSink(MODEL.kind, observer.cluster.ownership, observer.models, lambda *_: None)
    models: Informer[Any] = Informer(MODEL.path, Model, ours, MODEL)
    jobs: Informer[Any] = Informer(_JOBS, Job, Cache(job_changed.emit), label_selector=MODEL_LABEL, name="modeljobs")
    return Controller(
        name="modeloperator",
        key=ModelObjectKey,
        all_keys=lambda: (ModelObjectKey(*model.key) for model in observer.models),
        for_=(on(observer.changed, _of_model, informer=models if enabled else None),),
        owns=(
            on(observer.cluster.volumes.claim_changed, lambda claim: _of_claim(observer, claim.key)),
            on(job_changed, _of_job, informer=jobs if enabled else None),
        ),
        reconcile=reconciler.reconcile,
        stop=reconciler.stop,
        gauges=lambda: model_gauges(observer.models) if enabled else (),
    )


def _of_model(before: Model | None, after: Model | None) -> Iterator[ModelObjectKey]:
    return (ModelObjectKey(*model.key) for model in (after or before,) if model is not None)


def _of_claim(observer: ModelOperatorObserver, claim: Key) -> Iterator[ModelObjectKey]:
    key = Key(claim.namespace, claim.name.removeprefix(CLAIM_PREFIX))
    if claim.name.startswith(CLAIM_PREFIX) and observer.models.get(key) is not None:
        yield ModelObjectKey(*key)


def _of_job(before: Object | None, after: Object | None) -> Iterator[ModelObjectKey]:
    found = after or before
    if found is not None:
        yield ModelObjectKey(found.metadata.namespace, found.metadata.name.removeprefix(JOB_PREFIX))
