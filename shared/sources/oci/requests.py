"""Requests for the objects of one OCI Object Storage bucket: their URLs and signatures."""

import base64
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import formatdate
from functools import cached_property
from urllib.parse import quote, urlencode, urlsplit

from shared.errors import AuthDenied, InvalidURI
from shared.http.client import Request
from shared.http.origins import endpoint_origin, origin_of
from shared.sources.credential_keys import OCI_KEYS, OCI_OBJECT_KEYS
from shared.sources.host_grants import HostGrant, grant_for
from shared.sources.port import Credentials
from shared.sources.rsa import InvalidKey, RsaKey, parse_key
from shared.sources.settings import SourceSettings, default_hosts
from shared.uri.buckets import OciObjectsUri

_REGION = re.compile(r"[a-z0-9-]{1,40}")
_ID = re.compile(r"[A-Za-z0-9._:-]{1,255}")


@dataclass(frozen=True)
class OciRequests:
    """Requests for one bucket, unsigned if there is no key for the host. `now` in seconds since 1970."""

    uri: OciObjectsUri
    credentials: Credentials
    settings: SourceSettings
    now: Callable[[], float]

    @cached_property
    def endpoint(self) -> str:
        """The URL of the service. Raises InvalidURI if no region is configured."""
        if self.settings.oci_endpoint:
            return self.settings.oci_endpoint
        region = self.credentials.values.get("OCI_CLI_REGION") or self.settings.oci_region
        if not _REGION.fullmatch(region):  # it becomes part of a host name
            where = (
                "in the variable OCI_CLI_REGION" if self.credentials.ambient else "in the Secret's key OCI_CLI_REGION"
            )
            raise InvalidURI(
                f"the region of the bucket of {self.uri} is unknown; name one, such as eu-frankfurt-1, {where}"
            )
        return f"https://objectstorage.{region}.oraclecloud.com"

    @cached_property
    def grant(self) -> HostGrant:
        """What may be sent to the service."""
        return grant_for(
            origin_of(self.endpoint),
            OCI_OBJECT_KEYS,
            self.credentials,
            defaults=default_hosts("oci", self.settings),
            endpoint=endpoint_origin(self.settings.oci_endpoint),
        )

    def build_request(self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> Request:
        """Return a request for an object, or for the listing if the key is empty. Raises AuthDenied."""
        parameters = urlencode({name: value for name, value in query.items() if value}, quote_via=quote)
        path = (
            f"/n/{quote(self.uri.namespace)}/b/{quote(self.uri.bucket)}/o{'/' if key else ''}{quote(key, safe='-_.~')}"
        )
        url = f"{self.endpoint}{path}?{parameters}" if parameters else f"{self.endpoint}{path}"
        dated = {**headers, "Date": formatdate(self.now(), usegmt=True)}
        secrets = {}
        if self._key:
            signed = self._key.sign(string_to_sign(method, url, dated["Date"]).encode())
            signature = base64.b64encode(signed).decode()
            secrets = {"Authorization": authorization(self._key_id, signature)}
        return Request(url, method, headers=dated, secrets=secrets, follow_redirects=False)

    @cached_property
    def _key_id(self) -> str:
        parts = [self.grant.values[name] for name in OCI_KEYS[:3]]
        if wrong := next((name for name, part in zip(OCI_KEYS, parts, strict=False) if not _ID.fullmatch(part)), ""):
            raise AuthDenied(f"{wrong} is not an identifier as the console shows it; correct it")
        return "/".join(parts)

    @cached_property
    def _key(self) -> RsaKey | None:
        if not self.grant.values:
            return None
        try:
            return parse_key(self.grant.values["OCI_CLI_KEY_CONTENT"])
        except InvalidKey as error:
            raise AuthDenied(f"OCI_CLI_KEY_CONTENT: {error}; set it to the PEM of the API key") from None


def string_to_sign(method: str, url: str, date: str) -> str:
    """Return the text to sign for a request without a body, by version 1 of the signing scheme."""
    parts = urlsplit(url)
    target = f"{parts.path}?{parts.query}" if parts.query else parts.path
    return f"date: {date}\n(request-target): {method.lower()} {target}\nhost: {origin_of(url).netloc}"


def authorization(key_id: str, signature: str) -> str:
    """Return the value of the Authorization header."""
    return (
        f'Signature version="1",headers="date (request-target) host",keyId="{key_id}",algorithm="rsa-sha256",'
        f'signature="{signature}"'
    )
