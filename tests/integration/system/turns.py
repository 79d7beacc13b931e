"""Which nodes download a model and in which order, from their status and the logs of their agents."""

import json
from collections.abc import Iterator
from itertools import pairwise

from rig.larder.site import Site


def downloading(site: Site, model: str) -> set[str]:
    """Return the nodes that report a download of a model, from a single list."""
    return {name for name, (_, status) in site.listed(model).items() if status.get("phase") == "Downloading"}


def granted(site: Site, model: str) -> set[str]:
    """Return the nodes that are granted a download of a model and have not finished it, from a single list."""
    listed = site.listed(model).items()
    return {name for name, (entry, status) in listed if entry.get("granted") and status.get("phase") != "Ready"}


def assert_one_at_a_time(site: Site, model: str, nodes: set[str]) -> None:
    """Assert that each node has downloaded the model, and that no two downloads overlapped."""
    turns = sorted(turn for node in nodes for turn in _turns(site, node, model))
    assert {node for _, _, node in turns} == nodes
    assert [(one, two) for one, two in pairwise(turns) if two[0] < one[1]] == []


def _turns(site: Site, node: str, model: str) -> Iterator[tuple[str, str, str]]:
    """Yield the start and end of each download of a model, and the node's name."""
    began = ""
    for line in site.cluster.agents[node].log.read_text().splitlines():
        whole = line.startswith("{") and line.endswith("}")  # a killed agent may leave half a line
        reported = json.loads(line) if whole and model in line else {}
        if reported.get("event") == "download_started":
            began = reported["timestamp"]
        elif reported.get("event") in ("snapshot_complete", "download_stopped", "entry_failed") and began:
            yield began, reported["timestamp"], node
            began = ""
