import gzip
import hashlib
import io
import random
import stat
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.archive.kinds import Kind
from agent.archive.members import Limits, Member
from agent.archive.unpack import list_archive, unpack_archive, write_below
from agent.transfer.receive import Stopped
from shared.errors import (
    InsufficientStorage,
    InvalidURI,
    LarderError,
    StoreFailure,
    TooManyFiles,
    UnsafePath,
)
from shared.manifest import File

LIMITS = Limits(10_000_000)
BIG = random.Random(5).randbytes(2_500_000)
FILES = {"big.safetensors": BIG, "config.json": b"{}", "d/e/empty": b"", "d/tokenizer.json": b"[1]"}
MANY = 60_000


def tar(files: dict[str, bytes] = FILES, *more: tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, body in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
        for info in more:
            archive.addfile(info)
    return out.getvalue()


def tar_gz(files: dict[str, bytes] = FILES) -> bytes:
    return gzip.compress(tar(files), 1)


def zipped(files: dict[str, bytes] = FILES, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return out.getvalue()


MAKERS: dict[Kind, Callable[[dict[str, bytes]], bytes]] = {Kind.TAR: tar, Kind.TAR_GZIP: tar_gz, Kind.ZIP: zipped}


def entry(name: str, kind: bytes, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


def unpack(
    body: bytes, kind: Kind, target: Path, limits: Limits = LIMITS, stop: threading.Event | None = None
) -> tuple[File, ...]:
    file = io.BytesIO(body)
    members = list_archive(file, kind, limits)
    return unpack_archive(file, kind, members, write_below(target), stop or threading.Event())


def drain(member: Member, pieces: Iterator[bytes]) -> None:
    del member
    for _ in pieces:
        pass


def written(target: Path) -> dict[str, bytes]:
    return {p.relative_to(target).as_posix(): p.read_bytes() for p in target.rglob("*") if p.is_file()}


@pytest.mark.parametrize("kind", Kind)
def test_files_come_out_with_their_digests(kind: Kind, tmp_path: Path) -> None:
    files = unpack(MAKERS[kind](FILES), kind, tmp_path)
    assert written(tmp_path) == FILES
    assert [(f.path, f.size, f.digest) for f in files] == [
        (path, len(body), f"sha256:{hashlib.sha256(body).hexdigest()}") for path, body in sorted(FILES.items())
    ]


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_of_every_form_of_tar(form: int, tmp_path: Path) -> None:
    files = {"/".join(["d" * 60] * 3) + "/" + "n" * 60: b"1"}
    unpack(tar(files, form=form), Kind.TAR, tmp_path)
    assert written(tmp_path) == files


def test_links_within_have_the_bytes_that_they_lead_to_and_are_not_written(tmp_path: Path) -> None:
    body = tar(FILES, entry("d/link", tarfile.SYMTYPE, "../config.json"), entry("same", tarfile.LNKTYPE, "config.json"))
    files = {f.path: f for f in unpack(body, Kind.TAR, tmp_path)}
    assert files["d/link"].digest == files["same"].digest == files["config.json"].digest
    assert written(tmp_path) == FILES


@pytest.mark.parametrize(
    "bad",
    [
        entry("../out", tarfile.REGTYPE),
        entry("/out", tarfile.REGTYPE),
        entry("out", tarfile.SYMTYPE, "/etc/passwd"),
        entry("out", tarfile.SYMTYPE, "../../etc/passwd"),
        entry("out", tarfile.LNKTYPE, "../out"),
        entry("dev", tarfile.CHRTYPE),
        entry("dev", tarfile.BLKTYPE),
        entry("pipe", tarfile.FIFOTYPE),
        entry("root", tarfile.REGTYPE, mode=0o4755),
        entry("d", tarfile.REGTYPE),
        entry("CONFIG.json", tarfile.REGTYPE),
        entry(".completed", tarfile.REGTYPE),
        entry("odd", b"Z"),
    ],
    ids=lambda info: f"{info.type!r} {info.name} {info.linkname}",
)
def test_an_unsafe_member_at_the_end_leaves_nothing_written(bad: tarfile.TarInfo, tmp_path: Path) -> None:
    with pytest.raises(UnsafePath):
        unpack(tar(FILES, bad), Kind.TAR, tmp_path)
    assert written(tmp_path) == {}


def test_a_sparse_file_is_refused(tmp_path: Path) -> None:
    info = entry("holes", tarfile.REGTYPE)
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": "0,0",
        "GNU.sparse.size": "9",
    }
    with pytest.raises(UnsafePath, match="sparse"):
        unpack(tar(FILES, info), Kind.TAR, tmp_path)


def unix_zip(name: str, mode: int, body: bytes = b"x") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("good", b"1")
        info = zipfile.ZipInfo(name)
        info.create_system, info.external_attr = 3, mode << 16
        archive.writestr(info, body)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "mode", "body"),
    [
        ("../out", stat.S_IFREG | 0o644, b"x"),
        ("/out", stat.S_IFREG | 0o644, b"x"),
        ("a\\..\\b", stat.S_IFREG | 0o644, b"x"),
        ("link", stat.S_IFLNK | 0o777, b"/etc/passwd"),
        ("link", stat.S_IFLNK | 0o777, b"../x"),
        ("link", stat.S_IFLNK | 0o777, b"x" * 5_000),
        ("root", stat.S_IFREG | 0o4755, b"x"),
        ("dev", stat.S_IFBLK | 0o644, b""),
        ("pipe", stat.S_IFIFO | 0o644, b""),
    ],
)
def test_unsafe_members_of_a_zip(name: str, mode: int, body: bytes, tmp_path: Path) -> None:
    with pytest.raises(UnsafePath):
        unpack(unix_zip(name, mode, body), Kind.ZIP, tmp_path)
    assert written(tmp_path) == {}


