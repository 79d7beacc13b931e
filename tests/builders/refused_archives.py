"""Archives that are refused. They take a second to build, so import them only where they are used."""

import gzip
import stat
import tarfile

from tests.builders.archives import (
    GOOD,
    damaged_zip,
    declaring_tar,
    encrypted,
    lying_gzip,
    lying_zip,
    member,
    overlapping,
    sparse,
    tar,
    tar_gz,
    zipped,
)


def empty_files(count: int) -> bytes:
    """Return a tar.gz of this many empty files, in a third of the time that `tar_gz` takes."""
    headers = (tarfile.TarInfo(str(number)).tobuf(tarfile.USTAR_FORMAT) for number in range(count))
    return gzip.compress(b"".join(headers) + bytes(2 * tarfile.BLOCKSIZE), 1, mtime=0)


# The archive's name, its bytes, the reason and a word of the message.
REFUSED: dict[str, tuple[str, bytes, str, str]] = {
    "outside": ("m.tar", tar(GOOD, member("../out")), "UnsafePath", "be outside its directory"),
    "absolute": ("m.tar", tar(GOOD, member("/out")), "UnsafePath", "absolute"),
    "link out": ("m.tar", tar(GOOD, member("a", tarfile.SYMTYPE, "../../etc/passwd")), "UnsafePath", "points outside"),
    "absolute link": ("m.tar", tar(GOOD, member("a", tarfile.SYMTYPE, "/etc/passwd")), "UnsafePath", "points outside"),
    "hard link out": ("m.tar", tar(GOOD, member("a", tarfile.LNKTYPE, "../x")), "UnsafePath", "points outside"),
    "link to nothing": ("m.tar", tar(GOOD, member("a", tarfile.SYMTYPE, "b")), "UnsafePath", "no file"),
    "device": ("m.tar", tar(GOOD, member("dev", tarfile.BLKTYPE)), "UnsafePath", "neither a file"),
    "pipe": ("m.tar", tar(GOOD, member("pipe", tarfile.FIFOTYPE)), "UnsafePath", "neither a file"),
    "setuid": ("m.tar", tar(GOOD, member("root", mode=0o4755)), "UnsafePath", "setuid"),
    "our mark": ("m.tar", tar(GOOD, member(".completed")), "UnsafePath", "reserved for Larder"),
    "twice": ("m.tar", tar(GOOD, member("config.json")), "UnsafePath", "twice"),
    "case": ("m.tar", tar(GOOD, member("Config.json")), "UnsafePath", "treat as the same"),
    "unicode": ("m.tar", tar({"caf\u00e9": b"", "cafe\u0301": b""}), "UnsafePath", "treat as the same"),
    "file and directory": ("m.tar", tar({"a": b"", "a/b": b""}), "UnsafePath", "as a file and as a directory"),
    "more bytes than there are": ("m.tar", declaring_tar(10**240), "UnsafePath", "than any disk can hold"),
    "256 bytes": ("m.tar", tar({"n" * 256: b""}), "UnsafePath", "too long"),
    "sparse": ("m.tar", sparse(), "UnsafePath", "sparse"),
    "zip outside": ("m.zip", zipped({"../out": b""}), "UnsafePath", "be outside its directory"),
    "zip backslash": ("m.zip", zipped({"..\\out": b""}), "UnsafePath", "backslash"),
    "zip NUL": ("m.zip", zipped({"aXb": b""}).replace(b"aXb", b"a\0b"), "UnsafePath", "NUL"),
    "zip link out": ("m.zip", zipped({"a": b"/etc/passwd"}, stat.S_IFLNK | 0o777), "UnsafePath", "points outside"),
    "zip device": ("m.zip", zipped({"a": b""}, stat.S_IFCHR | 0o644), "UnsafePath", "neither a file"),
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
