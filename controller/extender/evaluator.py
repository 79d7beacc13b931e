"""Decides which nodes can serve a pod's devices, and which devices it gets. Runs in the worker thread.

Equal nodes are evaluated once, and results are cached by request and state of the node.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from controller.devices.chain import PluginChain
from controller.devices.group_scheduler import GroupScheduler
from controller.devices.plugin import DeviceScheduler
from controller.devices.refusal_reasons import PluginFailure, Reason, SearchTooLong, first_of
from controller.devices.schedule import pod_for, seen_devices
from controller.extender.accounts import NodeAccount
from controller.extender.filter_result import NodeFit
from controller.extender.requested_devices import RequestedDevices
from shared.devices.info import NodeInfo, PodInfo, copy_node, copy_pod
from shared.plugin_loading import reason_of

MAX_STEPS = 20_000  # search steps per pod and kind of node: tens of milliseconds
_MAX_RESULTS = 50_000
OUT_OF_TIME = "the time limit was reached before devices were found; the scheduler retries"
_UNKNOWN = NodeFit(fits=False, reason="the node's devices are not known yet")


@dataclass(slots=True)
class _Prepared:
    """A node as plugins see it: `base` without pods, `info` with the use by pods; equal nodes have equal `kind`."""

    account: NodeAccount
    base: NodeInfo
    info: NodeInfo
    kind: bytes = b""


class FitEvaluator:
    """Evaluates the nodes passed to `sync`; used by one thread.

    Args:
        plugins: The scheduler plugins.
        clock: Monotonic seconds.
        known_to_plugins: The nodes that an earlier evaluator added to the plugins. Some may be gone.

    """

    def __init__(
        self, plugins: Sequence[DeviceScheduler], clock: Callable[[], float], known_to_plugins: Iterable[str] = ()
    ) -> None:
        self._plugins, self._clock = tuple(plugins), clock
        self._known_to_plugins, self._is_new = set(known_to_plugins), True
        self._groups = GroupScheduler()
        self._chain = PluginChain(self._plugins, self._groups)
        self._nodes: dict[str, _Prepared] = {}
        self._uncounted: dict[str, NodeFit] = {}  # nodes whose devices cannot be counted because a plugin fails
        self._results: dict[Hashable, NodeFit] = {}
        self._trees = 0  # incremented when the card trees that topology requests follow may have changed
        self._serial = 0  # of the last node added or counted

    def sync(self, changes: Mapping[str, NodeAccount | None]) -> None:
        """Apply changes to nodes, and forget deleted ones; the first call must have every node."""
        if self._is_new:
            for name in [name for name in self._known_to_plugins if changes.get(name) is None]:
                self._remove_from_plugins(name)
            self._is_new = False
        for name, account in changes.items():
            self._apply(name, account)

    @property
    def node_names(self) -> list[str]:
        """The nodes that were added to the plugins, including those added by earlier evaluators."""
        return list(self._known_to_plugins)

    def fits(self, requested: RequestedDevices, names: Iterable[str], until: float) -> list[NodeFit]:
        """Return whether the pod fits on each node; nodes not evaluated by `until` count as not fitting."""
        answers: dict[Hashable, NodeFit] = {}  # by kind of node
        pod_name = requested.info.name if self._plugins else ""
        request_key = (requested.key, self._trees if requested.follows_topology else 0, pod_name)
        found: list[NodeFit] = []
        for name in names:
            node = self._nodes.get(name)
            if node is None:
                found.append(self._uncounted.get(name, _UNKNOWN))
                continue
            fit = answers.get(node.kind)
            if fit is None:
                key = (request_key, node.kind)
                fit = answers[node.kind] = self._results.get(key) or self._evaluate(requested, node, key, until)
            found.append(fit if fit.fits or not node.account.problem else fit._replace(reason=node.account.problem))
        return found

    def place(self, requested: RequestedDevices, name: str, uid: str) -> PodInfo | None:
        """Allocate a pod's devices on a node from cached state, and count them at once.

        Return None if they do not fit, or the pod is already counted. Later requests in the queue see the allocation.
        The next `sync` of the node confirms or undoes it.
        """
        node = self._nodes.get(name)
        if node is None or uid in node.account.pods:
            return None
        found = self.place_beside(node.account.pods, requested, name, uid)
        return None if isinstance(found, str) else found

    def place_beside(
        self, pods: Mapping[str, PodInfo], requested: RequestedDevices, name: str, uid: str
    ) -> PodInfo | str:
        """Do as `place` does, but assume that only these pods use devices; return the reason if that fails."""
        found = self.allocate(requested, name, pods)
        node = self._nodes.get(name)
        if node is not None and isinstance(found, PodInfo):
            self._apply(name, replace(node.account, pods={**node.account.pods, uid: found}))
        return found

    def allocate(self, requested: RequestedDevices, name: str, pods: Mapping[str, PodInfo]) -> PodInfo | str:
        """Return the pod with its allocation, assuming that only these pods use devices, or why it does not fit."""
        node = self._nodes.get(name)
        if node is None:
            return self._uncounted[name].reason if name in self._uncounted else f"node {name} is gone"
        try:
            info = self._info_with(node, pods)
        except Exception as error:  # noqa: BLE001 - plugins write anything
            return self._not_counted(error)
        if self._plugins:  # without plugins, this would only repeat the group scheduler's search
            self._groups.renew(MAX_STEPS)
            fit = self._chain.fit(copy_node(info), pod_for(requested.info, name))
            if not fit.fits:
                return _printed(fit.reasons)
        pod = pod_for(requested.info, name)
        self._groups.renew(MAX_STEPS)
        if reasons := self._chain.allocate(info, pod):
            return _printed(reasons)
        pod.node_name = name
        return pod

    def _info_with(self, node: _Prepared, pods: Mapping[str, PodInfo]) -> NodeInfo:
        if pods == node.account.pods:
            return copy_node(node.info)
        info = copy_node(node.base)
        for uid in sorted(pods):
            self._chain.take(info, copy_pod(pods[uid]))
        return info

    def _evaluate(self, requested: RequestedDevices, node: _Prepared, key: Hashable, until: float) -> NodeFit:
        if self._clock() > until:
            return NodeFit(fits=False, reason=OUT_OF_TIME)
        self._groups.renew(MAX_STEPS)
        info = copy_node(node.info) if self._plugins else node.info
        pod = pod_for(requested.info, node.info.name)
        fits, reasons, score = self._chain.fit(info, pod)
        fit = NodeFit(fits, "" if fits else _printed(reasons), score)
        if len(self._results) >= _MAX_RESULTS:
            self._results.clear()
        self._results[key] = fit
        return fit

    def _apply(self, name: str, account: NodeAccount | None) -> None:
        """Apply one change. If a plugin fails to count the node, the node is refused until it changes again."""
        known = self._nodes.get(name)
        self._uncounted.pop(name, None)
        try:
            if account is None:
                self._remove(name)
            elif known is None or known.account.advertised is not account.advertised:
                self._add(account)
            else:
                self._count(known, account)
        except Exception as error:  # noqa: BLE001 - plugins write anything
            self._remove(name)
            self._uncounted[name] = NodeFit(fits=False, reason=self._not_counted(error))

    def _not_counted(self, error: Exception) -> str:
        message = f"the node's devices cannot be counted: {reason_of(error)}"
        names = ", ".join(plugin.name for plugin in self._plugins)
        return first_of([str(PluginFailure(names, message)) if names else message])

    def _remove(self, name: str) -> None:
        if self._nodes.pop(name, None) is not None:
            self._remove_from_plugins(name)
            self._trees += 1

    def _remove_from_plugins(self, name: str) -> None:
        self._chain.remove_node(name)
        self._known_to_plugins.discard(name)

    def _add(self, account: NodeAccount) -> None:
        base = copy_node(account.advertised)
        node = self._nodes[account.name] = _Prepared(account, base, base)
        self._known_to_plugins.add(account.name)
        self._chain.add_node(base)
        self._trees += 1
        node.info = copy_node(base)
        for uid in sorted(account.pods):
            self._chain.take(node.info, copy_pod(account.pods[uid]))
        self._set_kind(node)

    def _count(self, node: _Prepared, account: NodeAccount) -> None:
        """Free the devices of pods that are gone or changed, and count those of new or changed pods."""
        before, after = node.account.pods, account.pods
        for uid in [uid for uid in before if before[uid] is not after.get(uid)]:
            self._chain.give_back(node.info, copy_pod(before[uid]))
        for uid in [uid for uid in after if after[uid] is not before.get(uid)]:
            self._chain.take(node.info, copy_pod(after[uid]))
        node.account = account
        self._set_kind(node)

    def _set_kind(self, node: _Prepared) -> None:
        if self._plugins:  # a plugin may depend on anything, so no two nodes are equal
            self._serial += 1
            node.kind = str(self._serial).encode()
        else:
            node.kind = _digest(node.info)


def _digest(node: NodeInfo) -> bytes:
    """Return a digest of what the group scheduler sees of a node; it is small because thousands of them are cached."""
    return hashlib.sha256(msgspec.json.encode(seen_devices(node), order="deterministic")).digest()


def _printed(reasons: Iterable[Reason]) -> str:
    """Return the first reason, short enough for an event that repeats it for each kind of node."""
    texts = [
        f"container {each.container}: no allocation found within {MAX_STEPS} steps; request fewer groups, or advertise "
        "fewer levels"
        if isinstance(each, SearchTooLong)
        else str(each)
        for each in reasons
    ]
    return first_of(texts) if texts else "a scheduler plugin refused the node without a reason"
