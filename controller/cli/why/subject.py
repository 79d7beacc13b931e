"""The subject of a diagnosis: KIND/NAME, spelled as in kubectl and `larder status`."""

from dataclasses import dataclass, replace

from shared.api.kinds import DEFINITIONS

_KINDS = {
    "ClusterModelCache": ("cmc", "clustermodelcache", "clustermodelcaches"),
    "ClusterBaseModel": ("cbm", "clusterbasemodel", "clusterbasemodels"),
    "BaseModel": ("bm", "basemodel", "basemodels"),
    "ModelCache": ("mc", "modelcache", "modelcaches"),
    "Model": ("mdl", "model", "models"),
    "TrainingJob": ("tj", "trainingjob", "trainingjobs"),
    "ModelCacheNodeGroup": ("mcng", "modelcachenodegroup", "modelcachenodegroups", "group"),
    "Node": ("node", "nodes", "no", "modelnode", "modelnodes", "mdn"),
    "Pod": ("pod", "pods", "po"),
    "Deployment": ("deploy", "deployment", "deployments"),
    "ReplicaSet": ("rs", "replicaset", "replicasets"),
    "StatefulSet": ("sts", "statefulset", "statefulsets"),
    "Job": ("job", "jobs"),
}
WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
_BY_NAME = {name: kind for kind, names in _KINDS.items() for name in names}
_NAMESPACED = ("BaseModel", "ModelCache", "Model", "TrainingJob", "Pod", *WORKLOADS)
EXAMPLES = ", ".join(names[0] for names in _KINDS.values())
_GROUPS = frozenset(("", "apps", "batch", *(definition.group for definition in DEFINITIONS)))
_ALIASES = {"isvc": "inferenceservice", "llmisvc": "llminferenceservice"}  # KServe's short names, for OME's as well


@dataclass(frozen=True, slots=True)
class Subject:
    """One object.

    Args:
        kind: A kind that Larder explains by itself, or a word for one that the API server knows.
        namespace: Empty if the kind has none, or none was given.
        name: Name of the object.
        group: The API group, if the user named one and `served` is set.
        served: Whether to ask the API server for the kind.
    """

    kind: str
    namespace: str
    name: str
    group: str = ""
    served: bool = False

    def within(self, namespace: str) -> "Subject":
        """Return the subject in a namespace, unless it is cluster-scoped or already has one."""
        return replace(self, namespace=namespace) if self._may_have_namespace and not self.namespace else self

    @property
    def _may_have_namespace(self) -> bool:
        return self.served or self.kind in _NAMESPACED


def parse_subject(text: str) -> Subject:
    """Parse KIND/NAME, KIND/NAMESPACE/NAME or KIND.GROUP/...; ValueError says how to write it."""
    word, *names = text.split("/")
    subject = _kind_of(word)
    if not word or not 1 <= len(names) <= 2 or not all(names):  # noqa: PLR2004 - a namespace and a name
        raise ValueError(f"{text!r} does not name an object; write {word or 'KIND'}/NAME, for example pod/web-0")
    if len(names) == 2 and not (subject.served or subject.kind in _NAMESPACED):  # noqa: PLR2004 - a namespace and a name
        raise ValueError(f"{text!r} has a namespace, but a {subject.kind} has none; write {word}/NAME")
    return replace(subject, namespace="".join(names[:-1]), name=names[-1])


def _kind_of(word: str) -> Subject:
    """Return a subject without a name: of a kind that Larder explains, or of any other that may be served."""
    short, _, group = word.lower().partition(".")
    kind = _BY_NAME.get(short)
    if kind is not None and group in _GROUPS:
        return Subject(kind, "", "")
    return Subject(_ALIASES.get(short, short), "", "", group, served=True)
