"""Requests for the objects of one S3 bucket: their URLs and signatures."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote

from shared.errors import AuthDenied, InvalidURI
from shared.http.client import Request
from shared.http.origins import endpoint_origin, origin_of
from shared.sources.credential_keys import AWS_KEYS, ENDPOINT_KEY, S3_KEYS
from shared.sources.host_grants import HostGrant, grant_for
from shared.sources.port import Credentials
from shared.sources.s3.endpoint import named_endpoint
from shared.sources.s3.sigv4 import Keys, Signer
from shared.sources.settings import VIRTUAL_STYLE, SourceSettings, default_hosts

_REGION = re.compile(r"[a-z0-9-]{1,40}")


@dataclass(frozen=True)
class S3Requests:
    """Requests for a bucket in a region, unsigned if there is no key for the host.

    `pinned` is the HOST:PORT of the only endpoint that a Secret may name; empty if it may name none.
    """

    bucket: str
    region: str
    credentials: Credentials
    settings: SourceSettings
    pinned: str = ""

    def __post_init__(self) -> None:
        if not _REGION.fullmatch(self.region):  # it becomes part of host names, and may come from a Secret
            raise InvalidURI(f"{self.region!r} is not a region; write one such as eu-west-1")

    @cached_property
    def named(self) -> str:
        """The HOST:PORT of the endpoint that the credentials name; "" if they name none. Raises AuthDenied.

        Files that were listed at one endpoint are never fetched from another.
        """
        named = named_endpoint(self.credentials.values, self.settings)
        if named != self.pinned:
            raise AuthDenied(
                f"the files of {self.bucket} were listed at {self.pinned or 'the configured endpoint'}, but "
                f"{ENDPOINT_KEY} in the Secret is {named or 'unset or not used'}; correct it, or refresh the model"
            )
        return named

    @cached_property
    def endpoint(self) -> str:
        """The URL of the service that holds the bucket. Raises AuthDenied."""
        if self.named:
            return f"https://{self.named}"
        suffix = "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"
        return self.settings.s3_endpoint or f"https://s3.{self.region}.{suffix}"

    @cached_property
    def is_virtual(self) -> bool:
        """Whether the bucket name is part of the host; never if no certificate would cover it."""
        configured = self.settings.s3_endpoint and self.settings.s3_addressing != VIRTUAL_STYLE
        return "." not in self.bucket and not self.named and not configured

    @cached_property
    def grant(self) -> HostGrant:
        """What may be sent to the endpoint; the host of a bucket counts as the endpoint."""
        return grant_for(
            origin_of(self.endpoint),
            S3_KEYS,
            self.credentials,
            defaults=default_hosts("s3", self.settings),
            endpoint=endpoint_origin(self.settings.s3_endpoint),
        )

    def url_of(self, key: str) -> str:
        """Return the URL of an object."""
        path = quote(key, safe="/-_.~")
        if not self.is_virtual:
            return f"{self.endpoint}/{self.bucket}/{path}"
        scheme, _, place = self.endpoint.partition("://")
        return f"{scheme}://{self.bucket}.{place}/{path}"

    def build_request(self, method: str, key: str, headers: Mapping[str, str], query: str = "") -> Request:
        """Return a request for an object; it follows no redirects, because a signature is for one host.

        `query` must be as `Signer.sign` expects it.
        """
        url = f"{self.url_of(key)}?{query}" if query else self.url_of(key)
        secrets = self._signer.sign(method, url, headers, time.time()) if self._signer else {}
        return Request(url, method, headers=headers, secrets=secrets, follow_redirects=False)

    @cached_property
    def _signer(self) -> Signer | None:
        values = self.grant.values
        if not values:
            return None
        access_key, secret_key = (values[key] for key in AWS_KEYS)
        return Signer(Keys(access_key, secret_key, values.get("AWS_SESSION_TOKEN", "")), self.region)
