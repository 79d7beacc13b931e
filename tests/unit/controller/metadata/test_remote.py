"""Reading a model from its source, within bounds."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from controller.metadata.remote import ReadBudget, read_remote
from shared.errors import RateLimited
from shared.manifest import File
from shared.metadata.reading.termination_message import MAX_BYTES, Reading, encode_reading
from shared.sources.local.source import LocalSource
from shared.sources.memory import MemoryBody, MemorySource
from shared.sources.port import ANONYMOUS, Body
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri
from tests.builders.model_files import safetensors

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "max_position_embeddings": 4096}
WEIGHTS = safetensors({"model.embed_tokens.weight": ("BF16", (10_000, 64))})
FILES = {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": WEIGHTS}


def allowance(seconds: float = 60.0, left_bytes: int = 10**9) -> ReadBudget:
    """An allowance on a clock that a test does not move."""
    return ReadBudget(lambda: 0.0, seconds, left_bytes)


def reading_of(files: Mapping[str, bytes], left_out: int = 0) -> Reading:
    source = MemorySource(files)
    return read_remote(source, source.resolve(), left_out, allowance())


def test_metadata_is_read_without_fetching_the_weights() -> None:
    source = MemorySource(FILES)
    reading = read_remote(source, source.resolve(), 0, allowance())
    assert reading.metadata
    assert reading.metadata.parameters == 640_000
    assert reading.metadata.parameters_from == "headers"
    assert reading.metadata.architectures == ("LlamaForCausalLM",)
    assert source.served_bytes < len(WEIGHTS) / 10


def test_only_files_in_the_manifest_are_read() -> None:
    listed = MemorySource({k: v for k, v in FILES.items() if k != "config.json"}).resolve()
    reading = read_remote(MemorySource(FILES), listed, 1, allowance())
    assert reading.metadata
    assert reading.metadata.model_type == ""
    assert reading.metadata.parameters == 640_000


def test_files_that_describe_no_model_are_reported_with_the_likely_cause() -> None:
    archive = reading_of({"m.tar.gz": b"x"})
    assert (archive.reason, archive.metadata) == ("MetadataMissing", None)
    assert "m.tar.gz is the only file, and an archive can be read only after it is unpacked" in archive.message
    packed = MemorySource({"config.json": b"{}", "w": b"x"}, archives={"w": "tar"})
    reading = read_remote(packed, packed.resolve(), 0, allowance())
    assert (reading.reason, reading.metadata) == ("MetadataMissing", None)
    assert "w: is an archive, which can be read only after it is unpacked" in reading.message
    assert len(reading_of({"m" * 250 + ".zip": b"x"}).message) < 350
    patterns = reading_of({"a.txt": b"x", "b.txt": b"y"}, left_out=3)
    assert "3 files of the source are left out" in patterns.message
    assert "archive" not in patterns.message


def test_a_directory_of_the_controller_s_own_machine_is_read(tmp_path: Path) -> None:
    for path, body in FILES.items():
        (tmp_path / path).write_bytes(body)
    source = LocalSource(parse_uri(f"local://{tmp_path}"), ANONYMOUS, SourceSettings(local_roots=(str(tmp_path),)))
    reading = read_remote(source, source.resolve(), 0, allowance())
    assert reading.metadata
    assert (reading.metadata.model_type, reading.metadata.parameters) == ("llama", 640_000)


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"a": NaN}', b"\xff", b'{"a": 1, "a": 2}', b"[" * 10_000])
def test_a_malformed_configuration_is_reported_as_malformed_metadata(body: bytes) -> None:
    reading = reading_of(FILES | {"config.json": body})
    assert reading.reason == "MetadataMalformed"
    assert "config.json" in reading.message


def test_metadata_is_bounded_and_printable() -> None:
    names = ["\u202e" * 500, "x" * 100_000]
    config = CONFIG | {"architectures": names, "transformers_version": "9" * 10_000}
    reading = reading_of(FILES | {"config.json": json.dumps(config).encode()})
    assert reading.metadata
    assert all(len(name) <= 253 and name.isascii() for name in reading.metadata.architectures)
    assert len(encode_reading(reading)) <= MAX_BYTES


def test_the_error_of_the_source_is_the_reason_of_the_reading() -> None:
    source = MemorySource(FILES)
    manifest = source.resolve()
    source.faults.on_open = [RateLimited("later", 10.0)]
    assert read_remote(source, manifest, 0, allowance()).reason == "RateLimited"


def test_a_body_that_is_cut_short_once_is_requested_again() -> None:
    source = MemorySource(FILES)
    manifest = source.resolve()
    source.faults.truncate_at = {"config.json": 5}

    def repair(_path: str, position: int) -> None:
        if position >= 5:
            source.faults.truncate_at = {}

    source.faults.before_read = repair
    assert read_remote(source, manifest, 0, allowance()).metadata


def test_a_source_that_drips_is_abandoned_after_its_time() -> None:
    source, now = MemorySource(FILES), [0.0]
    manifest = source.resolve()
    source.faults.max_bytes = 1

    def drip(_path: str, _position: int) -> None:
        now[0] += 5.0

    source.faults.before_read = drip
    reading = read_remote(source, manifest, 0, ReadBudget(lambda: now[0], 60.0))
    assert reading.reason == "Unreachable"
    assert "more than 60 s" in reading.message
    assert source.served_bytes <= 20


class FromTheStart(MemorySource):
    """A server that ignores Range, and takes a hundred seconds of `now` for each 4 KiB before the part."""

    passed_bytes, now = 0, 0.0

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        return FromTheStartBody(self, file.path, offset, file.size if length is None else offset + length)


class FromTheStartBody(MemoryBody):
    def __init__(self, source: FromTheStart, path: str, position: int, end: int) -> None:
        super().__init__(source, path, position, end)
        self._place, self._skip_bytes, self.skips = source, position, position > 0

    def skip(self, max_bytes: int) -> int:
        size = min(4096, max_bytes, self._skip_bytes)
        self._skip_bytes -= size
        self._place.passed_bytes += size
        self._place.now += 100.0 if size else 0.0
        return size

    def readinto(self, buffer: memoryview) -> int:
        while self.skip(self._skip_bytes):
            pass
        return super().readinto(buffer)


def test_bytes_before_the_range_of_a_server_that_ignores_ranges_are_skipped_within_the_time_limit() -> None:
    source = FromTheStart({"model.safetensors": safetensors({f"tensor.{n}": ("BF16", (1,)) for n in range(2000)})})
    reading = read_remote(source, source.resolve(), 0, ReadBudget(lambda: source.now, 1e6))
    assert reading.metadata
    assert reading.metadata.parameters == 2000
    before = source.passed_bytes
    assert before > 2 * 4096
    reading = read_remote(source, source.resolve(), 0, ReadBudget(lambda: source.now, 60.0))
    assert "more than 60 s" in reading.message
    assert source.passed_bytes == before + 4096


def test_a_reading_is_abandoned_after_its_allowance_of_bytes() -> None:
    source = MemorySource(FILES)
    reading = read_remote(source, source.resolve(), 0, allowance(left_bytes=1000))
    assert reading.reason == "Unreachable"
    assert "larger than those of any real model" in reading.message
