"""Answers filter and prioritize from cached state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from controller.extender.device_objects import DevicePod
from controller.extender.evaluator import OUT_OF_TIME
from controller.extender.filter_result import NodeFit, ScoredNode, filter_result, priorities
from controller.extender.model_preference import ModelPreference, Snapshot, model_preference
from controller.extender.refused_pods import RefusedPods
from controller.extender.requested_devices import RequestedDevices, requested_devices
from controller.extender.wire import ExtenderArgs, ExtenderFilterResult, HostPriority
from controller.extender.worker import ANSWER_S, DeviceWorker
from controller.placement.pod_placement import promised_snapshots
from controller.state.cluster_state import ClusterState
from shared.devices.annotation import ANNOTATION, InvalidDeviceInfo

_EVALUATING = 0.7  # the share of `answer_s` that the worker may spend
_NOTHING_REQUESTED = NodeFit(fits=True)


class Unanswerable(Exception):
    """The scheduler's request cannot be answered."""


@dataclass(slots=True)
class ExtenderService:
    """Answers filter and prioritize, which come before bind; `answer_s` limits the wait for the worker."""

    cluster: ClusterState
    worker: DeviceWorker
    clock: Callable[[], float]
    refused: RefusedPods
    answer_s: float = ANSWER_S

    async def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """Return the nodes on which a pod's devices fit. Raises Unanswerable, NoAnswerInTime."""
        uid, is_refused = args.pod.metadata.uid, False
        self.refused.add(uid, self.clock())  # at once, because devices may become free while the answer is computed
        try:
            nodes = await self._scored(args.pod, _names(args), [])
            if any(fit.reason == OUT_OF_TIME for _, fit, _ in nodes) and not any(fit.fits for _, fit, _ in nodes):
                raise Unanswerable(OUT_OF_TIME)
            is_refused = bool(nodes) and not any(fit.fits for _, fit, _ in nodes)
        finally:
            if not is_refused:
                self.refused.remove(uid)
        return filter_result(nodes)

    async def prioritize(self, args: ExtenderArgs) -> list[HostPriority]:
        """Return the priority of each node. Raises Unanswerable, NoAnswerInTime."""
        snapshots = _snapshots(args.pod)
        return priorities(await self._scored(args.pod, _names(args), snapshots), wants_models=bool(snapshots))

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
        raise Unanswerable("the request has no NodeNames; set nodeCacheCapable: true in the extender's configuration")
    return args.node_names


def _snapshots(pod: DevicePod) -> list[Snapshot]:
    """Return the snapshots that admission promised a pod."""
    return promised_snapshots(pod.metadata.namespace, pod.metadata.annotations)
