"""Numbers of parameters from dimensions alone, held against published ones."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.metadata.count import count_text
from shared.metadata.dimensions import text_of
from shared.metadata.families import FAMILIES
from shared.metadata.fields import Fields
from shared.metadata.parameters import compute
from tests.unit.metadata.building import read
from tests.unit.metadata.configurations import OTHERS, TEXTS
from tests.unit.metadata.more_configurations import MORE
from tests.unit.metadata.recent_configurations import RECENT
from tests.unit.metadata.seeing_configurations import BY_CODE, SEEING

ALL = TEXTS | OTHERS | MORE | RECENT | SEEING | BY_CODE


@pytest.mark.parametrize("name", ALL)
def test_the_count_is_the_published_one(name: str) -> None:
    values, published = ALL[name]
    found = compute(Fields("config.json", values), embeds=False)
    assert found is not None
    assert (found.count.total, found.basis) == (published, "dimensions")


@pytest.mark.parametrize(
    ("name", "active"),
    [
        # 2 of 8 experts: 46,702,792,704 - 32 layers x 6 experts x 3 x 4096 x 14336
        ("Mixtral-8x7B", 12_879_925_248),
        # 8 of 256 experts: 671,026,419,200 - 58 layers x 248 experts x 3 x 7168 x 2048
        ("DeepSeek-V3", 37_552_297_472),
        ("Mistral-7B-v0.1", 7_241_732_096),
        # 8 of 128 experts: 30,532,122,624 - 48 layers x 120 experts x 3 x 2048 x 768
        ("qwen3-30b", 3_353_032_704),
        # 4 of 32 experts: 20,914,757,184 - 24 layers x 28 experts x (3 x 2880 x 2880 + 3 x 2880)
        ("gptoss20", 4_187_440_704),
        # 1 of 128 experts in every second layer: 401,583,781,376 - 24 x 127 x 3 x 5120 x 8192
        ("maverick", 18_056_623_616),
        # 8 of 128 experts: 106,852,251,264 - 45 layers x 120 experts x 3 x 4096 x 1408
        ("GLM-4.5-Air", 13_424_129_664),
        # 8 of 32 experts: 1,334,628,352 - 24 layers x 24 experts x 3 x 1024 x 512
        ("granite30-1b-a400", 428_658_688),
    ],
)
def test_the_active_ones_leave_out_experts_that_a_token_does_not_use(name: str, active: int) -> None:
    found = compute(Fields("config.json", ALL[name][0]), embeds=False)
    assert found is not None
    assert found.count.active == active


def test_a_family_that_is_not_known_is_an_estimate() -> None:
    found = compute(Fields("config.json", {**TEXTS["Mistral-7B-v0.1"][0], "model_type": "brandnew"}), embeds=False)
    assert found is not None
    assert (found.count.total, found.basis) == (7_241_732_096, "estimate")


def test_without_a_dimension_nothing_is_claimed() -> None:
    values = {k: v for k, v in TEXTS["olmo2"][0].items() if k != "hidden_size"}
    assert compute(Fields("config.json", values), embeds=False) is None


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("Phi-4-multimodal", "speech_lora"),
        ("rwkv-7-0.1b", "v_low_rank_dim"),
        ("Nemotron-Nano-9B-v2", "hybrid_override_pattern"),
        ("MiniMax-Text-01", "attn_type_list"),
        ("deepseek-vl-7b", "aligner_config"),
        ("DeepSeek-OCR", "projector_config"),
    ],
)
def test_without_a_part_that_must_be_described_nothing_is_claimed(name: str, without: str) -> None:
    found = read(config_json={key: value for key, value in ALL[name][0].items() if key != without})
    assert (found.parameters, found.parameters_from) == (None, "")


def test_dimensions_of_no_real_model_are_not_counted() -> None:
    found = read(config_json={**ALL["phi2"][0], "hidden_size": 2**40})
    assert (found.parameters, found.kv_cache_bytes_per_token) == (None, None)


def test_a_number_for_each_layer_counts_where_it_is_the_same() -> None:
    same, other = [11008] * 32, [11008] * 31 + [1]
    config = ALL["Llama-2-7b"][0]
    assert read(config_json={**config, "intermediate_size": same}).parameters == 6_738_415_616
    assert read(config_json={**config, "intermediate_size": other}).parameters is None


def test_a_model_that_embeds_has_no_language_head() -> None:
    # Qwen3-Embedding-8B: 151665 tokens, not tied, and no head in its files
    values = {**TEXTS["qwen3-8b"][0], "vocab_size": 151665, "architectures": ["Qwen3ForCausalLM"]}
    found = compute(Fields("config.json", values), embeds=True)
    assert found is not None
    assert found.count.total == 7_567_295_488


def test_tying_takes_one_table_away() -> None:
    values, total = TEXTS["Mistral-7B-v0.1"]
    found = count_text(text_of(Fields("config.json", {**values, "tie_word_embeddings": True})))
    assert found is not None
    assert found.total == total - 32000 * 4096


numbers = st.integers(1, 512)


@given(
    kind=st.sampled_from(sorted(FAMILIES)),
    hidden=numbers,
    layers=st.integers(1, 8),
    heads=st.integers(1, 8),
    inner=numbers,
    vocab=numbers,
    experts=st.integers(0, 8),
)
def test_active_is_at_most_total_and_more_layers_are_more(
    kind: str, hidden: int, layers: int, heads: int, inner: int, vocab: int, experts: int
) -> None:
    values: dict[str, Any] = {
        "model_type": kind, "hidden_size": hidden * heads, "num_attention_heads": heads, "intermediate_size": inner,
        "vocab_size": vocab, "num_experts": experts, "num_experts_per_tok": 1, "max_position_embeddings": 16,
    }  # fmt: skip
    one = count_text(text_of(Fields("f", {**values, "num_hidden_layers": layers})))
    two = count_text(text_of(Fields("f", {**values, "num_hidden_layers": 2 * layers})))
    if one is not None and two is not None:
        assert 0 < one.active <= one.total
        assert two.total > one.total or FAMILIES[kind].shared_layers
