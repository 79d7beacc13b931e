"""Whether an administrator opened a namespace to our scheduler."""

from collections.abc import Callable
from dataclasses import dataclass, field

from shared.devices.scheduler import NAMESPACE_LABEL
from shared.kube.collection import get_object
from shared.kube.objects import Object
from shared.kube.transport import Kube

_KNOWN_S = 30.0


@dataclass(slots=True)
class OpenNamespaces:
    """Reads the label of namespaces, so that the pods of closed ones take no devices while their binding is refused.

    That a namespace is open is remembered for half a minute. Until then, and if it is not, it is read for each pod.
    """

    kube: Kube
    clock: Callable[[], float]
    _read_s: dict[str, float] = field(default_factory=dict, init=False)  # when it was found open

    async def is_open(self, name: str) -> bool:
        """Return whether a namespace has the label. Raises KubeError."""
        if self.clock() - self._read_s.get(name, -_KNOWN_S) < _KNOWN_S:
            return True
        self._read_s.pop(name, None)
        found = await get_object(self.kube, f"/api/v1/namespaces/{name}", Object)
        if found is None or found.metadata.labels.get(NAMESPACE_LABEL) != "true":
            return False
        self._read_s[name] = self.clock()
        return True
