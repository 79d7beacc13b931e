"""The tokenizer of the rig's model: bytes, a few merges, and the special tokens of Llama."""

from typing import Any

_MERGES = (
    "t h",
    "h e",
    "th e",
    "i n",
    "a n",
    "an d",
    "o n",
    "r e",
    "Ġ t",
    "Ġ a",
    "Ġ the",
    "in g",
    "m o",
    "d e",
    "mo de",
    "mode l",
)
_SPECIAL = ("<|begin_of_text|>", "<|end_of_text|>", "<|pad|>")
_BYTES = 256

BEGIN_ID = _BYTES + len(_MERGES)
END_ID = BEGIN_ID + 1
SIZE = 320  # a multiple of 64, as usual for embeddings; the last ids are unused


def files() -> dict[str, dict[str, Any]]:
    """Return the JSON of tokenizer.json and its companions by file name."""
    begin, end, pad = _SPECIAL
    return {
        "tokenizer.json": _tokenizer(),
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": 2048,
            "clean_up_tokenization_spaces": False,
            "bos_token": begin,
            "eos_token": end,
            "pad_token": pad,
            "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}",
        },
        "special_tokens_map.json": {"bos_token": begin, "eos_token": end, "pad_token": pad},
    }


def byte_alphabet() -> list[str]:
    """Return the printable character for each byte in byte-level BPE."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(_BYTES) if byte not in plain]
    written = {byte: chr(byte) for byte in plain} | {byte: chr(_BYTES + n) for n, byte in enumerate(others)}
    return [written[byte] for byte in range(_BYTES)]


def _tokenizer() -> dict[str, Any]:
    words = [*byte_alphabet(), *(merge.replace(" ", "") for merge in _MERGES)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": len(words) + n, "content": text, **flags} for n, text in enumerate(_SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": byte_level,
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {word: number for number, word in enumerate(words)},
            "merges": [merge.split(" ") for merge in _MERGES],
        },
    }
