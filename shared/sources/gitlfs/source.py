"""A Git repository: plain files come from a shallow fetch, large ones from its Git LFS server."""

import base64
import threading
import time
from collections.abc import Callable, Mapping
from typing import Literal

from shared.errors import InvalidURI, LarderError, RateLimited, SourceChanged, TooManyFiles, Unreachable
from shared.http.client import HttpClient, Request, Response
from shared.http.origins import origin_of, public
from shared.http.ranges import open_range
from shared.manifest import File, Manifest, build_manifest
from shared.sources.credential_hints import GIT
from shared.sources.credential_keys import BASIC_KEYS, GIT_KEYS, TOKEN
from shared.sources.failures import RequestSubject, failure_of
from shared.sources.gitlfs.lfs import LfsServer
from shared.sources.gitlfs.pack import BadPack, GitObject, PackTooLarge, read_pack
from shared.sources.gitlfs.protocol import GitRemote
from shared.sources.gitlfs.tree import GIT_DIGEST, list_files
from shared.sources.host_grants import grant_for
from shared.sources.listing_limits import MAX_ENTRIES
from shared.sources.port import Body, Credentials
from shared.sources.settings import SourceSettings
from shared.uri.git import GitUri
from shared.uri.model_uri import ModelUri

_MAX_BYTES = 64 * 2**20  # of all objects outside LFS, in memory
_SLOTS = threading.BoundedSemaphore(2)  # repositories in memory at a time, because their content is untrusted
_MAX_LINKS = 256  # of untrusted length, and an LFS server may name one for each of many thousand files
_USER = "oauth2"  # known servers ignore the name if the password is a token


class _MemoryBody:
    """A part of a plain file."""

    skips = False

    def __init__(self, content: memoryview) -> None:
        self._left = content

    def skip(self, max_bytes: int) -> int:
        del max_bytes
        return 0

    def readinto(self, buffer: memoryview) -> int:
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size

    def close(self) -> None:
        self._left = memoryview(b"")


class GitRepositorySource:
    """The files of one commit; a branch or tag is resolved once and pinned to it."""

    shares_rights: Literal[True] = True

    def __init__(
        self,
        uri: ModelUri,
        credentials: Credentials,
        settings: SourceSettings,
        now: Callable[[], float] = time.time,
    ) -> None:
        if not isinstance(uri, GitUri):
            raise InvalidURI(f"{uri} is not a git+https:// URI")
        self._uri, self._now = uri, now
        self._grant = grant_for(origin_of(uri.url), GIT_KEYS, credentials, defaults=())
        secrets = _basic(self._grant.values)
        self._client = HttpClient(settings)
        self._remote = GitRemote(self._client, uri.url, secrets, self._failure)
        self._lfs = LfsServer(self._client, uri.url, secrets, self._failure)
        self._plain: Mapping[str, bytes] | None = None  # by digest, once a plain file is opened
        self._commit = ""  # that `resolve` found
        self._links: dict[str, Request] = {}
        self._lock = threading.Lock()

    def revision(self) -> str:
        """Return the commit that `resolve` would pin."""
        return self._remote.find_commit(self._uri.revision)

    def resolve(self) -> Manifest:
        """List the files of the commit; those in Git LFS by the SHA-256 and the size of their pointer."""
        commit = self._commit = self.revision()
        files = self._read(commit)[0]
        return build_manifest(str(GitUri(self._uri.place, commit)), commit, files)

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of a file: from memory, or from the link of the LFS server, until that link is refused."""
        if file.digest.startswith(GIT_DIGEST):
            return self._open_plain(file, offset, length)
        if link := self._links.get(file.digest):
            try:
                return self._open_link(link, file, offset, length)
            except LarderError as error:
                self._links.pop(file.digest, None)  # expired, or its host is down: ask again
                if isinstance(error, RateLimited) or (isinstance(error, Unreachable) and error.tries):
                    raise
        link = self._lfs.find(file)
        if len(self._links) >= _MAX_LINKS:
            self._links.clear()  # those in use are asked for again
        self._links[file.digest] = link
        return self._open_link(link, file, offset, length)

    def close(self) -> None:
        """Close all kept connections, and drop the plain files."""
        self._client.close()
        self._plain = None

    def _open_link(self, link: Request, file: File, offset: int, length: int | None) -> Body:
        return open_range(self._client, link, file, offset, length, failure=self._failure)

    def _open_plain(self, file: File, offset: int, length: int | None) -> Body:
        with self._lock:
            if self._plain is None:
                files, objects = self._read(self._commit or self.revision())
                ids = {found.digest for found in files if found.digest.startswith(GIT_DIGEST)}
                self._plain = {digest: objects[digest.removeprefix(GIT_DIGEST)].content for digest in ids}
            content = self._plain.get(file.digest)
        if content is None or len(content) != file.size:
            raise SourceChanged(f"{self._uri} no longer has {file.path!r} as it was resolved")
        end = None if length is None else offset + length
        return _MemoryBody(memoryview(content)[offset:end])

    def _read(self, commit: str) -> tuple[list[File], Mapping[str, GitObject]]:
        """Return the files and the objects of a commit."""
        try:
            with _SLOTS:
                objects = read_pack(self._remote.fetch_pack(commit), MAX_ENTRIES, _MAX_BYTES)
                return list_files(objects, commit, str(self._uri)), objects
        except BadPack as error:
            raise Unreachable(f"{public(self._uri.url)} sent a pack that cannot be read: {error}") from error
        except PackTooLarge:
            raise TooManyFiles(
                f"{public(self._uri.url)} has more than {_MAX_BYTES // 2**20} MiB or {MAX_ENTRIES} objects outside Git "
                "LFS; track its large files with `git lfs migrate import`"
            ) from None

    def _failure(self, response: Response) -> LarderError:
        grant = self._grant.as_seen_by(origin_of(response.url))
        return failure_of(
            response.status, response.headers, RequestSubject(public(self._uri.url), GIT, grant), self._now()
        )


def _basic(values: Mapping[str, str]) -> dict[str, str]:
    """Return the header for a token, which may be USER:PASSWORD, else for a user and a password; none without them."""
    user, password = (values.get(key, "").strip() for key in BASIC_KEYS)
    if token := values.get(TOKEN, "").strip():
        login = token if ":" in token else f"{user or _USER}:{token}"
    elif user and password:
        login = f"{user}:{password}"
    else:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
