"""Whether a pod's allocation can be written to its annotation and read back: a plain function."""

from dataclasses import replace

import msgspec

from controller.devices.shortage import first_of
from shared.devices.annotation import InvalidDeviceInfo, encode_pod_info, parse_pod_info
from shared.devices.info import PodInfo, without_unknown
from shared.plugin_loading import reason_of

MAX_ALLOCATION_BYTES = 64 * 1024  # without unknown keys; those of all pods being bound to a node share one Lease
_LONGEST_NAME = 253  # of a pod or a node
_MORE_CALLS = 400  # other readers of a nested text are deeper in calls, and the limit is on both together


def unreadable(pod: PodInfo) -> str:
    """Return why a pod's annotation with its allocation could not be read back, or an empty string.

    Then its devices would not count as used. Translation makes more and longer names than a user may write. The answer
    does not depend on the names of pod and node, because it is kept for equal ones.
    """
    try:
        _read_back(replace(pod, name=pod.name.ljust(_LONGEST_NAME), node_name=" " * _LONGEST_NAME))
    except Exception as error:  # noqa: BLE001 - plugins write anything
        return first_of([f"its allocation could not be written to the pod: {reason_of(error)}"])
    return ""


def _read_back(pod: PodInfo) -> None:
    text = encode_pod_info(pod)
    parse_pod_info(text)
    if len(text) > _MORE_CALLS:
        msgspec.json.decode("[" * _MORE_CALLS + text + "]" * _MORE_CALLS)
    size = len(encode_pod_info(without_unknown(pod)).encode())
    if size > MAX_ALLOCATION_BYTES:
        raise InvalidDeviceInfo(f"it has {size} bytes; the limit is {MAX_ALLOCATION_BYTES}; request fewer devices")
