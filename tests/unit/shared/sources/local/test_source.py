import os
import socket
from pathlib import Path

import pytest

from shared.errors import (
    AuthDenied,
    InvalidSettings,
    InvalidURI,
    LarderError,
    SourceChanged,
    SourceNotFound,
    Unreachable,
    UnsafePath,
)
from shared.manifest import File
from shared.sources.local.source import LocalSource
from shared.sources.port import ANONYMOUS
from shared.sources.settings import SourceSettings, settings_from_environ
from shared.uri.model_uri import parse_uri


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root" / "m" / "deep").mkdir(parents=True)
    (tmp_path / "root" / "m" / "deep" / "weights").write_bytes(b"0123456789")
    (tmp_path / "root" / "m" / "config.json").write_bytes(b"{}")
    (tmp_path / "secret").write_bytes(b"secret")
    return tmp_path / "root"


def source_of(root: Path, path: str = "m", roots: tuple[str, ...] | None = None) -> LocalSource:
    settings = SourceSettings(local_roots=(str(root),) if roots is None else roots)
    return LocalSource(parse_uri(f"local://{root}/{path}"), ANONYMOUS, settings)


def read(source: LocalSource, file: File) -> bytes:
    buffer = memoryview(bytearray(100))
    body = source.open(file)
    try:
        return bytes(buffer[: body.readinto(buffer)])
    finally:
        body.close()


def paths(source: LocalSource) -> list[str]:
    return [f.path for f in source.resolve().files]


def test_directories_and_single_files_are_listed_and_read(root: Path) -> None:
    assert paths(source_of(root)) == ["config.json", "deep/weights"]
    assert paths(source_of(root, "m/deep/weights")) == ["weights"]
    (root / "m" / "m").write_bytes(b"inner")
    assert read(source_of(root), File("m", 5)) == b"inner"


@pytest.mark.parametrize("roots", [(), ("/elsewhere",), ("{root}/m2",), ("{root}/m/deep/weights/x",)])
def test_a_path_outside_the_configured_roots_is_refused(root: Path, roots: tuple[str, ...]) -> None:
    with pytest.raises(InvalidURI, match="LARDER_LOCAL_ROOTS"):
        source_of(root, roots=tuple(text.format(root=root) for text in roots))


def test_a_name_that_is_not_utf8_is_reported_in_valid_text(root: Path) -> None:
    """The message goes into the status of an object."""
    (root / "m" / "caf\udce9").symlink_to("nowhere")
    with pytest.raises(SourceNotFound, match=r"caf\\udce9 is a dangling link") as caught:
        source_of(root).resolve()
    assert str(caught.value).encode()


def test_links_may_not_leave_the_longest_matching_root(root: Path) -> None:
    (root / "m" / "out").symlink_to("../other")
    (root / "other").write_bytes(b"beside")
    assert "out" in paths(source_of(root))
    with pytest.raises(UnsafePath):
        source_of(root, roots=(str(root), f"{root}/m/")).resolve()


def test_links_within_the_root_are_followed(root: Path) -> None:
    (root / "blobs").mkdir()
    (root / "blobs" / "b").write_bytes(b"blob")
    (root / "m" / "deep" / "model").symlink_to("../../blobs/../blobs/./b")
    (root / "alias").symlink_to("m")
    source = source_of(root, "alias")
    file = next(f for f in source.resolve().files if f.path == "deep/model")
    assert (file.size, read(source, file)) == (4, b"blob")


@pytest.mark.parametrize(
    "target", ["/etc/passwd", "../../secret", "../../../../../../etc/passwd", "loop", "{root}/m/config.json"]
)
def test_links_out_are_refused_when_listing_and_when_opening(root: Path, target: str) -> None:
    (root / "m" / "loop").symlink_to("loop")
    (root / "m" / "x").symlink_to(target.format(root=root))
    with pytest.raises(UnsafePath, match="leads out"):
        source_of(root).resolve()
    with pytest.raises(UnsafePath, match="leads out"):
        source_of(root).open(File("x", 6))
    with pytest.raises(UnsafePath, match="leads out"):
        source_of(root, "m/x").resolve()


