"""The metadata of a model."""

from typing import Literal

import msgspec

ParametersFrom = Literal["headers", "index", "estimate", ""]


class Adapter(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """An adapter for another model: its kind, that model, and its rank."""

    kind: str = ""
    base_model: str = ""
    rank: int | None = None


class Component(msgspec.Struct, frozen=True):
    """A part of a diffusion pipeline: its library and class."""

    library: str
    type: str


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The metadata of a model; fields are None or empty if the files do not state them.

    Args:
        parameters_from: `headers` if counted in the weights, `index` if taken from the index of the shards, or
            `estimate` by size and type.
        size_bytes: The size of all files.
        weight_bytes: The size of the weights that were read.
    """

    model_type: str = ""
    architectures: tuple[str, ...] = ()
    framework: str = ""
    framework_version: str = ""
    format: str = ""
    dtype: str = ""
    quantization: str = ""
    quantization_bits: int | None = None
    context_length: int | None = None
    vocabulary_size: int | None = None
    hidden_size: int | None = None
    layers: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    experts: int | None = None
    experts_active: int | None = None
    parameters: int | None = None
    parameters_active: int | None = None
    parameters_from: ParametersFrom = ""
    size_bytes: int = 0
    weight_bytes: int = 0
    kv_cache_bytes_per_token: int | None = None
    capabilities: tuple[str, ...] = ()
    pipeline: str = ""
    components: dict[str, Component] = {}
    adapter: Adapter | None = None
    chat_template: bool = False
    custom_code: bool = False
    licence: str = ""
