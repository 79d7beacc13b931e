"""Archives as attackers and ordinary people make them."""

import gzip
import io
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping


def tar(files: Mapping[str, bytes], *more: tarfile.TarInfo, form: int = tarfile.PAX_FORMAT) -> bytes:
    """Return a tar of these files, and of members without content."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, body in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(body)
            archive.addfile(info, io.BytesIO(body))
        for info in more:
            archive.addfile(info)
    return out.getvalue()


def tar_gz(files: Mapping[str, bytes]) -> bytes:
    """Return the same by gzip, always the same bytes."""
    return gzip.compress(tar(files), 1, mtime=0)


def zipped(files: Mapping[str, bytes], mode: int = 0, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip of these files; `mode` is what Unix says of the last."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, body in files.items():
            archive.writestr(name, body)
        if mode:
            archive.filelist[-1].create_system, archive.filelist[-1].external_attr = 3, mode << 16
    return out.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    """Return a member without content."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


MAKERS: dict[str, Callable[[Mapping[str, bytes]], bytes]] = {
    "m.tar": tar, "m.tar.gz": tar_gz, "m.tgz": tar_gz, "m.zip": zipped
}  # fmt: skip
GOOD = {"config.json": b"{}"}


def encrypted() -> bytes:
    """Return a zip that says it takes a password."""
    body = bytearray(zipped(GOOD))
    body[body.index(b"PK\x01\x02") + 8] |= 1
    return bytes(body)


def overlapping() -> bytes:
    """Return a zip with a second name for the bytes of the first, which it declares to be others."""
    body = bytearray(zipped({"a": b"x" * 1_000, "b": b"x" * 1_000}))
    second = body.index(b"PK\x01\x02", body.index(b"PK\x01\x02") + 4)
    body[second + 42 : second + 46] = bytes(4)
    return bytes(body)


