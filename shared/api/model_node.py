"""ModelNode (`larder.dev/v1alpha1`): what one node shall hold (spec, the controller's) and holds (status, the agent's).

Decoding is open: states and phases are plain strings, and one that is unknown means: keep the files, and report.
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
    """What the controller wants of an entry."""

    PRESENT = "Present"
    DRAINING = "Draining"  # drop the ready label and acknowledge; keep the files
    ABSENT = "Absent"  # drop the snapshot label, then remove the files


EVICTED = "Evicted"  # the reason at an entry that made room, or is about to


class Phase(StrEnum):
    """Where the agent stands with an entry."""

    PENDING = "Pending"  # seen, nothing reserved yet
    WAITING = "Waiting"  # space is reserved; waits for the grant to start
    DOWNLOADING = "Downloading"
    READY = "Ready"
    REPAIRING = "Repairing"  # files are damaged and being mended
    FAILED = "Failed"
    DRAINING = "Draining"  # the ready label is gone
    ABSENT = "Absent"  # the files are gone
    UNKNOWN = "Unknown"  # on disk, but named by no entry


class Claim(ApiStruct, frozen=True, kw_only=True):
    """One object that wants the entry; `secret` is a name in `secret_namespace`, empty for anonymous."""

    kind: Annotated[str, Meta(max_length=63, description="Its kind.")]
    namespace: Annotated[str, Meta(max_length=63, description="Its namespace; empty where it is cluster-scoped.")] = ""
    name: Annotated[Name, Meta(description="Its name.")]
    uid: Annotated[str, Meta(max_length=63, description="Its uid.")]
    secret: Annotated[
        str, Meta(max_length=253, description="The Secret with the source's credentials; empty for none.")
    ] = ""
    secret_namespace: Annotated[str, Meta(max_length=63, description="Where that Secret stands.")] = ""
    group: Annotated[str, Meta(max_length=253, description="The node group by which the node was chosen.")] = ""
    priority: Annotated[int, Meta(description="Its priority.")] = 0


class Entry(ApiStruct, frozen=True, kw_only=True):
    """One revision of one model; keyed by both."""

    id: Annotated[
        ModelId, Meta(description="The model: its name, with its namespace and `_` in front where it has one.")
    ]
    revision: Annotated[Revision, Meta(description="The commit or digest.")]
    uri: Annotated[str, Meta(max_length=2048, description="Canonical; empty where only the files are known.")] = ""
    manifest: Annotated[str, Meta(max_length=64, description="Digest of the manifest, served by the controller.")] = ""
    size: Annotated[int, Meta(description="Bytes of one copy.")] = 0
    priority: Annotated[int, Meta(description="The highest of its claims; higher goes first.")] = 0
    pinned: Annotated[bool, Meta(description="Never evicted to make room.")] = False
    reserved: Annotated[bool, Meta(description="The files stay when no claim is left.")] = False
    state: Annotated[
        str,
        Meta(
            max_length=63, description="Present; Draining: drop the ready label, keep the files; Absent: remove them."
        ),
    ] = EntryState.PRESENT
    since: Annotated[str, Meta(max_length=40, description="When the state was written.")] = ""
    granted: Annotated[bool, Meta(description="Whether the node may download now.")] = False
    in_use: Annotated[bool, Meta(description="Pods of this node use the snapshot: repair under its labels.")] = False
    last_used: Annotated[str, Meta(max_length=40, description="When the last pod of this node stopped using it.")] = ""
    evicted_for: Annotated[
        str, Meta(max_length=317, description="The model that it makes room for, until there is room for both.")
    ] = ""
    evictable: Annotated[int, Meta(description="Bytes that might go for it, where that is too little.")] = 0
    claims: Annotated[list[Claim], Meta(max_length=64, extra_json_schema=_ATOMIC)] = []

    @property
    def key(self) -> tuple[str, str]:
        """What names the entry on its node."""
        return self.id, self.revision


class ModelNodeSpec(ApiStruct, frozen=True, kw_only=True):
    """What the node shall hold, and within which limits (bytes, bytes a second; 0 is no limit)."""

    node_uid: Annotated[
        str, Meta(max_length=63, description="The Node that this is for; an agent on another one does not obey.")
    ] = field(default="", name="nodeUID")
    storage_limit: Annotated[int, Meta(description="Bytes that the store may hold.")] = 0
    bandwidth_limit: Annotated[int, Meta(description="Bytes a second, all downloads together.")] = 0
    eviction_policy: Annotated[
        str, Meta(max_length=63, description="LeastRecentlyUsed where all groups of the node say so.")
    ] = NEVER
    entries: Annotated[
        list[Entry], Meta(max_length=2000, extra_json_schema=_ATOMIC, description="What the node shall hold.")
    ] = []


class EntryStatus(ApiStruct, frozen=True, kw_only=True):
    """Where one entry stands. `observed` is the state of the spec that the phase answers."""

    id: Annotated[ModelId, Meta(description="As in the spec.")]
    revision: Annotated[Revision, Meta(description="As in the spec.")]
    phase: Annotated[str, Meta(max_length=63, description="Where the agent stands with it.")] = Phase.PENDING
    observed: Annotated[str, Meta(max_length=63, description="The state of the spec that the phase answers.")] = ""
    reason: Annotated[str, Meta(max_length=63, description="Why it does not go on, in a stable word.")] = ""
    message: Annotated[str, Meta(max_length=2048, description="The same with numbers and the way out.")] = ""
    since: Annotated[str, Meta(max_length=40, description="When the phase was reached.")] = ""
    verified: Annotated[
        str, Meta(max_length=63, description="What the files were checked against: digest, or size alone.")
    ] = ""
    attempts: Annotated[
        int, Meta(description="How often it has failed in a row; 0 where it has not, and once bytes come.")
    ] = 0
    shortage: Annotated[int, Meta(description="Bytes that must go before it fits; 0 where it fits, or never can.")] = 0
    frees: Annotated[int, Meta(description="Bytes that go with it alone: no other snapshot has them.")] = 0
    metadata: Annotated[
        UnpackedMetadata | None, Meta(description="What it is, where it was an archive: the source cannot tell.")
    ] = None

    @property
    def key(self) -> tuple[str, str]:
        """What names the entry on its node."""
        return self.id, self.revision


class ModelNodeStatus(ApiStruct, frozen=True, kw_only=True):
    """What the agent found and did. Sizes in bytes; `used` counts allocated blocks once per inode."""

    node_uid: Annotated[str, Meta(max_length=63, description="The Node that the agent runs on.")] = field(
        default="", name="nodeUID"
    )
    store_id: Annotated[str, Meta(max_length=63, description="The disk: a new one has another id.")] = field(
        default="", name="storeID"
    )
    protocol: Annotated[int, Meta(description="What the agent understands.")] = 0
    agent_version: Annotated[str, Meta(max_length=63, description="Its version.")] = ""
    store_root: Annotated[str, Meta(max_length=1024, description="Where the store is on the node.")] = ""
    observed_generation: Annotated[int, Meta(description="The generation of the spec that was acted on.")] = 0
    used: Annotated[int, Meta(description="Bytes that the store takes.")] = 0
    reserved: Annotated[int, Meta(description="Bytes that are promised to downloads.")] = 0
    limit: Annotated[int, Meta(description="Bytes that it may take.")] = 0
    disk_free: Annotated[int, Meta(description="Bytes free on its disk.")] = 0
    floor: Annotated[int, Meta(description="Bytes of its disk that are never filled.")] = 0
    printed_used: Annotated[str, Meta(max_length=32, description="What it takes, for the printed table.")] = ""
    printed_limit: Annotated[str, Meta(max_length=32, description="The same of the limit.")] = ""
    printed_free: Annotated[str, Meta(max_length=32, description="The same of what is free on its disk.")] = ""
    ready_count: Annotated[int, Meta(description="How many entries are Ready.")] = 0
    entry_count: Annotated[int, Meta(description="How many entries there are.")] = 0
    conditions: Conditions = []
    entries: Annotated[
        list[EntryStatus],
        Meta(
            max_length=4000,
            extra_json_schema=_ATOMIC,
            description="Where each stands; Unknown for files that no entry names.",
        ),
    ] = []


class ModelNode(Object, frozen=True, kw_only=True):
    """The desired and the observed stock of the Node of the same name."""

    spec: ModelNodeSpec = ModelNodeSpec()
    status: ModelNodeStatus = ModelNodeStatus()
