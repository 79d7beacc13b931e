"""Whether an administrator opened a namespace to our scheduler."""

from collections.abc import Callable
from dataclasses import dataclass, field

from shared.devices.scheduler import NAMESPACE_LABEL
from shared.kube.collection import get_object
from shared.kube.objects import Object
from shared.kube.transport import Kube

_CACHED_S = 30.0


@dataclass(slots=True)
class OpenNamespaces:
    """Reads the label of namespaces, so that no devices are reserved for pods whose binding would be refused.

    An open namespace is cached for half a minute; any other is read for each pod.
    """

    kube: Kube
    clock: Callable[[], float]
    _opened_s: dict[str, float] = field(default_factory=dict, init=False)  # when a namespace was found open

    async def is_open(self, name: str) -> bool:
        """Return whether a namespace has the label. Raises KubeError."""
        if self.clock() - self._opened_s.get(name, -_CACHED_S) < _CACHED_S:
            return True
        self._opened_s.pop(name, None)
        found = await get_object(self.kube, f"/api/v1/namespaces/{name}", Object)
        if found is None or found.metadata.labels.get(NAMESPACE_LABEL) != "true":
            return False
        self._opened_s[name] = self.clock()
        return True
