"""Dimensions that configurations omit because transformers has defaults for them, by `model_type`."""

from collections.abc import Mapping

Defaults = Mapping[str, int]

_LLAMA: Defaults = {"vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                    "max_position_embeddings": 2048}  # fmt: skip
_MISTRAL: Defaults = {"vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
                      "num_key_value_heads": 8, "max_position_embeddings": 131072}  # fmt: skip
_QWEN2: Defaults = {"vocab_size": 152064, "hidden_size": 8192, "num_hidden_layers": 80, "num_attention_heads": 64,
                    "num_key_value_heads": 8, "max_position_embeddings": 32768}  # fmt: skip
_GEMMA: Defaults = {"head_dim": 256, "vocab_size": 256000, "max_position_embeddings": 8192}
_GPT2: Defaults = {"vocab_size": 50257, "max_position_embeddings": 1024}
_FALCON: Defaults = {"max_position_embeddings": 2048}
_SIGLIP: Defaults = {"vocab_size": 32000, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
                     "max_position_embeddings": 64}  # fmt: skip

DEFAULTS: Mapping[str, Defaults] = {
    **dict.fromkeys(("llama", "yi", "aquila"), _LLAMA),
    **dict.fromkeys(("mistral", "ministral", "ministral3", "mixtral"), _MISTRAL),
    **dict.fromkeys(("qwen2", "qwen2_vl", "qwen2_vl_text", "qwen2_5_vl", "qwen2_5_vl_text"), _QWEN2),
    **dict.fromkeys(("gemma", "gemma2"), _GEMMA),
    "gemma3_text": {"vocab_size": 262208, "hidden_size": 2304, "num_hidden_layers": 26, "num_attention_heads": 8,
                    "num_key_value_heads": 4, "head_dim": 256, "max_position_embeddings": 131072},
    "gemma3n_text": {"vocab_size": 262400, "hidden_size": 2048, "num_hidden_layers": 35, "num_attention_heads": 8,
                     "num_key_value_heads": 2, "head_dim": 256, "max_position_embeddings": 32768},
    **dict.fromkeys(("gpt2", "gpt_bigcode"), _GPT2),
    **dict.fromkeys(("falcon", "RefinedWebModel", "RefinedWeb"), _FALCON),
    "clip_text_model": {"vocab_size": 49408, "hidden_size": 512, "num_hidden_layers": 12, "num_attention_heads": 8,
                        "max_position_embeddings": 77},
    "siglip_text_model": _SIGLIP,
    "siglip2_text_model": {**_SIGLIP, "vocab_size": 256000},
}  # fmt: skip

# The type of the text part, by the type of an enclosing model whose configuration does not name it.
TEXT_OF: Mapping[str, str] = {
    "llava": "llama",
    "llava_next": "llama",
    "clip": "clip_text_model",
    "siglip": "siglip_text_model",
    "siglip2": "siglip2_text_model",
    "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text",
    "mllama": "mllama_text_model",
    "paligemma": "gemma",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
}
