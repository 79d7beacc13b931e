"""Lists keys below a prefix with boto3, over our own connections and without its retries, profiles and environment."""

import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from operator import itemgetter
from typing import Any

import boto3
import botocore.session
from botocore import UNSIGNED
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import Unreachable
from shared.http.client import HttpClient, Request
from shared.http.origins import public
from shared.sources.listing_limits import bounded, bounded_names, in_time
from shared.sources.plain_xml import plain_xml
from shared.sources.prefix_keys import beginning_of, path_below
from shared.sources.s3.errors import error_fields
from shared.sources.s3.requests import S3Requests
from shared.sources.settings import PATH_STYLE, VIRTUAL_STYLE
from shared.uri.buckets import S3Uri

_MAX_PAGE_BYTES = 5 * 2**20  # a thousand keys of at most 1 KiB each, three characters per byte if quoted
_LONGEST_KEY = 1024  # the limit of S3 in bytes
_CREATING_CLIENT = threading.Lock()  # threads may not share a session, but each may use the clients that it created
_OURS = frozenset({"accept-encoding", "host", "user-agent"})  # headers that our client sets itself, with these values


class S3Refusal(Exception):
    """S3 answered with an error."""

    def __init__(self, status: int, headers: Mapping[str, str], fields: Mapping[str, str]) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers, self.fields = status, headers, fields


def list_paths(uri: S3Uri, requests: S3Requests, connections: HttpClient, until_s: float) -> list[str]:
    """Return the part after the prefix of each key below it, without empty directory placeholders.

    `until_s`: as in `in_time`. Raises S3Refusal, Unreachable, AddressRefused, TooManyFiles.
    """
    client = _client(requests, connections)
    try:
        paginator = client.get_paginator("list_objects_v2")
        found = bounded(paginator.paginate(Bucket=uri.bucket, Prefix=beginning_of(uri.prefix)), str(uri))
        pages = in_time(found, until_s, str(uri))
        listed = (entry for page in pages for entry in page.get("Contents", ()))
        entries = list(bounded_names(map(_key_and_size, listed), itemgetter(0), str(uri)))
    except (BotoCoreError, ClientError) as error:  # boto3 reports a body that it cannot parse as a server error
        raise Unreachable(f"{requests.grant.host} cannot be listed for {uri}: {error}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        detail = f"{type(error).__name__}: {str(error)[:200]}"
        raise Unreachable(
            f"{requests.grant.host} sent a listing of {uri} that is not valid for S3 ({detail}); check the endpoint"
        ) from error
    finally:
        client.close()
    paths = (path_below(uri.prefix, key, size) for key, size in entries)
    return [path for path in paths if path is not None]


def _key_and_size(entry: Mapping[str, Any]) -> tuple[str, int]:
    """Return the key and the size of a listed object; raises ValueError for a key that no object has."""
    key = str(entry["Key"])
    if len(key) > _LONGEST_KEY:
        raise ValueError(f"a key of {len(key)} characters")
    return key, int(entry["Size"])


def _client(requests: S3Requests, connections: HttpClient) -> Any:  # noqa: ANN401 - boto3 has no types
    """Return a client that never opens a connection itself, so that the checked address is the one in use."""
    keys = requests.grant.values
    config = Config(
        signature_version="s3v4" if keys else UNSIGNED,
        s3={"addressing_style": VIRTUAL_STYLE if requests.is_virtual else PATH_STYLE},
        retries={"total_max_attempts": 1},
        ignore_configured_endpoint_urls=True,
    )
    with _CREATING_CLIENT:
        client = _session_without_files().client(
            "s3",
            region_name=requests.region,
            endpoint_url=requests.endpoint if requests.named or requests.settings.s3_endpoint else None,
            aws_access_key_id=keys.get("AWS_ACCESS_KEY_ID"),
            aws_secret_access_key=keys.get("AWS_SECRET_ACCESS_KEY"),
            aws_session_token=keys.get("AWS_SESSION_TOKEN"),
            config=config,
        )

    def send(request: AWSPreparedRequest, **_: object) -> AWSResponse:
        return _send(connections, request)

    client.meta.events.register("before-send.s3", send)
    return client


def _send(connections: HttpClient, request: AWSPreparedRequest) -> AWSResponse:
    """Send what botocore prepared, and return the response with its body read.

    Raises S3Refusal, Unreachable, RateLimited, AddressRefused. Raising ends the request here: botocore would follow a
    redirect to another region on its own, and then the next.
    """
    headers = {name: _text(value) for name, value in request.headers.items() if name.lower() not in _OURS}
    response = connections.send(Request(request.url, request.method, secrets=headers, follow_redirects=False))
    if response.status >= HTTPStatus.MULTIPLE_CHOICES:
        body = response.read_small()
        response.close()
        raise S3Refusal(response.status, response.headers, error_fields(body))
    body = response.read_all(_MAX_PAGE_BYTES)
    try:
        body = plain_xml(body).encode()
    except ValueError as error:
        problem = f"{public(request.url)}: the response is not an S3 listing: {error}; check the endpoint"
        raise Unreachable(problem) from None
    return AWSResponse(request.url, response.status, dict(response.headers), _RawBody(body))


def _text(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


@dataclass(frozen=True, slots=True)
class _RawBody:
    """A response body with the interface that botocore reads."""

    body: bytes

    def stream(self) -> Iterator[bytes]:
        """Yield the body."""
        yield self.body


@cache
def _session_without_files() -> Any:  # noqa: ANN401 - boto3 has no types
    """Return a session that ignores profiles and the files in a home directory, and holds no credentials.

    All clients share it, because reading its description of S3 takes 0.1 s.
    """
    nothing = (None, None, os.devnull, None)
    session = botocore.session.Session(
        {"profile": (None, None, None, None), "config_file": nothing, "credentials_file": nothing}
    )
    # No timestamp is used, and parsing them takes as long as the rest of a listing.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
    return boto3.session.Session(botocore_session=session)
