"""What an agent reports about a model that it unpacked from an archive: typed and bounded, because it is untrusted."""

from typing import Annotated

import msgspec
from msgspec import Meta

from shared.api.meta import ApiStruct
from shared.json_object import Json
from shared.metadata.model_metadata import Metadata
from shared.metadata.reading.attempts import FAILED, INTERRUPTED
from shared.metadata.reading.termination_message import Reading, decode_reading

MAX_BYTES = 1024
_MAX_MESSAGE = 512
_ATOMIC = {"x-kubernetes-list-type": "atomic"}
REASONS = ("MetadataMissing", "MetadataMalformed", "MetadataOversized", FAILED, INTERRUPTED)
_REASONS = {"enum": ["", *REASONS]}
_BASES = {"enum": ["", "headers", "index", "estimate"]}
# If a report is too large, these are left out in this order.
_LEFT_OUT = ("components", "adapter", "licence", "pipeline", "frameworkVersion", "capabilities", "architectures")

Word = Annotated[str, Meta(max_length=32)]
Title = Annotated[str, Meta(max_length=96)]
Number = Annotated[int, Meta(ge=0)]


class UnpackedAdapter(ApiStruct, frozen=True, kw_only=True):
    """An adapter, which is applied to a base model."""

    kind: Annotated[Word, Meta(description="Type of the adapter, for example `LORA`.")] = ""
    base_model: Annotated[str, Meta(max_length=128, description="Name of the base model.")] = ""
    rank: Annotated[Number | None, Meta(description="Rank of the adapter's matrices.")] = None


class UnpackedComponent(ApiStruct, frozen=True, kw_only=True):
    """A component of a diffusion pipeline."""

    name: Annotated[Word, Meta(description="Name of the component in the pipeline.")]
    library: Annotated[Word, Meta(description="Library that defines the component's class.")]
    type: Annotated[Title, Meta(description="Class of the component.")]


class UnpackedValues(ApiStruct, frozen=True, kw_only=True):
    """Metadata of a model, in the format of `larder inspect -o json`. Unknown values are omitted."""

    model_type: Annotated[Title, Meta(description="The `model_type` in the model's configuration.")] = ""
    architectures: Annotated[
        tuple[Title, ...],
        Meta(max_length=4, extra_json_schema=_ATOMIC, description="The `architectures` in the model's configuration."),
    ] = ()
    framework: Annotated[Word, Meta(description="Library that loads the model.")] = ""
    framework_version: Annotated[Word, Meta(description="Version of the library that saved the model.")] = ""
    format: Annotated[Word, Meta(description="File format of the weights.")] = ""
    dtype: Annotated[Word, Meta(description="Data type of the weights.")] = ""
    quantization: Annotated[Word, Meta(description="Quantization method of the weights.")] = ""
    quantization_bits: Annotated[Number | None, Meta(description="Bits per quantized weight.")] = None
    context_length: Annotated[Number | None, Meta(description="Maximum context length in tokens.")] = None
    vocabulary_size: Annotated[Number | None, Meta(description="Number of tokens in the vocabulary.")] = None
    hidden_size: Annotated[Number | None, Meta(description="Size of the hidden layers.")] = None
    layers: Annotated[Number | None, Meta(description="Number of layers.")] = None
    heads: Annotated[Number | None, Meta(description="Number of attention heads.")] = None
    kv_heads: Annotated[Number | None, Meta(description="Number of key and value heads.")] = None
    head_dim: Annotated[Number | None, Meta(description="Dimension of an attention head.")] = None
    experts: Annotated[Number | None, Meta(description="Number of experts per layer.")] = None
    experts_active: Annotated[Number | None, Meta(description="Number of experts used per token.")] = None
    parameters: Annotated[Number | None, Meta(description="Number of parameters.")] = None
    parameters_active: Annotated[Number | None, Meta(description="Number of parameters used per token.")] = None
    parameters_from: Annotated[
        str,
        Meta(
            max_length=16,
            extra_json_schema=_BASES,
            description="How the parameters were counted: from the `headers` of the weights, from their `index`, "
            "or by an `estimate`.",
        ),
    ] = ""
    size_bytes: Annotated[Number, Meta(description="Size of all files in bytes.")] = 0
    weight_bytes: Annotated[Number, Meta(description="Size of the weights in bytes.")] = 0
    kv_cache_bytes_per_token: Annotated[
        Number | None, Meta(description="Bytes that each token adds to the key-value cache.")
    ] = None
    capabilities: Annotated[
        tuple[Word, ...], Meta(max_length=8, extra_json_schema=_ATOMIC, description="What the model can do.")
    ] = ()
    pipeline: Annotated[Title, Meta(description="Class of the diffusion pipeline.")] = ""
    components: Annotated[
        tuple[UnpackedComponent, ...],
        Meta(max_length=12, extra_json_schema=_ATOMIC, description="Components of the diffusion pipeline."),
    ] = ()
    adapter: Annotated[UnpackedAdapter | None, Meta(description="The adapter, if the files are one.")] = None
    chat_template: Annotated[bool, Meta(description="Whether the model has a chat template.")] = False
    custom_code: Annotated[bool, Meta(description="Whether the model includes code of its own.")] = False
    licence: Annotated[Title, Meta(description="License of the model, as stated by its publisher.")] = ""