def test_a_link_within_a_zip(tmp_path: Path) -> None:
    files = {f.path: f for f in unpack(unix_zip("d/link", stat.S_IFLNK | 0o777, b"../good"), Kind.ZIP, tmp_path)}
    assert files["d/link"].digest == files["good"].digest


def test_a_name_with_a_nul_in_a_zip_is_not_cut(tmp_path: Path) -> None:
    body = zipped({"model.binXexe": b"1"}).replace(b"binXexe", b"bin\0exe")
    with pytest.raises(UnsafePath, match="NUL"):
        unpack(body, Kind.ZIP, tmp_path)


def test_an_encrypted_zip_is_refused(tmp_path: Path) -> None:
    body = bytearray(zipped({"a": b"1"}))
    body[body.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(UnsafePath, match="encrypted"):
        unpack(bytes(body), Kind.ZIP, tmp_path)


@pytest.mark.parametrize("kind", Kind)
def test_what_declares_too_much_is_not_begun(kind: Kind, tmp_path: Path) -> None:
    bomb = MAKERS[kind]({"zeros": bytes(5_000_000)})
    with pytest.raises(InsufficientStorage, match="declares more"):
        unpack(bomb, kind, tmp_path, Limits(4_999_999))
    assert written(tmp_path) == {}
    assert unpack(bomb, kind, tmp_path, Limits(5_000_000))


@pytest.mark.parametrize("kind", Kind)
def test_too_many_members_are_not_begun(kind: Kind, tmp_path: Path) -> None:
    body = MAKERS[kind]({str(number): b"" for number in range(50)})
    with pytest.raises(TooManyFiles):
        unpack(body, kind, tmp_path, Limits(1_000, 49))


def test_a_table_of_names_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(TooManyFiles, match="table of names"):
        unpack(zipped({f"{number:0100}": b"" for number in range(MANY)}, zipfile.ZIP_STORED), Kind.ZIP, tmp_path)
    header = entry("x", tarfile.XHDTYPE)
    header.size = 1 << 33
    with pytest.raises(TooManyFiles, match="table of names"):
        unpack(header.tobuf(tarfile.GNU_FORMAT) + bytes(10_000), Kind.TAR, tmp_path)


def test_a_zip_that_declares_less_than_it_has_is_refused(tmp_path: Path) -> None:
    body = bytearray(zipped({"a": bytes(1_000)}))
    for mark, at in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        start = body.index(mark) + at
        body[start : start + 4] = (10).to_bytes(4, "little")
    with pytest.raises((InvalidURI, UnsafePath)):
        unpack(bytes(body), Kind.ZIP, tmp_path)


@pytest.mark.parametrize("kind", Kind)
def test_damage_is_told(kind: Kind, tmp_path: Path) -> None:
    body = MAKERS[kind](FILES)
    for damaged in (b"", b"no archive at all" * 100, body[: len(body) // 2]):
        with pytest.raises(InvalidURI, match="upload it anew"):
            unpack(damaged, kind, tmp_path)


def test_a_damaged_header_in_the_middle_is_not_the_end(tmp_path: Path) -> None:
    body = bytearray(tar({"a": b"1", "b": b"2", "c": b"3"}))
    body[1024] ^= 0xFF
    with pytest.raises(InvalidURI, match="in its middle"):
        unpack(bytes(body), Kind.TAR, tmp_path)


def test_an_archive_that_is_another_by_now_is_refused(tmp_path: Path) -> None:
    members = list_archive(io.BytesIO(tar({"a": b"1"})), Kind.TAR, LIMITS)
    for other, error in (({"a": b"1", "b": b"2"}, UnsafePath), ({}, InvalidURI), ({"a": b"12"}, UnsafePath)):
        target = tmp_path / str(len(other)) / str(error)
        target.mkdir(parents=True)
        with pytest.raises(error):
            unpack_archive(io.BytesIO(tar(other)), Kind.TAR, members, write_below(target), threading.Event())
        assert all(len(body) <= 1 for body in written(target).values())


def test_it_stops_when_it_is_told_to() -> None:
    stop = threading.Event()
    body = tar()
    members = list_archive(io.BytesIO(body), Kind.TAR, LIMITS)

    def put(member: Member, pieces: Iterator[bytes]) -> None:
        del member
        for _ in pieces:
            stop.set()

    with pytest.raises(Stopped):
        unpack_archive(io.BytesIO(body), Kind.TAR, members, put, stop)


def test_nothing_that_stands_there_is_written_over_or_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    target = tmp_path / "target"
    target.mkdir()
    (target / "a").symlink_to(elsewhere)
    with pytest.raises(StoreFailure):
        unpack(tar({"a": b"1"}), Kind.TAR, target)
    assert not elsewhere.exists()


@given(st.sampled_from(Kind), st.binary(max_size=300), st.integers(0, 10_000), st.integers(0, 255))
def test_any_bytes_are_an_archive_or_refused(kind: Kind, junk: bytes, at: int, value: int) -> None:
    body = bytearray(MAKERS[kind]({"a/b": b"x" * 700, "c": b"yy"}))
    body[at % len(body)] = value
    for candidate in (junk, bytes(body)):
        file = io.BytesIO(candidate)
        try:
            members = list_archive(file, kind, Limits(100_000))
            unpack_archive(file, kind, members, drain, threading.Event())
        except LarderError:
            pass
