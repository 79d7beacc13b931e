"""The metadata reader: takes the files of a model, returns its metadata."""

from msgspec.structs import replace

from shared.metadata.config.capabilities import of_model, of_pipeline
from shared.metadata.config.context import context_length
from shared.metadata.config.dimensions import Text, dtype_of, text_of
from shared.metadata.config.kv_cache import kv_cache_bytes
from shared.metadata.config.quantization import packing_of, quantization_of
from shared.metadata.documents import Documents, read_documents
from shared.metadata.errors import MetadataMissing, shown
from shared.metadata.estimate import guess_parameters
from shared.metadata.fields import Fields
from shared.metadata.files import ModelFiles
from shared.metadata.formats.gguf_config import config_of_gguf, quantization_of_gguf, text_of_key
from shared.metadata.formats.tensors import Packing, TensorTotals
from shared.metadata.model_metadata import Adapter, Metadata
from shared.metadata.pipelines import components_of, estimate_components, is_whole
from shared.metadata.weight_headers import count_gguf, count_safetensors
from shared.metadata.weights import Weights, select_weights

_TYPES = {"F32": "float32", "F16": "float16", "BF16": "bfloat16", "F64": "float64", "F8_E4M3": "float8_e4m3fn",
          "F8_E5M2": "float8_e5m2", "I8": "int8"}  # fmt: skip
_ELEMENT_BYTES = {"float32": 4, "float64": 8}


def read_metadata(files: ModelFiles) -> Metadata:
    """Return the metadata that the files contain. Reads only the headers of weights, never the weights.

    Broken files are skipped unless they are needed. Raises MetadataMissing, MetadataMalformed, MetadataOversized, and
    what reading the files raises.
    """
    documents = read_documents(files)
    folders = _folders(documents.pipeline)
    weights = _weights(files, folders)
    if documents.empty and weights.format not in ("gguf", "safetensors"):
        raise _missing(files)
    found = _read(files, documents, weights)
    return replace(
        found,
        size_bytes=sum(files.sizes.values()),
        weight_bytes=weights.size_bytes,
        format=weights.format,
        chat_template=found.chat_template or documents.template,
        licence=documents.licence or found.licence,
        adapter=_adapter(documents.adapter),
    )


def _missing(files: ModelFiles) -> MetadataMissing:
    problem = "is missing, and so are model_index.json, params.json, safetensors and GGUF files: there is no model here"
    if len(files.sizes) == 1:
        name = shown(next(iter(files.sizes)))
        problem += f"; {name} is the only file, and an archive can be read only after it is unpacked"
    return MetadataMissing("config.json", "", problem)


def _weights(files: ModelFiles, folders: tuple[str, ...]) -> Weights:
    """Return the weights of the model. Raises the error of any weight file that cannot be opened."""
    weights = select_weights({**files.sizes, **dict.fromkeys(files.broken, 0)}, pipeline=folders)
    if broken := next((path for path in weights.files if path in files.broken), None):
        raise files.broken[broken]
    return weights


def _read(files: ModelFiles, documents: Documents, weights: Weights) -> Metadata:
    if weights.format == "gguf":
        return _read_gguf(files, documents, weights)
    config = documents.config
    text = text_of(config) if config else None
    packing = packing_of(config, text.config if text else None, *documents.quantizers)
    totals = TensorTotals(packing)
    if weights.format == "safetensors":
        count_safetensors(files, weights, totals)
    if documents.pipeline is not None:
        return _counted_pipeline(files, _pipeline(documents.pipeline), totals, weights)
    if config is None or text is None:
        return _counted(Metadata(), totals, weights, 0, 0)
    main = _main_type(totals)
    described = _described(config, text, documents)
    dtype = described.dtype or _TYPES.get(main, "")
    found = replace(
        described,
        dtype=dtype,
        quantization=quantization_of(packing, main),
        quantization_bits=packing.bits or None,
        kv_cache_bytes_per_token=kv_cache_bytes(text, _ELEMENT_BYTES.get(dtype, 2)),
    )
    has_headers = weights.format == "safetensors" and weights.whole
    if documents.adapter is None and not has_headers:
        return _estimated(files, found, text, packing, weights)
    return _counted(found, totals, weights, text.experts, text.experts_active)


