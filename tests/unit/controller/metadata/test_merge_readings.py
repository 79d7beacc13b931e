"""Metadata that nodes report counts while all agree, and never again once two differ."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.manager.actions import Requeue
from controller.metadata.decide import ReadSourceMetadata, decide
from controller.metadata.merge_readings import NodeReading, merge_readings
from controller.metadata.view import MetadataView
from shared.api.base_model import BaseModelStatus
from shared.metadata.model_metadata import Metadata
from shared.metadata.reading.termination_message import Reading
from tests.builders.claims import FILLED
from tests.builders.metadata import AWAY, EMPTY, NOW, READ, after, moved, read, reported, view

OTHER = Reading(metadata=Metadata(model_type="mistral"))
BROKEN = Reading(reason="MetadataFailed", message="it used more than 60 s of CPU time")
KILLED = Reading(reason="MetadataInterrupted", message="it was killed from outside")


def heard(seen: MetadataView, **reports: Reading) -> MetadataView:
    """Return the model after a reconcile with these reports of nodes."""
    readings = tuple(NodeReading(node, reading) for node, reading in sorted(reports.items()))
    done = after(replace(seen, readings=readings))
    stored = msgspec.json.decode(msgspec.json.encode(done.status), type=BaseModelStatus)
    return replace(done, status=stored, readings=())


def reason(seen: MetadataView) -> str:
    return reported(decide(seen, NOW)).condition.reason


def test_metadata_read_by_a_node_fills_status_and_spec() -> None:
    archive = read(view(), EMPTY)
    assert archive.may_be_unpacked
    done = heard(archive, a=READ)
    assert done.spec == FILLED
    assert done.status.metadata
    assert (done.status.metadata.node, done.status.metadata.reason) == ("a", "")
    shown = reported(decide(done, NOW)).condition
    assert (shown.status, shown.reason) == ("True", "Read")
    assert "from the archive unpacked by node a" in shown.message
    assert not [a for a in decide(done, NOW + timedelta(days=9)) if isinstance(a, ReadSourceMetadata | Requeue)]


def test_fields_written_by_the_user_take_precedence_over_a_nodes_metadata() -> None:
    mine = {"modelType": "mine", "maxTokens": 1}
    assert heard(read(view(spec=mine), EMPTY), a=READ).spec == {**FILLED, **mine}


def test_metadata_of_nodes_is_ignored_if_the_source_can_be_read() -> None:
    for reading in (READ, AWAY, BROKEN):
        seen = read(view(), reading)
        assert not seen.may_be_unpacked
        assert heard(seen, a=OTHER) == seen


def test_known_metadata_does_not_change_when_nodes_agree_leave_or_fail() -> None:
    done = heard(read(view(), EMPTY), b=READ)
    for reports in ({"a": READ}, {}, {"a": BROKEN}, {"a": BROKEN, "b": READ}):
        assert heard(done, **reports) == done


def test_contradicting_nodes_remove_the_metadata_until_a_refresh() -> None:
    both = {"a": READ, "b": OTHER}
    for before in (read(view(spec={"vendor": "v"}), EMPTY), heard(read(view(spec={"vendor": "v"}), EMPTY), b=OTHER)):
        torn = heard(before, **both)
        assert torn.spec == {"vendor": "v"}
        shown = reported(decide(torn, NOW)).condition
        assert (shown.status, shown.reason) == ("False", "MetadataConflict")
        assert "nodes a and b report different metadata" in shown.message
        assert "larder.dev/refresh" in shown.message
        for reports in (both, {"a": READ}, {"b": OTHER}, {}):
            assert heard(torn, **reports) == torn
        assert not [a for a in decide(torn, NOW + timedelta(days=9)) if isinstance(a, ReadSourceMetadata | Requeue)]
        refreshed = replace(torn, demand=replace(torn.demand, refreshed="1"))
        assert heard(read(refreshed, EMPTY), a=READ).spec == {**FILLED, "vendor": "v"}


def test_a_failure_on_one_node_is_reported_until_another_reads_the_metadata() -> None:
    failed = heard(read(view(), EMPTY), a=BROKEN)
    assert reason(failed) == "MetadataFailed"
    assert "node a" in reported(decide(failed, NOW)).condition.message
    assert not [a for a in decide(failed, NOW + timedelta(days=9)) if isinstance(a, ReadSourceMetadata | Requeue)]
    assert heard(failed, a=BROKEN, b=READ).spec == FILLED


def saying(model_type: str) -> Reading:
    return Reading(metadata=Metadata(model_type=model_type))


def test_a_node_that_changes_its_report_is_no_longer_trusted() -> None:
    for first in (READ, Reading(metadata=Metadata())):
        seen = heard(read(view(spec={"vendor": "v"}), EMPTY), a=first)
        torn = heard(seen, a=OTHER)
        assert torn.spec == {"vendor": "v"}
        shown = reported(decide(torn, NOW)).condition
        assert (shown.status, shown.reason) == ("False", "MetadataConflict")
        assert "node a reported different metadata" in shown.message
        for value in ("x", "y"):
            assert heard(torn, a=saying(value)) == torn


def test_a_conflict_names_the_node_that_left_and_the_one_that_contradicts_it() -> None:
    torn = heard(heard(read(view(), EMPTY), b=READ), a=OTHER)
    assert reason(torn) == "MetadataConflict"
    assert "nodes a and b report different metadata" in reported(decide(torn, NOW)).condition.message


@pytest.mark.parametrize("earlier", [view(), moved(heard(read(view(), EMPTY), a=READ), "r2")], ids=["new", "flipped"])
def test_the_first_lasting_failure_is_kept_until_metadata_is_reported(
    earlier: MetadataView,
) -> None:
    failures = [Reading(reason=r, message=f"{r} {n}") for r in ("MetadataMissing", "MetadataFailed") for n in (1, 2)]
    interruptions = [Reading(reason=KILLED.reason, message=f"killed {n}") for n in (1, 2)]
    for first in failures:
        failed = heard(read(earlier, EMPTY), a=first)
        assert reported(decide(failed, NOW)).condition.reason == first.reason
        for other in (*failures, *interruptions):
            assert heard(failed, a=other) == failed
        assert heard(failed, a=READ).spec == FILLED
    killed = heard(read(earlier, EMPTY), a=interruptions[0])
    assert heard(killed, a=interruptions[1]) == killed
    for lasting in failures:
        assert reason(heard(killed, a=lasting, b=interruptions[1])) == lasting.reason


@given(st.lists(st.sampled_from([*map(saying, "xyz"), BROKEN, KILLED, EMPTY, Reading(BROKEN.found, "MetadataFailed")])))
def test_a_node_with_changing_reports_causes_at_most_four_writes(readings: list[Reading]) -> None:
    seen, writes = read(view(spec={}), EMPTY), 0
    for reading in readings:
        before, seen = seen, heard(seen, a=reading)
        writes += (before.status, before.spec) != (seen.status, seen.spec)
    assert writes <= 4, "interrupted, failed, values, conflict"


def test_known_metadata_stays_while_nodes_read_the_next_archive() -> None:
    flipped = read(moved(heard(read(view(), EMPTY), a=READ), "r2"), EMPTY)
    assert flipped.spec == FILLED
    assert reason(flipped) == "MetadataMissing"
    assert "earlier files" in reported(decide(flipped, NOW)).condition.message
    assert heard(flipped, a=KILLED).spec == FILLED
    assert heard(flipped, a=OTHER).spec == {"modelType": "mistral"}


READINGS = {"llama": READ, "mistral": OTHER, "broken": BROKEN, "killed": KILLED, "empty": EMPTY}


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from(sorted(READINGS))), max_size=8))
def test_values_are_not_used_again_after_two_nodes_differed(rounds: list[dict[str, str]]) -> None:
    seen, torn = read(view(spec={"vendor": "v"}), EMPTY), False
    for readings in rounds:
        torn = torn or {"llama", "mistral"} <= set(readings.values())
        first = {name: node for node, name in sorted(readings.items(), reverse=True)}
        reports = {node: READINGS[name] for name, node in first.items()}
        seen = heard(seen, **reports)
        assert seen.status.metadata
        if torn:
            assert (seen.spec, seen.status.metadata.reason) == ({"vendor": "v"}, "MetadataConflict")
        again = merge_readings(seen.status.metadata, [NodeReading(*r) for r in sorted(reports.items())], NOW)
        assert again == seen.status.metadata, "a repeated report changes nothing"
