"""Answers filter and prioritize from memory."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from controller.extender.decide import NodeFit, ScoredNode, filter_result, priorities
from controller.extender.device_objects import DevicePod
from controller.extender.evaluator import UNKNOWN_NODE
from controller.extender.model_preference import ModelPreference, Snapshot, model_preference
from controller.extender.requested_devices import RequestedDevices, requested_devices
from controller.extender.wire import ExtenderArgs, ExtenderFilterResult, HostPriority
from controller.extender.worker import ANSWER_S, DeviceWorker
from controller.placement.pod_placement import promised_snapshots
from controller.state.cluster_state import ClusterState
from shared.devices.annotation import ANNOTATION, InvalidDeviceInfo
from shared.token_bucket import TokenBucket

_MOST_UNCONFIRMED = 10_000
_ECHO_S = 5.0
_PAUSE_S, _PAUSES = 0.1, 2.0  # the scheduler waits meanwhile: at most so many per second
_EVALUATING = 0.7  # the share of the time within which the worker must answer
_NOTHING_REQUESTED = NodeFit(fits=True)


class Unanswerable(Exception):
    """The scheduler's question cannot be answered."""


@dataclass(slots=True)
class ExtenderService:
    """What the scheduler may ask before it binds a pod; `answer_s` is how long it waits for devices, in seconds."""

    cluster: ClusterState
    worker: DeviceWorker
    clock: Callable[[], float]
    answer_s: float = ANSWER_S
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _pauses: TokenBucket = field(default_factory=lambda: TokenBucket(_PAUSES, _PAUSES, 0.0, _PAUSES), init=False)
    _unconfirmed: dict[str, None] = field(default_factory=dict, init=False)  # uids of pods, oldest first
    _refused: dict[str, float] = field(default_factory=dict, init=False)  # when, by uid of the pod

    async def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """Return the nodes that can give a pod its devices. Raises Unanswerable, NoAnswerInTime.

        The scheduler asks again after a change, which it may have seen before us, but not after a refusal. So the first
        refusal of a pod is answered as an error: the scheduler asks again after a second or more. So is every refusal
        while a node is not known here yet.
        """
        nodes = await self._scored(args.pod, _names(args), [])
        if not nodes or any(fit.fits for _, fit, _ in nodes):
            self._unconfirmed.pop(args.pod.metadata.uid, None)
        elif any(fit.reason == UNKNOWN_NODE for _, fit, _ in nodes) or self._must_confirm(args.pod.metadata.uid):
            raise Unanswerable(f"no node has room for the pod, for example {nodes[0][0]}: {nodes[0][1].reason}")
        elif not self._pauses.draw(1, self.clock()):
            await self.sleep(_PAUSE_S)  # a change in the last moment may still be on its way to us
            nodes = await self._scored(args.pod, _names(args), [])
        return filter_result(nodes)

    async def prioritize(self, args: ExtenderArgs) -> list[HostPriority]:
        """Return the priority of each node. Raises Unanswerable, NoAnswerInTime."""
        snapshots = _snapshots(args.pod)
        return priorities(await self._scored(args.pod, _names(args), snapshots), wants_models=bool(snapshots))

    def _must_confirm(self, uid: str) -> bool:
        """Return whether a refusal of a pod is to be confirmed: if it has not been refused within seconds.

        The refusal itself changes the pod's status, after which kube-scheduler asks once more.
        """
        now = self.clock()
        if uid in self._unconfirmed:
            del self._unconfirmed[uid]
            self._refused[uid] = now
            return False
        if now - self._refused.get(uid, -_ECHO_S) < _ECHO_S:
            return False
        self._unconfirmed[uid] = None
        for known in (self._unconfirmed, self._refused):
            if len(known) > _MOST_UNCONFIRMED:
                del known[next(iter(known))]
        return True

    async def _scored(self, pod: DevicePod, names: list[str], snapshots: Sequence[Snapshot]) -> list[ScoredNode]:
        preferences = self._preferences(names, snapshots)
        try:
            requested = requested_devices(pod)
        except InvalidDeviceInfo as error:
            fits = [NodeFit(fits=False, reason=f"annotation {ANNOTATION} of the pod: {error}"[:300])] * len(names)
        else:
            fits = await self._fits(requested, names) if requested else [_NOTHING_REQUESTED] * len(names)
        return list(zip(names, fits, preferences, strict=True))

    async def _fits(self, requested: RequestedDevices, names: list[str]) -> list[NodeFit]:
        until = self.clock() + self.answer_s * _EVALUATING
        return await self.worker.run(lambda evaluator: evaluator.fits(requested, names, until), self.answer_s)

    def _preferences(self, names: list[str], snapshots: Sequence[Snapshot]) -> list[ModelPreference]:
        if not snapshots:
            return [ModelPreference.NOTHING] * len(names)
        needed = sum(self._size(each) for each in snapshots)
        return [self._preference(name, snapshots, needed) for name in names]

    def _preference(self, name: str, snapshots: Sequence[Snapshot], needed: int) -> ModelPreference:
        node = self.cluster.node(name)
        if node is None:
            return ModelPreference.NOTHING
        store = self.cluster.model_node(name)
        has_room = False
        if store is not None:
            status = store.status
            free = status.disk_free - status.floor - status.reserved
            if status.limit:
                free = min(free, status.limit - status.used - status.reserved)
            has_room = free >= needed
        return model_preference(snapshots, node.metadata.labels, has_room=has_room)

    def _size(self, snapshot: Snapshot) -> int:
        """Return the bytes of a snapshot, or 0 if they are unknown."""
        resolved = (
            demand.resolution for demand in self.cluster.models.same_id(snapshot[0]) if demand.id == snapshot[0]
        )
        return max((each.size_bytes for each in resolved if each and each.revision == snapshot[1]), default=0)


def _names(args: ExtenderArgs) -> list[str]:
    if args.node_names is None:
        raise Unanswerable("there are no NodeNames; set nodeCacheCapable: true in the configuration of the extender")
    return args.node_names


def _snapshots(pod: DevicePod) -> list[Snapshot]:
    """Return the snapshots that admission gave a pod."""
    return promised_snapshots(pod.metadata.namespace, pod.metadata.annotations)
