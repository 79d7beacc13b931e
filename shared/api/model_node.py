"""ModelNode (`larder.dev/v1alpha1`): the store of a node. The controller writes the spec, the agent the status.

States and phases are plain strings, so that unknown ones can be decoded; in an unknown state, the files are kept.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, field

from shared.api.meta import ApiStruct, Conditions, Name
from shared.api.model_cache_node_group import NEVER
from shared.api.unpacked_metadata import UnpackedMetadata
from shared.kube.objects import Object

GROUP = "larder.dev"
VERSION = "v1alpha1"
PATH = f"/apis/{GROUP}/{VERSION}/modelnodes"
PROTOCOL = 1

_ATOMIC = {"x-kubernetes-list-type": "atomic"}
ModelId = Annotated[str, Meta(max_length=317)]
Revision = Annotated[str, Meta(max_length=128)]


class EntryState(StrEnum):
    """The desired state of an entry."""

    PRESENT = "Present"
    DRAINING = "Draining"  # drop the ready label and acknowledge; keep the files
    ABSENT = "Absent"  # drop the snapshot label, then remove the files


DEVICES_ADVERTISED = "DevicesAdvertised"  # the condition for the device plugins on the node
LABELS_REFUSED = "LabelsRefused"  # the reason for an entry whose labels the API server does not let the agent change
EVICTED = "Evicted"  # the reason for an entry that was evicted or is about to be


class Phase(StrEnum):
    """The phase of an entry on its node."""

    PENDING = "Pending"  # seen, nothing reserved yet
    WAITING = "Waiting"  # space is reserved; waiting for the grant
    DOWNLOADING = "Downloading"
    READY = "Ready"
    REPAIRING = "Repairing"  # damaged files are being replaced
    FAILED = "Failed"
    DRAINING = "Draining"  # the ready label is gone
    ABSENT = "Absent"  # the files are gone
    UNKNOWN = "Unknown"  # on disk, but not in any entry


COMPLETE_PHASES = (Phase.READY, Phase.REPAIRING, Phase.DRAINING)  # the snapshot is on the node


class Claim(ApiStruct, frozen=True, kw_only=True):
    """An object that wants the entry to be on the node. It is not a PersistentVolumeClaim or ResourceClaim."""

    kind: Annotated[str, Meta(max_length=63, description="Kind of the object.")]
    namespace: Annotated[
        str, Meta(max_length=63, description="Namespace of the object. Empty for a cluster-scoped object.")
    ] = ""
    name: Annotated[Name, Meta(description="Name of the object.")]
    uid: Annotated[str, Meta(max_length=63, description="UID of the object.")]
    secret: Annotated[
        str,
        Meta(
            max_length=253,
            description="Name of the Secret with the credentials for the source. Empty for anonymous access.",
        ),
    ] = ""
    secret_namespace: Annotated[str, Meta(max_length=63, description="Namespace of the Secret.")] = ""
    group: Annotated[
        str, Meta(max_length=253, description="Name of the node group through which the node was selected.")
    ] = ""
    priority: Annotated[int, Meta(description="Priority of the object.")] = 0


class Entry(ApiStruct, frozen=True, kw_only=True):
    """One revision of one model."""

    id: Annotated[ModelId, Meta(description="ID of the model: its name, or `<namespace>_<name>` if it is namespaced.")]
    revision: Annotated[Revision, Meta(description="Commit or digest of the revision.")]
    uri: Annotated[
        str,
        Meta(
            max_length=2048,
            description="Canonical form of the URI that the model declares. The agent downloads from the URI in the "
            "manifest. Empty if only the files of the model are known.",
        ),
    ] = ""
    manifest: Annotated[
        str, Meta(max_length=64, description="Digest of the manifest, which the controller serves.")
    ] = ""
    size: Annotated[int, Meta(description="Size of one copy in bytes.")] = 0
    priority: Annotated[
        int,
        Meta(
            description="Highest priority in `claims`. Entries with higher priority get disk space first, and are "
            "downloaded first within their namespace."
        ),
    ] = 0
    pinned: Annotated[bool, Meta(description="If true, the entry is never evicted.")] = False
    reserved: Annotated[bool, Meta(description="If true, the files stay on the node when `claims` is empty.")] = False
    state: Annotated[
        str,
        Meta(
            max_length=63,
            description="Desired state: `Present`; `Draining`, which removes the ready label but keeps the files; "
            "or `Absent`, which removes the files.",
        ),
    ] = EntryState.PRESENT
    since: Annotated[str, Meta(max_length=40, description="Time at which the state was last changed.")] = ""
    granted: Annotated[bool, Meta(description="Whether the node may download the entry now.")] = False
    in_use: Annotated[
        bool,
        Meta(description="Whether pods on the node use the snapshot. If so, its labels stay while it is repaired."),
    ] = False
    awaited: Annotated[
        bool,
        Meta(
            description="Whether a pod on the node waits for the files. Such entries are downloaded before others of "
            "the same namespace."
        ),
    ] = False
    last_used: Annotated[
        str, Meta(max_length=40, description="Time at which the last pod on the node stopped using the snapshot.")
    ] = ""
    evicted_for: Annotated[
        str,
        Meta(
            max_length=317,
            description="ID of the model for which this entry was evicted. Empty again once the node has room for "
            "both.",
        ),
    ] = ""
    evictable: Annotated[
        int, Meta(description="Bytes that could be evicted for this entry, if that is not enough to make it fit.")
    ] = 0
    claims: Annotated[
        list[Claim],
        Meta(max_length=64, extra_json_schema=_ATOMIC, description="Objects that want the entry to be on the node."),
    ] = []

    @property
    def key(self) -> tuple[str, str]:
        """The key of the entry on its node."""
        return self.id, self.revision


class ModelNodeSpec(ApiStruct, frozen=True, kw_only=True):
    """The desired state of the store on a node, in bytes and bytes per second. 0 means no limit."""

    node_uid: Annotated[
        str,
        Meta(
            max_length=63, description="UID of the Node that this spec is for. The agent of any other Node ignores it."
        ),
    ] = field(default="", name="nodeUID")
    storage_limit: Annotated[int, Meta(description="Limits the size of the store.")] = 0
    bandwidth_limit: Annotated[int, Meta(description="Limits the rate of all downloads together.")] = 0
    eviction_policy: Annotated[
        str,
        Meta(
            max_length=63,
            description="`LeastRecentlyUsed` if all groups of the node allow eviction. Defaults to `Never`.",
        ),
    ] = NEVER
    entries: Annotated[
        list[Entry],
        Meta(max_length=2000, extra_json_schema=_ATOMIC, description="Model revisions that the node should have."),
    ] = []


class EntryStatus(ApiStruct, frozen=True, kw_only=True):
    """The observed state of one entry."""

    id: Annotated[ModelId, Meta(description="ID of the model, as in the spec.")]
    revision: Annotated[Revision, Meta(description="Commit or digest of the revision, as in the spec.")]
    phase: Annotated[str, Meta(max_length=63, description="Phase of the entry on the node.")] = Phase.PENDING
    observed: Annotated[str, Meta(max_length=63, description="State in the spec that this status describes.")] = ""
    reason: Annotated[
        str, Meta(max_length=63, description="Machine-readable reason, in CamelCase, why the entry makes no progress.")
    ] = ""
    message: Annotated[
        str, Meta(max_length=2048, description="Human-readable explanation of the reason, with figures and what to do.")
    ] = ""
    since: Annotated[str, Meta(max_length=40, description="Time at which the entry entered its phase.")] = ""
    verified: Annotated[
        str, Meta(max_length=63, description="What the files were verified against: `digest`, or only their `size`.")
    ] = ""
    attempts: Annotated[int, Meta(description="Number of consecutive failures. Reset to 0 when bytes arrive.")] = 0
    shortage: Annotated[
        int, Meta(description="Bytes that must be freed before the entry fits. 0 if it fits, or if it can never fit.")
    ] = 0
    frees: Annotated[
        int, Meta(description="Bytes that removing this entry alone would free, because no other snapshot uses them.")
    ] = 0
    metadata: Annotated[
        UnpackedMetadata | None,
        Meta(description="Metadata of a model that was unpacked from an archive, which only the agent can read."),
    ] = None

    @property
    def key(self) -> tuple[str, str]:
        """The key of the entry on its node."""
        return self.id, self.revision


class ModelNodeStatus(ApiStruct, frozen=True, kw_only=True):
    """The observed state of the store on a node, in bytes. Files with several hard links are counted once."""

    node_uid: Annotated[str, Meta(max_length=63, description="UID of the Node that the agent runs on.")] = field(
        default="", name="nodeUID"
    )
    store_id: Annotated[str, Meta(max_length=63, description="ID of the store. A new disk gets a new ID.")] = field(
        default="", name="storeID"
    )
    protocol: Annotated[
        int, Meta(description="Version of the protocol between controller and agent that the agent supports.")
    ] = 0
    agent_version: Annotated[str, Meta(max_length=63, description="Version of the agent.")] = ""
    store_root: Annotated[str, Meta(max_length=1024, description="Path of the store on the node.")] = ""
    observed_generation: Annotated[int, Meta(description="Generation of the object that this status describes.")] = 0
    used: Annotated[int, Meta(description="Bytes used by the store.")] = 0
    reserved: Annotated[int, Meta(description="Bytes reserved for downloads in progress.")] = 0
    limit: Annotated[int, Meta(description="Bytes that the store may use.")] = 0
    disk_free: Annotated[int, Meta(description="Free bytes on the disk of the store.")] = 0
    floor: Annotated[int, Meta(description="Bytes on that disk that are always kept free.")] = 0
    printed_used: Annotated[
        str, Meta(max_length=32, description="`used` in a human-readable unit, as printed by kubectl.")
    ] = ""
    printed_limit: Annotated[
        str, Meta(max_length=32, description="`limit` in a human-readable unit, as printed by kubectl.")
    ] = ""
    printed_free: Annotated[
        str, Meta(max_length=32, description="`diskFree` in a human-readable unit, as printed by kubectl.")
    ] = ""
    ready_count: Annotated[int, Meta(description="Number of entries that are Ready.")] = 0
    entry_count: Annotated[int, Meta(description="Number of entries.")] = 0
    conditions: Conditions = []
    entries: Annotated[
        list[EntryStatus],
        Meta(
            max_length=4000,
            extra_json_schema=_ATOMIC,
            description="Observed state of each entry. Files that no entry names are listed with the phase `Unknown`.",
        ),
    ] = []


class ModelNode(Object, frozen=True, kw_only=True):
    """The desired and the observed models on the Node of the same name."""

    spec: ModelNodeSpec = ModelNodeSpec()
    status: ModelNodeStatus = ModelNodeStatus()

    def may_belong_to(self, node_uid: str) -> bool:
        """Return whether this is the object of the Node with this uid, and not of a former one of the same name."""
        return self.spec.node_uid in ("", node_uid)
