"""Listing what is below a prefix by boto3, without its retries, profiles and environment."""

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import boto3
import botocore.session
from botocore import UNSIGNED
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from shared.errors import Unreachable
from shared.sources.heads import Headers
from shared.sources.listing import bounded
from shared.sources.prefix_keys import path_below
from shared.sources.s3_requests import Requests
from shared.uri import S3Uri


class S3Refusal(Exception):
    """S3 answered with an error."""

    def __init__(self, status: int, headers: Mapping[str, str], fields: Mapping[str, str]) -> None:
        super().__init__(f"status {status}")
        self.status, self.headers, self.fields = status, headers, fields


def list_paths(uri: S3Uri, requests: Requests) -> list[str]:
    """Return what follows the prefix in each key below it, without the empty objects that stand for directories.

    Raises S3Refusal, Unreachable, TooManyFiles.
    """
    client = _client(requests)
    try:
        paginator = client.get_paginator("list_objects_v2")
        pages = bounded(paginator.paginate(Bucket=uri.bucket, Prefix=f"{uri.prefix}/"), str(uri))
        listed = bounded((entry for page in pages for entry in page.get("Contents", ())), str(uri))
        entries = [(str(entry["Key"]), int(entry["Size"])) for entry in listed]
    except ClientError as error:
        raise _refusal(error) from None
    except BotoCoreError as error:
        raise Unreachable(f"{requests.grant.host} cannot be listed for {uri}: {error}") from error
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        said = f"{type(error).__name__}: {str(error)[:200]}"
        raise Unreachable(
            f"{requests.grant.host} does not list {uri} as S3 does ({said}); it is asked again"
        ) from error
    finally:
        client.close()
    paths = (path_below(uri.prefix, key, size) for key, size in entries)
    return [path for path in paths if path is not None]


def _client(requests: Requests) -> Any:  # noqa: ANN401 - boto3 has no types
    settings, keys = requests.settings, requests.grant.values
    signed = bool(keys.get("AWS_ACCESS_KEY_ID") and keys.get("AWS_SECRET_ACCESS_KEY"))
    config = Config(
        signature_version="s3v4" if signed else UNSIGNED,
        s3={"addressing_style": "path" if settings.s3_endpoint else "auto"},
        retries={"total_max_attempts": 1},
        connect_timeout=settings.connect_timeout_s,
        read_timeout=settings.read_timeout_s,
        proxies=_proxies(requests),
        ignore_configured_endpoint_urls=True,
    )
    session = boto3.session.Session(botocore_session=_session_without_files())
    return session.client(
        "s3",
        region_name=requests.region,
        endpoint_url=settings.s3_endpoint or None,
        verify=settings.ca_bundle,
        aws_access_key_id=keys.get("AWS_ACCESS_KEY_ID"),
        aws_secret_access_key=keys.get("AWS_SECRET_ACCESS_KEY"),
        aws_session_token=keys.get("AWS_SESSION_TOKEN"),
        config=config,
    )


def _proxies(requests: Requests) -> dict[str, str]:
    parts = urlsplit(requests.endpoint)
    proxy = requests.settings.proxies.of(parts.scheme, parts.hostname or "")
    return {parts.scheme: proxy.url} if proxy else {}


def _session_without_files() -> Any:  # noqa: ANN401 - botocore has no types
    """Return a session that takes nothing from a profile or the files in a home directory."""
    nothing = (None, None, os.devnull, None)
    session = botocore.session.Session(
        {"profile": (None, None, None, None), "config_file": nothing, "credentials_file": nothing}
    )
    # No time of an answer is read, and understanding them takes as long as all else of a listing.
    session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=str)
    return session


def _refusal(error: ClientError) -> S3Refusal:
    meta, detail = error.response.get("ResponseMetadata", {}), error.response.get("Error", {})
    fields = {name: str(detail[name]) for name in ("Code", "Region", "ServerTime") if name in detail}
    headers = {name.lower(): value for name, value in meta.get("HTTPHeaders", {}).items()}
    return S3Refusal(int(meta.get("HTTPStatusCode", 0)), Headers(headers), fields)
