"""The subject of a diagnosis: KIND/NAME, spelled as in kubectl and `larder status`."""

from dataclasses import dataclass, replace

_KINDS = {
    "ClusterModelCache": ("cmc", "clustermodelcache", "clustermodelcaches"),
    "ClusterBaseModel": ("cbm", "clusterbasemodel", "clusterbasemodels"),
    "BaseModel": ("bm", "basemodel", "basemodels"),
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
_NAMESPACED = ("BaseModel", "Pod", *WORKLOADS)


@dataclass(frozen=True, slots=True)
class Subject:
    """One object; `namespace` is empty if the kind has none, or none was given."""

    kind: str
    namespace: str
    name: str

    def within(self, namespace: str) -> "Subject":
        """Return it in a namespace, unless it is cluster-scoped or already has one."""
        return replace(self, namespace=namespace) if self.kind in _NAMESPACED and not self.namespace else self


def parse_subject(text: str) -> Subject:
    """Parse KIND/NAME or KIND/NAMESPACE/NAME; ValueError says how to write it."""
    kind_name, *names = text.split("/")
    kind = _BY_NAME.get(kind_name.lower().partition(".")[0])
    if kind is None:
        raise ValueError(
            f"{kind_name!r} is not a supported kind; use one of {', '.join(names[0] for names in _KINDS.values())}"
        )
    if len(names) == 2 and kind in _NAMESPACED and all(names):  # noqa: PLR2004 - namespace and name
        return Subject(kind, *names)
    if len(names) != 1 or not names[0]:
        raise ValueError(f"{text!r} does not name an object; write {kind_name}/NAME")
    return Subject(kind, "", names[0])
