"""The port through which admission looks up models and groups."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias

from controller.admission.injectable_model import InjectableModel
from controller.placement.volume_names import SnapshotKey
from shared.api.model_cache_node_group import ModelCacheNodeGroup

PathKind: TypeAlias = Literal["file", "directory", "absent"]


@dataclass(frozen=True, slots=True)
class CatalogModel:
    """A declared model as pods see it.

    Attributes:
        kind: The kind of the object.
        namespace: Its namespace, empty if it is cluster-scoped.
        name: Its name.
        id: The ID of the model.
        uri: The canonical source, or the source as written if none of our sources serves it.
        serving_revision: Empty until the source is resolved.
        claim_revision: The revision whose claims are named after the model.
        mount_path: The mount path that the object requests.
        groups: The node groups that it is meant for; none means that the group does not matter.
        node_selector: The labels of the nodes that it is meant for.
        node_affinity: The affinity to these nodes.
        disabled: Whether the object is switched off.
        deleting: Whether the object is being deleted.
        reason: Why pods cannot get it, if they cannot.
        message: The same, in words.
        managed: False if it belongs to another product, as do the pods that name it.
        claim: The claim that has the files of a ModelCache, in `MODEL_DIRECTORY`.
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
    """Return whether a path is a file, a directory or nothing in a set of files."""
    if path in files:
        return "file"
    return "directory" if any(p.startswith(path + "/") for p in files) else "absent"


class Catalog(Protocol):
    """What admission looks up: in caches, or live (the async methods).

    No method raises anything but what it lists under `Raises`.
    """

    def base_model(self, namespace: str, name: str, kind: str = "") -> CatalogModel | None:
        """Find the base model that a name stands for.

        Args:
            namespace: The namespace of whoever names it.
            name: The name of the object.
            kind: `BaseModel` or `ClusterBaseModel`; empty for either.

        Returns:
            The BaseModel of the namespace, else the ClusterBaseModel, else None.
        """
        ...

    def manages(self, kind: str, annotations: Mapping[str, str]) -> bool:
        """Say whether Larder manages an object.

        Args:
            kind: The kind of the object.
            annotations: The annotations of the object, which may opt in.

        Returns:
            False if another product defined the kind and the object does not opt in.
        """
        ...

    def names(self, namespace: str) -> Iterable[str]:
        """List the names of the models that a namespace sees.

        Args:
            namespace: The namespace.

        Returns:
            The names of its own models and of the cluster-scoped ones.
        """
        ...

    def cluster_model_caches(self) -> Iterable[CatalogModel]:
        """List the ClusterModelCaches.

        Returns:
            All of them, including those being deleted.
        """
        ...

    def model_caches(self, namespace: str) -> Iterable[CatalogModel]:
        """List the ModelCaches of a namespace.

        Args:
            namespace: The namespace.

        Returns:
            All of them, including those being deleted.
        """
        ...

    async def injectable_models(self, namespace: str, names: Sequence[str]) -> Mapping[str, InjectableModel]:
        """Read Models live.

        Args:
            namespace: The namespace of the Models.
            names: Their names, in the order in which they are read.

        Returns:
            The Models by name, at least up to the first that pods cannot mount; missing ones are left out.

        Raises:
            Unreachable: The API server did not answer in time, or the namespace has used up its reads of Models.
        """
        ...

    def group(self, name: str) -> ModelCacheNodeGroup | None:
        """Find a node group.

        Args:
            name: The name of the group.

        Returns:
            The group, or None.
        """
        ...

    def nodes_of_group(self, name: str) -> Iterable[CatalogNode]:
        """List the members of a node group.

        Args:
            name: The name of the group.

        Returns:
            The members; none if the group does not exist.
        """
        ...

    def lacks_space(self, model: CatalogModel, node: str) -> bool:
        """Say whether a node has no space for a model.

        Args:
            model: The model.
            node: The name of the node.

        Returns:
            True if the node reports that the serving revision does not fit on it.
        """
        ...

    def claim_name(self, namespace: str, wanted: SnapshotKey, claim_revision: str) -> str:
        """Name the claim through which a namespace mounts a snapshot.

        Args:
            namespace: The namespace of the claim.
            wanted: The snapshot.
            claim_revision: The revision whose claims are named after the model.

        Returns:
            The name of the model if the snapshot is of `claim_revision` and no other claim has the name, else a name
            that no other snapshot has.
        """
        ...

    def kind_of_path(self, model: CatalogModel, path: str) -> PathKind | None:
        """Say what a path is in the serving revision of a model.

        Args:
            model: The model.
            path: A path relative to the directory of the model.

        Returns:
            The kind; None if the files are not known, until `read_files` has read them.
        """
        ...

    async def read_files(self, model: CatalogModel) -> None:
        """Wait for the list of files of the serving revision, for much less than the webhook's timeout.

        A failure is not raised: the files stay unknown.

        Args:
            model: The model.
        """
        ...

    async def group_names(self, names: Collection[str]) -> Sequence[str]:
        """List the node groups.

        Args:
            names: Groups that are read live if they are missing from the cache.

        Returns:
            The names of all known groups, sorted.

        Raises:
            Unreachable: The API server did not return a missing group.
        """
        ...

    async def has_storage_class(self, name: str) -> bool:
        """Read live whether there is a StorageClass.

        Args:
            name: The name of the StorageClass.

        Returns:
            True if there is one, or if the API server does not answer.
        """
        ...

    def users_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        """List the pods that use any revision of a model, from the cache.

        Args:
            kind: The kind of the model.
            namespace: The namespace of the model, empty if it is cluster-scoped. Only its own pods can use a namespaced
                model: a label on another team's pod must not block its deletion.
            name: The name of the model.

        Returns:
            The non-terminal pods, as `namespace/name`; none if an older object has the same ID with other files, which
            pods get instead.
        """
        ...

    def users_of_claim(self, namespace: str, claim: str) -> Sequence[str]:
        """List the pods with a model that mount a claim, from the cache.

        Args:
            namespace: The namespace of the claim.
            claim: The name of the claim.

        Returns:
            The non-terminal pods, as `namespace/name`.
        """
        ...

    async def live_users_of(self, identity: str, namespace: str) -> Sequence[str]:
        """List the pods that use any revision of a model, live: for the controller only, never within a review.

        Args:
            identity: The ID of the model.
            namespace: The namespace of the model, empty if it is cluster-scoped.

        Returns:
            The non-terminal pods, as `namespace/name`, including those that hold the model as a device.

        Raises:
            Unreachable: The API server did not answer.
        """
        ...

    async def services_of(self, kind: str, namespace: str, name: str) -> Sequence[str]:
        """List the InferenceServices, including KServe's, that name a model, live.

        Args:
            kind: The kind of the model.
            namespace: The namespace of the model, empty if it is cluster-scoped.
            name: The name of the model.

        Returns:
            The services, as `namespace/name`.

        Raises:
            Unreachable: The API server did not answer.
        """
        ...
