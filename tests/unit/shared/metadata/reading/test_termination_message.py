"""The message of a Job fits the limit and is decoded; anything else is refused."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.metadata.model_metadata import Component, Metadata
from shared.metadata.reading.termination_message import MAX_BYTES, MAX_MESSAGE, Reading, decode_reading, encode_reading

WORDS = st.text(max_size=5000)
NUMBERS = st.none() | st.integers(min_value=-(2**63), max_value=2**63 - 1)
METADATA = st.builds(
    Metadata,
    model_type=WORDS,
    architectures=st.lists(WORDS, max_size=80).map(tuple),
    parameters=NUMBERS,
    context_length=NUMBERS,
    components=st.dictionaries(WORDS, st.builds(Component, WORDS, WORDS), max_size=80),
    capabilities=st.lists(st.sampled_from(["TEXT_TO_TEXT", "EMBEDDING"]), max_size=3).map(tuple),
    chat_template=st.booleans(),
    licence=WORDS,
)


@given(METADATA)
def test_any_metadata_fits_and_is_accepted(metadata: Metadata) -> None:
    body = encode_reading(Reading(metadata=metadata))
    assert len(body) <= MAX_BYTES
    assert decode_reading(body.decode()).metadata is not None


@given(st.booleans(), WORDS)
def test_a_failure_with_any_message_keeps_its_reason_and_whether_the_path_was_found(
    found: bool,  # noqa: FBT001 - drawn
    message: str,
) -> None:
    body = encode_reading(Reading(found=found, reason="PathNotFound", message=message))
    assert len(body) <= MAX_BYTES
    read = decode_reading(body.decode())
    assert (read.found, read.reason, read.metadata) == (found, "PathNotFound", None)
    assert len(read.message) == min(len(message), MAX_MESSAGE)


def test_the_metadata_of_an_ordinary_model_is_kept_whole() -> None:
    metadata = Metadata(
        model_type="llama",
        architectures=("LlamaForCausalLM",),
        parameters=7,
        components={"vae": Component("diffusers", "AutoencoderKL")},
        licence="apache-2.0",
        capabilities=("TEXT_TO_TEXT",),
    )
    assert decode_reading(encode_reading(Reading(metadata=metadata)).decode()).metadata == metadata


MANY = {f"part-{n}": {"library": "l" * 100, "type": "t" * 100} for n in range(40)}


def test_components_are_dropped_first_and_then_licence_and_capabilities() -> None:
    components = {name: Component(**part) for name, part in MANY.items()}
    metadata = Metadata(pipeline="Flux", licence="apache-2.0", components=components)
    kept = decode_reading(encode_reading(Reading(metadata=metadata)).decode()).metadata
    assert kept == Metadata(pipeline="Flux", licence="apache-2.0")
    wide = Metadata(architectures=("a" * 253,) * 15, capabilities=("A" * 63,) * 64, licence="l" * 253)
    kept = decode_reading(encode_reading(Reading(metadata=wide)).decode()).metadata
    assert kept == Metadata(architectures=wide.architectures)


@pytest.mark.parametrize("letter", ["a", '"'])  # a quotation mark takes two bytes
def test_long_texts_are_dropped_last(letter: str) -> None:
    text = letter * 300
    metadata = Metadata(
        model_type=text, architectures=(text,) * 64, framework_version=text, dtype=text, quantization=text, layers=7
    )
    body = encode_reading(Reading(metadata=metadata, message=letter * MAX_MESSAGE))
    read = decode_reading(body.decode())
    assert (read.metadata.layers if read.metadata else None, read.message) == (7, letter * MAX_MESSAGE)


def whole(**metadata: Any) -> str:
    return json.dumps({"metadata": metadata})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{}",
        "[" * 3000,
        '{"metadata":{}, "reason":"Both"}',
        '{"reason":"has spaces"}',
        '{"reason":"X","message":"' + "m" * 2000 + '"}',
        '{"reason":"X","message":"\\u001b[31m"}',
        '{"reason":"X","more":1}',
        whole(parameters=-1),
        whole(parameters=2**63),
        whole(parameters="many"),
        whole(modelType="x" * 300),
        whole(modelType="\u202e"),
        whole(capabilities=["no such word"]),
        whole(capabilities=["A" * 64]),
        whole(architectures=["x"] * 65),
        whole(components={"x" * 300: {"library": "a", "type": "b"}}),
        whole(components=MANY),
    ],
)
def test_a_malformed_reading_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"it|its|text|number|list"):
        decode_reading(text)


@given(
    st.text(max_size=200) | st.recursive(st.none() | st.integers() | st.text(), st.lists, max_leaves=20).map(json.dumps)
)
def test_any_text_is_decoded_or_refused(text: str) -> None:
    try:
        reading = decode_reading(text)
    except ValueError:
        return
    assert msgspec.json.encode(reading)
