"""Reads objects live: one, or a whole collection page by page."""

from collections.abc import AsyncIterator, Mapping
from typing import TypeVar

import msgspec

from shared.decode_errors import DECODE_ERRORS
from shared.kube.errors import Malformed, NotFound
from shared.kube.objects import Object, Page
from shared.kube.transport import JSON, Kube

T = TypeVar("T", bound=Object)
S = TypeVar("S")

METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
PAGE = 50  # objects in a response: each may have 1.5 MB, and a response is in memory twice
_NO_QUERY: Mapping[str, str] = {}


def selectors(label_selector: str = "", field_selector: str = "") -> dict[str, str]:
    """Return the query that narrows a list or watch; empty selectors select everything."""
    query = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in query.items() if value}


async def get_object(kube: Kube, path: str, kind: type[T]) -> T | None:
    """Read one object, or return None if it does not exist; raises KubeError."""
    try:
        return decode(await kube.request("GET", path), kind)
    except NotFound:
        return None


async def list_objects(kube: Kube, path: str, kind: type[T], query: Mapping[str, str] = _NO_QUERY) -> list[T]:
    """Read a whole collection live. Raises KubeError, even if only one object cannot be decoded."""
    return [decode(raw, kind) async for page in pages(kube, path, query) for raw in page.items]


async def list_metadata(kube: Kube, path: str, query: Mapping[str, str] = _NO_QUERY) -> list[Object]:
    """Read the metadata of a whole collection live. Raises KubeError."""
    return [decode(raw, Object) async for page in pages(kube, path, query, accept=METADATA) for raw in page.items]


async def pages(
    kube: Kube,
    path: str,
    query: Mapping[str, str] = _NO_QUERY,
    size: int = PAGE,
    timeout_s: float = 60,
    accept: str = JSON,
) -> AsyncIterator[Page]:
    """Yield the pages of one consistent list; Expired means that it took too long and must start over."""
    step = {**query, "limit": str(size)}
    while True:
        page = decode(await kube.request("GET", path, step, timeout_s=timeout_s, accept=accept), Page)
        yield page
        if not page.metadata.continue_:
            return
        step["continue"] = page.metadata.continue_


def decode(data: bytes | msgspec.Raw, kind: type[S]) -> S:
    """Decode JSON; raises Malformed."""
    try:
        return msgspec.json.decode(data, type=kind)
    except DECODE_ERRORS as error:
        raise Malformed(f"not a {kind.__name__}: {error}") from error
