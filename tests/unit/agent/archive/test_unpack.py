import gzip
import hashlib
import io
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.archive.formats import ArchiveFormat
from agent.archive.members import Member, Oversize, UnpackLimits
from agent.archive.unpack import list_archive, unpack_archive
from shared.errors import InvalidURI, LarderError, TooManyFiles, UnsafePath
from tests.builders.archives import member, tar, tar_gz, zipped

LIMITS = UnpackLimits(10_000_000)
BIG = random.Random(5).randbytes(2_500_000)
FILES = {"big.safetensors": BIG, "config.json": b"{}", "d/e/empty": b"", "d/tokenizer.json": b"[1]"}
MANY = 60_000


MAKERS: dict[ArchiveFormat, Callable[[Mapping[str, bytes]], bytes]] = {
    ArchiveFormat.TAR: tar,
    ArchiveFormat.TAR_GZIP: tar_gz,
    ArchiveFormat.ZIP: zipped,
}


def unpack(body: bytes, archive_format: ArchiveFormat, limits: UnpackLimits = LIMITS) -> dict[str, bytes]:
    """Return the content of every file by path, including links."""
    return unpack_from(io.BytesIO(body), archive_format, limits)


def unpack_from(file: BinaryIO, archive_format: ArchiveFormat, limits: UnpackLimits) -> dict[str, bytes]:
    members = list_archive(file, archive_format, limits)
    own = [member for member in members if member.content_path == member.path]
    files: dict[str, bytes] = {}
    for content in unpack_archive(file, archive_format, own):
        body = b"".join(content)
        assert content.sha256 == hashlib.sha256(body).hexdigest()
        files[content.member.path] = body
    return {member.path: files[member.content_path] for member in members}


@pytest.mark.parametrize("archive_format", ArchiveFormat)
def test_files_are_unpacked_with_their_digests(archive_format: ArchiveFormat) -> None:
    assert unpack(MAKERS[archive_format](FILES), archive_format) == FILES


@pytest.mark.parametrize("archive_format", ArchiveFormat)
def test_only_the_requested_members_are_read(archive_format: ArchiveFormat) -> None:
    file = io.BytesIO(MAKERS[archive_format](FILES))
    wanted = [member for member in list_archive(file, archive_format, LIMITS) if member.path.startswith("d/")]
    assert {c.member.path: b"".join(c) for c in unpack_archive(file, archive_format, wanted)} == {
        path: body for path, body in FILES.items() if path.startswith("d/")
    }
    assert list(unpack_archive(file, archive_format, [])) == []


@pytest.mark.parametrize("form", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_are_read_from_every_tar_format(form: int) -> None:
    files = {"/".join(["d" * 60] * 3) + "/" + "n" * 255: b"1"}
    assert unpack(tar(files, form=form), ArchiveFormat.TAR) == files


def test_links_within_the_archive_are_unpacked_as_their_targets() -> None:
    body = tar(
        FILES, member("d/link", tarfile.SYMTYPE, "../config.json"), member("same", tarfile.LNKTYPE, "config.json")
    )
    assert unpack(body, ArchiveFormat.TAR) == {**FILES, "d/link": FILES["config.json"], "same": FILES["config.json"]}


@pytest.mark.parametrize(
    "bad",
    [
        member("../out", tarfile.REGTYPE),
        member("/out", tarfile.REGTYPE),
        member("out", tarfile.SYMTYPE, "/etc/passwd"),
        member("out", tarfile.SYMTYPE, "../../etc/passwd"),
        member("out", tarfile.LNKTYPE, "../out"),
        member("dev", tarfile.CHRTYPE),
        member("dev", tarfile.BLKTYPE),
        member("pipe", tarfile.FIFOTYPE),
        member("root", tarfile.REGTYPE, mode=0o4755),
        member("d", tarfile.REGTYPE),
        member("CONFIG.json", tarfile.REGTYPE),
        member(".completed", tarfile.REGTYPE),
        member("odd", b"Z"),
    ],
    ids=lambda info: f"{info.type!r} {info.name} {info.linkname}",
)
def test_a_single_unsafe_member_at_the_end_fails_the_whole_archive(bad: tarfile.TarInfo) -> None:
    with pytest.raises(UnsafePath):
        list_archive(io.BytesIO(tar(FILES, bad)), ArchiveFormat.TAR, LIMITS)


def test_a_sparse_file_is_refused() -> None:
    info = member("holes", tarfile.REGTYPE)
    info.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": "0,0",
        "GNU.sparse.size": "9",
    }
    with pytest.raises(UnsafePath, match="sparse"):
        unpack(tar(FILES, info), ArchiveFormat.TAR)


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
def test_unsafe_members_of_a_zip_are_refused(name: str, mode: int, body: bytes) -> None:
    with pytest.raises(UnsafePath):
        list_archive(io.BytesIO(unix_zip(name, mode, body)), ArchiveFormat.ZIP, LIMITS)


