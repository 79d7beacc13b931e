"""The metadata that an agent reports has a bounded size, and is checked as untrusted input."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.unpacked_metadata import MAX_BYTES, UnpackedMetadata, UnpackedValues, reading_of, reported
from shared.metadata.model_metadata import Adapter, Component, Metadata
from shared.metadata.reading.termination_message import Reading, decode_reading, encode_reading, failed
from tests.builders.claims import LLAMA

PIPELINE = Metadata(
    pipeline="FluxPipeline",
    framework="diffusers",
    components={
        name: Component("diffusers", "AutoencoderKL") for name in ("scheduler", "text_encoder", "tokenizer", "vae")
    },
    capabilities=("TEXT_TO_IMAGE",),
    parameters=12_000_000_000,
    parameters_from="headers",
)
TEXTS = st.text('aB_"\\', max_size=253)
NUMBERS = st.none() | st.integers(0, 2**63 - 1)
LARGE = st.builds(
    Metadata,
    **dict.fromkeys(("model_type", "framework", "framework_version", "format", "dtype", "licence"), TEXTS),
    **dict.fromkeys(("quantization_bits", "context_length", "layers", "parameters", "experts", "heads"), NUMBERS),
    architectures=st.lists(TEXTS, max_size=64).map(tuple),
    capabilities=st.lists(st.text("AB_", min_size=1, max_size=60).map("A".__add__), max_size=64).map(tuple),
    components=st.dictionaries(TEXTS, st.builds(Component, TEXTS, TEXTS), max_size=64),
    adapter=st.none() | st.builds(Adapter, TEXTS, TEXTS, NUMBERS),
    pipeline=TEXTS,
)


@pytest.mark.parametrize("found", [LLAMA, PIPELINE, Metadata(adapter=Adapter("LORA", "org/m", 8))])
def test_reported_metadata_is_read_back_unchanged(found: Metadata) -> None:
    assert reading_of(reported(Reading(metadata=found), "i")) == Reading(metadata=found)


@given(LARGE)
def test_a_report_stays_within_its_size_limit_and_its_schema(found: Metadata) -> None:
    decoded = decode_reading(encode_reading(Reading(metadata=found)).decode())
    report = reported(decoded, "i" * 20)
    body = msgspec.json.encode(report)
    assert len(body) <= MAX_BYTES
    assert msgspec.json.decode(body, type=UnpackedMetadata) == report, "the bounds of the schema are checked here too"
    again = reading_of(report).metadata
    assert again
    assert again.parameters == found.parameters
    assert again.context_length == found.context_length


def test_a_report_with_the_largest_values_fits_and_keeps_its_numbers() -> None:
    numbers = {f.name: 2**63 - 1 for f in msgspec.structs.fields(Metadata) if "int" in str(f.type)}
    phrase = {f.name: "x" * 32 for f in msgspec.structs.fields(Metadata) if f.type is str}
    report = reported(Reading(metadata=Metadata(**numbers | phrase, capabilities=("A" * 32,) * 8)), "i" * 20)  # type: ignore[arg-type]
    assert len(msgspec.json.encode(report)) <= MAX_BYTES
    assert report.values
    assert report.values.kv_cache_bytes_per_token == 2**63 - 1


@given(st.text('"\\ab', max_size=1024))
def test_a_report_of_a_failure_fits_its_bounds(message: str) -> None:
    report = reported(failed("MetadataFailed", message), "i" * 20, 7)
    assert len(msgspec.json.encode(report)) <= MAX_BYTES
    assert (report.reason, report.attempts) == ("MetadataFailed", 7)
    assert message.startswith(report.message)


def test_a_reason_that_the_schema_does_not_know_is_reported_as_a_failure() -> None:
    report = reported(failed("Unforeseen", "the reader says more than the schema allows"), "i")
    assert (report.reason, report.message) == ("MetadataFailed", "the reader says more than the schema allows")
    assert reading_of(report).reason == "MetadataFailed"


@pytest.mark.parametrize(
    "report",
    [
        UnpackedMetadata(identity="i"),
        UnpackedMetadata(identity="i", reason="MetadataConflict", message="it is the controller that says so"),
        UnpackedMetadata(identity="i", reason="MetadataFailed", message="a\u202eb"),
        UnpackedMetadata(identity="i", reason="MetadataFailed", values=UnpackedValues(model_type="both")),
        UnpackedMetadata(identity="i", values=UnpackedValues(model_type="ll\u0430ma")),
        UnpackedMetadata(identity="i", values=UnpackedValues(licence="a\nb")),
        UnpackedMetadata(identity="i", values=UnpackedValues(parameters=2**63)),
        UnpackedMetadata(identity="i", values=UnpackedValues(parameters_from="hearsay")),
        UnpackedMetadata(identity="i", values=UnpackedValues(capabilities=("rm -rf",))),
        UnpackedMetadata(identity="i", values=UnpackedValues(architectures=("x" * 254,))),
    ],
)
def test_reports_that_no_agent_writes_are_refused(report: UnpackedMetadata) -> None:
    with pytest.raises(ValueError, match=r"reason|printable|bounds|neither|written|capabilities"):
        reading_of(report)
