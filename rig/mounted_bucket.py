"""A bucket mounted through FUSE while one command runs, with the limits of Mountpoint for Amazon S3.

    unshare --mount --map-root-user python -m rig.mounted_bucket BUCKET DIRECTORY COMMAND...

New files are written from start to end and have their content once closed. Links, renames, truncation, changes of
attributes, and writes to existing files fail. The objects are the files below BUCKET.
https://github.com/awslabs/mountpoint-s3/blob/main/doc/SEMANTICS.md
"""

import ctypes
import errno
import os
import stat
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

_HEADER = struct.Struct("<IIQQIIIHH")  # length, operation, request, node, uid, gid, pid, and two unused
_REPLY = struct.Struct("<IiQ")  # length, negative error, request
_ATTRIBUTES = struct.Struct("<6Q10I")
_LOOKUP, _FORGET, _GETATTR, _MKDIR, _UNLINK, _RMDIR = 1, 2, 3, 9, 10, 11
_OPEN, _READ, _WRITE, _STATFS, _RELEASE, _FSYNC, _FLUSH = 14, 15, 16, 17, 18, 20, 25
_INIT, _OPENDIR, _READDIR, _RELEASEDIR, _CREATE, _INTERRUPT, _FORGET_MANY = 26, 27, 28, 29, 35, 36, 42
_SILENT = (_FORGET, _FORGET_MANY, _INTERRUPT)
_LARGEST_WRITE_BYTES, _BIG_WRITES = 128 * 1024, 1 << 5
_BLOCK_BYTES = 4096
_DIRECTORY_ENTRY = struct.Struct("<QQII")
_NO_SUID_NO_DEVICES = 2 | 4


class _Refused(Exception):
    """Fails a request with an error number."""


@dataclass
class _Upload:
    """A file that is being written."""

    path: Path
    body: bytearray = field(default_factory=bytearray)
    is_complete: bool = False


