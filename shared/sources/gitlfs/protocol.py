"""Version 2 of Git's protocol over HTTP, as far as a shallow fetch of one commit needs it."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from shared.errors import InvalidURI, LarderError, RevisionNotFound, TooManyFiles, Unreachable
from shared.http.client import HttpClient, Request, Response
from shared.http.origins import Origin, origin_of, public

_SERVICE = "git-upload-pack"
_FLUSH, _DELIMITER = b"0000", b"0001"
_LONGEST_ANSWER_BYTES = 1024 * 1024
LONGEST_PACK_BYTES = 32 * 1024 * 1024
_LONGEST_S = 120.0
_COMMIT = re.compile(r"[0-9a-f]{40}")
_MAX_PACKETS = 100_000  # each takes time, however small; a pack has a packet for every 8 or 64 KiB
_PACKET = 4  # bytes of the length before each
_BUFFER_BYTES = 64 * 1024
_DATA, _FAILED = 1, 3  # side bands


@dataclass(slots=True)
class GitRemote:
    """A repository on a server.

    Args:
        client: The HTTP client.
        url: URL of the repository.
        secrets: Headers for its own origin alone.
        failure: Returns the error for a refusal.
        clock: Monotonic seconds.
    """

    client: HttpClient
    url: str
    secrets: Mapping[str, str] = field(repr=False)
    failure: Callable[[Response], LarderError]
    clock: Callable[[], float] = time.monotonic

    def find_commit(self, revision: str) -> str:
        """Return the commit of a branch, tag or commit. Raises RevisionNotFound and the errors of a source."""
        if _COMMIT.fullmatch(revision):
            return revision
        names = [f"refs/heads/{revision}", f"refs/tags/{revision}", revision]
        lines = ["peel", *(f"ref-prefix {name}" for name in names)]
        body = self._command("ls-refs", lines, _LONGEST_ANSWER_BYTES)
        refs = dict(_parse_ref(packet) for packet in _packets(body) if packet is not None)
        found = next((refs[name] for name in names if name in refs), None)
        if found is None:
            raise RevisionNotFound(
                f"{public(self.url)} has no branch or tag {revision!r}; name an existing branch, tag or commit"
            )
        return found

    def fetch_pack(self, commit: str) -> bytearray:
        """Return the pack with a commit and its files, without its history."""
        lines = ["no-progress", "ofs-delta", f"want {commit}", "deepen 1", "done"]
        body = self._command("fetch", lines, LONGEST_PACK_BYTES)
        packets, pack = _packets(body), bytearray()
        for packet in packets:
            if packet is not None and packet.rstrip(b"\n") == b"packfile":
                break
            if packet is not None and packet.startswith(b"ERR "):
                why = packet[4:204].decode(errors="replace").strip()
                raise RevisionNotFound(
                    f"{public(self.url)} does not serve commit {commit} ({why}); name a branch or tag"
                )
        for packet in packets:
            if packet and packet[0] == _DATA:
                pack += packet[1:]
            elif packet and packet[0] == _FAILED:
                raise Unreachable(f"{public(self.url)} failed: {packet[1:201].decode(errors='replace').strip()}")
        return pack

    def _command(self, name: str, lines: list[str], max_bytes: int) -> bytearray:
        """Return the answer to a command of the protocol."""
        base = self._discover()
        head = _packet(f"command={name}") + _packet("agent=larder") + _packet("object-format=sha1")
        body = head + _DELIMITER + b"".join(_packet(line) for line in lines) + _FLUSH
        headers = {
            "Content-Type": f"application/x-{_SERVICE}-request",
            "Accept": f"application/x-{_SERVICE}-result",
            "Git-Protocol": "version=2",
        }
        request = Request(f"{base}/{_SERVICE}", "POST", headers, self._secrets_for(origin_of(base)), body=body)
        return self._answer(self.client.send(request), max_bytes)

    def _discover(self) -> str:
        """Return the URL of the repository after redirects. Raises InvalidURI if it is not a repository."""
        tail = f"/info/refs?service={_SERVICE}"
        headers = {"Git-Protocol": "version=2", "Accept": "*/*"}
        response = self.client.send(Request(f"{self.url}{tail}", headers=headers, secrets=self.secrets))
        place = response.url
        body = self._answer(response, _LONGEST_ANSWER_BYTES)
        is_git = response.headers.get("Content-Type", "").startswith(f"application/x-{_SERVICE}-advertisement")
        if not is_git or not place.endswith(tail):
            raise InvalidURI(f"{public(self.url)} is not a Git repository; write its URL as for git clone")
        packets = [packet.rstrip(b"\n") for packet in _packets(body) if packet is not None]
        if b"version 2" not in packets[:2]:
            raise InvalidURI(
                f"{public(self.url)} does not speak version 2 of Git's protocol, which servers have supported since "
                "2018; update the server"
            )
        if any(packet.startswith(b"object-format=") and packet != b"object-format=sha1" for packet in packets):
            raise InvalidURI(f"{public(self.url)} uses an object format other than SHA-1, which is not supported")
        return place.removesuffix(tail)

    def _secrets_for(self, origin: Origin) -> Mapping[str, str]:
        return self.secrets if origin == origin_of(self.url) else {}

    def _answer(self, response: Response, max_bytes: int) -> bytearray:
        """Return the body of a successful response, and close it."""
        try:
            if response.status != HTTPStatus.OK:
                response.read_small()
                raise self.failure(response)
            return self._read(response, max_bytes)
        finally:
            response.close()

    def _read(self, response: Response, max_bytes: int) -> bytearray:
        body, buffer, until = bytearray(), memoryview(bytearray(_BUFFER_BYTES)), self.clock() + _LONGEST_S
        while size := response.readinto(buffer):
            body += buffer[:size]
            if len(body) > max_bytes:
                raise TooManyFiles(
                    f"{public(self.url)} has more than {max_bytes // 2**20} MiB, compressed, outside Git LFS; track "
                    "its large files with `git lfs migrate import`"
                )
            if self.clock() >= until:
                raise Unreachable(f"{public(self.url)} did not answer completely within {_LONGEST_S:.0f} seconds")
        return body


def _packet(line: str) -> bytes:
    data = line.encode() + b"\n"
    return b"%04x" % (len(data) + _PACKET) + data


def _packets(body: bytes | bytearray) -> Iterator[bytes | bytearray | None]:
    """Yield the packets; None for those that only separate others. Raises Unreachable."""
    at = count = 0
    while at < len(body):
        if (count := count + 1) > _MAX_PACKETS:
            raise Unreachable(f"the answer of the Git server has more than {_MAX_PACKETS} packets")
        head = body[at : at + _PACKET]
        try:
            size = int(head, 16)
        except ValueError:
            size = -1
        if size < 0 or len(head) < _PACKET or at + size > len(body):
            raise Unreachable("the answer of the Git server is malformed or ended early")
        if size < _PACKET:
            at += _PACKET
            yield None
        else:
            yield body[at + _PACKET : at + size]
            at += size


def _parse_ref(packet: bytes | bytearray) -> tuple[str, str]:
    """Return the name of a ref and its commit; for an annotated tag, the commit that the tag points to."""
    commit, name, *attributes = [*packet.decode(errors="replace").rstrip("\n").split(" "), ""]
    peeled = next((a.removeprefix("peeled:") for a in attributes if a.startswith("peeled:")), commit)
    if not _COMMIT.fullmatch(peeled):
        raise Unreachable("the Git server listed a ref without a commit")
    return name, peeled
