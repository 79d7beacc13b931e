"""`params.json`, as Mistral and Meta publish it, in the words of a `config.json`."""

from typing import Any

from shared.metadata.fields import Fields


def config_of_params(params: Fields) -> Fields:
    """Return the same as a configuration; the family is told by the fields that each publisher writes."""
    moe, vision = params.inner("moe"), params.inner("vision_encoder")
    values: dict[str, Any] = {
        "model_type": "mixtral" if moe else "mistral" if "hidden_dim" in params else "llama",
        "hidden_size": params.integer("dim"),
        "num_hidden_layers": params.integer("n_layers"),
        "num_attention_heads": params.integer("n_heads"),
        "num_key_value_heads": params.integer("n_kv_heads"),
        "head_dim": params.integer("head_dim"),
        "vocab_size": params.integer("vocab_size"),
        "max_position_embeddings": params.integer("max_seq_len", "max_position_embeddings"),
        "tie_word_embeddings": params.values.get("tied_embeddings"),
        "quantization_config": params.values.get("quantization"),
        "vision_config": dict(vision.values) if vision else None,
    }
    if moe:
        values["num_local_experts"] = moe.integer("num_experts")
        values["num_experts_per_tok"] = moe.integer("num_experts_per_tok")
    return Fields(params.file, {name: value for name, value in values.items() if value is not None})