class Bucket:
    """Answers the kernel's requests; nodes are paths below the root, numbered in the order of their first lookup."""

    def __init__(self, root: Path) -> None:
        self._paths = {1: root}
        self._numbers = {root: 1}
        self._uploads: dict[int, _Upload] = {}
        self._handles = 0
        self._operations: dict[int, Callable[[Path, bytes], bytes]] = {
            _INIT: _initialized, _LOOKUP: self._look_up, _GETATTR: self._attributes, _MKDIR: self._make_directory,
            _UNLINK: self._unlink, _RMDIR: self._remove_directory, _OPEN: self._open, _READ: self._read,
            _WRITE: self._write, _STATFS: lambda *_: struct.pack("<5Q4I6I", *[2**30] * 5, 4096, 255, 4096, *[0] * 7),
            _RELEASE: self._complete, _FSYNC: self._complete, _FLUSH: self._flush,
            _OPENDIR: lambda *_: struct.pack("<QII", 0, 0, 0), _READDIR: self._list, _RELEASEDIR: lambda *_: b"",
            _CREATE: self._create,
        }  # fmt: skip

    def answer(self, operation: int, node: int, body: bytes) -> tuple[int, bytes]:
        """Return an error number (0 for success) and the answer."""
        act = self._operations.get(operation)
        if act is None:
            return errno.ENOSYS, b""
        try:
            return 0, act(self._paths.get(node, Path("/nonexistent")), body)
        except _Refused as refusal:
            return int(refusal.args[0]), b""
        except OSError as error:
            return error.errno or errno.EIO, b""

    def _entry(self, path: Path) -> bytes:
        attributes = self._described(path)
        number = self._numbers.setdefault(path, len(self._numbers) + 1)
        self._paths[number] = path
        return struct.pack("<4Q2I", number, 0, 0, 0, 0, 0) + attributes

    def _described(self, path: Path) -> bytes:
        upload = self._upload_of(path)
        found = path.stat() if upload is None else None
        is_directory = found is not None and stat.S_ISDIR(found.st_mode)
        size = len(upload.body) if upload is not None else found.st_size if found and not is_directory else 0
        mode = stat.S_IFDIR | 0o755 if is_directory else stat.S_IFREG | 0o644
        owner = (os.getuid(), os.getgid())
        return _ATTRIBUTES.pack(self._numbers.get(path, 0), size, -(-size // 512), 0, 0, 0, 0, 0, 0, mode, 1, *owner, 0,
                                _BLOCK_BYTES, 0)  # fmt: skip

    def _upload_of(self, path: Path) -> _Upload | None:
        return next((u for u in self._uploads.values() if u.path == path and not u.is_complete), None)

    def _look_up(self, parent: Path, body: bytes) -> bytes:
        return self._entry(parent / _name(body))

    def _attributes(self, path: Path, _: bytes) -> bytes:
        return struct.pack("<QII", 0, 0, 0) + self._described(path)

    def _make_directory(self, parent: Path, body: bytes) -> bytes:
        path = parent / _name(body[8:])
        path.mkdir()
        return self._entry(path)

    def _unlink(self, parent: Path, body: bytes) -> bytes:
        path = parent / _name(body)
        if self._upload_of(path):
            raise _Refused(errno.EPERM)
        path.unlink()
        return b""

    def _remove_directory(self, parent: Path, body: bytes) -> bytes:
        (parent / _name(body)).rmdir()
        return b""

    def _create(self, parent: Path, body: bytes) -> bytes:
        path = parent / _name(body[16:])
        if path.exists():
            raise _Refused(errno.EEXIST)
        self._handles += 1
        self._uploads[self._handles] = _Upload(path)
        return self._entry(path) + struct.pack("<QII", self._handles, 0, 0)

    def _open(self, path: Path, body: bytes) -> bytes:
        (flags,) = struct.unpack_from("<I", body)
        if flags & os.O_ACCMODE != os.O_RDONLY or self._upload_of(path):
            raise _Refused(errno.EPERM)
        return struct.pack("<QII", 0, 0, 0)

    def _read(self, path: Path, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def _write(self, _: Path, body: bytes) -> bytes:
        handle, offset, size = struct.unpack_from("<QQI", body)
        upload = self._uploads[handle]
        if upload.is_complete:
            raise _Refused(errno.EIO)
        if offset != len(upload.body):
            raise _Refused(errno.EINVAL)
        upload.body += body[40 : 40 + size]
        return struct.pack("<II", size, 0)

    def _flush(self, path: Path, body: bytes) -> bytes:
        """Complete the file unless it is empty: a shell closes a copy of its descriptor before it writes."""
        (handle,) = struct.unpack_from("<Q", body)
        upload = self._uploads.get(handle)
        return self._complete(path, body) if upload is not None and upload.body else b""

    def _complete(self, _: Path, body: bytes) -> bytes:
        (handle,) = struct.unpack_from("<Q", body)
        upload = self._uploads.get(handle)
        if upload is not None and not upload.is_complete:
            upload.path.write_bytes(upload.body)
            upload.is_complete = True
        return b""

    def _list(self, path: Path, body: bytes) -> bytes:
        _, offset, size = struct.unpack_from("<QQI", body)
        listed = b""
        for number, (name, kind) in enumerate([*_entries(path)][offset:], offset + 1):
            encoded = os.fsencode(name)
            entry = _DIRECTORY_ENTRY.pack(number, number, len(encoded), kind) + encoded
            entry += bytes(-len(entry) % 8)
            if len(listed) + len(entry) > size:
                break
            listed += entry
        return listed


def _initialized(_: Path, body: bytes) -> bytes:
    _, minor, readahead, _ = struct.unpack_from("<4I", body)
    return struct.pack("<4I2H2I2H8I", 7, min(minor, 31), readahead, _BIG_WRITES, 12, 9, _LARGEST_WRITE_BYTES, 1, 0, 0,
                       *[0] * 8)  # fmt: skip


def _name(body: bytes) -> str:
    return os.fsdecode(body.partition(b"\0")[0])


def _entries(path: Path) -> Iterator[tuple[str, int]]:
    for found in sorted(path.iterdir()):
        yield found.name, (stat.S_IFDIR if found.is_dir() else stat.S_IFREG) >> 12


def mounted(target: Path) -> int:
    """Mount a FUSE file system at a directory, and return the descriptor that delivers the kernel's requests."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id={os.getuid()},group_id={os.getgid()}".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"bucket", os.fsencode(target), b"fuse", _NO_SUID_NO_DEVICES, options):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(target))
    return device


def serve(device: int, bucket: Bucket) -> None:
    """Answer the kernel until it unmounts."""
    while True:
        try:
            request = os.read(device, _LARGEST_WRITE_BYTES + 65536)
        except OSError as error:
            if error.errno in (errno.EINTR, errno.ENOENT):
                continue
            return
        _, operation, unique, node, *_ = _HEADER.unpack_from(request)
        if operation in _SILENT:
            continue
        number, answer = bucket.answer(operation, node, request[_HEADER.size :])
        os.write(device, _REPLY.pack(_REPLY.size + len(answer), -number, unique) + answer)


def main(root: str, target: str, *command: str) -> int:
    """Mount the bucket, run a command, and return its exit code."""
    device = mounted(Path(target))
    threading.Thread(target=serve, args=(device, Bucket(Path(root))), daemon=True).start()
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
