"""Whether a pod's allocation can be written to its annotation and read back: a plain function."""

from dataclasses import replace

import msgspec

from controller.devices.refusal_reasons import first_of
from shared.devices.annotation import InvalidDeviceInfo, encode_pod_info, parse_pod_info
from shared.devices.info import PodInfo, without_unknown
from shared.plugin_loading import reason_of

MAX_ALLOCATION_BYTES = 64 * 1024  # without unknown keys; those of all pods being bound to a node share one Lease
_LONGEST_NAME = 253  # of a pod or a node
_SPARE_DEPTH = 400  # other readers may decode deeper in the call stack, which counts towards the same limit


def unreadable(pod: PodInfo) -> str:
    """Return why a pod's annotation with its allocation could not be read back, or an empty string.

    The devices of an unreadable allocation would not count as used. Translation can produce more and longer names than
    a user may write. The pod and its node get names of the maximum length, because the answer is cached for all pods
    and nodes that are otherwise equal.
    """
    try:
        _read_back(replace(pod, name=pod.name.ljust(_LONGEST_NAME), node_name=" " * _LONGEST_NAME))
    except Exception as error:  # noqa: BLE001 - plugins write anything
        return first_of([f"its allocation could not be written to the pod: {reason_of(error)}"])
    return ""


def _read_back(pod: PodInfo) -> None:
    text = encode_pod_info(pod)
    parse_pod_info(text)
    if len(text) > _SPARE_DEPTH:
        msgspec.json.decode("[" * _SPARE_DEPTH + text + "]" * _SPARE_DEPTH)
    size = len(encode_pod_info(without_unknown(pod)).encode())
    if size > MAX_ALLOCATION_BYTES:
        raise InvalidDeviceInfo(f"it has {size} bytes; the limit is {MAX_ALLOCATION_BYTES}; request fewer devices")
