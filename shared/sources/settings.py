"""Settings for all sources, from the environment that the chart or the user of a command sets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from urllib.parse import urlsplit

from shared.errors import InvalidSettings
from shared.http.origins import DEFAULT_PORTS, Origin, origin_of, quoted_or_hidden
from shared.http.proxies import Proxies, proxies_from_environ
from shared.sources.cloud_hosts import AWS_HOSTS, AZURE_HOSTS, GOOGLE_HOSTS, ORACLE_HOSTS

DEFAULT_HF_ENDPOINT = "https://huggingface.co"
DEFAULT_S3_REGION = "us-east-1"
PATH_STYLE, VIRTUAL_STYLE = "path", "virtual"
_CA_VARIABLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Endpoints, allowed addresses, certificates and timeouts.

    Endpoints named here are trusted whatever they resolve to; `settings_from_environ` checks their form. Raises
    ValueError if another value is invalid.

    Args:
        hf_endpoint: The URL of the hub.
        s3_endpoint: The URL of the S3 service; empty for AWS.
        s3_region: The region of buckets if neither the URI nor the credentials name one.
        allow_addresses: CIDRs that hosts named by a URI or a redirect may resolve to although they are not public.
        ca_bundle: Replaces the certificate authorities of the system.
        connect_timeout_s: Limit for connecting, in seconds.
        read_timeout_s: Limit for a pause without a byte, in seconds.
        gcs_endpoint: The URL of Google Cloud Storage; empty for the cloud itself.
        azure_endpoint: The URL of Azure Blob Storage; empty for the cloud itself.
        oci_endpoint: The URL of OCI Object Storage; empty for the cloud itself.
        oci_region: The region of OCI Object Storage.
        registries: URLs of container registries; `http://` allows plain http.
        local_roots: Absolute directories below which `local://` may read.
        proxies: The proxies to use.
        s3_addressing: `path` or `virtual`: whether `s3_endpoint` takes the bucket name in the path or before the host.
        s3_ca_bundle: Replaces `ca_bundle` and the authorities of the system for S3.
    """

    hf_endpoint: str = DEFAULT_HF_ENDPOINT
    s3_endpoint: str = ""
    s3_region: str = DEFAULT_S3_REGION
    allow_addresses: tuple[str, ...] = ()
    ca_bundle: str | None = None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 30.0
    gcs_endpoint: str = ""
    azure_endpoint: str = ""
    oci_endpoint: str = ""
    oci_region: str = ""
    registries: tuple[str, ...] = ()
    local_roots: tuple[str, ...] = ()
    proxies: Proxies = Proxies()
    s3_addressing: str = PATH_STYLE
    s3_ca_bundle: str | None = None

    def __post_init__(self) -> None:
        for root in self.local_roots:
            if not root.startswith("/") or ".." in root.split("/") or not root.strip("/"):
                raise ValueError(
                    f"LARDER_LOCAL_ROOTS: {root!r} is not an absolute path of a directory below /; "
                    "write a path such as /models"
                )
        if self.s3_addressing not in (PATH_STYLE, VIRTUAL_STYLE):
            raise ValueError(
                f"LARDER_S3_ADDRESSING: {self.s3_addressing!r} is neither path nor virtual; write one of them"
            )
        if self.s3_addressing == VIRTUAL_STYLE and _is_address(self.s3_host):
            raise ValueError(
                "LARDER_S3_ADDRESSING: 'virtual' puts bucket names before a host name, but "
                f"{self.s3_host} is an IP address; write path"
            )
        _ = self.allowed_networks

    @property
    def endpoints(self) -> tuple[str, ...]:
        """All configured endpoints, and the hub; their addresses are not checked."""
        configured = (self.hf_endpoint, self.s3_endpoint, self.gcs_endpoint, self.azure_endpoint, self.oci_endpoint)
        return tuple(endpoint for endpoint in (*configured, *self.registries) if endpoint)

    @property
    def allowed_networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """`allow_addresses`, parsed; a bare address is a network of one."""
        try:
            return tuple(ip_network(text, strict=False) for text in self.allow_addresses)
        except ValueError as error:
            raise ValueError(f"LARDER_ALLOW_ADDRESSES: {error}; write CIDRs such as 10.1.0.0/16") from error

    @property
    def hf_host(self) -> str:
        """The host name of the hub."""
        return urlsplit(self.hf_endpoint).hostname or ""

    @property
    def configured_hub(self) -> Origin | None:
        """The origin of a hub that the administrator chose; None for the public one."""
        return None if self.hf_endpoint == DEFAULT_HF_ENDPOINT else origin_of(self.hf_endpoint)

    @property
    def s3_host(self) -> str:
        """The host name of the S3 endpoint; empty for AWS."""
        return urlsplit(self.s3_endpoint).hostname or ""

    def is_bucket_host(self, host: str, port: int) -> bool:
        """Return whether a bucket of the S3 endpoint has this host: one label before the host of the endpoint."""
        if self.s3_addressing != VIRTUAL_STYLE or not self.s3_host:
            return False
        parts = urlsplit(self.s3_endpoint)
        return (host.partition(".")[2], port) == (self.s3_host, parts.port or DEFAULT_PORTS[parts.scheme])


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _checked_endpoint(name: str, endpoint: str) -> str:
    """Return an endpoint without a slash at its end, or ""; raises ValueError with the name of its variable."""
    endpoint = endpoint.rstrip("/")
    try:
        parts = urlsplit(endpoint)
        is_valid = parts.scheme in ("http", "https") and bool(parts.hostname) and not parts.username and not parts.query
        is_valid = is_valid and parts.port != 0 and endpoint.isprintable() and " " not in endpoint
    except ValueError:
        is_valid = False
    if endpoint and not is_valid:
        raise ValueError(f"{name}: {quoted_or_hidden(endpoint)} is not an endpoint; write http(s)://HOST[:PORT]")
    return endpoint


