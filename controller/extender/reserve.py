"""Reserves devices for pods, so that no other replica hands them out while the bindings are in flight.

Pods that are bound to one node at the same time share one write of its reservations.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias, assert_never

import structlog

from controller.extender.accounts import DeviceAccounts, NodeAccount, version_of
from controller.extender.device_objects import DevicePod
from controller.extender.group_commit import GroupCommit
from controller.extender.pods_on_node import PodsOnNode
from controller.extender.requested_devices import RequestedDevices
from controller.extender.reservations import EXPIRES_S, DeviceReservation, DeviceReservations, ReservationStore
from controller.extender.worker import DeviceWorker, NoAnswerInTime
from shared.devices.info import PodInfo, with_unknown_of
from shared.errors import LarderError
from shared.kube.cache import Cache
from shared.kube.errors import Conflict, KubeError, Refused
from shared.kube.transport import Kube

_ATTEMPTS = 8  # to write, before giving up because of other replicas' writes to the same node
_LARGEST_GROUP = 16  # changes in one write
_ALLOCATION_S = 2.0
_LATEST_S = 30.0  # to send a binding; well before other replicas drop its reservation (EXPIRES_S)
_log = structlog.get_logger("extender")


class NotBound(LarderError):
    """The pod was not bound; the message reaches its events."""


@dataclass(slots=True)
class _Reserve:
    pod: DevicePod
    requested: RequestedDevices
    refusal: Callable[[PodInfo], str]
    is_cancelled: bool = False  # its caller is gone, so nobody would bind the pod or give the devices back


@dataclass(frozen=True, slots=True)
class _GiveBack:
    reservation: DeviceReservation


@dataclass(frozen=True, slots=True)
class _EnsureLease:
    pass


_Change: TypeAlias = _Reserve | _GiveBack | _EnsureLease
_Outcome: TypeAlias = DeviceReservation | Exception | None


@dataclass(slots=True)
class DeviceReserver:
    """Chooses devices that no pod on the node uses and no reservation holds, and reserves them.

    The pods on the node come from the cache if that is as new as `pods_seen`, so that it has every pod whose
    reservation was dropped. Otherwise they are listed live. In both cases, the reservations are read first.
    """

    kube: Kube
    accounts: DeviceAccounts
    pods: Cache[DevicePod]
    worker: DeviceWorker
    store: ReservationStore
    on_conflict: Callable[[], None] = lambda: None  # called when another replica wrote first
    _commits: GroupCommit[_Change, DeviceReservation | None] = field(init=False)
    _attempts: Iterator[int] = field(default_factory=itertools.count, init=False)
    # This replica's reservations whose bindings may still arrive, by node and pod uid, with the time they began.
    _unsettled: dict[str, dict[str, tuple[float, DeviceReservation]]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Make changes to the same node wait for each other."""
        self._commits = GroupCommit(self._commit, _LARGEST_GROUP)

    async def reserve(
        self,
        pod: DevicePod,
        requested: RequestedDevices,
        account: NodeAccount,
        refusal: Callable[[PodInfo], str] = lambda _: "",
    ) -> DeviceReservation:
        """Reserve devices for a pod, and count it on the node. Raises NotBound, KubeError, NoAnswerInTime.

        `refusal` returns why the pod must not get an allocation, or an empty string. Call `settle` or `give_back` once
        the outcome of the binding is known.
        """
        uid, node, began_s = pod.metadata.uid, account.name, self.store.clock()
        change = _Reserve(pod, requested, refusal)
        try:
            if self._commits.is_busy(node) or not self.store.knows(node, account.uid):
                await self._place(requested, node, uid)
            reservation = await self._commits.submit(node, change)
        except BaseException:
            change.is_cancelled = True
            self.accounts.forget_assumed(uid)
            self.accounts.mark_changed(node)  # the evaluator may have counted a pod that was never assumed
            raise
        assert reservation is not None  # noqa: S101 - it is the outcome of this change
        if self.store.clock() - began_s > _LATEST_S:
            await self.give_back(reservation, account)
            raise NotBound(f"reserving the devices took more than {_LATEST_S:.0f} s; the scheduler retries")
        self._unsettled.setdefault(node, {})[uid] = began_s, reservation
        return reservation

    def settle(self, reservation: DeviceReservation, node: str) -> None:
        """Record that a reservation's pod is bound, or that it was not and no earlier binding may arrive."""
        unsettled = self._unsettled.get(node, {})
        if reservation.uid in unsettled and unsettled[reservation.uid][1].attempt == reservation.attempt:
            del unsettled[reservation.uid]
        if not unsettled:
            self._unsettled.pop(node, None)

    async def give_back(self, reservation: DeviceReservation, account: NodeAccount) -> None:
        """Remove the reservation of a pod that was not bound; if that fails, a later one on the node removes it.

        It stays if another attempt to bind the pod uses it by now, or an earlier one may still arrive.
        """
        self.accounts.forget_assumed(reservation.uid)
        if reservation.is_repeated:
            return
        self.settle(reservation, account.name)
        try:
            await self._commits.submit(account.name, _GiveBack(reservation))
        except (KubeError, NotBound) as error:
            _log.info("reservation_left", node=account.name, error=str(error))

    async def ensure_lease(self, account: NodeAccount) -> None:
        """Create a node's Lease ahead of time, so that its first pods need not wait. Raises KubeError, NotBound."""
        if not self.store.knows(account.name, account.uid):
            await self.store.read_all()
        if not self.store.knows(account.name, account.uid):
            await self._commits.submit(account.name, _EnsureLease())

    async def _place(self, requested: RequestedDevices, node: str, uid: str) -> None:
        """Count a pod before its reservation is committed, so that later requests see it; its devices may change."""
        chosen = await self.worker.run(lambda evaluator: evaluator.place(requested, node, uid), _ALLOCATION_S)
        if chosen is not None:
            self.accounts.assume(uid, node, chosen)

    async def _commit(self, node: str, changes: Sequence[_Change]) -> Sequence[_Outcome]:
        """Commit changes to a node in one write; one by one if the write is refused, or one of them causes an error.

        If the worker does not answer in time, changes that do not need it are committed without the others.
        """
        try:
            return await self._decide_and_write(node, changes)
        except NoAnswerInTime as error:
            others = [change for change in changes if not isinstance(change, _Reserve)]
            outcomes = iter(await self._commit(node, others) if others else ())
            return [error if isinstance(change, _Reserve) else next(outcomes) for change in changes]
        except Exception as error:  # noqa: BLE001 - it is raised again for the pod that causes it
            is_shared = isinstance(error, KubeError) and not isinstance(error, Refused)
            if is_shared or len(changes) == 1:
                return [error] * len(changes)
        return [outcome for change in changes for outcome in await self._commit(node, [change])]

    async def _decide_and_write(self, node: str, changes: Sequence[_Change]) -> Sequence[_Outcome]:
        """Decide on all changes from one read of the reservations, and start over after a conflict.

        A write proves that the cached reservations were current. Without one, another replica may have given devices
        back, so a pod is refused only after reading the reservations live.
        """
        is_live = False
        for _ in range(_ATTEMPTS):
            account = self.accounts.node(node)
            if account is None:
                return [NotBound(f"node {node} is gone")] * len(changes)
            is_live |= not self.store.knows(node, account.uid)
            reserved = await self.store.read(node, account.uid, live=is_live)
            try:
                outcomes, is_written = await self._try(reserved, changes)
            except Conflict:
                self.on_conflict()
                continue
            if is_live or is_written or not any(isinstance(outcome, NotBound) for outcome in outcomes):
                return outcomes
            is_live = True
        error = NotBound(f"other replicas keep reserving devices of node {node}; the scheduler retries")
        return [error] * len(changes)

    async def _try(self, reserved: DeviceReservations, changes: Sequence[_Change]) -> tuple[Sequence[_Outcome], bool]:
        """Decide on the changes and write the reservations if they differ; return also whether they were written."""
        pods = PodsOnNode(self.kube, self.accounts, self.pods, reserved.node)
        kept = await self._kept(reserved, pods)
        if reserved.is_lost and not all(isinstance(change, _GiveBack) for change in changes):
            kept = replace(kept, pods_seen=await pods.listed_version())
        outcomes, must_write = list[_Outcome](), False
        for change in changes:
            outcome: _Outcome = None
            match change:
                case _Reserve():
                    outcome = await self._reservation(change, kept, pods)
                    if change.is_cancelled:
                        self.accounts.mark_changed(kept.node)  # the evaluator has counted the pod
                    elif isinstance(outcome, DeviceReservation):
                        self.accounts.assume(outcome.uid, kept.node, outcome.info)
                        kept, must_write = kept.with_entry(outcome), True
                case _GiveBack(reservation):
                    must_write |= reserved.has(reservation)
                    kept = kept.without(reservation)
                case _EnsureLease():
                    must_write |= not reserved.version
                case _:
                    assert_never(change)
            outcomes.append(outcome)
        if must_write:
            await self.store.write(kept)
        return outcomes, must_write

    async def _reservation(
        self, change: _Reserve, kept: DeviceReservations, pods: PodsOnNode
    ) -> DeviceReservation | NotBound:
        """Reserve the devices of the pod's current reservation, else free ones; return NotBound if there are none."""
        metadata = change.pod.metadata
        if bound_to := pods.node_of(change.pod):
            return NotBound(f"the pod is already on node {bound_to}")
        mine, is_repeated = kept.of_pod(metadata.uid), False
        if mine is None or self.store.is_expired(kept.node, mine):
            info = await self._allocate(change, kept, pods)
        elif _requests(mine.info) == _requests(change.requested.info):
            # An earlier binding with these devices may still arrive.
            info, is_repeated = with_unknown_of(change.requested.info, mine.info), True
        else:
            info = NotBound(
                "an earlier binding of the pod, with other requests, may still arrive; the scheduler retries"
            )
        if isinstance(info, NotBound):
            return info
        if refusal := change.refusal(info):
            return NotBound(refusal)
        attempt = f"{self.store.identity}/{next(self._attempts)}"
        return DeviceReservation(metadata.namespace, metadata.name, metadata.uid, info, attempt, is_repeated)

    async def _allocate(self, change: _Reserve, kept: DeviceReservations, pods: PodsOnNode) -> PodInfo | NotBound:
        """Choose devices from the cache if it is fresh enough; always from a live list before refusing."""
        node, uid = kept.node, change.pod.metadata.uid
        reserved = {each.uid: each.info for each in kept.entries if each.uid != uid}
        known = pods.known_devices(kept.pods_seen)
        if known is not None:
            others = {other: info for other, info in known.items() if other != uid}
            found = await self._place_beside(_together(others, reserved), change, node)
            if isinstance(found, PodInfo):
                return found
        found = await self._place_beside(_together(await pods.listed_devices(), reserved), change, node)
        if isinstance(found, str):
            return NotBound(f"node {node} has no devices for the pod any more: {found}")
        return found

    async def _place_beside(self, others: Mapping[str, PodInfo], change: _Reserve, node: str) -> PodInfo | str:
        requested, uid = change.requested, change.pod.metadata.uid
        return await self.worker.run(
            lambda evaluator: evaluator.place_beside(others, requested, node, uid), _ALLOCATION_S
        )

    async def _kept(self, reserved: DeviceReservations, pods: PodsOnNode) -> DeviceReservations:
        """Return the reservations that are still needed."""
        kept, seen = list[DeviceReservation](), reserved.pods_seen
        for entry in (*reserved.entries, *self._missing_in(reserved)):
            is_expired = self.store.is_expired(reserved.node, entry)
            pod = await pods.reserved_for(entry, live=is_expired)  # by now, the cache may be older than the binding
            if pod is None or pod.has_ended or pod.spec.node_name not in ("", reserved.node):
                continue
            if pod.spec.node_name and version_of(pod):
                seen = max(seen, version_of(pod))  # a cache this new has the pod on its node
            elif pod.spec.node_name or not is_expired:
                kept.append(entry)
        return replace(reserved, entries=tuple(kept), pods_seen=seen)

    def _missing_in(self, reserved: DeviceReservations) -> list[DeviceReservation]:
        """Return this replica's reservations that are not in the Lease, perhaps because someone deleted it."""
        now_s, unsettled = self.store.clock(), self._unsettled.get(reserved.node, {})
        for began_s, reservation in list(unsettled.values()):
            if now_s - began_s >= EXPIRES_S:
                self.settle(reservation, reserved.node)
        return [each for _, each in unsettled.values() if reserved.of_pod(each.uid) is None]


def _together(pods: Mapping[str, PodInfo], reserved: Mapping[str, PodInfo]) -> dict[str, PodInfo]:
    """Return all devices in use, by pod uid; if a pod's reservation differs from its allocation, both count."""
    others = {f"{uid}, reserved": info for uid, info in reserved.items() if pods.get(uid, info) != info}
    return {**reserved, **pods, **others}


def _requests(info: PodInfo) -> list[Any]:
    """Return what the user requested, by container."""
    groups = (info.running_containers, info.init_containers)
    requested = [{name: each.requests for name, each in group.items() if each.requests} for group in groups]
    return [info.requests, *requested]
