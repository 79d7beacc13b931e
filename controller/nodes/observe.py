"""Gathers what a decision on a node needs; the only module of this folder that reads."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

import structlog

from controller.nodes.acknowledgements import Acknowledgement, Acknowledgements, still_offered
from controller.nodes.users import users_of
from controller.nodes.view import NodeView
from controller.placement.demand import Demand
from controller.placement.volume_names import VOLUME_LABEL
from controller.state.cluster_state import ClusterState
from controller.state.dra.claim_users import ResourceClaimUsers
from controller.state.dra.resource_slices import ResourceSliceReader
from controller.state.keys import EntryKey
from controller.state.live_reader import LiveReader
from controller.state.pods.model_volumes import is_our_volume
from shared.api.core import PODS, VOLUMES, Node, PersistentVolume, Pod
from shared.api.model_node import COMPLETE_PHASES, Entry, EntryState, ModelNode
from shared.dra import device_name
from shared.kube.collection import list_objects
from shared.kube.objects import Key
from shared.kube.transport import Kube

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()
_NONE: frozenset[EntryKey] = frozenset()


@dataclass(frozen=True, slots=True)
class NodeObserver:
    """Reads the caches first, and the API server live for anything a removal depends on."""

    cluster: ClusterState
    kube: Kube
    live: LiveReader
    store_root: str
    devices: ResourceClaimUsers
    resource_slices: ResourceSliceReader
    acks: Acknowledgements = field(default_factory=Acknowledgements)

    def view(self, name: str, granted: Iterable[str], now: datetime) -> NodeView | None:
        """Return the node's view from the caches, or None if there is no such Node.

        `granted` are the nodes of limited groups that may download now; nodes outside such groups always may.
        """
        node = self.cluster.node(name)
        if node is None:
            self.acks.forget(name)
            return None
        model_node, demands = self.cluster.model_node(name), self.cluster.demands_for(node)
        awaited = self._awaited(node)
        drains = self.acks.of(name, model_node, self.cluster.statuses.of(node), now)
        closed = {key: at for key, drain in drains.items() if (at := self._closed_at(drain)) is not None}
        return NodeView(
            name=name,
            uid=node.metadata.uid,
            demands=tuple(demands),
            declared_uids=frozenset(d.uid for d in self.cluster.models.demands.values() if not d.deleting),
            limits=self.cluster.membership.limits_of(node),
            granted=name in granted or not self.cluster.membership.is_limited(node),
            model_node=model_node,
            in_use=self._in_use(name, model_node) if model_node else frozenset(),
            acknowledged=closed,
            offered={key: drain.at for key, drain in drains.items() if key not in closed},
            group_of=self._groups_of_demands(node),
            retained=self.cluster.models.retained(),
            awaited=awaited,
            restored=self._restored(name, awaited, demands),
            held=self._held(model_node, demands),
        )

    async def with_users(self, view: NodeView) -> NodeView:
        """Add the pods that mount the node's models and the ResourceClaims that hold them as devices, listed live."""
        query = {"fieldSelector": f"spec.nodeName={view.name}"}
        pods = await list_objects(self.kube, PODS, Pod, query)
        mounts_claims = any(pod.spec.claims for pod in pods)
        paths = await _paths_of_claims(self.kube) if mounts_claims else {}
        known = _known(view)
        mounting = users_of(pods, known, self.store_root, paths)
        holding = await self.devices.on_node(view.name, known)
        users = {key: (*mounting.get(key, ()), *holding.get(key, ())) for key in mounting.keys() | holding.keys()}
        return replace(view, users=users)

    async def with_resource_slices(self, view: NodeView, now: datetime) -> NodeView:
        """Add which draining entries the node's driver still offers to ResourceClaims, listed live."""
        devices = await self.resource_slices.on_node(view.name)
        offered = still_offered(view.offered, devices, now)
        if late := {key for key in view.offered.keys() - offered.keys() if device_name(*key) in devices}:
            _LOG.warning("devices_still_offered", node=view.name, models=sorted(key[0] for key in late))
        closed = dict.fromkeys(view.offered.keys() - offered.keys(), now)
        self.acks.close(view.name, closed, now)
        return replace(view, acknowledged={**view.acknowledged, **closed}, offered=offered, slices_read=True)

    async def with_unwanted(self, view: NodeView, entries: Iterable[EntryKey]) -> NodeView:
        """Add which of these entries are unwanted on the node, or may be evicted, according to live reads."""
        keys = frozenset(entries)
        evicting = keys & {e.key for e in view.model_node.spec.entries if e.evicted_for} if view.model_node else _NONE
        wanted = await self.live.read_wanted(view.name, keys - evicting)
        protected = await self.live.read_protected(view.name, evicting) if evicting else _NONE
        return replace(view, unwanted=keys - wanted - protected, protected=protected)

    def _in_use(self, name: str, model_node: ModelNode) -> frozenset[EntryKey]:
        """Return the entries that watched pods mount or that watched ResourceClaims hold as devices."""
        return self.cluster.pod_users.in_use(name, model_node) | self.cluster.resource_claims.in_use(name, model_node)

    def _closed_at(self, drain: Acknowledgement) -> datetime | None:
        """Return when a draining entry was closed to new users; if models are not devices, its agent alone decides."""
        return drain.closed_at if self.resource_slices.enabled else drain.at

    def _awaited(self, node: Node) -> frozenset[EntryKey]:
        """Return the snapshots that pods on the node mount and that are not complete there."""
        statuses = self.cluster.statuses.of(node)
        mounted = self.cluster.pod_users.snapshots_on(node.metadata.name)
        return frozenset(key for key in mounted if key not in statuses or statuses[key].phase not in COMPLETE_PHASES)

    def _restored(self, name: str, awaited: frozenset[EntryKey], demands: Iterable[Demand]) -> dict[EntryKey, Entry]:
        """Return the awaited entries as other nodes list them, because this one does not know their manifests."""
        missing = awaited - self.cluster.listed.sizes_on(name).keys()
        uids = {d.id: d.uid for d in demands} if missing else {}
        allowed = (key for key in missing if key[0] in uids and self.cluster.may_restore(key))
        found = ((key, self.cluster.listed.entry_of_owner(uids[key[0]], key)) for key in allowed)
        return {key: entry for key, entry in found if entry is not None}

    def _held(self, model_node: ModelNode | None, demands: Iterable[Demand]) -> dict[EntryKey, float]:
        """Return the listed revisions that no longer serve but that unscheduled pods were admitted with."""
        wanted = {(d.id, r) for d in demands for r in (d.serving, d.resolution.revision if d.resolution else "")}
        entries = model_node.spec.entries if model_node else ()
        old = (e.key for e in entries if e.state != EntryState.ABSENT and e.key not in wanted)
        left = ((key, self.cluster.retired_revisions.left_s(key)) for key in old)
        return {key: left_s for key, left_s in left if left_s > 0}

    def _groups_of_demands(self, node: Node) -> dict[str, str]:
        """Return, for each demand that names groups, the first group that the node belongs to."""
        member_of = self.cluster.membership.of(node)
        if not member_of:
            return {}
        groups = (
            (d.uid, next((g for g in d.groups if g in member_of), "")) for d in self.cluster.models.demands.values()
        )
        return {uid: group for uid, group in groups if group}


def _known(view: NodeView) -> set[EntryKey]:
    """Return every entry that the node's spec lists or its agent reports."""
    model_node = view.model_node
    if model_node is None:
        return set()
    return {e.key for e in model_node.spec.entries} | {s.key for s in model_node.status.entries}


async def _paths_of_claims(kube: Kube) -> dict[Key, str]:
    """Return the directory on nodes behind each PersistentVolumeClaim for a model, read live. Raises KubeError."""
    listed = await list_objects(kube, VOLUMES, PersistentVolume, {"labelSelector": f"{VOLUME_LABEL}=true"})
    return {volume.claim: volume.spec.local.path for volume in listed if is_our_volume(volume)}
