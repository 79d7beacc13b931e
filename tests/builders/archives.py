"""Archives, both ordinary and hostile."""

import gzip
import io
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
    """Return the tar compressed by gzip, always with the same bytes."""
    return gzip.compress(tar(files), 1, mtime=0)


def zipped(files: Mapping[str, bytes], mode: int = 0, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip of these files; `mode` is the Unix mode of the last."""
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
    """Return a zip that is marked as encrypted."""
    body = bytearray(zipped(GOOD))
    body[body.index(b"PK\x01\x02") + 8] |= 1
    return bytes(body)


def overlapping() -> bytes:
    """Return a zip whose second member has the bytes of the first, although it declares others."""
    body = bytearray(zipped({"a": b"x" * 1_000, "b": b"x" * 1_000}))
    second = body.index(b"PK\x01\x02", body.index(b"PK\x01\x02") + 4)
    body[second + 42 : second + 46] = bytes(4)
    return bytes(body)


def declaring(size: int) -> bytes:
    """Return a zip that declares this many bytes, with a zip64 field if necessary."""
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
    """Return a zip with a valid large file, and one whose bytes do not match its checksum."""
    body = zipped({"a": bytes(5_000_000), "b": b"as it was"})
    return body.replace(b"b" + zlib.compress(b"as it was", wbits=-15), b"b" + zlib.compress(b"as it is.", wbits=-15))


def lying_gzip() -> bytes:
    """Return a tar.gz that declares a wrong length."""
    body = bytearray(tar_gz(GOOD))
    body[-1] ^= 1
    return bytes(body)


def sparse() -> bytes:
    """Return a tar with a sparse file."""
    info = member("holes")
    info.pax_headers = {
        "GNU.sparse.major": "0", "GNU.sparse.minor": "1", "GNU.sparse.map": "0,0", "GNU.sparse.size": "9"
    }  # fmt: skip
    return tar(GOOD, info)


def declaring_tar(size: int) -> bytes:
    """Return a tar that declares this many bytes."""
    info = member("a")
    info.size = size
    return tar(GOOD, info)
