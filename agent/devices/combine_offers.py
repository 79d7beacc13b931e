"""Combines the offers of all plugins: pure functions.

No two plugins may offer the same resource: the later one is left out. So is a plugin whose devices would make the
annotation exceed its size limit.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.devices.annotation import MAX_NODE_RESOURCES, encode_node_info
from shared.devices.info import NodeInfo, copy_node

MAX_ANNOTATION_BYTES = 96 * 1024  # the agent's policy allows 128 KiB, and the API server 256 KiB
MAX_EXTENDED = 64


@dataclass(frozen=True, slots=True)
class Combined:
    """The combined offer, the plugins that it comes from, and why others are left out."""

    info: NodeInfo
    plugins: tuple[str, ...] = ()
    failures: Mapping[str, str] = field(default_factory=dict)


def combine(node_name: str, offers: Mapping[str, NodeInfo], unknown: Mapping[str, Any]) -> Combined:
    """Return the offers as one NodeInfo, with the unknown keys of the annotation on the Node."""
    info, plugins, failures = NodeInfo(node_name, unknown=dict(unknown)), [], {}
    for plugin, offer in offers.items():
        merged = _merged(info, offer)
        if problem := _overlap(info, offer) or _excess(merged):
            failures[plugin] = problem
        else:
            info = merged
            plugins.append(plugin)
    return Combined(info, tuple(plugins), failures)


def is_empty(info: NodeInfo) -> bool:
    """Return whether the annotation can be removed: nothing is offered, and it has no unknown keys to keep."""
    return not (info.capacity or info.allocatable or info.used or info.scorer or info.unknown)


def _merged(info: NodeInfo, offer: NodeInfo) -> NodeInfo:
    merged = copy_node(info)
    for whole, part in zip(_lists(merged), _lists(offer), strict=True):
        whole.update(part)
    return merged


def _overlap(info: NodeInfo, offer: NodeInfo) -> str:
    taken = {name for values in _lists(info) for name in values}
    both = sorted(taken.intersection(name for values in _lists(offer) for name in values))
    return f"another plugin offers {both[0]} too" if both else ""


def _excess(info: NodeInfo) -> str:
    if len(info.kube_cap) > MAX_EXTENDED:
        return f"there would be {len(info.kube_cap)} extended resources, but at most {MAX_EXTENDED} are allowed"
    most = max(len(info.capacity), len(info.allocatable), len(info.used), len(info.scorer))
    if most > MAX_NODE_RESOURCES:
        return f"there would be {most} resources, but at most {MAX_NODE_RESOURCES} are allowed"
    if (size := len(encode_node_info(info).encode())) > MAX_ANNOTATION_BYTES:
        return f"the annotation would have {size} bytes, but at most {MAX_ANNOTATION_BYTES} are allowed"
    return ""


def _lists(info: NodeInfo) -> tuple[dict[str, int], ...]:
    return info.capacity, info.allocatable, info.used, info.scorer, info.kube_cap, info.kube_alloc