def declaring(size: int) -> bytes:
    """Return a zip that declares so many bytes, in the long form where it takes that."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", b"1")
        archive.filelist[0].file_size = size
    return out.getvalue()


def lying_zip() -> bytes:
    """Return a zip that declares ten bytes and has a thousand."""
    body = bytearray(zipped({"a": bytes(1_000)}))
    for mark, at in ((b"PK\x01\x02", 24), (b"PK\x03\x04", 22)):
        start = body.index(mark) + at
        body[start : start + 4] = (10).to_bytes(4, "little")
    return bytes(body)


def damaged_zip() -> bytes:
    """Return a zip with a good large file before one whose bytes are not those of its checksum."""
    body = zipped({"a": bytes(5_000_000), "b": b"as it was"})
    return body.replace(b"b" + zlib.compress(b"as it was", wbits=-15), b"b" + zlib.compress(b"as it is.", wbits=-15))


def lying_gzip() -> bytes:
    """Return a tar.gz that declares another length than it has."""
    body = bytearray(tar_gz(GOOD))
    body[-1] ^= 1
    return bytes(body)


def sparse() -> bytes:
    """Return a tar with a file of holes."""
    info = member("holes")
    info.pax_headers = {
        "GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,0", "GNU.sparse.size": "9"
    }  # fmt: skip
    return tar(GOOD, info)


def declaring_tar(size: int) -> bytes:
    """Return a tar that declares so many bytes."""
    info = member("a")
    info.size = size
    return tar(GOOD, info)


def empty_files(count: int) -> bytes:
    """Return a tar.gz of so many empty files, in a third of the time that `tar_gz` takes."""
    headers = (tarfile.TarInfo(str(number)).tobuf(tarfile.USTAR_FORMAT) for number in range(count))
    return gzip.compress(b"".join(headers) + bytes(2 * tarfile.BLOCKSIZE), 1, mtime=0)


# Archive's name, its bytes, the reason and a word of the message.
REFUSED: dict[str, tuple[str, bytes, str, str]] = {
    "outside": ("m.tar", tar(GOOD, member("../out")), "UnsafePath", "leave its directory"),
    "absolute": ("m.tar", tar(GOOD, member("/out")), "UnsafePath", "absolute"),
    "link out": ("m.tar", tar(GOOD, member("a", tarfile.SYMTYPE, "../../etc/passwd")), "UnsafePath", "points outside"),
    "absolute link": ("m.tar", tar(GOOD, member("a", tarfile.SYMTYPE, "/etc/passwd")), "UnsafePath", "points outside"),
    "hard link out": ("m.tar", tar(GOOD, member("a", tarfile.LNKTYPE, "../x")), "UnsafePath", "points outside"),
    "link to nothing": ("m.tar", tar(GOOD, member("a", tarfile.SYMTYPE, "b")), "UnsafePath", "no file"),
    "device": ("m.tar", tar(GOOD, member("dev", tarfile.BLKTYPE)), "UnsafePath", "neither file"),
    "pipe": ("m.tar", tar(GOOD, member("pipe", tarfile.FIFOTYPE)), "UnsafePath", "neither file"),
    "setuid": ("m.tar", tar(GOOD, member("root", mode=0o4755)), "UnsafePath", "setuid"),
    "our mark": ("m.tar", tar(GOOD, member(".completed")), "UnsafePath", "reserved for Larder"),
    "twice": ("m.tar", tar(GOOD, member("config.json")), "UnsafePath", "twice"),
    "case": ("m.tar", tar(GOOD, member("Config.json")), "UnsafePath", "treat as the same"),
    "unicode": ("m.tar", tar({"caf\u00e9": b"", "cafe\u0301": b""}), "UnsafePath", "treat as the same"),
    "file and directory": ("m.tar", tar({"a": b"", "a/b": b""}), "UnsafePath", "as a file and as a directory"),
    "more bytes than there are": ("m.tar", declaring_tar(10**240), "UnsafePath", "than any disk can hold"),
    "256 bytes": ("m.tar", tar({"n" * 256: b""}), "UnsafePath", "too long"),
    "sparse": ("m.tar", sparse(), "UnsafePath", "sparse"),
    "zip outside": ("m.zip", zipped({"../out": b""}), "UnsafePath", "leave its directory"),
    "zip backslash": ("m.zip", zipped({"..\\out": b""}), "UnsafePath", "backslash"),
    "zip NUL": ("m.zip", zipped({"aXb": b""}).replace(b"aXb", b"a\0b"), "UnsafePath", "NUL"),
    "zip link out": ("m.zip", zipped({"a": b"/etc/passwd"}, stat.S_IFLNK | 0o777), "UnsafePath", "points outside"),
    "zip device": ("m.zip", zipped({"a": b""}, stat.S_IFCHR | 0o644), "UnsafePath", "neither file"),
    "encrypted": ("m.zip", encrypted(), "UnsafePath", "without a password"),
    "overlapping": ("m.zip", overlapping(), "UnsafePath", "whose bytes overlap"),
    "lying zip": ("m.zip", lying_zip(), "InvalidURI", "upload it again"),
    "damaged zip": ("m.zip", damaged_zip(), "InvalidURI", "upload it again"),
    "lying gzip": ("m.tgz", lying_gzip(), "InvalidURI", "upload it again"),
    "cut tar": ("m.tar", tar({"a": bytes(2_000)})[:1_536], "InvalidURI", "upload it again"),
    "cut gzip": ("m.tar.gz", tar_gz({"a": bytes(2_000)})[:-20], "InvalidURI", "upload it again"),
    "cut zip": ("m.zip", zipped(GOOD)[:-10], "InvalidURI", "upload it again"),
    "no archive": ("m.tar", b"no archive at all" * 100, "InvalidURI", "upload it again"),
    "no bytes": ("m.zip", b"", "InvalidURI", "upload it again"),
    "no files": ("m.tar", tar({}, member("d", tarfile.DIRTYPE)), "InvalidURI", "no files"),
    "20,001 files": ("m.tar.gz", empty_files(20_001), "TooManyFiles", "fewer files"),
}  # fmt: skip
