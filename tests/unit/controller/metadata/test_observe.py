"""A node's report on unpacked files counts if the node should have the model, has it, and has the same reader."""

from typing import Any

import msgspec
import pytest

from controller.metadata.observe import readings_of
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.unpacked_metadata import UnpackedMetadata, UnpackedValues
from shared.metadata.reading.attempts import identity_of_files
from tests.builders.cluster import DIGEST, cache, entry, entry_status, fresh_cluster, model_node, node

REPORT = UnpackedMetadata(identity=identity_of_files(DIGEST), values=UnpackedValues(model_type="llama"))
OTHER = msgspec.structs.replace(REPORT, values=UnpackedValues(model_type="mistral"))


def cluster(**reported: dict[str, Any]) -> ClusterState:
    """A cluster whose nodes report metadata of the model `m`; `told` changes the report of one."""
    seen = fresh_cluster()
    seen.cluster_model_caches.upsert(cache("m"))
    for name, fields in reported.items():
        listed = [] if fields.pop("unlisted", False) else [entry("m")]
        uid = fields.pop("node_uid", f"uid-{name}")
        seen.nodes.upsert(node(name))
        status = entry_status("m", **({"metadata": REPORT} | fields))
        seen.model_nodes.upsert(model_node(name, *listed, reported=[status], node_uid=uid))
    return seen


def heard(seen: ClusterState) -> list[tuple[str, str]]:
    demand = seen.models.demands[ModelKey("ClusterModelCache", "", "m")]
    assert demand.resolution
    reports = readings_of(seen, demand, demand.resolution)
    return [(r.node, r.reading.metadata.model_type if r.reading.metadata else r.reading.reason) for r in reports]


def test_the_first_node_by_name_represents_those_that_agree() -> None:
    assert heard(cluster(b={}, c={"metadata": OTHER}, a={})) == [("a", "llama"), ("c", "mistral")]


@pytest.mark.parametrize(
    "fields",
    [
        {"unlisted": True},
        {"phase": "Repairing"},
        {"phase": "Unknown"},
        {"revision": "r2"},
        {"node_uid": "of a Node that is gone"},
        {"metadata": None},
        {"metadata": msgspec.structs.replace(OTHER, identity=identity_of_files("e" * 64))},
        {"metadata": msgspec.structs.replace(OTHER, values=UnpackedValues(model_type="a\nb"))},
        {"metadata": msgspec.structs.replace(OTHER, values=None, reason="MetadataConflict")},
    ],
)
def test_reports_that_do_not_match_the_entry_revision_or_node_are_ignored(fields: dict[str, Any]) -> None:
    assert heard(cluster(b={}, a={"metadata": OTHER, **fields})) == [("b", "llama")]
