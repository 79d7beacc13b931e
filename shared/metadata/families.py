"""What families of models do otherwise than the plain decoder, as data. A family is found by its `model_type`.

The plain decoder: gated MLP, two RMS norms a layer and one at the end, no bias, a head of its own, rotary positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Flag = bool | tuple[str, bool]  # the field of the configuration that says it, and what holds where it is not there
Mixer = Literal["attention", "attention+mamba2", "mla", "mamba", "mamba2", "rwkv", "rwkv5", "rwkv6", "rwkv7"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """The layout of a family's text part. `norms` counts norms of the hidden width in a layer.

    `qk_norm` is the width of the norms of queries and keys: one head, or all heads. `positions` is how many learned
    positions there are beyond the context length; None: not learned. `head` is whether there is a language head at all.
    `down_bias` is of the MLP's last projection alone; `activation` is how many parameters an activation function has.
    `defaults` are dimensions that configurations leave out.
    """

    mixer: Mixer = "attention"
    gated: bool = True
    mlp: bool = True
    qkv_bias: Flag = ("attention_bias", False)
    out_bias: Flag = ("attention_bias", False)
    mlp_bias: Flag = ("mlp_bias", False)
    norms: int = 2
    norm_bias: Flag = False
    norm_weight: bool = True
    final_norm: bool = True
    embedding_norm: bool = False
    qk_norm: Literal["", "head", "heads"] = ""
    qk_norm_if: str = ""
    output_gate: bool = False
    sinks: bool = False
    tied: bool = False
    head: bool = True
    head_bias: Flag = False
    positions: int | None = None
    token_types: bool = False
    pooler: bool = False
    relative_buckets: int = 0
    shared_layers: bool = False
    shared_gate: bool = False
    router_bias: bool = False
    correction_bias: bool = False
    expert_bias: bool = False
    down_bias: bool = False
    activation: int = 0
    intermediate_factor: int = 4
    halved_intermediate: bool = False
    less: int = 0
    kv_heads: int = 0
    defaults: Mapping[str, int] = field(default_factory=dict)


_LLAMA = Family(
    defaults={
        "vocab_size": 32000,
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "max_position_embeddings": 2048,
    }
)
_MISTRAL = Family(
    qkv_bias=False,
    out_bias=False,
    mlp_bias=False,
    defaults={"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
              "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072},
)  # fmt: skip
_QWEN2 = Family(
    qkv_bias=True,
    out_bias=False,
    mlp_bias=False,
    defaults={"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80,
              "num_attention_heads": 64, "num_key_value_heads": 8, "max_position_embeddings": 32768},
)  # fmt: skip
_QWEN3 = Family(qk_norm="head", mlp_bias=False)
_QWEN3_NEXT = replace(_QWEN3, output_gate=True, shared_gate=True)
_GEMMA = Family(tied=True, defaults={"head_dim": 256, "vocab_size": 256000, "max_position_embeddings": 8192})
_GEMMA2 = replace(_GEMMA, norms=4)
_GEMMA3 = replace(
    _GEMMA,
    norms=4,
    qk_norm="head",
    defaults={"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
              "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072},
)  # fmt: skip
_BIASED = Family(gated=False, qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True)
_GPT2 = replace(_BIASED, tied=True, positions=0, defaults={"vocab_size": 50257, "n_positions": 1024})
_GPTJ = replace(_BIASED, qkv_bias=False, out_bias=False, norms=1, head_bias=True)
_FALCON = Family(
    gated=False,
    qkv_bias=("bias", False),
    out_bias=("bias", False),
    mlp_bias=("bias", False),
    norm_bias=True,
    tied=True,
    defaults={"max_position_embeddings": 2048},
)
_BERT = replace(
    _BIASED, head=False, final_norm=False, embedding_norm=True, positions=0, token_types=True, pooler=True, tied=True
)
_GLU_BERT = replace(_BERT, gated=True, mlp_bias=False, down_bias=True, positions=None)
_COHERE = Family(norms=1, tied=True, qk_norm="heads", qk_norm_if="use_qk_norm")
_STABLELM = Family(
    norm_bias=True, qkv_bias=("use_qkv_bias", False), out_bias=False, mlp_bias=False, qk_norm_if="qk_layernorm"
)
_DEEPSEEK = Family(mixer="mla", mlp_bias=False)
_OLMO2 = Family(qk_norm="heads")
_GRANITE_MOE = Family(tied=True)
_INTERNLM = Family(qkv_bias=("bias", True), out_bias=("bias", True), mlp_bias=False)
_CHATGLM = Family(
    qkv_bias=("add_qkv_bias", False),
    out_bias=("add_bias_linear", False),
    mlp_bias=("add_bias_linear", False),
)
_GLM = Family(qkv_bias=("attention_bias", True), out_bias=False, mlp_bias=False)
_MAMBA = Family(mlp=False, norms=1, tied=True)
_ERNIE = Family(qkv_bias=("use_bias", False), out_bias=("use_bias", False), mlp_bias=("use_bias", False), tied=True)
_RWKV = Family(mixer="rwkv", mlp=False, norm_bias=True, embedding_norm=True)

FAMILIES: Mapping[str, Family] = {
    "llama": _LLAMA,
    "llama4_text": Family(),
    "mistral": _MISTRAL,
    "ministral": _MISTRAL,
    "ministral3": _MISTRAL,
    "mixtral": _MISTRAL,
    "yi": _LLAMA,
    "aquila": _LLAMA,
    "smollm3": Family(tied=True),
    "seed_oss": Family(qkv_bias=("attention_bias", True), out_bias=("attention_out_bias", False)),
    "ernie4_5": _ERNIE,
    "ernie4_5_moe": replace(_ERNIE, correction_bias=True),
    **dict.fromkeys(("hunyuan", "hunyuan_v1_dense", "hunyuan_v1_moe"),
                    Family(tied=True, qk_norm="head", qk_norm_if="use_qk_norm")),
    **dict.fromkeys(("minimax", "minimax_text_01", "minimax_m1"), Family(qkv_bias=False, out_bias=False)),
    "minimax_m2": Family(qk_norm="heads", qk_norm_if="use_qk_norm", correction_bias=True),
    "dots1": Family(qk_norm="head", correction_bias=True),
    "apertus": Family(gated=False, qk_norm="head", activation=4),
    "nemotron": Family(gated=False, norm_bias=True),
    "arcee": Family(gated=False),
    "lfm2": Family(qk_norm="head", tied=True, qkv_bias=False, out_bias=False),
    "falcon_h1": Family(mixer="attention+mamba2"),
    "bamba": Family(),
    "nemotron_h": Family(gated=False, norms=1, correction_bias=True),
    "helium": Family(),
    "eurobert": Family(),
    "qwen": Family(qkv_bias=True, out_bias=False, mlp_bias=False, halved_intermediate=True),
    "qwen2": _QWEN2,
    "qwen2_moe": replace(_QWEN2, shared_gate=True, defaults={}),
    "qwen2_vl": _QWEN2,
    "qwen2_vl_text": _QWEN2,
    "qwen2_5_vl": _QWEN2,
    "qwen2_5_vl_text": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "qwen3_vl_text": _QWEN3,
    "qwen3_vl_moe_text": _QWEN3,
    "qwen3_next": _QWEN3_NEXT,
    "qwen3_5_text": _QWEN3_NEXT,
    "qwen3_5_moe_text": _QWEN3_NEXT,
    "gemma": _GEMMA,
    "gemma2": _GEMMA2,
    "gemma3_text": _GEMMA3,
    "gemma3n_text": replace(
        _GEMMA3,
        defaults={"vocab_size": 262400, "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 35,
                  "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256,
                  "max_position_embeddings": 32768},
    ),
    "phi": replace(_BIASED, norms=1, head_bias=True, qk_norm_if="qk_layernorm"),
    "phi3": Family(qkv_bias=False, out_bias=False, mlp_bias=False),
    "phi3_v": Family(qkv_bias=False, out_bias=False, mlp_bias=False),
    "phi4mm": Family(qkv_bias=False, out_bias=False, mlp_bias=False, tied=True),
    "phi3small": Family(qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True, tied=True),
    "phimoe": Family(norm_bias=True, head_bias=("lm_head_bias", False)),
    "deepseek": Family(),
    "deepseek_v2": _DEEPSEEK,
    "deepseek_v3": replace(_DEEPSEEK, correction_bias=True),
    "deepseek_v32": replace(_DEEPSEEK, correction_bias=True),
    "deepseek_v4": Family(
        mlp_bias=False,
        correction_bias=True,
        defaults={"moe_intermediate_size": 2048, "intermediate_size": 2048},
    ),
    "kimi_linear": replace(_DEEPSEEK, correction_bias=True),
    "kimi_k2": replace(_DEEPSEEK, correction_bias=True),
    "glm_moe_dsa": replace(_DEEPSEEK, correction_bias=True),
    "glm4_moe_lite": replace(_DEEPSEEK, correction_bias=True),
    "minicpm3": replace(_DEEPSEEK, tied=True),
    "minicpm": Family(tied=True),
    "glm": replace(_GLM, tied=False),
    "glm4": replace(_GLM, norms=4),
    "glm4v_text": replace(_GLM, norms=4),
    "glm4_moe": replace(_GLM, qk_norm="head", qk_norm_if="use_qk_norm", correction_bias=True),
    "glm4v_moe_text": replace(_GLM, qk_norm="head", qk_norm_if="use_qk_norm", correction_bias=True),
    "chatglm": _CHATGLM,
    "chatglm1": replace(_BIASED, tied=True),
    "baichuan": Family(),
    "internlm": _INTERNLM,
    "internlm2": Family(qkv_bias=("bias", False), out_bias=("bias", False), mlp_bias=False),
    "internlm3": Family(qkv_bias=("qkv_bias", False), out_bias=("bias", False), mlp_bias=("bias", False)),
    "falcon": _FALCON,
    "RefinedWebModel": _FALCON,
    "RefinedWeb": _FALCON,
    "bloom": replace(_BIASED, tied=True, embedding_norm=True),
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "gpt_neo": replace(_BIASED, qkv_bias=False, tied=True, positions=0),
    "gpt_neox": replace(_BIASED, qkv_bias=("attention_bias", True), out_bias=("attention_bias", True)),
    "gptj": _GPTJ,
    "codegen": _GPTJ,
    "opt": replace(_BIASED, tied=True, positions=2),
    "mpt": Family(gated=False, qkv_bias=False, out_bias=False, mlp_bias=False, tied=True),
    "starcoder2": replace(
        _BIASED, qkv_bias=("use_bias", True), out_bias=("use_bias", True), mlp_bias=("use_bias", True), tied=True
    ),
    "gpt_oss": Family(
        qkv_bias=("attention_bias", True),
        out_bias=("attention_bias", True),
        sinks=True,
        router_bias=True,
        expert_bias=True,
    ),
    "dbrx": Family(qkv_bias=False, out_bias=False, mlp_bias=False),
    "cohere": _COHERE,
    "cohere2": replace(_COHERE, qk_norm=""),
    "exaone": Family(tied=False),
    "exaone4": Family(qk_norm="head"),
    "exaone_moe": Family(qk_norm="head", correction_bias=True),
    "stablelm": _STABLELM,
    "stablelm_epoch": _STABLELM,
    "olmo": Family(norm_weight=False),
    "hf_olmo": Family(norm_weight=False, halved_intermediate=True),
    "olmo2": _OLMO2,
    "olmo3": _OLMO2,
    "olmoe": _OLMO2,
    "flex_olmo": _OLMO2,
    "granite": Family(),
    "granitemoe": _GRANITE_MOE,
    "granitemoeshared": _GRANITE_MOE,
    "granitemoehybrid": _GRANITE_MOE,
    "jamba": Family(mlp_bias=False),
    "mamba": replace(_MAMBA, mixer="mamba"),
    "falcon_mamba": replace(_MAMBA, mixer="mamba"),
    "mamba2": replace(_MAMBA, mixer="mamba2", tied=False),
    "mllama_text_model": Family(),
    "rwkv": _RWKV,
    "rwkv5": replace(_RWKV, mixer="rwkv5"),
    "rwkv6": replace(_RWKV, mixer="rwkv6"),
    "rwkv7": replace(_RWKV, mixer="rwkv7"),
    "bert": _BERT,
    "roberta": _BERT,
    "xlm-roberta": _BERT,
    "xlm-roberta-xl": replace(_BERT, final_norm=True, embedding_norm=False),
    "camembert": _BERT,
    "xlm-roberta-flash": replace(_BERT, positions=None),
    "distilbert": replace(_BERT, token_types=False, pooler=False),
    "electra": replace(_BERT, pooler=False),
    "albert": replace(_BERT, shared_layers=True),
    "mpnet": replace(_BERT, token_types=False, relative_buckets=32),
    "deberta-v2": replace(_BERT, pooler=False),
    "nomic_bert": replace(
        _BERT, gated=True, qkv_bias=False, out_bias=False, mlp_bias=False, positions=None, pooler=False
    ),
    "jina_bert": _GLU_BERT,
    "new": replace(_GLU_BERT, pooler=False),
    "modernbert": replace(
        _BERT,
        gated=True,
        qkv_bias=False,
        out_bias=False,
        mlp_bias=False,
        norm_bias=False,
        final_norm=True,
        positions=None,
        token_types=False,
        pooler=False,
        less=1,
    ),
    "clip_text_model": replace(
        _GPT2,
        head=False,
        defaults={"vocab_size": 49408, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12,
                  "num_attention_heads": 8, "max_position_embeddings": 77},
    ),
    "siglip_text_model": replace(
        _GPT2,
        head=False,
        defaults={"vocab_size": 32000, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
                  "num_attention_heads": 12, "max_position_embeddings": 64},
    ),
    "siglip2_text_model": replace(
        _GPT2,
        head=False,
        defaults={"vocab_size": 256000, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
                  "num_attention_heads": 12, "max_position_embeddings": 64},
    ),
}  # fmt: skip

# Wrappers around a text part whose type is not named there; their own text part is of this family.
TEXT_OF: Mapping[str, str] = {
    "llava": "llama",
    "llava_next": "llama",
    "clip": "clip_text_model",
    "siglip": "siglip_text_model",
    "siglip2": "siglip2_text_model",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "llama4": "llama4_text",
    "qwen2_vl": "qwen2_vl",
    "qwen2_5_vl": "qwen2_5_vl",
    "qwen3_vl": "qwen3_vl_text",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "mllama": "mllama_text_model",
    "paligemma": "gemma",
    "glm4v": "glm4v_text",
    "glm4v_moe": "glm4v_moe_text",
}
