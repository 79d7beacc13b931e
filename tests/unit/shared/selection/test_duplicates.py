"""Listings like those of real repositories on hubs; sizes in bytes, in the proportions of the real ones."""

from collections.abc import Iterable, Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.selection.duplicates import duplicate_weights

SMALL = 1_000


def of(weights: Mapping[str, int], small: Iterable[str] = ()) -> dict[str, int]:
    return dict(weights) | dict.fromkeys(small, SMALL)


def shards(stem: str, kind: str, of: int, each: int) -> dict[str, int]:
    return {f"{stem}-{n:05}-of-{of:05}.{kind}": each for n in range(1, of + 1)}


def left(sizes: Mapping[str, int]) -> set[str]:
    return set(duplicate_weights(sizes))


def test_bert_has_its_weights_in_five_formats() -> None:
    sizes = of(
        {
            "model.safetensors": 440_449_768,
            "pytorch_model.bin": 440_473_133,
            "tf_model.h5": 536_063_208,
            "flax_model.msgpack": 438_064_459,
            "rust_model.ot": 534_194_045,
            "coreml/fill-mask/float32_model.mlpackage/weight.bin": 532_175_744,
            "onnx/model.onnx": 435_826_548,
        },
        ["config.json", "vocab.txt", "README.md", ".gitattributes", "tokenizer.json"],
    )
    assert left(sizes) == {"pytorch_model.bin", "tf_model.h5", "flax_model.msgpack", "rust_model.ot"}


def test_llama_has_shards_and_the_original() -> None:
    sizes = of(
        shards("model", "safetensors", 4, 4_000_000_000) | {"original/consolidated.00.pth": 16_060_617_592},
        ["model.safetensors.index.json", "config.json", "original/params.json", "original/tokenizer.model", "LICENSE"],
    )
    assert left(sizes) == {"original/consolidated.00.pth"}


def test_llama_2_has_shards_of_another_count() -> None:
    sizes = of(
        shards("model", "safetensors", 2, 6_700_000_000) | shards("pytorch_model", "bin", 3, 4_500_000_000),
        ["model.safetensors.index.json", "pytorch_model.bin.index.json", "config.json", "training_args.bin"],
    )
    assert left(sizes) == {*shards("pytorch_model", "bin", 3, 0), "pytorch_model.bin.index.json"}


def test_mistral_has_a_consolidated_copy() -> None:
    sizes = of(
        shards("model", "safetensors", 3, 4_830_000_000) | {"consolidated.safetensors": 14_496_078_512},
        ["model.safetensors.index.json", "params.json", "tokenizer.model.v3"],
    )
    assert left(sizes) == {"consolidated.safetensors"}
    many = shards("consolidated", "safetensors", 27, 540_000_000)
    sharded = of(shards("model", "safetensors", 3, 4_830_000_000) | many, ["consolidated.safetensors.index.json"])
    assert left(sharded) == {*many, "consolidated.safetensors.index.json"}


def test_consolidated_weights_without_another_copy_are_kept() -> None:
    assert left(of({"consolidated.safetensors": 10**9, "consolidated.00.pth": 10**9}, ["params.json"])) == set()
    assert left(of({"consolidated.safetensors": 10**9, "pytorch_model.bin": 10**9})) == set()


def test_weights_of_another_precision_are_not_copies() -> None:
    whole = shards("model", "safetensors", 3, 4_830_000_000)
    assert left(of(whole | {"consolidated_fp8.safetensors": 14_000_000_000})) == set()
    assert left(of({"model.safetensors": 3_000, "pytorch_model.bin": 6_000})) == set()
    assert left(of({"model.safetensors": 6_000, "tf_model.h5": 3_000})) == set()


def test_whisper_has_a_variant_of_each() -> None:
    fp32 = {
        "model.fp32-00001-of-00002.safetensors": 4_990_000_000,
        "model.fp32-00002-of-00002.safetensors": 1_180_000_000,
    }
    old = {
        "pytorch_model.fp32-00001-of-00002.bin": 4_990_000_000,
        "pytorch_model.fp32-00002-of-00002.bin": 1_180_000_000,
    }
    sizes = of(
        {"model.safetensors": 3_087_130_976, "pytorch_model.bin": 3_087_388_015, "flax_model.msgpack": 6_173_314_177}
        | fp32
        | old,
        ["model.safetensors.index.fp32.json", "pytorch_model.bin.index.fp32.json"],
    )
    assert left(sizes) == {"pytorch_model.bin", *old, "pytorch_model.bin.index.fp32.json"}