def test_a_link_within_a_zip_is_unpacked_as_its_target() -> None:
    files = unpack(unix_zip("d/link", stat.S_IFLNK | 0o777, b"../good"), ArchiveFormat.ZIP)
    assert files == {"good": b"1", "d/link": b"1"}


def test_a_name_with_a_nul_in_a_zip_is_refused() -> None:
    body = zipped({"model.binXexe": b"1"}).replace(b"binXexe", b"bin\0exe")
    with pytest.raises(UnsafePath, match="NUL"):
        unpack(body, ArchiveFormat.ZIP)


def test_an_encrypted_zip_is_refused() -> None:
    body = bytearray(zipped({"a": b"1"}))
    body[body.index(b"PK\x01\x02") + 8] |= 1
    with pytest.raises(UnsafePath, match="encrypted"):
        unpack(bytes(body), ArchiveFormat.ZIP)


@pytest.mark.parametrize("archive_format", ArchiveFormat)
def test_an_archive_that_declares_more_bytes_than_allowed_is_not_unpacked(archive_format: ArchiveFormat) -> None:
    bomb = MAKERS[archive_format]({"zeros": bytes(5_000_000)})
    with pytest.raises(Oversize):
        unpack(bomb, archive_format, UnpackLimits(4_999_999))
    assert unpack(bomb, archive_format, UnpackLimits(5_000_000))


@pytest.mark.parametrize("archive_format", ArchiveFormat)
def test_an_archive_with_too_many_members_is_not_unpacked(archive_format: ArchiveFormat) -> None:
    body = MAKERS[archive_format]({str(number): b"" for number in range(50)})
    with pytest.raises(TooManyFiles):
        unpack(body, archive_format, UnpackLimits(1_000, 49))


def test_an_oversized_table_of_contents_is_not_read() -> None:
    with pytest.raises(TooManyFiles, match="table of contents"):
        unpack(zipped({f"{number:0100}": b"" for number in range(MANY)}, method=zipfile.ZIP_STORED), ArchiveFormat.ZIP)
    header = member("x", tarfile.XHDTYPE)
    header.size = 1 << 33
    with pytest.raises(TooManyFiles, match="table of contents"):
        unpack(header.tobuf(tarfile.GNU_FORMAT) + bytes(10_000), ArchiveFormat.TAR)


def test_a_zip_member_larger_than_declared_is_refused() -> None:
    body = bytearray(zipped({"a": bytes(1_000)}))
    for mark, at in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        start = body.index(mark) + at
        body[start : start + 4] = (10).to_bytes(4, "little")
    with pytest.raises((InvalidURI, UnsafePath)):
        unpack(bytes(body), ArchiveFormat.ZIP)


