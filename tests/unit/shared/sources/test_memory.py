import pytest

from shared.errors import SourceChanged, SourceNotFound, Unreachable
from shared.manifest import File
from shared.sources.memory import MemorySource, open_from
from shared.sources.port import ANONYMOUS, Body, Credentials
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri


def drain(body: Body) -> bytes:
    buffer, got = memoryview(bytearray(4)), b""
    while size := body.readinto(buffer):
        got += buffer[:size]
    return got


def source_and_file() -> tuple[MemorySource, File]:
    source = MemorySource({"a": b"0123456789"})
    return source, source.resolve().files[0]


def test_truncates_every_body_at_a_position() -> None:
    source, file = source_and_file()
    source.faults.truncate_at["a"] = 6
    for offset in (0, 7):
        with pytest.raises(Unreachable, match="early"):
            drain(source.open(file, offset))
    assert drain(source.open(file, 0, 6)) == b"012345"


def test_corrupts_the_first_byte_only() -> None:
    source, file = source_and_file()
    source.faults.corrupt.add("a")
    assert drain(source.open(file)) == bytes([ord("0") ^ 0xFF]) + b"123456789"
    assert drain(source.open(file, 1)) == b"123456789"


def test_fails_the_next_opens_and_then_succeeds() -> None:
    source, file = source_and_file()
    source.faults.on_open += [Unreachable("one"), Unreachable("two")]
    for word in ("one", "two"):
        with pytest.raises(Unreachable, match=word):
            source.open(file)
    assert drain(source.open(file)) == b"0123456789"


def test_a_changed_source_fails_to_open() -> None:
    source, file = source_and_file()
    source.faults.changed = True
    with pytest.raises(SourceChanged):
        source.open(file)


def test_counts_what_it_served_and_can_serve_little_at_a_time() -> None:
    source, file = source_and_file()
    source.faults.max_bytes = 3
    assert source.open(file).readinto(memoryview(bytearray(10))) == 3
    drain(source.with_credentials(ANONYMOUS).open(file, 8))
    assert source.served_bytes == 5


def test_reports_each_read() -> None:
    source, file = source_and_file()
    seen: list[tuple[str, int]] = []
    source.faults.before_read = lambda path, position: seen.append((path, position))
    drain(source.open(file, 4))
    assert seen == [("a", 4), ("a", 8), ("a", 10)]


def test_resolves_only_the_sources_it_was_given() -> None:
    source, _ = source_and_file()
    open_source = open_from({"test/model": source})
    manifest = open_source(parse_uri("hf://test/model"), Credentials({"HF_TOKEN": "t"}), SourceSettings()).resolve()
    assert open_source(parse_uri(manifest.uri), ANONYMOUS, SourceSettings()).resolve() == manifest
    with pytest.raises(SourceNotFound):
        open_source(parse_uri("hf://test/other"), ANONYMOUS, SourceSettings())
