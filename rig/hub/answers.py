"""The responses of the hub as plain values: the protocol without sockets."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode

from rig.hub.repository import Repositories, Repository, RepositoryFile, git_tree_id

_BEARER = "Bearer "


@dataclass(frozen=True)
class Answer:
    """A response: status, headers, and a body: bytes, or a file of a repository."""

    status: HTTPStatus
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | RepositoryFile = b""


@dataclass(frozen=True)
class HubRequest:
    """The parts of a request that the protocol uses; `path` is still percent-encoded."""

    path: str
    query: str
    token: str | None


@dataclass(frozen=True)
class Places:
    """The addresses of the two hosts, the signature of valid links, and the page size of listings."""

    hub: str
    cdn: str
    signature: str
    page_size: int


def bearer(authorization: str | None) -> str | None:
    """Return the token of an Authorization header."""
    return authorization.removeprefix(_BEARER) if authorization and authorization.startswith(_BEARER) else None


def answer(asked: HubRequest, repositories: Repositories, places: Places) -> Answer:
    """Return the response to a GET; a HEAD gets the same without the body."""
    match asked.path.strip("/").split("/"):
        case ["api", "models", owner, name, "revision", *revision]:
            what, rest = "info", [unquote("/".join(revision))]
        case ["api", "models", owner, name, "tree", revision, *below]:
            what, rest = "tree", [unquote(revision), unquote("/".join(below))]
        case ["api", "models", owner, name]:
            what, rest = "info", ["main"]
        case [owner, name, "resolve", revision, *path] if path:
            what, rest = "resolve", [unquote(revision), unquote("/".join(path))]
        case _:
            return _error(HTTPStatus.NOT_FOUND, "", "Sorry, we can't find the page you are looking for.")
    repository = repositories.get(f"{owner}/{name}")
    if refusal := refuse(repository, asked.token, repositories.known_tokens()):
        return refusal
    assert repository is not None  # noqa: S101 - refuse() has answered for missing repositories
    commit = repository.commit_of(rest[0])
    if commit is None:
        return _error(HTTPStatus.NOT_FOUND, "RevisionNotFound", f"Invalid rev id: {rest[0]}")
    entries = repository.commits[commit]
    if what == "info":
        return _info(f"{owner}/{name}", commit, repository, asked)
    if what == "tree":
        return _tree(entries, rest[1], asked, places)
    return _resolve(entries, commit, rest[1], places)


def refuse(repository: Repository | None, token: str | None, known: set[str]) -> Answer | None:
    """Return the refusal of this token for this repository; None if it may read it."""
    if token and token not in known and (repository is None or repository.access.tokens is not None):
        return _error(HTTPStatus.UNAUTHORIZED, "", "Invalid credentials in Authorization header")
    absent = HTTPStatus.NOT_FOUND if token else HTTPStatus.UNAUTHORIZED
    if repository is None:
        return _error(absent, "RepoNotFound", "Repository not found" if token else "Invalid username or password.")
    if repository.access.tokens is None or token in repository.access.tokens:
        return None
    if repository.access.gated:
        status = HTTPStatus.FORBIDDEN if token else HTTPStatus.UNAUTHORIZED
        return _error(status, "GatedRepo", "Access to this model is restricted; ask for access on its page.")
    return _error(absent, "RepoNotFound", "Repository not found" if token else "Invalid username or password.")


def _info(name: str, commit: str, repository: Repository, asked: HubRequest) -> Answer:
    blobs = "blobs" in parse_qs(asked.query)
    siblings = [
        {"rfilename": entry.path, **({"size": entry.size, "blobId": entry.oid} if blobs else {})}
        for entry in repository.commits[commit].values()
    ]
    access = repository.access
    content = {
        "_id": commit[:24], "id": name, "modelId": name, "sha": commit, "author": name.partition("/")[0],
        "private": access.tokens is not None and not access.gated, "gated": "auto" if access.gated else False,
        "disabled": False, "downloads": 0, "likes": 0, "tags": [], "siblings": siblings,
        "createdAt": "2026-01-01T00:00:00.000Z", "lastModified": "2026-01-01T00:00:00.000Z",
    }  # fmt: skip
    return _json(content, {"X-Repo-Commit": commit})


def _tree(entries: Mapping[str, RepositoryFile], below: str, asked: HubRequest, places: Places) -> Answer:
    query = parse_qs(asked.query)
    listed = [entry for entry in _listed(entries) if not below or entry["path"].startswith(f"{below}/")]
    if query.get("recursive", ["false"])[0].lower() not in ("true", "1"):
        depth = below.count("/") + 1 if below else 0
        listed = [entry for entry in listed if entry["path"].count("/") == depth]
    start = int(query.get("cursor", ["0"])[0])
    end = start + min(places.page_size, int(query.get("limit", [str(places.page_size)])[0]))
    headers = {}
    if end < len(listed):
        following = urlencode({**{key: values[0] for key, values in query.items()}, "cursor": end})
        headers["Link"] = f'<{places.hub}{asked.path}?{following}>; rel="next"'
    return _json(listed[start:end], headers)


def _listed(entries: Mapping[str, RepositoryFile]) -> list[dict[str, Any]]:
    parents = {str(parent) for path in entries for parent in PurePosixPath(path).parents} - {"."}
    folders = [{"type": "directory", "oid": git_tree_id(path), "size": 0, "path": path} for path in sorted(parents)]
    return [*folders, *(entry.as_tree() for entry in entries.values())]


def _resolve(entries: Mapping[str, RepositoryFile], commit: str, path: str, places: Places) -> Answer:
    entry = entries.get(path)
    if entry is None:
        return _error(HTTPStatus.NOT_FOUND, "EntryNotFound", "Entry not found", {"X-Repo-Commit": commit})
    headers = {"X-Repo-Commit": commit, "ETag": f'"{entry.etag}"', "Accept-Ranges": "bytes"}
    if entry.sha256 is None:
        return Answer(HTTPStatus.OK, headers, entry)
    signed = urlencode({"filename": path, "Signature": places.signature})
    linked = {
        "Location": f"{places.cdn}/{quote(entry.sha256)}?{signed}",
        "X-Linked-Size": str(entry.size),
        "X-Linked-ETag": f'"{entry.sha256}"',
    }
    return Answer(HTTPStatus.FOUND, headers | linked, b"Found. Redirecting to the storage")


def _json(content: object, headers: Mapping[str, str]) -> Answer:
    return Answer(HTTPStatus.OK, {"Content-Type": "application/json", **headers}, json.dumps(content).encode())


def _error(status: HTTPStatus, code: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    codes = {"X-Error-Code": code} if code else {}
    content = json.dumps({"error": message}).encode()
    return Answer(
        status, {"Content-Type": "application/json", "X-Error-Message": message, **codes, **(headers or {})}, content
    )
