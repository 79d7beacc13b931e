"""The port through which admission looks up models and groups."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from controller.admission.injectable_model import InjectableModel
from controller.placement.volume_names import SnapshotVolume
from shared.api.model_cache_node_group import ModelCacheNodeGroup

PathKind: TypeAlias = Literal["file", "directory", "absent"]


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A declared model as pods see it.

    `uri` is canonical (or as written if none of our sources serves it), `serving_revision` is empty until the source is
    resolved, claims of `claim_revision` are named after the model, `mount_path` is what the object asks for; `reason`
    and `message` say why pods cannot get it, if they cannot. It is meant for nodes that match `node_selector` and
    `node_affinity` and are in any of its `groups`, if it has some. The files of a ModelCache are on `claim`, in
    `MODEL_DIRECTORY`. A model that is not `managed` belongs to another product, as do the pods that name it.
    """

    kind: str
    namespace: str
    name: str
    id: str
    uri: str
    serving_revision: str = ""
    claim_revision: str = ""
    mount_path: str = ""
    groups: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: Mapping[str, Any] = field(default_factory=dict)
    disabled: bool = False
    deleting: bool = False
    reason: str = ""
    message: str = ""
    managed: bool = True
    claim: str = ""

    @property
    def title(self) -> str:
        """Kind and name, for display."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class CatalogNode:
    """A node, as selectors see it."""

    name: str
    labels: Mapping[str, str]


def kind_of_path(files: Collection[str], path: str) -> PathKind:
    """Return what a path is in a set of files."""
    if path in files:
        return "file"
    return "directory" if any(p.startswith(path + "/") for p in files) else "absent"


class Catalog(Protocol):
    """Cached look-ups, and live reads (the async methods).

    `namespace` is that of the pod or model under review, `name` that of the object, and `identity` the ID of a model.
    Lists are empty, and single results None, if nothing matches.

    Raises:
        LarderError: A live read failed; `read_files` and `has_storage_class` never raise.
    """

    def base_model(self, namespace: str, name: str, kind: str = "") -> CatalogModel | None:
        """Return the namespace's BaseModel, else the ClusterBaseModel, else None; only of `kind`, if given."""
        ...

    def manages(self, kind: str, annotations: Mapping[str, str]) -> bool:
        """Return whether Larder manages an object of this kind with these annotations."""
        ...

    def names(self, namespace: str) -> Iterable[str]:
        """Return the names of the models that a namespace sees."""
        ...

    def caches(self) -> Iterable[CatalogModel]:
        """Return every ClusterModelCache, including those being deleted."""
        ...

    def model_caches(self, namespace: str) -> Iterable[CatalogModel]:
        """Return the ModelCaches of a namespace, including those being deleted."""
        ...

    async def injectable_models(self, namespace: str, names: Sequence[str]) -> Mapping[str, InjectableModel]:
        """Return the Models of a namespace by name, at least up to the first that pods cannot mount."""
        ...

    def group(self, name: str) -> ModelCacheNodeGroup | None:
        """Return a node group, or None."""
        ...

    def nodes_of_group(self, name: str) -> Iterable[CatalogNode]:
        """Return the members of a node group; none if the group does not exist."""
        ...

    def lacks_space(self, model: CatalogModel, node: str) -> bool:
        """Return whether a node reports that the serving revision does not fit on it."""
        ...

    def claim_name(self, namespace: str, wanted: SnapshotVolume, claim_revision: str) -> str:
        """Return the name of the claim through which a namespace mounts a snapshot.

        It is that of the model if the snapshot is of `claim_revision` and no other claim has the name.
        """
        ...

    def kind_of_path(self, model: CatalogModel, path: str) -> PathKind | None:
        """Return what a path is in the serving revision; None if its files are not known."""
        ...

    async def read_files(self, model: CatalogModel) -> None:
        """Wait for the files of the serving revision, well below the webhook's timeout; raises nothing."""
        ...

    async def group_names(self, names: Collection[str]) -> Sequence[str]:
        """Return the names of the node groups; those of `names` missing from the cache are read live, one by one."""
        ...

    async def has_storage_class(self, name: str) -> bool:
        """Return whether there is a StorageClass of that name, read live; True if that cannot be known."""
        ...

    def users_of(self, identity: str, namespace: str) -> Sequence[str]:
        """Return the non-terminal pods that use any revision of a model, as `namespace/name`, from the cache.

        `namespace` is that of the model, or empty if it is cluster-scoped: only pods of that namespace can use it, and
        a label on another team's pod must not block its deletion.
        """
        ...

    def users_of_claim(self, namespace: str, claim: str) -> Sequence[str]:
        """Return the non-terminal pods with a model that mount a claim, as `namespace/name`, from the cache."""
        ...

    async def live_users_of(self, identity: str, namespace: str) -> Sequence[str]:
        """Return the same, listed live: for the controller only, never within a review."""
        ...

    async def services_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        """Return the InferenceServices, including KServe's, that name a model, as `namespace/name`, listed live."""
        ...
