"""Reads Secrets: only the controller does, only labelled ones, and values go only to their own hosts."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

import structlog

from controller.placement.allowed_sources import PUBLIC_SOURCES, AllowedSources
from controller.placement.demand import Demand
from shared.api.core import HOSTS_ANNOTATION, SECRET_LABEL, Secret
from shared.errors import AuthDenied
from shared.kube.collection import get_object
from shared.kube.errors import Refused
from shared.kube.objects import is_object_name
from shared.kube.transport import Kube
from shared.sources.credential_keys import ENDPOINT_KEY, TOKEN, SchemeKeys, keys_of, plugin_values, why_no_token
from shared.sources.host_grants import incomplete_keys
from shared.sources.port import ANONYMOUS, Credentials
from shared.sources.registry.docker_config import account_for
from shared.sources.s3.endpoint import named_endpoint
from shared.sources.settings import SourceSettings, default_hosts
from shared.uri.artifact import ArtifactUri
from shared.uri.buckets import S3Uri
from shared.uri.model_uri import HttpsUri, ModelUri, PluginUri, parse_uri

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Secrets:
    """The source of credentials; a cluster-scoped model's Secret is in the release namespace.

    `allowed`: what namespaced models may name, in a Secret as well as in a URI.
    """

    kube: Kube
    namespace: str
    settings: SourceSettings
    allowed: AllowedSources = PUBLIC_SOURCES

    async def credentials_of(self, demand: Demand) -> Credentials:
        """Return what the demand's Secret holds for its source; AuthDenied says what is wrong with the Secret.

        Details go only to the model's own namespace. The author of a cluster-scoped model may not be allowed to know
        which Secrets and keys the release namespace has: there every refusal has the same message, and the log has the
        cause.
        """
        if not demand.secret:
            return ANONYMOUS
        if not is_object_name(demand.secret):
            raise AuthDenied(f"{demand.secret!r} is not a valid Secret name; give the name alone, in lower case")
        where = f"Secret {demand.secret} in namespace {demand.namespace or self.namespace}"
        try:
            return await self._credentials(demand, where)
        except AuthDenied as error:
            if demand.namespace:
                raise
            _log.warning("secret_refused", model=demand.id, message=str(error))
            raise AuthDenied(
                f"{where} cannot be used for {demand.uri}: it must exist, have the label {SECRET_LABEL}=true and "
                "contain the keys for that source; the controller's log says what is wrong"
            ) from None

    async def _credentials(self, demand: Demand, where: str) -> Credentials:
        secret = await self._read(demand.namespace or self.namespace, demand.secret)
        if secret is None:
            raise AuthDenied(f"{where} does not exist; create it with the source's credentials")
        if secret.metadata.labels.get(SECRET_LABEL) != "true":
            raise AuthDenied(f"{where} is not labelled for Larder; label it {SECRET_LABEL}=true to allow its use")
        uri = parse_uri(demand.uri)
        keys = keys_of(uri, self.settings.hf_endpoint)
        if demand.secret_key:
            values = _token_of(secret, demand.secret_key, keys, where)
        elif isinstance(uri, PluginUri):
            values = plugin_values(_texts(secret, tuple(secret.data), where))
        else:
            values = _values_of(secret, keys, uri, where)
        if demand.namespace and isinstance(uri, S3Uri):
            self._check_endpoint(values, uri, where)
        return Credentials(values, self._hosts(secret, demand))

    async def _read(self, namespace: str, name: str) -> Secret | None:
        """Return a Secret, or None; AuthDenied if the chart does not grant read access there."""
        try:
            return await get_object(self.kube, f"/api/v1/namespaces/{namespace}/secrets/{name}", Secret)
        except Refused as error:
            if not error.is_forbidden:
                raise
            raise AuthDenied(
                f"Larder may not read Secrets in namespace {namespace}; "
                "add the namespace to credentialNamespaces in the chart's values"
            ) from error

    def _check_endpoint(self, values: Mapping[str, str], uri: S3Uri, where: str) -> None:
        """Raise AuthDenied if a namespace's Secret points to a host that its models may not name."""
        endpoint = named_endpoint(values, self.settings)
        place = HttpsUri(f"https://{endpoint}/{uri.bucket}/{quote(uri.prefix)}")
        if endpoint and (refusal := self.allowed.refusal_of(place)):
            raise AuthDenied(f"{where} sets {ENDPOINT_KEY} to a source that is not allowed: {refusal}")

    def _hosts(self, secret: Secret, demand: Demand) -> tuple[str, ...]:
        named = secret.metadata.annotations.get(HOSTS_ANNOTATION, "")
        hosts = tuple(host.strip().lower() for host in named.split(",") if host.strip())
        return hosts or default_hosts(demand.uri.partition("://")[0], self.settings)


def _values_of(secret: Secret, keys: SchemeKeys, uri: ModelUri, where: str) -> dict[str, str]:
    """Return the values of the source's own keys and no others; AuthDenied if they are incomplete."""
    values = _texts(secret, (*keys.secrets, *keys.location_keys), where)
    if missing := keys.missing(values):
        raise incomplete_keys(keys, values, missing, where)
    if not values:
        wanted = ", or ".join(" and ".join(each) for each in keys.key_sets)
        scheme = str(uri).partition("://")[0]
        raise AuthDenied(
            f"{where} has no credentials for {scheme}://; add {wanted} to it"
            if wanted
            else f"{scheme}:// takes no credentials; remove the reference to a Secret"
        )
    if isinstance(uri, ArtifactUri) and not account_for(uri.registry, values):
        raise AuthDenied(f"the Docker configuration in {where} has no account for {uri.registry}; add one")
    return values


def _token_of(secret: Secret, key: str, keys: SchemeKeys, where: str) -> dict[str, str]:
    """Return the token that the model says is stored under this key."""
    if why := why_no_token(keys, key):
        raise AuthDenied(f"parameters.secretKey names {key!r}, which is not sent as a token: {why}")
    values = _texts(secret, (key,), where)
    if not values:
        raise AuthDenied(f"{where} has no key {key!r}, which parameters.secretKey names; add it")
    return {TOKEN: values[key]}


def _texts(secret: Secret, keys: tuple[str, ...], where: str) -> dict[str, str]:
    """Return the values that are present and not empty, as text."""
    try:
        texts = {key: base64.b64decode(secret.data[key], validate=True).decode() for key in keys if key in secret.data}
    except (binascii.Error, UnicodeDecodeError) as error:
        raise AuthDenied(f"{where} has a value that is not text; store credentials as plain text") from error
    return {key: text for key, text in texts.items() if text.strip()}
