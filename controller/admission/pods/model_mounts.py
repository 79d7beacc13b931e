"""Mounts one model in a pod: its volume, the mounts of the chosen containers, variables, and selectors."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from controller.admission.catalog.port import CatalogModel
from controller.admission.errors import ModelNotReady, MountConflict, NamespaceNotAllowed
from controller.admission.pods.choose_cache import problem_of
from controller.admission.pods.containers import (
    SIDECARS,
    MountPlace,
    confine_mounts,
    containers_of,
    ensure_mount,
    ensure_variable,
)
from controller.admission.pods.place_pod import group_named_by, place_pod
from controller.admission.pods.result import InjectionResult
from controller.admission.pods.volumes import PodVolumes
from shared.api.kinds import MODEL_CACHE
from shared.api.model_cache import MODEL_DIRECTORY
from shared.json_object import Json
from shared.uri.model_uri import ModelUri, PvcUri, parse_uri


@dataclass(frozen=True, slots=True)
class MountRequest:
    """How a pod wants a model.

    Args:
        volume: Name of the volume in the pod.
        path: Where to mount it.
        variables: Environment variables to set, unless a container has its own.
        containers: Names of the containers that get it.
    """

    volume: str
    path: str
    variables: Mapping[str, str]
    containers: Collection[str]


def chosen_containers(pod: Json, annotation: str, chosen: Sequence[str]) -> frozenset[str]:
    """Return the containers that get a model: those chosen, else all but well-known sidecars.

    Raises MountConflict if the pod lacks one of them.
    """
    names = [str(container.get("name")) for container in containers_of(pod["spec"])]
    known = frozenset(names)
    if absent := [name for name in chosen if name not in known]:
        raise MountConflict(
            f"annotation {annotation} names {', '.join(map(repr, absent))}, but the pod has no container of that name; "
            f"it has {', '.join(names)}"
        )
    return frozenset(chosen) or frozenset(name for name in names if name not in SIDECARS)


def source_of(model: CatalogModel) -> ModelUri | None:
    """Return the parsed URI of a model; None if it has none."""
    return parse_uri(model.uri, cluster_scoped=not model.namespace) if model.uri else None


def mount_model(draft: Json, model: CatalogModel, request: MountRequest, volumes: PodVolumes) -> InjectionResult:
    """Change the draft so that its containers find the model. Raises AdmissionRefused if they cannot get it."""
    if model.kind == MODEL_CACHE.kind:
        return _of_model_cache(draft, model, request, volumes)
    uri = source_of(model)
    if isinstance(uri, PvcUri):
        return _on_claim(draft, model, uri, request, volumes)
    _check_usable(model, problem_of(model))
    volume = volumes.of_snapshot(request.volume, model)
    _mount(draft, volume, "", request, volumes)
    place_pod(draft["spec"], model, volumes.placement, volumes.catalog, group_named_by(draft, model))
    return InjectionResult((model.id, model.serving_revision), volume, restricts_nodes=True)


def _of_model_cache(draft: Json, model: CatalogModel, request: MountRequest, volumes: PodVolumes) -> InjectionResult:
    _check_usable(model, problem_of(model))
    volume = volumes.of_claim(request.volume, model.claim)
    _mount(draft, volume, MODEL_DIRECTORY, request, volumes)
    return InjectionResult((model.id, ""), volume)


def _on_claim(
    draft: Json, model: CatalogModel, uri: PvcUri, request: MountRequest, volumes: PodVolumes
) -> InjectionResult:
    home, namespace = uri.namespace or model.namespace, volumes.namespace
    if home != namespace:
        raise NamespaceNotAllowed(
            f"{model.title} is on claim {uri.claim!r} in namespace {home!r}, and a claim can be mounted only there; "
            f"create the pod in namespace {home!r}, or declare a BaseModel on a claim in namespace {namespace!r}"
        )
    _check_usable(model, problem_of(model, needs_revision=False))
    volume = volumes.of_claim(request.volume, uri.claim)
    _mount(draft, volume, uri.sub_path, request, volumes)
    return InjectionResult((model.id, ""), volume)


def _check_usable(model: CatalogModel, problem: str) -> None:
    if problem:
        where = f" -n {model.namespace}" if model.namespace else ""
        raise ModelNotReady(
            f"{model.title} {problem}; `kubectl get {model.kind.lower()} {model.name}{where}` shows its status; a "
            "Deployment or Job retries on its own"
        )


def _mount(draft: Json, volume: Json, sub_path: str, request: MountRequest, volumes: PodVolumes) -> None:
    volumes.ensure(draft["spec"], volume)
    for container in containers_of(draft["spec"]):
        if container.get("name") in request.containers:
            ensure_mount(container, MountPlace(request.volume, request.path, sub_path))
            for name, value in request.variables.items():
                ensure_variable(container, name, value)
        confine_mounts(container, request.volume, sub_path)
