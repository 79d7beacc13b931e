"""What an agent reports of the model in an archive that it unpacked: typed and bounded, for nobody has to trust it."""

from typing import Annotated

import msgspec
from msgspec import Meta

from shared.api.meta import ApiStruct, Json
from shared.metadata.remembered import FAILED, INTERRUPTED
from shared.metadata.report import Metadata
from shared.metadata.termination_message import Reading, decode_reading

MOST_BYTES = 1024
_MOST_MESSAGE = 512
_ATOMIC = {"x-kubernetes-list-type": "atomic"}
REASONS = ("MetadataMissing", "MetadataMalformed", "MetadataOversized", FAILED, INTERRUPTED)
_REASONS = {"enum": ["", *REASONS]}
_BASES = {"enum": ["", "headers", "index", "estimate"]}
# What does not fit goes in this order.
_LEFT_OUT = ("components", "adapter", "licence", "pipeline", "frameworkVersion", "capabilities", "architectures")

Word = Annotated[str, Meta(max_length=32)]
Title = Annotated[str, Meta(max_length=96)]
Number = Annotated[int, Meta(ge=0)]


class UnpackedAdapter(ApiStruct, frozen=True, kw_only=True):
    """What is laid over another model."""

    kind: Annotated[Word, Meta(description="Its kind, for example LORA.")] = ""
    base_model: Annotated[str, Meta(max_length=128, description="The model below it.")] = ""
    rank: Annotated[Number | None, Meta(description="Its rank.")] = None


class UnpackedComponent(ApiStruct, frozen=True, kw_only=True):
    """A part of a diffusion pipeline."""

    name: Annotated[Word, Meta(description="Its name in the pipeline.")]
    library: Annotated[Word, Meta(description="The library that has its class.")]
    type: Annotated[Title, Meta(description="Its class.")]


class UnpackedValues(ApiStruct, frozen=True, kw_only=True):
    """A model, as `larder inspect -o json` shows it; what is not known is left out."""

    model_type: Annotated[Title, Meta(description="The type in its configuration.")] = ""
    architectures: Annotated[
        tuple[Title, ...], Meta(max_length=4, extra_json_schema=_ATOMIC, description="Its classes.")
    ] = ()
    framework: Annotated[Word, Meta(description="What loads it.")] = ""
    framework_version: Annotated[Word, Meta(description="The version that wrote it.")] = ""
    format: Annotated[Word, Meta(description="The format of its weights.")] = ""
    dtype: Annotated[Word, Meta(description="The type of its numbers.")] = ""
    quantization: Annotated[Word, Meta(description="How its weights are packed.")] = ""
    quantization_bits: Annotated[Number | None, Meta(description="Bits of a packed number.")] = None
    context_length: Annotated[Number | None, Meta(description="Tokens of context.")] = None
    vocabulary_size: Annotated[Number | None, Meta(description="Tokens in its vocabulary.")] = None
    hidden_size: Annotated[Number | None, Meta(description="Width of a layer.")] = None
    layers: Annotated[Number | None, Meta(description="How many layers.")] = None
    heads: Annotated[Number | None, Meta(description="Heads that ask.")] = None
    kv_heads: Annotated[Number | None, Meta(description="Heads of keys and values.")] = None
    head_dim: Annotated[Number | None, Meta(description="Width of a head.")] = None
    experts: Annotated[Number | None, Meta(description="Experts of a layer.")] = None
    experts_active: Annotated[Number | None, Meta(description="Experts that a token uses.")] = None
    parameters: Annotated[Number | None, Meta(description="How many parameters.")] = None
    parameters_active: Annotated[Number | None, Meta(description="Parameters that a token uses.")] = None
    parameters_from: Annotated[
        str, Meta(max_length=16, extra_json_schema=_BASES, description="What they were counted by.")
    ] = ""
    size_bytes: Annotated[Number, Meta(description="Bytes of all files.")] = 0
    weight_bytes: Annotated[Number, Meta(description="Bytes of the weights.")] = 0
    kv_cache_bytes_per_token: Annotated[Number | None, Meta(description="What a token adds to the cache.")] = None
    capabilities: Annotated[
        tuple[Word, ...], Meta(max_length=8, extra_json_schema=_ATOMIC, description="What it can do.")
    ] = ()
    pipeline: Annotated[Title, Meta(description="The class of a diffusion pipeline.")] = ""
    components: Annotated[
        tuple[UnpackedComponent, ...],
        Meta(max_length=12, extra_json_schema=_ATOMIC, description="Its parts."),
    ] = ()
    adapter: Annotated[UnpackedAdapter | None, Meta(description="What is laid over another model.")] = None
    chat_template: Annotated[bool, Meta(description="It has a chat template.")] = False
    custom_code: Annotated[bool, Meta(description="It brings code of its own.")] = False
    licence: Annotated[Title, Meta(description="Its licence, by its publisher's word.")] = ""


