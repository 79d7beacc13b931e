"""Secrets: read by the controller alone, only if labelled, values only for their own hosts."""

import base64
import binascii
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import quote

from controller.live import is_object_name
from controller.placement.allowed import PUBLIC_SOURCES, AllowedSources
from controller.placement.demand import Demand
from shared.api.core import HOSTS_ANNOTATION, SECRET_LABEL, Secret
from shared.errors import AuthDenied
from shared.kube.collection import get_object
from shared.kube.errors import Refused
from shared.kube.transport import Kube
from shared.sources.port import ANONYMOUS, Credentials
from shared.sources.registry import default_hosts
from shared.sources.s3_endpoint import ENDPOINT_KEY, named_endpoint
from shared.sources.settings import SourceSettings
from shared.uri import HttpsUri, S3Uri, parse_uri


@dataclass(frozen=True, slots=True)
class Secrets:
    """Where credentials come from; a cluster-scoped model's Secret is in the release namespace.

    `allowed`: what the models of namespaces may name, in a Secret as in a URI.
    """

    kube: Kube
    namespace: str
    settings: SourceSettings
    allowed: AllowedSources = PUBLIC_SOURCES

    async def credentials_of(self, demand: Demand) -> Credentials:
        """Return what the demand's Secret holds; AuthDenied says what is wrong with the Secret."""
        if not demand.secret:
            return ANONYMOUS
        namespace = demand.namespace or self.namespace
        where = f"Secret {demand.secret} in namespace {namespace}"
        if not is_object_name(demand.secret):
            raise AuthDenied(f"{demand.secret!r} cannot be the name of a Secret; write its name alone, in lower case")
        secret = await self._read(namespace, demand.secret)
        if secret is None:
            raise AuthDenied(f"{where} does not exist; create it with the source's credentials")
        if secret.metadata.labels.get(SECRET_LABEL) != "true":
            raise AuthDenied(f"{where} is not for Larder; label it {SECRET_LABEL}=true to allow its use")
        values = _values(secret, demand, where)
        self._check_endpoint(values, demand, where)
        return Credentials(values, self._hosts(secret, demand))

    async def _read(self, namespace: str, name: str) -> Secret | None:
        """Return a Secret, None when there is none; AuthDenied where the chart does not let us read there."""
        try:
            return await get_object(self.kube, f"/api/v1/namespaces/{namespace}/secrets/{name}", Secret)
        except Refused as error:
            if error.code != HTTPStatus.FORBIDDEN:
                raise
            raise AuthDenied(
                f"Larder may not read Secrets of namespace {namespace}; "
                "list it in the chart's value credentialNamespaces"
            ) from error

    def _check_endpoint(self, values: dict[str, str], demand: Demand, where: str) -> None:
        """Raise AuthDenied where the Secret of a namespace leads to a host that its models may not name."""
        uri = parse_uri(demand.uri) if demand.namespace and demand.uri.startswith("s3://") else None
        if not isinstance(uri, S3Uri):
            return
        endpoint = named_endpoint(values, self.settings)
        place = HttpsUri(f"https://{endpoint}/{uri.bucket}/{quote(uri.prefix)}")
        if endpoint and (refusal := self.allowed.refusal_of(place)):
            raise AuthDenied(f"{where} leads elsewhere by its {ENDPOINT_KEY}: {refusal}")

    def _hosts(self, secret: Secret, demand: Demand) -> tuple[str, ...]:
        named = secret.metadata.annotations.get(HOSTS_ANNOTATION, "")
        hosts = tuple(host.strip().lower() for host in named.split(",") if host.strip())
        return hosts or default_hosts(demand.uri.partition("://")[0], self.settings)


def _values(secret: Secret, demand: Demand, where: str) -> dict[str, str]:
    try:
        values = {key: base64.b64decode(value, validate=True).decode() for key, value in secret.data.items()}
    except (binascii.Error, UnicodeDecodeError) as error:
        raise AuthDenied(f"{where} has a value that is not text; write credentials as plain text") from error
    if demand.secret_key:
        if demand.secret_key not in values:
            raise AuthDenied(f"{where} has no key {demand.secret_key!r}, which parameters.secretKey names")
        return {k: v for k, v in values.items() if k != "HF_TOKEN"} | {"token": values[demand.secret_key]}
    return values