def _read_gguf(files: ModelFiles, documents: Documents, weights: Weights) -> Metadata:
    totals = TensorTotals()
    header = count_gguf(files, weights, totals)
    text = text_of(config_of_gguf(weights.files[0], header))
    described = _described(text.config, text, documents)
    main = _main_type(totals)
    found = replace(
        described,
        framework="",
        framework_version="",
        quantization=quantization_of_gguf(header, main),
        dtype=_TYPES.get(main, ""),
        kv_cache_bytes_per_token=kv_cache_bytes(text, 2),
        chat_template=bool(text_of_key(header, "tokenizer.chat_template")),
        licence=text_of_key(header, "general.license"),
    )
    return _counted(found, totals, weights, text.experts, text.experts_active)


def _described(config: Fields, text: Text, documents: Documents) -> Metadata:
    """Return the metadata from the configuration, without anything that needs the weights."""
    version = config.text("transformers_version") or text.config.text("transformers_version") or ""
    return Metadata(
        model_type=config.text("model_type") or "",
        architectures=config.texts("architectures"),
        framework="transformers" if "model_type" in config or "architectures" in config else "",
        framework_version=version,
        dtype=dtype_of(config, text.config),
        context_length=context_length(text, documents.tokenizer, documents.sentence),
        vocabulary_size=text.dimension("vocab_size"),
        hidden_size=text.dimension("hidden_size"),
        layers=text.dimension("num_hidden_layers"),
        heads=text.heads,
        kv_heads=text.kv_heads,
        head_dim=text.head_dim,
        experts=text.experts or None,
        experts_active=text.experts_active or None if text.experts else None,
        capabilities=of_model(config, sentence=documents.embeds),
        custom_code=config.inner("auto_map") is not None,
    )


def _counted(found: Metadata, totals: TensorTotals, weights: Weights, experts: int, active: int) -> Metadata:
    """Add the parameter count from the headers, if all headers were present."""
    if not totals.total or not weights.whole:
        return found
    used = totals.total
    if experts and active:
        used -= totals.routed - totals.routed * min(active, experts) // experts
    return replace(
        found,
        parameters=totals.total,
        parameters_active=used,
        parameters_from="headers",
        dtype=found.dtype or _TYPES.get(_main_type(totals), ""),
    )


def _estimated(files: ModelFiles, found: Metadata, text: Text, packing: Packing, weights: Weights) -> Metadata:
    guess = guess_parameters(files, weights, text, found.dtype, packing)
    if guess is None:
        return found
    total, source = guess
    active = None if text.experts else total
    return replace(found, parameters=total, parameters_active=active, parameters_from=source)


def _main_type(totals: TensorTotals) -> str:
    return max(sorted(totals.by_type), key=lambda kind: totals.by_type[kind], default="")


def _folders(pipeline: Fields | None) -> tuple[str, ...]:
    """Return the folders of the parts of a pipeline."""
    return tuple(sorted(components_of(pipeline))) if pipeline else ()


def _counted_pipeline(files: ModelFiles, found: Metadata, totals: TensorTotals, weights: Weights) -> Metadata:
    if totals.total and is_whole(found.components, weights):
        return _counted(found, totals, weights, 0, 0)
    count = estimate_components(files, found.components)
    if count is None:
        return found
    return replace(found, parameters=count, parameters_active=count, parameters_from="estimate")


def _pipeline(pipeline: Fields) -> Metadata:
    name = pipeline.text("_class_name") or ""
    return Metadata(
        framework="diffusers",
        framework_version=pipeline.text("_diffusers_version") or "",
        pipeline=name,
        components=components_of(pipeline),
        capabilities=of_pipeline(name),
    )


def _adapter(adapter: Fields | None) -> Adapter | None:
    if adapter is None:
        return None
    return Adapter(adapter.text("peft_type") or "", adapter.text("base_model_name_or_path") or "", adapter.integer("r"))
