import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.api.meta import LeftOut
from shared.errors import SourceNotFound
from shared.manifest import File, build_manifest
from shared.selection.choice import WHOLE, make_selection
from shared.selection.select import select_files

FILES = [
    File("config.json", 10, "sha256:a"),
    File("model.safetensors", 1_000, "sha256:b"),
    File("original/consolidated.00.pth", 1_010, "sha256:c"),
    File("pytorch_model.bin", 1_005, "sha256:d"),
]
MANIFEST = build_manifest("hf://o/m@c0ffee", "c0ffee", FILES)


def test_selecting_everything_returns_the_manifest_unchanged() -> None:
    assert select_files(MANIFEST, WHOLE) == (MANIFEST, LeftOut())
    assert select_files(MANIFEST, WHOLE)[0].digest == MANIFEST.digest


def test_files_left_out_by_patterns_and_as_copies_are_counted() -> None:
    selected, left = select_files(MANIFEST, make_selection(ignore=["*.json"], duplicates="skip"))
    assert [f.path for f in selected.files] == ["model.safetensors"]
    assert (left.files, left.size, left.duplicate_size) == (3, 2_025, 2_015)
    assert left.names == ["original/consolidated.00.pth", "pytorch_model.bin", "config.json"]
    assert selected.uri == MANIFEST.uri  # nodes fetch the same commit
    assert selected.revision.startswith("c0ffee-")
    assert selected.digest != MANIFEST.digest


def test_a_pytorch_copy_is_kept_if_patterns_exclude_the_safetensors() -> None:
    selected, left = select_files(MANIFEST, make_selection(ignore=["*.safetensors", "original/"], duplicates="skip"))
    assert [f.path for f in selected.files] == ["config.json", "pytorch_model.bin"]
    assert left.duplicate_size == 0


def test_refusing_pickles_gives_a_new_revision_of_the_same_files() -> None:
    selected, left = select_files(MANIFEST, make_selection(pickle=False))
    assert selected.files == MANIFEST.files
    assert not selected.allow_pickle
    assert left == LeftOut()
    assert selected.revision != MANIFEST.revision


def test_patterns_that_select_nothing_are_named_in_the_error() -> None:
    with pytest.raises(SourceNotFound, match=r"none of the 4 .* allowPatterns \*\.gguf; .* the files are config\.json"):
        select_files(MANIFEST, make_selection(["*.gguf"]))


def test_the_names_of_left_out_files_are_bounded() -> None:
    many = build_manifest("hf://o/m@c", "c", [File(f"{n:04}/{'x' * 250}/{'x' * 50}", n) for n in range(1000)])
    _, left = select_files(many, make_selection(["0000*"]))
    assert left.files == 999
    assert len(left.names) == 20
    assert max(map(len, left.names)) == 256
    assert left.names[0].startswith("0999")


@given(
    paths=st.sets(st.text("ab.", min_size=1).filter(lambda p: p not in (".", "..")), min_size=1),
    allow=st.lists(st.text("ab*", min_size=1), max_size=3),
)
def test_selected_and_left_out_files_add_up_to_the_manifest(paths: set[str], allow: list[str]) -> None:
    manifest = build_manifest("s3://b/p", "", [File(p, len(p)) for p in paths])
    try:
        selected, left = select_files(manifest, make_selection(allow, duplicates="skip"))
    except SourceNotFound:
        return
    assert len(selected.files) + left.files == len(paths)
    assert selected.size_bytes + left.size == manifest.size_bytes
