"""Which nodes have a ready agent, and how long the others have had none."""

from collections.abc import Callable
from dataclasses import dataclass, field

from shared.api.core import Pod
from shared.kube.objects import Key


@dataclass(slots=True)
class AgentLiveness:
    """The agents' pods by node; times are on the given clock."""

    clock: Callable[[], float]
    _pods: dict[str, dict[Key, bool]] = field(default_factory=dict, init=False)
    _away_since: dict[str, float] = field(default_factory=dict, init=False)

    def change(self, before: Pod | None, after: Pod | None) -> set[str]:
        """Apply a change of a pod; return the nodes that gained their first ready agent or lost their last."""
        names = {pod.spec.node_name for pod in (before, after) if pod is not None and pod.spec.node_name}
        was = {name: self.ready(name) for name in names}
        if before is not None and before.spec.node_name:
            self._drop(before)
        if after is not None and after.spec.node_name:
            alive = after.status.ready and after.metadata.deletion_timestamp is None
            self._pods.setdefault(after.spec.node_name, {})[after.key] = alive
        for name in names:
            self._note(name)
        return {name for name in names if self.ready(name) != was[name]}

    def ready(self, name: str) -> bool:
        """Return whether a ready agent runs on the node."""
        return any(self._pods.get(name, {}).values())

    def away_s(self, name: str) -> float:
        """Return how many seconds the node has been without a ready agent."""
        if self.ready(name):
            return 0.0
        return self.clock() - self._away_since.setdefault(name, self.clock())

    def forget(self, name: str) -> None:
        """Drop the state of a deleted node."""
        self._away_since.pop(name, None)

    def _drop(self, pod: Pod) -> None:
        pods = self._pods.get(pod.spec.node_name, {})
        pods.pop(pod.key, None)
        if not pods:
            self._pods.pop(pod.spec.node_name, None)

    def _note(self, name: str) -> None:
        if self.ready(name):
            self._away_since.pop(name, None)
        else:
            self._away_since.setdefault(name, self.clock())
