"""Requests for the objects of one bucket: where they go and how they are signed."""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import quote, urlsplit

from shared.errors import InvalidURI
from shared.sources.hosts import Grant, grant_for
from shared.sources.http import Call
from shared.sources.port import Credentials
from shared.sources.s3_signature import Keys, Signer
from shared.sources.settings import SourceSettings, default_hosts

_REGION = re.compile(r"[a-z0-9-]{1,40}")
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True)
class Requests:
    """A bucket in a region; requests go unsigned where there is no key for the host."""

    bucket: str
    region: str
    credentials: Credentials
    settings: SourceSettings

    def __post_init__(self) -> None:
        if not _REGION.fullmatch(self.region):  # it becomes a part of host names, and a Secret may have named it
            raise InvalidURI(f"{self.region!r} is not a region; write one such as eu-west-1")

    @cached_property
    def endpoint(self) -> str:
        """The URL of the service that holds the bucket."""
        suffix = "amazonaws.com.cn" if self.region.startswith("cn-") else "amazonaws.com"
        return self.settings.s3_endpoint or f"https://s3.{self.region}.{suffix}"

    @cached_property
    def grant(self) -> Grant:
        """What may be sent to the endpoint; a bucket's own host is looked at as the endpoint's."""
        return grant_for(
            urlsplit(self.endpoint).hostname or "",
            _KEYS,
            self.credentials,
            defaults=default_hosts("s3", self.settings),
            endpoint_host=self.settings.s3_host,
        )

    def url_of(self, key: str) -> str:
        """Return an object's URL: the bucket in the path for own endpoints and for names that no certificate covers."""
        path = quote(key, safe="/-_.~")
        if self.settings.s3_endpoint or "." in self.bucket:
            return f"{self.endpoint}/{self.bucket}/{path}"
        return f"{self.endpoint.replace('https://', f'https://{self.bucket}.')}/{path}"

    def call(self, method: str, key: str, headers: Mapping[str, str]) -> Call:
        """Return a request for an object; redirects are not followed, because a signature is for one host."""
        url = self.url_of(key)
        secrets = self._signer.sign(method, url, headers, time.time()) if self._signer else {}
        return Call(url, method, headers=headers, secrets=secrets, follow=False)

    @cached_property
    def _signer(self) -> Signer | None:
        access_key, secret_key, session_token = (self.grant.values.get(key) for key in _KEYS)
        if not access_key or not secret_key:
            return None
        return Signer(Keys(access_key, secret_key, session_token or ""), self.region)
