"""When the metadata of a model on nodes is read, which fields it fills, and what is reported."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.manager.actions import Requeue, WriteSpec
from controller.metadata.decide import ReadSourceMetadata, WriteMetadata, decide
from controller.metadata.view import MetadataView
from shared.api.base_model import BaseModelStatus
from shared.metadata.model_metadata import Metadata
from shared.metadata.ome import ome_fields
from shared.metadata.reading.attempts import READER, identity_of
from shared.metadata.reading.termination_message import Reading
from tests.builders.claims import FILLED, WRITTEN
from tests.builders.metadata import (
    AWAY,
    EMPTY,
    NOW,
    READ,
    after,
    moved,
    read,
    reported,
    resolution,
    view,
)

QWEN = Reading(metadata=Metadata(model_type="qwen2", parameters=500_000_000))


def reads(seen: MetadataView, after_s: float = 0) -> bool:
    return any(isinstance(a, ReadSourceMetadata) for a in decide(seen, NOW + timedelta(seconds=after_s)))


def test_a_resolved_model_is_read_once() -> None:
    assert decide(view(), NOW) == [ReadSourceMetadata(view().identity)]
    done = read(view())
    assert decide(done, NOW) == [reported(decide(done, NOW))]
    assert not reads(done, 1e9)
    assert done.spec == FILLED
    assert reported(decide(done, NOW)).condition.status == "True"


@pytest.mark.parametrize(
    "fields",
    [
        {"resolution": None},
        {"resolution": None, "serving": ""},
        {"serving": "r0"},
        {"disabled": True},
        {"on_claim": True},
        {"refused": "not allowed"},
        {"deleting": True},
        {"conflict": True},
    ],
)
def test_metadata_is_not_read_for_a_model_that_no_pod_gets(fields: dict[str, Any]) -> None:
    assert decide(view(**fields), NOW) == []


def test_metadata_is_kept_until_pods_get_the_new_revision_and_then_read_again() -> None:
    done = read(view())
    fetching = replace(done, demand=replace(done.demand, resolution=resolution("r2")))
    assert decide(fetching, NOW) == []
    flipped = moved(done, "r2")
    assert reads(flipped)
    new = read(flipped, QWEN)
    assert new.spec == {"modelType": "qwen2", "modelParameterSize": "500M"}
    assert not reads(new, 1e9)


def test_a_changed_manifest_of_the_same_revision_is_read_again() -> None:
    done = read(view())
    assert reads(replace(done, demand=replace(done.demand, resolution=resolution(manifest="other"))))


def test_an_estimated_size_is_marked_until_the_parameters_are_counted() -> None:
    guessed = read(view(), Reading(metadata=Metadata(parameters=500_000_000, parameters_from="estimate")))
    assert guessed.spec == {"modelParameterSize": "500M"}
    assert guessed.status.metadata
    assert guessed.status.metadata.parameters_estimated
    away = read(moved(guessed, "r2"), AWAY)
    assert away.status.metadata
    assert away.status.metadata.parameters_estimated, "the known metadata is that of earlier files"
    counted = read(moved(guessed, "r2"))
    assert counted.status.metadata
    assert not counted.status.metadata.parameters_estimated


def test_an_answered_refresh_causes_a_new_reading() -> None:
    done = read(view())
    assert reads(replace(done, demand=replace(done.demand, refreshed="1")))


def test_fields_that_the_user_wrote_are_never_changed() -> None:
    mine = {"modelType": "mine", "maxTokens": 1, "vendor": "v"}
    done = read(view(spec=mine))
    assert done.spec == {**FILLED, **mine}
    again = read(moved(done, "r2"), QWEN)
    assert again.spec == mine | {"modelParameterSize": "500M"}


def test_a_field_that_the_user_empties_is_filled_again() -> None:
    done = read(view())
    emptied = replace(done, spec={k: v for k, v in FILLED.items() if k != "maxTokens"})
    assert decide(emptied, NOW)[0] == WriteSpec({"maxTokens": 8192})


def test_nothing_is_read_if_the_user_wrote_every_field_until_a_refresh() -> None:
    seen = view(spec=WRITTEN)
    assert reported(decide(seen, NOW)).condition.reason == "Written"
    assert not reads(seen)
    assert reads(view(spec=WRITTEN, refreshed="now"))


def test_skipping_by_the_user_prevents_readings_and_keeps_earlier_metadata() -> None:
    assert reported(decide(view(skip=True), NOW)).condition.reason == "Skipped"
    assert not reads(view(skip=True, refreshed="1"))
    before = read(view())
    assert reported(decide(replace(before, skip=True), NOW)).metadata == before.status.metadata


def test_metadata_of_a_cache_is_written_to_its_status_alone() -> None:
    done = read(view(spec=None))
    assert done.spec is None
    assert done.status.metadata
    assert done.status.metadata.values["modelType"] == "llama"


def test_a_failed_reading_is_retried_with_growing_delays() -> None:
    seen, waits, now = read(view(), AWAY), [], NOW
    for _ in range(9):
        (again,) = (a for a in decide(seen, now) if isinstance(a, Requeue))
        waits.append(again.after_s / 60)
        now += timedelta(seconds=again.after_s)
        assert any(isinstance(a, ReadSourceMetadata) for a in decide(seen, now))
        seen = read(seen, AWAY, now)
    assert waits == [15, 30, 60, 120, 240, 480, 960, 1440, 1440]
    assert "no answer" in reported(decide(seen, now)).condition.message
    assert read(seen, READ, now).spec == FILLED


def test_an_unreachable_source_keeps_the_metadata_of_earlier_files() -> None:
    flipped = read(moved(read(view()), "r2"), AWAY)
    assert flipped.spec == FILLED
    assert flipped.status.metadata
    assert flipped.status.metadata.values["modelType"] == "llama"
    assert "earlier files" in reported(decide(flipped, NOW)).condition.message
    assert read(flipped, QWEN).spec == {"modelType": "qwen2", "modelParameterSize": "500M"}


def test_metadata_of_earlier_files_is_removed_if_the_new_ones_describe_no_model() -> None:
    flipped = read(moved(read(view(spec={"vendor": "v"})), "r2"), EMPTY)
    assert flipped.spec == {"vendor": "v"}
    assert flipped.status.metadata
    assert flipped.status.metadata.values == {}
    (write,) = (a for a in decide(flipped, NOW) if isinstance(a, WriteMetadata))
    assert (write.condition.status, write.condition.reason) == ("False", "MetadataMissing")
    assert "the fields of the spec can be set by hand" in write.condition.message
    for seen in (read(view(spec=None), EMPTY), read(view(), AWAY)):
        assert "by hand" not in reported(decide(seen, NOW)).condition.message, (
            "a cache has no such fields, and the source is unreachable only for a while"
        )


VIEWS = st.builds(
    view,
    resolution=st.sampled_from([None, resolution("r1"), resolution("r2")]),
    serving=st.sampled_from(["", "r1", "r2"]),
    refreshed=st.sampled_from(["", "1"]),
    disabled=st.booleans(),
    skip=st.booleans(),
    conflict=st.booleans(),
    spec=st.sampled_from([None, {}, WRITTEN, FILLED, {"modelType": "mine"}]),
    result=st.sampled_from([None, READ, QWEN, AWAY, EMPTY]),
    status=st.sampled_from(
        [
            BaseModelStatus(),
            *(read(view(), r).status for r in (READ, QWEN, AWAY, EMPTY)),
            read(moved(view(), "r2")).status,
        ]
    ),
)


@given(VIEWS)
def test_only_fields_that_are_empty_or_written_by_larder_are_changed(seen: MetadataView) -> None:
    last = seen.status.metadata
    ours = ome_fields(msgspec.convert(last.values, Metadata)) if last else {}
    for action in decide(seen, NOW):
        if isinstance(action, WriteSpec):
            assert seen.spec is not None
            assert all(seen.spec.get(name) in (None, ours.get(name)) for name in action.fields)


@given(VIEWS)
def test_repeated_reports_are_identical(seen: MetadataView) -> None:
    once = after(seen)
    assert after(once).status == once.status
    assert after(once).spec == once.spec


def test_files_that_crash_the_reader_are_read_again_only_on_a_refresh_or_new_revision() -> None:
    broken = read(read(view()), Reading(reason="MetadataFailed", message="the process that reads was killed"))
    before = read(moved(read(view()), "r2"), Reading(reason="MetadataFailed", message="killed"))
    for seen in (broken, before):
        assert not reads(seen, 1e9)
        assert not [a for a in decide(seen, NOW) if isinstance(a, Requeue)]
        shown = reported(decide(seen, NOW)).condition
        assert (shown.status, shown.reason) == ("False", "MetadataFailed")
        assert "only when annotation larder.dev/refresh changes" in shown.message
        assert "set by hand" in shown.message
    assert before.spec == FILLED
    refreshed = replace(broken, demand=replace(broken.demand, refreshed="now"))
    assert reads(refreshed)
    assert reads(moved(broken, "r3"))


def test_an_interrupted_reading_is_retried_with_growing_pauses_and_finally_abandoned() -> None:
    killed = Reading(reason="MetadataInterrupted", message="the process was killed from outside")
    seen, now, waits = read(read(view(), AWAY), killed), NOW, list[float]()
    while reported(decide(seen, now)).condition.reason == "MetadataInterrupted":
        (again,) = (a for a in decide(seen, now) if isinstance(a, Requeue))
        waits.append(again.after_s / 60)
        now += timedelta(seconds=again.after_s + 1)
        assert reads(seen, (now - NOW).total_seconds())
        seen = read(seen, killed, now)
    assert len(waits) == 7, "the eighth attempt is the last"
    assert all(0.7 * m < wait < 1.3 * m for wait, m in zip(waits, (10, 20, 40, 80, 160, 320, 360), strict=True))
    assert reported(decide(seen, now)).condition.reason == "MetadataFailed"
    assert not reads(seen, 1e9)


def test_a_newer_reader_version_reads_again_what_crashed_the_older() -> None:
    broken = read(view(), Reading(reason="MetadataFailed", message="killed"))
    assert not reads(broken, 1e9)
    assert broken.status.metadata
    older = msgspec.structs.replace(
        broken.status.metadata, identity=identity_of(resolution().manifest, "", str(READER - 1))
    )
    assert older != broken.status.metadata
    assert reads(replace(broken, status=msgspec.structs.replace(broken.status, metadata=older)))