def test_copies_are_found_separately_in_each_folder_of_a_diffusion_pipeline() -> None:
    unet, text = 3_438_167_534, 492_265_168
    sizes = of(
        {
            "unet/diffusion_pytorch_model.safetensors": unet,
            "unet/diffusion_pytorch_model.bin": unet,
            "unet/diffusion_pytorch_model.fp16.safetensors": unet // 2,
            "unet/diffusion_pytorch_model.fp16.bin": unet // 2,
            "unet/diffusion_pytorch_model.non_ema.bin": unet,  # no copy of it in safetensors
            "text_encoder/model.safetensors": text,
            "text_encoder/pytorch_model.bin": text,
            "vae/diffusion_pytorch_model.bin": 334_707_217,  # nor of this one, which is in another folder
            "v1-5-pruned.ckpt": 7_703_807_346,
            "v1-5-pruned.safetensors": 7_703_324_286,
            "v1-5-pruned-emaonly.ckpt": 4_265_380_512,
        },
        ["model_index.json", "unet/config.json"],
    )
    assert left(sizes) == {
        "unet/diffusion_pytorch_model.bin",
        "unet/diffusion_pytorch_model.fp16.bin",
        "text_encoder/pytorch_model.bin",
        "v1-5-pruned.ckpt",
    }


def test_a_missing_shard_leaves_everything_selected() -> None:
    broken = shards("model", "safetensors", 4, 4_000)
    del broken["model-00003-of-00004.safetensors"]
    sizes = of(broken | shards("pytorch_model", "bin", 3, 5_000) | {"original/consolidated.00.pth": 16_000})
    assert left(sizes) == set()


def test_shards_of_two_names_are_not_one_set() -> None:
    sizes = {"model-00001-of-00002.safetensors": 1_500, "pytorch_model-00002-of-00002.safetensors": 1_500}
    assert left(of(sizes | {"pytorch_model.bin": 3_000})) == set()


def test_programs_of_other_kinds_keep_their_files() -> None:
    sizes = of(
        {
            "model.safetensors": 10_000,
            "model.gguf": 10_000,
            "model-Q4_K_M.gguf": 4_000,
            "model.onnx": 10_000,
            "model.bin": 10_000,  # CTranslate2
            "openvino/openvino_model.bin": 10_000,
            "metal/model.bin": 10_000,
            "sentencepiece.bpe.model": 5_000,
            "optimizer.pt": 20_000,
            "scheduler.bin": 1_000,
        }
    )
    assert left(sizes) == set()


def test_gpt_oss_has_an_original_in_safetensors() -> None:
    sizes = of(
        shards("model", "safetensors", 3, 4_590_000_000)
        | {"original/model.safetensors": 13_761_300_984, "metal/model.bin": 13_750_886_400},
        ["original/config.json", "original/dtypes.json"],
    )
    assert left(sizes) == {"original/model.safetensors"}


def test_adapters_are_not_the_models_they_are_for() -> None:
    sizes = of({"adapter_model.safetensors": 10_000, "adapter_model.bin": 10_000, "pytorch_model.bin": 10_000})
    assert left(sizes) == {"adapter_model.bin"}


names = st.sampled_from(
    ["model", "pytorch_model", "tf_model", "consolidated", "consolidated.00", "model.fp16", "pytorch_model.fp16", "a"]
)
kinds = st.sampled_from(["safetensors", "bin", "pth", "h5", "msgpack", "gguf", "onnx"])
folders = st.sampled_from(["", "original/", "unet/", "unet/original/"])
parts = st.sampled_from(["", "-00001-of-00002", "-00002-of-00002"])
files = st.dictionaries(
    st.builds("{}{}{}.{}".format, folders, names, parts, kinds), st.sampled_from([0, 1_000, 1_100, 3_000]), max_size=14
)


def _is_whole(stem: str, sizes: Mapping[str, int]) -> bool:
    plain = f"{stem}.safetensors" in sizes
    return plain or all(f"{stem}-0000{n}-of-00002.safetensors" in sizes for n in (1, 2))


@settings(max_examples=500)
@given(sizes=files)
def test_every_file_that_is_left_out_has_a_complete_copy_that_stays(sizes: dict[str, int]) -> None:
    gone = left(sizes)
    kept = {path: size for path, size in sizes.items() if path not in gone}
    assert gone <= sizes.keys()
    for path in gone:
        folder = path.rpartition("/")[0]
        places = {folder, folder.removesuffix("original").rstrip("/")}
        assert any(
            _is_whole(f"{place}/{stem}".lstrip("/"), kept) for place in places for stem in ("model", "model.fp16",
            "pytorch_model", "tf_model", "pytorch_model.fp16", "a")
        ), path  # fmt: skip


@given(sizes=files)
def test_leaving_out_copies_again_leaves_out_nothing_more(sizes: dict[str, int]) -> None:
    gone = left(sizes)
    assert left({path: size for path, size in sizes.items() if path not in gone}) == set()