class UnpackedMetadata(ApiStruct, frozen=True, kw_only=True):
    """Metadata read from an unpacked archive, or the reason why there is none."""

    identity: Annotated[
        str,
        Meta(
            max_length=32,
            description="Identifies what was read: a digest of the list of files and of the version of the reader.",
        ),
    ]
    attempts: Annotated[Number, Meta(description="Number of consecutive interrupted attempts.")] = 0
    reason: Annotated[
        str,
        Meta(
            max_length=63,
            extra_json_schema=_REASONS,
            description="Machine-readable reason, in CamelCase, why there are no values.",
        ),
    ] = ""
    message: Annotated[str, Meta(max_length=_MAX_MESSAGE, description="Human-readable explanation of the reason.")] = ""
    values: Annotated[UnpackedValues | None, Meta(description="The metadata.")] = None


def reported(reading: Reading, identity: str, attempts: int = 0) -> UnpackedMetadata:
    """Return a reading as an agent reports it, in at most 1,024 bytes; fields are left out until it fits."""
    if reading.metadata is None:
        reason = reading.reason if reading.reason in REASONS else FAILED  # the API server refuses any other
        return _reported_failure(reading, UnpackedMetadata(identity=identity, attempts=attempts, reason=reason))
    fields = _bounded(reading.metadata)
    for name in ("", *_LEFT_OUT):
        fields.pop(name, None)
        report = UnpackedMetadata(identity=identity, values=msgspec.convert(fields, UnpackedValues))
        if _size(report) <= MAX_BYTES:
            break
    return report


def reading_of(report: UnpackedMetadata) -> Reading:
    """Return the reading in a report. Raises ValueError if the report is invalid, since agents are not trusted."""
    if report.reason not in ("", *REASONS):
        raise ValueError(f"{report.reason!r} is not a reason that agents report")
    decoded: Json = {"reason": report.reason, "message": report.message}
    if report.values is not None:
        decoded["metadata"] = fields = msgspec.to_builtins(report.values)
        fields["components"] = {part.pop("name"): part for part in fields.get("components", [])}
    return decode_reading(msgspec.json.encode(decoded).decode())


def _reported_failure(reading: Reading, known: UnpackedMetadata) -> UnpackedMetadata:
    message = reading.message[:_MAX_MESSAGE]
    while _size(report := msgspec.structs.replace(known, message=message)) > MAX_BYTES:
        message = message[: len(message) // 2]  # JSON escapes take more bytes than characters
    return report


def _bounded(found: Metadata) -> Json:
    """Return the fields within the bounds; long lists are cut."""
    fields: Json = msgspec.to_builtins(found)
    components = [{"name": name, **part} for name, part in fields.get("components", {}).items()]
    lists = {"architectures": found.architectures[:4], "capabilities": found.capabilities[:8], "components": components}
    return {name: value for name, value in (fields | lists).items() if _fits(name, value)}


def _fits(name: str, value: object) -> bool:
    try:
        msgspec.convert({name: value}, UnpackedValues)
    except msgspec.ValidationError:
        return False
    return True


def _size(report: UnpackedMetadata) -> int:
    return len(msgspec.json.encode(report))