@pytest.mark.parametrize("archive_format", ArchiveFormat)
def test_damage_is_reported(archive_format: ArchiveFormat) -> None:
    body = MAKERS[archive_format](FILES)
    for damaged in (b"", b"no archive at all" * 100, body[: len(body) // 2]):
        with pytest.raises(InvalidURI, match="upload it again"):
            unpack(damaged, archive_format)


def test_a_damaged_header_in_the_middle_is_not_mistaken_for_the_end() -> None:
    body = bytearray(tar({"a": b"1", "b": b"2", "c": b"3"}))
    body[1024] ^= 0xFF
    with pytest.raises(InvalidURI, match="in its middle"):
        unpack(bytes(body), ArchiveFormat.TAR)


def take(body: bytes, members: Sequence[Member]) -> None:
    for content in unpack_archive(io.BytesIO(body), ArchiveFormat.TAR, members):
        assert len(b"".join(content)) <= content.member.size
        assert content.sha256


@pytest.mark.parametrize(
    ("other", "error"),
    [({}, InvalidURI), ({"b": b"1"}, InvalidURI), ({"a": b"12"}, UnsafePath), ({"a": b""}, UnsafePath)],
)
def test_an_archive_that_changed_since_it_was_listed_is_refused(
    other: dict[str, bytes], error: type[LarderError]
) -> None:
    members = list_archive(io.BytesIO(tar({"a": b"1"})), ArchiveFormat.TAR, LIMITS)
    with pytest.raises(error):
        take(tar(other), members)


def test_the_digest_of_partly_read_content_cannot_be_read() -> None:
    file = io.BytesIO(tar({"a": BIG}))
    contents = unpack_archive(file, ArchiveFormat.TAR, list_archive(file, ArchiveFormat.TAR, LIMITS))
    content = next(contents)
    assert next(iter(content))
    with pytest.raises(UnsafePath):
        assert content.sha256


@pytest.mark.parametrize("cut", [512, 700, 1024])
def test_a_tar_without_its_end_is_damaged_wherever_it_was_cut(cut: int) -> None:
    body = tar({"a": b"1"})
    assert len(body) == 10_240
    with pytest.raises(InvalidURI, match="upload it again"):
        list_archive(io.BytesIO(body[:cut]), ArchiveFormat.TAR, LIMITS)


def test_bytes_after_the_end_are_refused() -> None:
    for body, archive_format in (
        (tar(FILES) + tar({"z": b"1"}), ArchiveFormat.TAR),
        (gzip.compress(tar(FILES)) + b"junk", ArchiveFormat.TAR_GZIP),
    ):
        with pytest.raises(InvalidURI):
            list_archive(io.BytesIO(body), archive_format, LIMITS)


def test_endless_zeros_after_the_end_are_not_read() -> None:
    endless = gzip.compress(tar(FILES) + bytes(40_000_000))
    with pytest.raises(InvalidURI, match="follows its end"):
        list_archive(io.BytesIO(endless), ArchiveFormat.TAR_GZIP, LIMITS)
    assert unpack(gzip.compress(tar({"a": b"1"}) + bytes(1_000_000)), ArchiveFormat.TAR_GZIP) == {"a": b"1"}


@pytest.mark.parametrize("at", [-1, -5], ids=["size", "checksum"])
def test_a_gzip_that_lies_about_its_content_is_damaged(at: int) -> None:
    body = bytearray(tar_gz(FILES))
    body[at] ^= 1
    with pytest.raises(InvalidURI):
        list_archive(io.BytesIO(bytes(body)), ArchiveFormat.TAR_GZIP, LIMITS)


def test_an_archive_of_directories_only_is_refused() -> None:
    with pytest.raises(InvalidURI, match="no files"):
        list_archive(io.BytesIO(tar({}, member("d", tarfile.DIRTYPE))), ArchiveFormat.TAR, LIMITS)


def pax(records: bytes, kind: bytes = tarfile.XHDTYPE) -> bytes:
    header = member("pax", kind)
    header.size = len(records)
    return header.tobuf(tarfile.USTAR_FORMAT) + records + bytes(-len(records) % 512)


def record(key: bytes, value: bytes) -> bytes:
    size = len(key) + len(value) + 3
    while len(b"%d" % size) + len(key) + len(value) + 3 != size:
        size = len(b"%d" % size) + len(key) + len(value) + 3
    return b"%d %s=%s\n" % (size, key, value)


def test_endless_extension_headers_are_refused() -> None:
    with pytest.raises((InvalidURI, TooManyFiles)):
        list_archive(io.BytesIO(pax(b"") * 5_000 + tar(FILES)), ArchiveFormat.TAR, LIMITS)


def test_global_headers_use_bounded_memory() -> None:
    parts = [
        pax(record(b"k%d" % number, b"x" * 100_000), tarfile.XGLTYPE) + tar({str(number): b""})[:512]
        for number in range(20)
    ]
    with pytest.raises(TooManyFiles, match="global headers"):
        list_archive(io.BytesIO(b"".join(parts) + bytes(1024)), ArchiveFormat.TAR, LIMITS)


def test_a_pax_header_of_very_many_digits_is_refused() -> None:
    with pytest.raises(TooManyFiles):
        list_archive(io.BytesIO(pax(b"1" * 200_000) + tar(FILES)), ArchiveFormat.TAR, LIMITS)


def test_the_extents_of_a_sparse_file_use_bounded_memory() -> None:
    header = bytearray(member("holes", tarfile.GNUTYPE_SPARSE).tobuf(tarfile.GNU_FORMAT))
    header[482] = 1  # more extents follow
    header[148:156] = b"%06o\0 " % (sum(header[:148]) + 8 * 32 + sum(header[156:]))
    more = bytearray(512)
    more[504] = 1
    with pytest.raises(TooManyFiles):
        list_archive(io.BytesIO(bytes(header) + bytes(more) * 2_000), ArchiveFormat.TAR, LIMITS)


def test_members_of_a_zip_that_share_bytes_are_refused() -> None:
    body = bytearray(zipped({"a": b"x" * 1_000, "b": b"x" * 1_000}))
    second = body.index(b"PK\x01\x02", body.index(b"PK\x01\x02") + 4)
    body[second + 42 : second + 46] = bytes(4)  # the second begins where the first does
    with pytest.raises(UnsafePath, match="whose bytes overlap"):
        list_archive(io.BytesIO(bytes(body)), ArchiveFormat.ZIP, LIMITS)
    body = bytearray(zipped({"a": b"x" * 1_000}, method=zipfile.ZIP_STORED))
    first = body.index(b"PK\x01\x02")
    body[first + 20 : first + 24] = (2_000).to_bytes(4, "little")
    with pytest.raises(UnsafePath, match="archive's table"):
        list_archive(io.BytesIO(bytes(body)), ArchiveFormat.ZIP, LIMITS)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_zip_with_a_compression_method_of_unbounded_memory_is_refused(method: int) -> None:
    with pytest.raises(UnsafePath, match="create it with deflate"):
        list_archive(io.BytesIO(zipped(FILES, method=method)), ArchiveFormat.ZIP, LIMITS)


def test_a_zip64_entry_is_unpacked() -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("big", "w", force_zip64=True) as writing:
            writing.write(BIG)
        archive.writestr("a", b"1")
    assert unpack(out.getvalue(), ArchiveFormat.ZIP) == {"big": BIG, "a": b"1"}


@pytest.mark.parametrize("position", [2**40, 2**63 - 1, 2**64 - 2], ids=hex)
def test_a_zip_with_an_offset_far_beyond_its_end_is_damaged(position: int, tmp_path: Path) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", b"1")
        archive.filelist[0].header_offset = position
    path = tmp_path / "m.zip"
    path.write_bytes(out.getvalue())
    with path.open("rb") as file, pytest.raises((InvalidURI, UnsafePath)):
        unpack_from(file, ArchiveFormat.ZIP, LIMITS)


@given(st.sampled_from(ArchiveFormat), st.binary(max_size=300), st.integers(0, 10_000), st.integers(0, 255))
def test_any_bytes_are_an_archive_or_refused(archive_format: ArchiveFormat, junk: bytes, at: int, value: int) -> None:
    body = bytearray(MAKERS[archive_format]({"a/b": b"x" * 700, "c": b"yy"}))
    body[at % len(body)] = value
    for candidate in (junk, bytes(body)):
        file = io.BytesIO(candidate)
        try:
            members = list_archive(file, archive_format, UnpackLimits(100_000))
            for content in unpack_archive(file, archive_format, [m for m in members if m.content_path == m.path]):
                assert sum(map(len, content)) <= content.member.size
        except (LarderError, Oversize):
            pass
