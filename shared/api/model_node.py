"""ModelNode (`larder.dev/v1alpha1`): what one node shall hold (spec, the controller's) and holds (status, the agent's).

Decoding is open: states and phases are plain strings, and one that is unknown means: keep the files, and report.
"""

from enum import StrEnum
from typing import Annotated

from msgspec import Meta, field

from shared.api.meta import Api, Conditions, Name
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


class Claim(Api, frozen=True, kw_only=True):
    """One object that wants the entry; `secret` is a name in `secret_namespace`, empty for anonymous."""

    kind: Annotated[str, Meta(max_length=63)]
    namespace: Annotated[str, Meta(max_length=63)] = ""
    name: Name
    uid: Annotated[str, Meta(max_length=63)]
    secret: Annotated[str, Meta(max_length=253)] = ""
    secret_namespace: Annotated[str, Meta(max_length=63)] = ""
    group: Annotated[str, Meta(max_length=253)] = ""
    priority: int = 0


class Entry(Api, frozen=True, kw_only=True):
    """One revision of one model; keyed by both."""

    id: ModelId
    revision: Revision
    uri: Annotated[str, Meta(max_length=2048, description="Canonical; empty where only the files are known.")] = ""
    manifest: Annotated[str, Meta(max_length=64, description="Digest of the manifest, served by the controller.")] = ""
    size: int = 0
    priority: int = 0
    pinned: bool = False
    state: Annotated[str, Meta(max_length=63)] = EntryState.PRESENT
    since: Annotated[str, Meta(max_length=40, description="When the state was written.")] = ""
    granted: Annotated[bool, Meta(description="Whether the node may download now.")] = False
    in_use: Annotated[bool, Meta(description="Pods of this node use the snapshot: repair under its labels.")] = False
    claims: Annotated[list[Claim], Meta(max_length=64, extra_json_schema=_ATOMIC)] = []

    @property
    def key(self) -> tuple[str, str]:
        """What names the entry on its node."""
        return self.id, self.revision


class ModelNodeSpec(Api, frozen=True, kw_only=True):
    """What the node shall hold, and within which limits (bytes, bytes a second; 0 is no limit)."""

    node_uid: Annotated[str, Meta(max_length=63)] = field(default="", name="nodeUID")
    storage_limit: int = 0
    bandwidth_limit: int = 0
    entries: Annotated[list[Entry], Meta(max_length=2000, extra_json_schema=_ATOMIC)] = []


class EntryStatus(Api, frozen=True, kw_only=True):
    """Where one entry stands. `observed` is the state of the spec that the phase answers."""

    id: ModelId
    revision: Revision
    phase: Annotated[str, Meta(max_length=63)] = Phase.PENDING
    observed: Annotated[str, Meta(max_length=63)] = ""
    reason: Annotated[str, Meta(max_length=63)] = ""
    message: Annotated[str, Meta(max_length=2048)] = ""
    since: Annotated[str, Meta(max_length=40)] = ""
    verified: Annotated[
        str, Meta(max_length=63, description="What the files were checked against: digest, or size alone.")
    ] = ""

    @property
    def key(self) -> tuple[str, str]:
        """What names the entry on its node."""
        return self.id, self.revision


class ModelNodeStatus(Api, frozen=True, kw_only=True):
    """What the agent found and did. Sizes in bytes; `used` counts allocated blocks once per inode."""

    node_uid: Annotated[str, Meta(max_length=63)] = field(default="", name="nodeUID")
    store_id: Annotated[str, Meta(max_length=63)] = field(default="", name="storeID")
    protocol: int = 0
    agent_version: Annotated[str, Meta(max_length=63)] = ""
    store_root: Annotated[str, Meta(max_length=1024)] = ""
    observed_generation: int = 0
    used: int = 0
    reserved: int = 0
    limit: int = 0
    disk_free: int = 0
    ready_count: int = 0
    entry_count: int = 0
    conditions: Conditions = []
    entries: Annotated[list[EntryStatus], Meta(max_length=4000, extra_json_schema=_ATOMIC)] = []


class ModelNode(Object, frozen=True, kw_only=True):
    """The desired and the observed stock of the Node of the same name."""

    spec: ModelNodeSpec = ModelNodeSpec()
    status: ModelNodeStatus = ModelNodeStatus()
