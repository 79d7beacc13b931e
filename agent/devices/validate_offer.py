"""Validates what a plugin's `update_node_info` fills in: pure functions, with limits."""

import re
from collections.abc import Collection

from shared.devices.annotation import encode_node_info, node_info_from, node_info_json, parse_node_info
from shared.devices.info import NodeInfo, ResourceList

MAX_EXTENDED_RESOURCES = 64
DEFAULT_PREFIX = "larder.dev/"
_MAX_VALUE = 2**63 - 1
_LONGEST_DOMAIN, _LONGEST_WORD = 253, 63
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def offer_of(filled: NodeInfo, node_name: str, prefixes: Collection[str]) -> NodeInfo:
    """Copy a plugin's offer into a NodeInfo of our own, with the node's name and without unknown keys.

    Raises:
        ValueError: The offer is not device information, exceeds a limit, or has an extended resource that is not
            allowed.
    """
    lists = NodeInfo("", filled.capacity, filled.allocatable, filled.used, filled.scorer)
    text = encode_node_info(node_info_from(node_info_json(lists)))
    found = parse_node_info(text)  # the names must be valid in the annotation
    found.name = node_name
    found.kube_cap = _extended(filled.kube_cap, "kube_cap", prefixes)
    found.kube_alloc = _extended(filled.kube_alloc, "kube_alloc", prefixes)
    for name, value in found.kube_alloc.items():
        if value > found.kube_cap.setdefault(name, value):
            raise ValueError(f"kube_alloc[{name!r}] is {value}, more than its capacity {found.kube_cap[name]}")
    for name, value in found.kube_cap.items():
        found.kube_alloc.setdefault(name, value)
    return found


def _extended(values: object, where: str, prefixes: Collection[str]) -> ResourceList:
    if not isinstance(values, dict):
        raise ValueError(f"{where} is not a dict")  # noqa: TRY004 - the type of a value is its content here
    if len(values) > MAX_EXTENDED_RESOURCES:
        raise ValueError(f"{where} has {len(values)} entries, but at most {MAX_EXTENDED_RESOURCES} are allowed")
    for name, value in values.items():
        if not isinstance(name, str) or not _is_qualified(name):
            raise ValueError(f"{where} has {name!r:.200}, which is not the name of an extended resource")
        if not name.startswith(tuple(prefixes)):
            raise ValueError(f"{where} has {name}, but only names that begin with {' or '.join(prefixes)} are allowed")
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MAX_VALUE:
            raise ValueError(f"{where}[{name!r}] is {value!r:.40}, not a whole number from 0 to {_MAX_VALUE}")
    return {str.__str__(name): int.__int__(value) for name, value in values.items()}  # an Enum is written differently


def _is_qualified(name: str) -> bool:
    domain, _, word = name.partition("/")
    if len(domain) > _LONGEST_DOMAIN or len(word) > _LONGEST_WORD:
        return False
    return bool(_DOMAIN.fullmatch(domain) and _WORD.fullmatch(word))
