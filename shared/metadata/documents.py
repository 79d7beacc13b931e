"""The small files that describe a model, read and parsed once."""

from dataclasses import dataclass

from shared.metadata.errors import MetadataOversized, directory_in_place_of
from shared.metadata.fields import Fields, parse_fields
from shared.metadata.files import ModelFiles
from shared.metadata.json_text import MOST_SCANNED_BYTES, parse_json
from shared.metadata.licence import FIRST_BYTES, licence_of
from shared.metadata.params_json import config_of_params


@dataclass(frozen=True, slots=True)
class Documents:
    """What each file says; None where it is not there. `config` is of `config.json`, else of `params.json`."""

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
        """Whether nothing describes the model."""
        return self.config is None and self.pipeline is None and self.adapter is None


def read_documents(files: ModelFiles) -> Documents:
    """Read what is there. Raises MetadataError and what the files raise."""

    def fields(path: str) -> Fields | None:
        return read_fields(files, path)

    config, params = fields("config.json"), None
    if config is not None and _is_of_library(config):
        config = None
    if config is None and (params := fields("params.json")):
        config = config_of_params(params)
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
    """Return the object of a JSON file; None where it is not there. Raises MetadataError and what the files raise."""
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
    if size > MOST_SCANNED_BYTES:
        raise MetadataOversized(path, "", f"has {size} bytes, more than any real one; it is not read")
    return files.read(path, 0, size)


def _is_of_library(config: Fields) -> bool:
    """Return whether sentence-transformers says only its own version here, as it did in its first releases."""
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
    size = files.sizes.get("README.md")
    return licence_of(files.read("README.md", 0, min(size, FIRST_BYTES))) if size else ""