class UnpackedMetadata(ApiStruct, frozen=True, kw_only=True):
    """One reading of what was unpacked: values, or why there are none."""

    identity: Annotated[str, Meta(max_length=32, description="Digest of the list of files and of the reader.")]
    attempts: Annotated[Number, Meta(description="How often the reader was interrupted in a row.")] = 0
    reason: Annotated[
        str, Meta(max_length=63, extra_json_schema=_REASONS, description="Why there are no values, in a stable word.")
    ] = ""
    message: Annotated[str, Meta(max_length=_MOST_MESSAGE, description="The same with numbers.")] = ""
    values: Annotated[UnpackedValues | None, Meta(description="What was read.")] = None


def reported(reading: Reading, identity: str, attempts: int = 0) -> UnpackedMetadata:
    """Return a reading as an agent reports it, in at most 1,024 bytes: what is too long is left out, parts first."""
    if reading.metadata is None:
        reason = reading.reason if reading.reason in REASONS else FAILED  # the API server refuses any other
        return _reported_failure(reading, UnpackedMetadata(identity=identity, attempts=attempts, reason=reason))
    fields = _bounded(reading.metadata)
    for name in ("", *_LEFT_OUT):
        fields.pop(name, None)
        whole = UnpackedMetadata(identity=identity, values=msgspec.convert(fields, UnpackedValues))
        if _size(whole) <= MOST_BYTES:
            break
    return whole


def reading_of(report: UnpackedMetadata) -> Reading:
    """Return what a report says, checked as any stranger's word; ValueError says what is wrong with it."""
    if report.reason not in ("", *REASONS):
        raise ValueError(f"{report.reason!r} is no reason that an agent has")
    said: Json = {"reason": report.reason, "message": report.message}
    if report.values is not None:
        said["metadata"] = fields = msgspec.to_builtins(report.values)
        fields["components"] = {part.pop("name"): part for part in fields.get("components", [])}
    return decode_reading(msgspec.json.encode(said).decode())


def _reported_failure(reading: Reading, known: UnpackedMetadata) -> UnpackedMetadata:
    words = reading.message[:_MOST_MESSAGE]
    while _size(whole := msgspec.structs.replace(known, message=words)) > MOST_BYTES:
        words = words[: len(words) // 2]  # what JSON escapes takes more bytes than it has characters
    return whole


def _bounded(found: Metadata) -> Json:
    """Return the fields that keep to the bounds; of several words, the first."""
    fields: Json = msgspec.to_builtins(found)
    parts = [{"name": name, **part} for name, part in fields.get("components", {}).items()]
    several = {"architectures": found.architectures[:4], "capabilities": found.capabilities[:8], "components": parts}
    return {name: value for name, value in (fields | several).items() if _fits(name, value)}


def _fits(name: str, value: object) -> bool:
    try:
        msgspec.convert({name: value}, UnpackedValues)
    except msgspec.ValidationError:
        return False
    return True


def _size(report: UnpackedMetadata) -> int:
    return len(msgspec.json.encode(report))
