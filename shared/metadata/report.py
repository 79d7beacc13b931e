"""What is known of a model."""

from typing import Literal

import msgspec

ParametersFrom = Literal["headers", "index", "estimate", ""]


class Adapter(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is laid over another model: its kind, that model, and its rank."""

    kind: str = ""
    base_model: str = ""
    rank: int | None = None


class Component(msgspec.Struct, frozen=True):
    """A part of a diffusion pipeline: the library and the class in it."""

    library: str
    type: str


class Metadata(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """A model; None and empty where the files do not say it.

    `parameters_from`: counted in the `headers` of the weights, or by the `index` of their shards; or an `estimate` by
    their size and type. `size_bytes` is of all files, `weight_bytes` of the weights that were looked at.
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
