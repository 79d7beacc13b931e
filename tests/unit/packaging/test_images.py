"""What the images are built from."""

import re
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_PINNED = re.compile(r"docker\.io/library/python:3\.\d+\.\d+-slim-[a-z]+@sha256:[0-9a-f]{64}", re.ASCII)


def test_both_images_share_one_base_pinned_by_digest() -> None:
    files = [(_ROOT / f"Dockerfile.{name}").read_text() for name in ("agent", "controller")]
    bases = {base for text in files for base in re.findall(r"^ARG BASE=(.+)$", text, re.MULTILINE)}
    (base,) = bases
    assert _PINNED.fullmatch(base)
    for text in files:
        assert set(re.findall(r"^FROM (\S+)", text, re.MULTILINE)) == {"${BASE}"}


def test_packages_are_installed_only_with_matching_hashes() -> None:
    for name in ("agent", "controller"):
        assert "--require-hashes --only-binary=:all:" in (_ROOT / f"Dockerfile.{name}").read_text()
