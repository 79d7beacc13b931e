"""Builds the view of one model, with the reports of nodes on archives, which only they have unpacked."""

from collections.abc import Iterator
from dataclasses import replace

import structlog

from controller.metadata.fill import SKIP_ANNOTATION, written_fields
from controller.metadata.merge_readings import NodeReading
from controller.metadata.reader import MetadataReader
from controller.metadata.view import MetadataView
from controller.placement.demand import Demand, Resolution
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from shared.api.base_model import BaseModel
from shared.api.model_node import EntryStatus, Phase
from shared.api.unpacked_metadata import UnpackedMetadata, reading_of
from shared.metadata.reading.attempts import identity_of_files

_MAX_DISTINCT = 8
_log = structlog.get_logger()


def observe(cluster: ClusterState, reader: MetadataReader, key: ModelKey) -> MetadataView | None:
    """Return the view of a model; None if it is not on nodes."""
    declared, demand = cluster.declared(key), cluster.models.demands.get(key)
    if declared is None or demand is None:
        return None
    view = MetadataView(
        demand=demand,
        generation=declared.metadata.generation,
        status=declared.status,
        spec=written_fields(declared.spec) if isinstance(declared, BaseModel) else None,
        skip=declared.metadata.annotations.get(SKIP_ANNOTATION) == "true",
        conflict=cluster.models.conflict(demand) is not None,
    )
    readings = readings_of(cluster, demand, view.target) if view.target and view.may_be_unpacked else ()
    return replace(view, result=reader.result_of(key, view.identity), readings=readings)


def readings_of(cluster: ClusterState, demand: Demand, target: Resolution) -> tuple[NodeReading, ...]:
    """Return the distinct reports on these files; each is untrusted until it is checked here.

    A node's report counts only if the controller placed the model on the node, the model is Ready there, and the
    node used the same version of the reader as the controller.
    """
    found, wanted = dict[UnpackedMetadata, str](), identity_of_files(target.manifest)
    for name, status in _statuses(cluster, demand, target.revision):
        report = status.metadata
        if status.phase == Phase.READY and report is not None and report.identity == wanted:
            found.setdefault(report, name)
        if len(found) == _MAX_DISTINCT:
            break
    return tuple(_checked(demand, found))


def _statuses(cluster: ClusterState, demand: Demand, revision: str) -> Iterator[tuple[str, EntryStatus]]:
    for name in sorted(cluster.listed.nodes_of_owner(demand.uid)):
        node = cluster.node(name)
        status = cluster.statuses.of(node).get((demand.id, revision)) if node is not None else None
        if status is not None:
            yield name, status


def _checked(demand: Demand, found: dict[UnpackedMetadata, str]) -> Iterator[NodeReading]:
    for report, name in found.items():
        try:
            yield NodeReading(name, reading_of(report))
        except ValueError as error:
            _log.warning("node_report_refused", model=demand.id, node=name, error=str(error))
