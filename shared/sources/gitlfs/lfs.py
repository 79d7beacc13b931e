"""Asks a Git LFS server where an object can be downloaded."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

import msgspec

from shared.decode_errors import DECODE_ERRORS
from shared.errors import AddressRefused, LarderError, SourceNotFound, Unreachable
from shared.http.client import HttpClient, Request, Response
from shared.http.origins import origin_of, public
from shared.manifest import File
from shared.sources.gitlfs.tree import LFS_DIGEST

_MEDIA_TYPE = "application/vnd.git-lfs+json"
_LONGEST_ANSWER_BYTES = 32 * 1024  # for one file; signed URLs have about two thousand
_MAX_HEADERS = 20
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_OURS = frozenset(("host", "connection", "content-length", "transfer-encoding", "range", "accept-encoding", "te"))


class LfsAction(msgspec.Struct, frozen=True):
    """Where and how an object is downloaded."""

    href: str
    header: dict[str, str] = {}


class LfsError(msgspec.Struct, frozen=True):
    """Why an object cannot be downloaded."""

    code: int = 0
    message: str = ""


class LfsObject(msgspec.Struct, frozen=True):
    """The answer for one object."""

    oid: str
    actions: dict[str, LfsAction] | None = None
    error: LfsError | None = None


class LfsAnswer(msgspec.Struct, frozen=True):
    """The answer to a batch request."""

    objects: tuple[LfsObject, ...]


@dataclass(frozen=True, slots=True)
class LfsServer:
    """The LFS server of a repository.

    Args:
        client: The HTTP client.
        url: URL of the repository.
        secrets: Headers for its own origin alone.
        failure: Returns the error for a refusal.
    """

    client: HttpClient
    url: str
    secrets: Mapping[str, str] = field(repr=False)
    failure: Callable[[Response], LarderError]

    def find(self, file: File) -> Request:
        """Return the request that downloads a file, with its headers for that origin alone.

        Raises:
            SourceNotFound: The server does not have the object.
            AddressRefused: The server names a URL without TLS.
            LarderError: The errors of a source.
        """
        oid = file.digest.removeprefix(LFS_DIGEST)
        base = self.url if self.url.endswith(".git") else f"{self.url}.git"
        wanted = {"operation": "download", "transfers": ["basic"], "objects": [{"oid": oid, "size": file.size}]}
        headers = {"Accept": _MEDIA_TYPE, "Content-Type": _MEDIA_TYPE}
        body = msgspec.json.encode(wanted)
        place = f"{base}/info/lfs/objects/batch"
        response = self.client.send(Request(place, "POST", headers, self.secrets, body=body))
        try:
            if response.status != HTTPStatus.OK:
                response.read_small()
                raise self.failure(response)
            answer = msgspec.json.decode(response.read_all(_LONGEST_ANSWER_BYTES), type=LfsAnswer)
        except DECODE_ERRORS as error:
            raise Unreachable(f"{public(place)} sent a malformed answer: {str(error)[:200]}") from error
        finally:
            response.close()
        return self._request(file, next((found for found in answer.objects if found.oid == oid), None))

    def _request(self, file: File, found: LfsObject | None) -> Request:
        action = (found.actions or {}).get("download") if found is not None else None
        if action is None:
            why = found.error.message[:200] if found is not None and found.error is not None else "it names no download"
            raise SourceNotFound(
                f"the Git LFS server of {public(self.url)} does not have {file.path!r} ({why}); push its objects with "
                "`git lfs push --all`"
            )
        origin = origin_of(action.href)
        if origin.scheme != "https":
            raise AddressRefused(
                f"the Git LFS server of {public(self.url)} serves {file.path!r} at {public(action.href)[:200]}, "
                "without TLS, which is not used; ask its operator to serve https"
            )
        if len(action.header) > _MAX_HEADERS or not all(_HEADER.fullmatch(name) for name in action.header):
            raise Unreachable(f"the Git LFS server of {public(self.url)} asks for headers that are not allowed")
        secrets = {name: value for name, value in action.header.items() if name.lower() not in _OURS}
        if origin == origin_of(self.url) and not any(name.lower() == "authorization" for name in secrets):
            secrets |= self.secrets
        return Request(action.href, secrets=secrets)