def settings_from_environ(environ: Mapping[str, str]) -> SourceSettings:
    """Return the settings from the usual variables; for composition roots only. Raises InvalidSettings."""
    try:
        return _read_settings(environ)
    except ValueError as error:
        raise InvalidSettings(str(error)) from error


def _read_settings(environ: Mapping[str, str]) -> SourceSettings:
    allow = environ.get("LARDER_ALLOW_ADDRESSES", "").replace(",", " ").split()
    registries = environ.get("LARDER_REGISTRIES", "").replace(",", " ").split()
    return SourceSettings(
        hf_endpoint=_endpoint(environ, "HF_ENDPOINT") or DEFAULT_HF_ENDPOINT,
        s3_endpoint=_endpoint(environ, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
        s3_region=environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or DEFAULT_S3_REGION,
        allow_addresses=tuple(allow),
        s3_addressing=environ.get("LARDER_S3_ADDRESSING") or PATH_STYLE,
        ca_bundle=_ca_bundle(environ, _CA_VARIABLES),
        s3_ca_bundle=_ca_bundle(environ, ("AWS_CA_BUNDLE",)),
        gcs_endpoint=_endpoint(environ, "STORAGE_EMULATOR_HOST"),
        azure_endpoint=_endpoint(environ, "AZURE_STORAGE_SERVICE_ENDPOINT") or _configured_blob_endpoint(environ),
        oci_endpoint=_endpoint(environ, "OCI_CLI_ENDPOINT"),
        oci_region=environ.get("OCI_CLI_REGION", ""),
        registries=tuple(_checked_endpoint("LARDER_REGISTRIES", r) for r in registries),
        proxies=proxies_from_environ(environ),
        local_roots=tuple(root for root in environ.get("LARDER_LOCAL_ROOTS", "").split(":") if root),
    )


def _first_set(environ: Mapping[str, str], names: Sequence[str]) -> str:
    return next((name for name in names if environ.get(name)), "")


def _endpoint(environ: Mapping[str, str], *names: str) -> str:
    """Return the first endpoint that is set, "" if none is; raises ValueError if it is invalid."""
    name = _first_set(environ, names)
    return _checked_endpoint(name, environ.get(name, ""))


def _ca_bundle(environ: Mapping[str, str], names: Sequence[str]) -> str | None:
    """Return the first file or directory of certificates that is set; raises ValueError if it does not exist."""
    name = _first_set(environ, names)
    if not name:
        return None
    if not Path(environ[name]).exists():
        raise ValueError(f"{name}: there is no {environ[name]}; name a file or directory of certificates, or unset it")
    return environ[name]


def connection_string(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the fields of AZURE_STORAGE_CONNECTION_STRING, with names in lower case."""
    fields = environ.get("AZURE_STORAGE_CONNECTION_STRING", "").split(";")
    return {name.strip().lower(): value.strip() for name, _, value in (field.partition("=") for field in fields)}


def _configured_blob_endpoint(environ: Mapping[str, str]) -> str:
    """Return the endpoint of a connection string if it is not that of Azure; its path ends with the account."""
    fields = connection_string(environ)
    endpoint, account = fields.get("blobendpoint", "").rstrip("/"), fields.get("accountname", "")
    if not account or not endpoint.endswith(f"/{account}"):
        return ""
    return _checked_endpoint("BlobEndpoint in AZURE_STORAGE_CONNECTION_STRING", endpoint.removesuffix(f"/{account}"))


def default_hosts(scheme: str, settings: SourceSettings) -> tuple[str, ...]:
    """Return the host patterns for a Secret without `larder.dev/hosts` (see `host_matches`).

    Those for `oci` cover object storage only; a docker config names the hosts of its accounts itself.
    """
    endpoint, hosts = {
        "hf": (settings.hf_endpoint, ()),
        "s3": (settings.s3_endpoint, AWS_HOSTS),
        "gs": (settings.gcs_endpoint, GOOGLE_HOSTS),
        "az": (settings.azure_endpoint, AZURE_HOSTS),
        "oci": (settings.oci_endpoint, ORACLE_HOSTS),
    }.get(scheme, ("", ()))
    return (origin_of(endpoint).netloc,) if endpoint else hosts
