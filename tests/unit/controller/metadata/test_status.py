"""Metadata in a status, and as a single line."""

import pytest

from controller.manager.conditions import ConditionUpdate
from controller.metadata.status import described_status, line_of
from shared.api.base_model import BaseModelStatus
from shared.api.meta import Condition
from shared.metadata.model_metadata import Metadata
from tests.builders.claims import LLAMA


def condition(kind: str, status: str = "True") -> Condition:
    return Condition(type=kind, status=status, reason="Because", last_transition_time="t0")


def test_an_updated_condition_keeps_its_place() -> None:
    before = BaseModelStatus(conditions=[condition("Ready"), condition("Metadata", "False"), condition("Theirs")])
    after = described_status(before, ConditionUpdate("Metadata", "True", "Read", "words"), None, "t1", 2)
    assert [c.type for c in after.conditions] == ["Ready", "Metadata", "Theirs"]
    assert (after.conditions[1].last_transition_time, after.conditions[1].message) == ("t1", "words")
    again = described_status(after, ConditionUpdate("Metadata", "True", "Read", "words"), None, "t2", 2)
    assert again == after


def test_a_new_condition_is_added_at_the_end() -> None:
    before = BaseModelStatus(conditions=[condition("Ready")], size=7)
    after = described_status(before, ConditionUpdate("Metadata", "True", "Read", "words"), None, "t1", 1)
    assert [c.type for c in after.conditions] == ["Ready", "Metadata"]
    assert after.size == 7


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (LLAMA, "LlamaForCausalLM, 7B parameters, 8,192 tokens of context, safetensors"),
        (
            Metadata(model_type="m", parameters=1, parameters_from="estimate", quantization="fp8", dtype="bfloat16"),
            "m, about 1 parameters, fp8",
        ),
        (Metadata(pipeline="FluxPipeline", dtype="bfloat16"), "FluxPipeline, bfloat16"),
        (Metadata(), "no metadata is known"),
    ],
)
def test_a_model_is_described_in_one_line(found: Metadata, line: str) -> None:
    assert line_of(found) == line
