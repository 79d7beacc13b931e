"""When and how often files are read, and which fields of a spec a reading fills."""

from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from controller.claims.read_request import request_of
from controller.metadata.fill import fields_to_write
from shared.metadata.reading.termination_message import Reading
from tests.builders.claims import FILLED, LLAMA, NOW, WRITTEN, after, claim, read, view

EMPTY = Reading(reason="MetadataMissing", message="config.json: is not there")


def test_a_claim_that_was_read_is_not_read_again() -> None:
    seen = read(view())
    assert request_of(seen, NOW) is None
    assert request_of(seen, NOW + timedelta(days=1000)) is None
    assert request_of(replace(seen, claim=claim("Bound", "ReadWriteOnce")), NOW) is None


def test_a_new_claim_or_sub_path_causes_a_new_reading() -> None:
    seen = read(view())
    first = request_of(view(), NOW)
    rebound = request_of(replace(seen, claim=claim(uid="claim-2")), NOW)
    moved = request_of(replace(seen, place=replace(seen.place, sub_path="models/other")), NOW)
    assert first
    assert rebound
    assert moved
    assert len({first.job, rebound.job, moved.job}) == 3


def test_a_new_value_of_the_refresh_annotation_causes_one_reading() -> None:
    seen = replace(read(view()), demand=replace(view().demand, refresh="1"))
    request = request_of(seen, NOW)
    assert request
    assert request.job != getattr(request_of(view(), NOW), "job", "")
    again = read(seen)
    assert again.status.refreshed == "1"
    assert request_of(again, NOW) is None
    assert request_of(replace(again, demand=replace(again.demand, refresh="")), NOW) is None
    assert request_of(replace(again, demand=replace(again.demand, refresh="2")), NOW)


def test_nothing_is_read_where_the_user_skips_it_or_wrote_every_field() -> None:
    assert request_of(view(skip=True), NOW) is None
    assert request_of(view(spec=WRITTEN), NOW) is None
    assert request_of(view(spec={k: v for k, v in WRITTEN.items() if k != "maxTokens"}), NOW)
    assert request_of(view(spec=WRITTEN, refresh="now"), NOW)
    assert request_of(view(claim=None), NOW) is None


def test_a_failed_reading_is_retried_with_growing_delays() -> None:
    seen, waits, now = read(view(), EMPTY), [], NOW
    for _ in range(4):
        assert request_of(seen, now) is None
        waited = next(m for m in range(200) if request_of(seen, now + timedelta(minutes=m)))
        waits.append(waited)
        now += timedelta(minutes=waited)
        seen = read(seen, EMPTY, now)
    assert waits == [15, 30, 60, 60]


def test_a_reading_that_failed_is_not_retried_once_the_user_wrote_it() -> None:
    seen = replace(read(view(), EMPTY), spec=WRITTEN)
    assert request_of(seen, NOW + timedelta(days=1)) is None


def test_a_missing_path_is_checked_again_even_if_the_user_wrote_every_field() -> None:
    missing = Reading(found=False, reason="PathNotFound", message="nothing there")
    seen = replace(read(view(), missing), spec=WRITTEN)
    assert request_of(seen, NOW) is None
    assert request_of(seen, NOW + timedelta(minutes=15))


def test_two_readings_never_share_a_job() -> None:
    there, names, now = view(), [], NOW
    for uid in ("claim-1", "claim-2", "claim-1"):
        now += timedelta(minutes=1)
        there = replace(there, claim=claim(uid=uid))
        request = request_of(there, now)
        assert request
        names.append(request.job)
        there = read(there, now=now)
    assert len(set(names)) == 3


@pytest.mark.parametrize("time", ["", "yesterday", "2026-01-01T00:00:00"])
def test_an_invalid_timestamp_of_a_reading_counts_as_long_ago(time: str) -> None:
    seen = read(view(), EMPTY)
    assert seen.status.metadata
    kept = msgspec.structs.replace(seen.status.metadata, time=time)
    status = msgspec.structs.replace(seen.status, metadata=kept)
    assert request_of(replace(seen, status=status), NOW)


def test_the_name_of_a_job_fits_a_label() -> None:
    request = request_of(view(uri="pvc://team/data/" + "x" * 900), NOW)
    assert request
    assert len(request.job) <= 63


def test_empty_fields_are_filled_and_fields_set_by_the_user_are_kept() -> None:
    values = read(view()).status.metadata
    assert values
    assert fields_to_write({}, values, values.values) == FILLED
    mine = {"modelType": "mine", "modelCapabilities": ["CHAT"]}
    written = fields_to_write(mine, values, values.values)
    assert written == {k: v for k, v in FILLED.items() if k not in mine}


def test_a_new_reading_replaces_the_fields_that_an_earlier_one_wrote() -> None:
    seen = replace(read(view()), spec={**FILLED, "modelType": "mine", "vendor": "v"})
    new = {"modelType": "other", "contextLength": 4096, "format": "gguf"}
    assert fields_to_write(seen.spec, seen.status.metadata, new) == {
        "modelFormat": {"name": "gguf"},
        "maxTokens": 4096,
        "modelArchitecture": None,
        "modelFramework": None,
        "modelParameterSize": None,
        "modelCapabilities": None,
    }


@pytest.mark.parametrize("values", [{}, {"modelType": 7}, {"parameters": "many"}])
def test_invalid_values_in_the_status_fill_no_field(values: dict[str, object]) -> None:
    assert fields_to_write({}, None, values) == {}


def test_the_size_of_the_files_is_in_the_status() -> None:
    assert read(view()).status.size == LLAMA.size_bytes
    assert after(view()).status.size == 0
