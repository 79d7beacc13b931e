"""The built-in plugin `models`: offers cached models, and the space for more, as devices.

Each ready model is a place of the group `model`, named after the model. The store is a device as well:

    resource/group/model/llama/ready: 1
    resource/group/model/llama/id/llama: 1
    resource/group/store/0/bytes: 107374182400

In a request, the name of a place only groups leaves, so `model/llama/ready` requests any model. The second leaf has
the id in its own name, and requests this model. Both are scored as bit masks, because any number of pods may use one
model.
"""

from collections.abc import Callable, Iterable

import structlog

from agent.devices.plugin import Allocated
from agent.devices.store_contents import StoreContents
from shared.devices.info import GROUP_PREFIX, ContainerInfo, NodeInfo, PodInfo
from shared.names import short_id

NAME = "models"
STORE_BYTES = f"{GROUP_PREFIX}store/0/bytes"
_MODELS_PREFIX = f"{GROUP_PREFIX}model/"
MAX_MODELS_TEXT = 64 * 1024  # bytes of the annotation
_BIT_MASK = 2  # the number of the scorer
_USE_STEPS = 64
_COPIES = 3  # capacity, allocatable, scorer
_PER_NAME = len('"":1,')

_LOG: structlog.stdlib.BoundLogger = structlog.get_logger()


def is_offered_by_models(resource: str) -> bool:
    """Return whether a resource of a node is one that this plugin offers."""
    return resource == STORE_BYTES or resource.startswith(_MODELS_PREFIX)


def ready_leaf(identity: str) -> str:
    """Return the leaf that every ready model has."""
    return f"{_MODELS_PREFIX}{short_id(identity)}/ready"


def id_leaf(identity: str) -> str:
    """Return the leaf that is specific to this model."""
    return f"{_MODELS_PREFIX}{short_id(identity)}/id/{short_id(identity)}"


def fitting(identities: Iterable[str]) -> list[str]:
    """Return as many models, in order of their ids, as fit into the annotation."""
    chosen, left_bytes = [], MAX_MODELS_TEXT
    for identity in sorted(identities):
        left_bytes -= _COPIES * (len(ready_leaf(identity)) + len(id_leaf(identity)) + 2 * _PER_NAME)
        if left_bytes < 0:
            break
        chosen.append(identity)
    return chosen


def stepped_use(used: int, allocatable: int) -> int:
    """Round used bytes up to a 64th of the allocatable, so that the Node is not written for every file."""
    step = max(1, allocatable // _USE_STEPS)
    return min(-(-used // step) * step, allocatable)


class ModelDevices:
    """The device plugin; `contents` returns the store's current offer."""

    name = NAME

    def __init__(self, contents: Callable[[], StoreContents]) -> None:
        self._contents, self._left_out = contents, 0

    def new(self) -> None:
        """Do nothing."""

    def start(self) -> None:
        """Do nothing; the store is open."""

    def update_node_info(self, node_info: NodeInfo) -> None:
        """Fill in the models and the bytes of the store."""
        contents = self._contents()
        node_info.capacity[STORE_BYTES] = contents.capacity_bytes
        node_info.allocatable[STORE_BYTES] = contents.allocatable_bytes
        node_info.used[STORE_BYTES] = stepped_use(contents.used_bytes, contents.allocatable_bytes)
        chosen = fitting(contents.ready)
        for leaf in (leaf for identity in chosen for leaf in (ready_leaf(identity), id_leaf(identity))):
            node_info.capacity[leaf] = node_info.allocatable[leaf] = 1
            node_info.scorer[leaf] = _BIT_MASK
        self._report(len(contents.ready) - len(chosen))

    def allocate(self, pod_info: PodInfo, container_info: ContainerInfo) -> Allocated:
        """Return nothing: pods get models as volumes or by a claim."""
        del pod_info, container_info
        return (), (), {}

    def _report(self, left_out: int) -> None:
        if left_out > self._left_out:
            _LOG.warning("models_not_advertised", count=left_out, annotation_bytes=MAX_MODELS_TEXT)
        self._left_out = left_out
