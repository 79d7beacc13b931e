"""The templates in an annotation, which anyone who may create pods can write."""

import json
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.claimtemplates.templates import InvalidTemplates
from controller.replica_claims.annotation import MAX_BYTES, TEMPLATES_ANNOTATION, read_templates
from tests.builders.replica_claims import template

ONE = "- metadata: {name: data}\n  spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n"


def read(text: str) -> list[str]:
    return [found.name for found in read_templates({TEMPLATES_ANNOTATION: text})]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (ONE, ["data"]),
        (f"---\n{ONE}", ["data"]),
        (json.dumps([template("a"), template("b")]), ["a", "b"]),
        (json.dumps([template("a")], indent=2), ["a"]),
        (ONE.replace("1Gi", "1073741824"), ["data"]),
    ],
)
def test_yaml_and_json_are_read(text: str, names: list[str]) -> None:
    assert read(text) == names


def test_a_pod_without_the_annotation_has_no_templates() -> None:
    assert read_templates({"larder.dev/model": "llama"}) == ()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "write a list"),
        ("data", "write a list"),
        ("{}", "write a list"),
        ("[]", "the list is empty"),
        ("[1]", "write a PersistentVolumeClaim"),
        ("{", "neither JSON nor YAML"),
        ("\x00", "neither JSON nor YAML"),
        (f"{ONE}---\n{ONE}", "more than one document"),
        ("- &a [*a]", "anchors and aliases"),
        ("- *a", "anchors and aliases"),
        ("- !!set {a, b}", "tags"),
        ("- !ruby/object:Gem {}", "tags"),
        ("[" * 17 + "]" * 17, "nested more than 16 levels"),
        (f"[{', '.join('1' * 2001)}]", "more than 2000 values"),
        ("x" * (MAX_BYTES + 1), "at most 32768 are allowed"),
        ("\u00fc" * (MAX_BYTES // 2 + 1), "at most 32768 are allowed"),
        ("- {metadata: {name: a}, spec: {accessModes: [2026-01-01]}}", "put quotes around it"),
        ("- {metadata: {name: a}, spec: {accessModes: [.nan]}}", "put quotes around it"),
        ("- {metadata: {name: a}, spec: {accessModes: [.inf]}}", "put quotes around it"),
        (f"- {{metadata: {{name: a}}, spec: {{accessModes: [{2**64}]}}}}", "put quotes around it"),
        ("- {1: 2}", "the key '1' is not a string"),
        (f"- 0x{'f' * 10_000}", "an integer of 40000 bits is not a value of JSON"),
        (f"- ? 0x{'f' * 10_000}\n  : 2", "the key an integer of 40000 bits is not a string"),
        ("- {2026-13-45: 2}", ""),
        (json.dumps([template(f"v{n}") for n in range(17)]), "at most 16 are allowed"),
    ],
)
def test_a_refusal_names_the_place_and_the_reason(text: str, why: str) -> None:
    with pytest.raises(InvalidTemplates) as refused:
        read(text)
    assert f"annotation {TEMPLATES_ANNOTATION}" in str(refused.value)
    assert why in str(refused.value)
    assert len(str(refused.value)) < 1000


@given(st.text(max_size=300) | st.text("[]{}-:,&*! \n#\"'|>%@`0aA", max_size=300))
def test_any_text_gives_templates_or_a_refusal(text: str) -> None:
    with suppress(InvalidTemplates):
        assert read(text)


def test_the_most_expensive_texts_are_refused_within_a_second() -> None:
    began = time.process_time()
    for text in ("[" * MAX_BYTES, "- " * (MAX_BYTES // 2), "? " * (MAX_BYTES // 2), "a: " * (MAX_BYTES // 3)):
        with pytest.raises(InvalidTemplates):
            read(text)
    assert time.process_time() - began < 1
