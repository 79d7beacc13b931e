"""Reads and parses the small files that describe a model, once."""

import re
from dataclasses import dataclass
from typing import Any

from shared.metadata.errors import MetadataOversized, directory_in_place_of
from shared.metadata.fields import Fields, parse_fields
from shared.metadata.files import ModelFiles
from shared.metadata.json_text import MAX_SCANNED_BYTES, parse_json

_README_BYTES = 16 * 1024  # the front matter is at the start
_LICENCE = re.compile(rb"^(license_name|license):[ \t]*[\"']?([\w.+-]{1,80})[\"']?[ \t]*\r?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Documents:
    """The content of each file, None if it is missing; `config` is from `config.json`, else from `params.json`."""

    config: Fields | None
    pipeline: Fields | None
    tokenizer: Fields | None
    adapter: Fields | None
    sentence: Fields | None
    quantizers: tuple[Fields | None, ...]
    embeds: bool
    template: bool
    licence: str

    @property
    def empty(self) -> bool:
        """Whether no file describes the model."""
        return self.config is None and self.pipeline is None and self.adapter is None


def read_documents(files: ModelFiles) -> Documents:
    """Read the files that exist. Raises MetadataError, and any error of reading the files."""

    def fields(path: str) -> Fields | None:
        return read_fields(files, path)

    config, params = fields("config.json"), None
    if config is not None and _is_of_library(config):
        config = None
    if config is None and (params := fields("params.json")):
        config = _config_of_params(params)
    tokenizer = fields("tokenizer_config.json")
    return Documents(
        config=config,
        pipeline=fields("model_index.json"),
        tokenizer=tokenizer,
        adapter=fields("adapter_config.json"),
        sentence=fields("sentence_bert_config.json"),
        quantizers=(fields("hf_quant_config.json"), fields("quantize_config.json"), fields("quant_config.json")),
        embeds=_embeds(files),
        template=_has_template(files, tokenizer),
        licence=_licence(files),
    )


def read_fields(files: ModelFiles, path: str) -> Fields | None:
    """Return the object in a JSON file; None if the file is missing. Raises MetadataError, and any read error."""
    body = _body(files, path)
    return None if body is None else parse_fields(path, body)


def _body(files: ModelFiles, path: str) -> bytes | None:
    if path in files.broken:
        raise files.broken[path]
    size = files.sizes.get(path)
    if size is None:
        if any(other.startswith(f"{path}/") for other in files.sizes):
            raise directory_in_place_of(path)
        return None
    if size > MAX_SCANNED_BYTES:
        raise MetadataOversized(path, "", f"has {size} bytes, too many to be read")
    return files.read(path, 0, size)


def _is_of_library(config: Fields) -> bool:
    """Return whether sentence-transformers wrote only its own version, as its first releases did."""
    return "__version__" in config and not any(name in config for name in ("model_type", "architectures"))


def _embeds(files: ModelFiles) -> bool:
    body = _body(files, "modules.json")
    if body is None:
        return "config_sentence_transformers.json" in files.sizes
    modules = parse_json("modules.json", body)
    kinds = [module.get("type") for module in modules if isinstance(module, dict)] if isinstance(modules, list) else []
    return not any(isinstance(kind, str) and "cross_encoder" in kind for kind in kinds)


def _has_template(files: ModelFiles, tokenizer: Fields | None) -> bool:
    if any(name in files.sizes for name in ("chat_template.jinja", "chat_template.json")):
        return True
    return bool(tokenizer and tokenizer.values.get("chat_template"))


def _licence(files: ModelFiles) -> str:
    """Return the licence's short name from the front matter of the README; for `other`, the name next to it."""
    size = files.sizes.get("README.md", 0)
    readme = files.read("README.md", 0, min(size, _README_BYTES)) if size else b""
    if not readme.startswith(b"---"):
        return ""
    matter = readme[3:].partition(b"\n---")[0]
    found: dict[bytes, str] = {key: value.decode("ascii", "ignore") for key, value in _LICENCE.findall(matter)}
    own, named = found.get(b"license", ""), found.get(b"license_name", "")
    return named if named and own in ("", "other") else own


def _config_of_params(params: Fields) -> Fields:
    """Translate a `params.json` of Mistral or Meta into the fields of a `config.json`.

    The family is recognised by the fields that each publisher writes.
    """
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