def test_a_directory_that_leads_out_is_not_entered(root: Path) -> None:
    (root / "m" / "up").symlink_to("../..")
    for act in (
        lambda: source_of(root, "m/up/secret").resolve(),
        lambda: source_of(root).open(File("up/secret", 6)),
        lambda: source_of(root).resolve(),
    ):
        with pytest.raises(UnsafePath):
            act()


def test_a_link_to_a_directory_is_refused(root: Path) -> None:
    (root / "m" / "again").symlink_to("deep")
    with pytest.raises(UnsafePath, match="link to a directory"):
        source_of(root).resolve()


def test_a_pipe_or_device_is_refused_without_waiting(root: Path) -> None:
    os.mkfifo(root / "m" / "pipe")
    with pytest.raises(UnsafePath, match="neither a file"):
        source_of(root).resolve()
    with pytest.raises(UnsafePath, match="neither a file"):
        source_of(root).open(File("pipe", 1))
    (root / "m" / "pipe").unlink()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(root / "m" / "s"))
        with pytest.raises(UnsafePath, match="neither a file"):
            source_of(root).resolve()


@pytest.mark.parametrize(
    ("path", "error"), [("none", SourceNotFound), ("m/config.json/x", SourceNotFound), ("m/broken", SourceNotFound)]
)
def test_a_missing_file_is_not_found(root: Path, path: str, error: type[LarderError]) -> None:
    (root / "m" / "broken").symlink_to("nothing")
    with pytest.raises(error):
        source_of(root, path).resolve()


def test_a_bad_link_in_a_directory_is_named_and_nothing_is_served_without_it(root: Path) -> None:
    (root / "m" / "deep" / "more").symlink_to("nothing")
    with pytest.raises(SourceNotFound, match=rf"^{root}/m/deep/more is a dangling link"):
        source_of(root).resolve()
    (root / "gone").symlink_to("nothing")
    with pytest.raises(SourceNotFound, match="gone/x passes through a dangling link"):
        source_of(root, "gone/x").resolve()


def test_an_empty_directory_is_not_found_as_a_model(root: Path) -> None:
    (root / "empty").mkdir()
    with pytest.raises(SourceNotFound, match="no files"):
        source_of(root, "empty").resolve()


def test_a_file_with_a_new_modification_time_has_changed(root: Path) -> None:
    source = source_of(root)
    file = source.resolve().files[0]
    os.utime(root / "m" / file.path, ns=(1, 1))
    with pytest.raises(SourceChanged):
        source.open(file)


def test_a_file_that_becomes_shorter_while_it_is_read_is_cut_short(root: Path) -> None:
    source = source_of(root, "m/deep")
    body = source.open(source.resolve().files[0])
    buffer = memoryview(bytearray(5))
    assert body.readinto(buffer) == 5
    os.truncate(root / "m" / "deep" / "weights", 5)
    with pytest.raises(Unreachable, match="truncated"):
        body.readinto(buffer)
    body.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_denied(root: Path) -> None:
    (root / "m" / "config.json").chmod(0)
    with pytest.raises(AuthDenied):
        source_of(root).open(File("config.json", 2))


@pytest.mark.parametrize("text", ["relative", "/", "/a/../b", "//"])
def test_a_root_is_an_absolute_directory(text: str) -> None:
    with pytest.raises(InvalidSettings, match="LARDER_LOCAL_ROOTS"):
        settings_from_environ({"LARDER_LOCAL_ROOTS": text})
    assert settings_from_environ({"LARDER_LOCAL_ROOTS": "/a:/b c"}).local_roots == ("/a", "/b c")


def test_a_model_of_directories_only_is_refused_with_their_names(tmp_path: Path) -> None:
    (tmp_path / "m" / "config.json").mkdir(parents=True)
    source = LocalSource(parse_uri(f"local://{tmp_path}/m"), ANONYMOUS, SourceSettings(local_roots=(str(tmp_path),)))
    with pytest.raises(SourceNotFound, match=r"no files, only directories: 'config\.json'; correct"):
        source.resolve()
