import pytest
from huggingface_hub.utils._paths import filter_repo_objects
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.selection.select import is_kept

paths = st.text("ab/.*[]!?-\\x", min_size=1, max_size=12)
patterns = st.lists(st.text("ab/.*[]!?-\\x", min_size=1, max_size=8), max_size=4)


@settings(max_examples=1000)
@given(listed=st.lists(paths, max_size=8), allow=patterns, ignore=patterns)
def test_patterns_match_the_same_files_as_huggingface_hub(
    listed: list[str], allow: list[str], ignore: list[str]
) -> None:
    theirs = list(filter_repo_objects(listed, allow_patterns=allow or None, ignore_patterns=ignore or None))
    assert [p for p in listed if is_kept(p, allow, ignore)] == theirs


@pytest.mark.parametrize(
    ("path", "pattern", "fits"),
    [
        ("model.safetensors", "*.safetensors", True),
        ("unet/model.safetensors", "*.safetensors", True),  # a star also matches slashes
        ("unet/model.safetensors", "unet/", True),
        ("unet", "unet/", False),
        ("unet2/x", "unet/", False),
        ("Model.bin", "model.bin", False),
        ("a-00001-of-2", "a-0000?-of-[12]", True),
        ("config.json", "config", False),
    ],
)
def test_patterns_match_paths_as_in_the_table(path: str, pattern: str, fits: bool) -> None:  # noqa: FBT001 - a row of the table
    assert is_kept(path, [pattern], []) is fits
    assert is_kept(path, [], [pattern]) is not fits


def test_an_ignore_pattern_takes_precedence_over_an_allow_pattern() -> None:
    assert not is_kept("a.bin", ["*"], ["*.bin"])
