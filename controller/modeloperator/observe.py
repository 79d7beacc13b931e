"""Gathers what a decision on a Model needs: the Model and its claim from memory, its Job live."""

from dataclasses import dataclass, field, replace

from controller.downloads.progress import ProgressReader
from controller.jobs.live_reads import pods_of_job, read_job
from controller.jobs.observed_jobs import Job, JobPod
from controller.manager.conditions import UPDATING
from controller.modeloperator.keys import ModelObjectKey
from controller.modeloperator.mounted_paths import MountingPod, mounted_paths, mounting_node
from controller.modeloperator.objects import LONGEST_NAME, claim_name, job_name
from controller.modeloperator.source import source_of, wanted_digest
from controller.modeloperator.view import ModelObjectView
from controller.placement.allowed_sources import AllowedSources
from controller.provisioning.creation_failure import CreationFailure
from controller.state.cluster_state import ClusterState
from controller.state.index import Index
from controller.state.signal import Signal
from shared.api.core import STORAGE_CLASSES, StorageClass, pods_in
from shared.api.meta import holds
from shared.api.model import Model, ModelObjectStatus
from shared.errors import InvalidURI
from shared.kube.cache import Cache
from shared.kube.collection import get_object, list_objects
from shared.kube.objects import Key
from shared.kube.transport import Kube


@dataclass(slots=True)
class ModelOperatorObserver:
    """Reads the cluster state, and live what no informer watches.

    Args:
        cluster: The cluster state.
        kube: The API client.
        progress: Asks pods for their progress.
        changed: Signals a Model that was created, changed or deleted, before and after.
        models: Every Model that Larder manages.
    """

    cluster: ClusterState
    kube: Kube
    progress: ProgressReader[ModelObjectKey]
    changed: Signal[Model | None, Model | None] = field(default_factory=Signal, init=False)
    models: Cache[Model] = field(init=False)
    _models_in: Index[str, Key] = field(default_factory=Index, init=False)  # by namespace

    def __post_init__(self) -> None:
        self.models = Cache(self._model_changed)

    def waiting_in(self, namespace: str) -> int:
        """Return how many Models of a namespace are not Ready, or wait for an update."""
        found = (self.models.get(key) for key in self._models_in.of(namespace))
        return sum(model is not None and _is_waiting(model.status) for model in found)

    async def view(
        self, key: ModelObjectKey, failure: CreationFailure | None, position: int | None
    ) -> ModelObjectView | None:
        """Return the Model and its objects, or None if it does not exist. Raises KubeError."""
        model = self.models.get(Key(key.namespace, key.name))
        if model is None:
            return None
        claim = self.cluster.volumes.claims.get(Key(key.namespace, claim_name(model.metadata)))
        problem = _problem(model, self.cluster.models.allowed)
        view = ModelObjectView(
            model=model,
            wanted="" if problem else wanted_digest(model.spec),
            problem=problem,
            claim=claim,
            creation_failure=failure,
            position=position,
        )
        if problem or claim is None or model.metadata.deletion_timestamp is not None:
            return view
        if view.served == view.wanted and claim.metadata.deletion_timestamp is None:
            return view
        return await self._with_job(key, view)

    async def _with_job(self, key: ModelObjectKey, view: ModelObjectView) -> ModelObjectView:
        claim, storage_class = view.claim, None
        if claim is not None and claim.status.phase != "Bound" and (name := claim.spec.storage_class_name):
            storage_class = await get_object(self.kube, f"{STORAGE_CLASSES}/{name}", StorageClass)
        name = job_name(view.model.metadata)
        job = await read_job(self.kube, key.namespace, name)
        if job is None:
            view = replace(view, storage_class=storage_class)
            return await self._with_users(key.namespace, view) if view.has_other_files else view
        listed = await pods_of_job(self.kube, key.namespace, name)
        pods = tuple(pod for pod in listed if _belongs_to(pod, job))
        percent = self.progress.percent_of(key, pods)
        return replace(view, storage_class=storage_class, job=job, pods=pods, percent=percent)

    def _model_changed(self, before: Model | None, after: Model | None) -> None:
        known = after or before
        if known is not None:
            namespace = known.metadata.namespace
            self._models_in.update(known.key, (namespace,) if before else (), (namespace,) if after else ())
            self.changed.emit(before, after)

    async def _with_users(self, namespace: str, view: ModelObjectView) -> ModelObjectView:
        """Read live which versions pods mount, because a stale cache could cause versions in use to be deleted."""
        claim = claim_name(view.model.metadata)
        pods = await list_objects(self.kube, pods_in(namespace), MountingPod)
        is_shared = "ReadWriteMany" in view.model.spec.storage.access_modes
        node = "" if is_shared else mounting_node(pods, claim)
        return replace(view, mounted=mounted_paths(pods, claim), node=node)


def _is_waiting(status: ModelObjectStatus) -> bool:
    return status.phase != "Ready" or holds(status.conditions, UPDATING)


def _belongs_to(pod: JobPod, job: Job) -> bool:
    """Return whether a Job created a pod; an earlier Job may have had the same name."""
    return any(owner.get("uid") == job.metadata.uid for owner in pod.metadata.owner_references)


def _problem(model: Model, allowed: AllowedSources) -> tuple[str, str] | None:
    name = model.metadata.name
    if len(name) > LONGEST_NAME:
        message = (
            f"the name of the Model has {len(name)} characters, and that of its Job, {job_name(model.metadata)}, can "
            f"have at most 63; create the Model with a name of at most {LONGEST_NAME} characters"
        )
        return "NameTooLong", message
    try:
        source = source_of(model.spec)
    except InvalidURI as error:
        return "InvalidURI", str(error)
    for uri in (source.uri, *source.endpoints):
        if refusal := allowed.refusal_of(uri):
            return "SourceNotAllowed", refusal
    return None
