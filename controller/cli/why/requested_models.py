"""Which models the annotations of a pod template request. No input or output, no clock."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from controller.admission.errors import AdmissionRefused
from controller.admission.model_injector.annotations import PREFIX as MODEL_PREFIX
from controller.admission.pods.named_models import parse_reference, references_in
from controller.admission.pods.pod_annotations import BASE_MODEL, ENABLE_CACHE, MODEL_KIND, NAMED_MODELS, NODE_GROUP
from controller.cli.why.findings import Finding, some, stop
from controller.cli.why.models import title_of
from controller.cli.why.view import ClusterView, DeclaredModel
from shared.api.kinds import BASE_MODEL as BASE_MODEL_KIND
from shared.api.kinds import CLUSTER_BASE_MODEL, MODEL_KINDS, Definition
from shared.devices.annotation import ANNOTATION as DEVICES

_OURS = ("larder.dev/", MODEL_PREFIX)
_OTHERS = (BASE_MODEL, ENABLE_CACHE, NODE_GROUP, DEVICES)
_BASE_KINDS = (BASE_MODEL_KIND, CLUSTER_BASE_MODEL)


@dataclass(frozen=True, slots=True)
class RequestedModel:
    """A model that pods request: the annotation, its value, and the models that match."""

    annotation: str
    text: str
    found: tuple[DeclaredModel, ...] = ()
    hidden: bool = False

    def problem(self, namespace: str) -> Finding | None:
        """Return a finding if the name does not match exactly one model."""
        if len({(model.demand.id, model.demand.uri) for model in self.found}) > 1:
            message = f"several models with different files are named {self.text!r}: {some(map(title_of, self.found))}"
            return stop("template", "AmbiguousModel", message, f"write <kind>/<name> in {self.annotation}")
        if self.found or self.hidden:
            return None
        message = f"no model {self.text!r} is visible from namespace {namespace}"
        return stop("template", "ModelNotFound", message, f"create it, or correct {self.annotation}")


def requested_models(annotations: Mapping[str, str], namespace: str, cluster: ClusterView) -> Iterator[RequestedModel]:
    """Yield the models that annotations name."""
    if name := annotations.get(BASE_MODEL, ""):
        kinds = [kind for kind in _BASE_KINDS if annotations.get(MODEL_KIND, kind.kind) == kind.kind]
        found = _found(kinds, name, namespace, cluster)
        yield RequestedModel(BASE_MODEL, name, found[:1], hidden=_is_hidden(kinds, cluster))
    try:
        references = [(text, *parse_reference(text)) for text in references_in(annotations[NAMED_MODELS])]
    except (KeyError, AdmissionRefused):
        return  # none, or one that admission refuses with its own message
    for text, kind_name, name in references:
        kinds = [kind for kind in MODEL_KINDS if kind_name in ("", kind.kind)]
        found = _found(kinds, name, namespace, cluster)
        yield RequestedModel(NAMED_MODELS, text, found, hidden=_is_hidden(kinds, cluster))


def misplaced(own: Mapping[str, str], template: Mapping[str, str]) -> list[str]:
    """Return annotations on the object itself that belong in its pod template."""
    return sorted(key for key in own if (key.startswith(_OURS) or key in _OTHERS) and key not in template)


def _found(kinds: list[Definition], name: str, namespace: str, cluster: ClusterView) -> tuple[DeclaredModel, ...]:
    known = (cluster.model(kind.kind, namespace if kind.namespaced else "", name) for kind in kinds)
    return tuple(model for model in known if model is not None)


def _is_hidden(kinds: list[Definition], cluster: ClusterView) -> bool:
    return any(kind.plural in cluster.hidden for kind in kinds)
