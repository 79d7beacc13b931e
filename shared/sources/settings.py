"""What an administrator sets for all sources, and what a person's shell brings along for `larder fetch`."""

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from urllib.parse import urlsplit

from shared.sources.port import Credentials

DEFAULT_HF_ENDPOINT = "https://huggingface.co"
DEFAULT_S3_REGION = "us-east-1"
_AWS_HOSTS = ("*.amazonaws.com", "*.amazonaws.com.cn")
_SECRET_KEYS = ("HF_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Endpoints, opened addresses, certificates and time-outs; endpoints named here are trusted as they are.

    `s3_endpoint` is empty for AWS itself; `allow_addresses` are CIDRs that hosts named by a URI or a redirect may
    resolve to though they are not public; `ca_bundle` replaces the system's certificates. Raises ValueError.
    """

    hf_endpoint: str = DEFAULT_HF_ENDPOINT
    s3_endpoint: str = ""
    s3_region: str = DEFAULT_S3_REGION
    allow_addresses: tuple[str, ...] = ()
    ca_bundle: str | None = None
    connect_timeout_s: float = 10.0
    read_timeout_s: float = 30.0

    def __post_init__(self) -> None:
        for name, endpoint in (("HF_ENDPOINT", self.hf_endpoint), ("AWS_ENDPOINT_URL", self.s3_endpoint)):
            _check_endpoint(name, endpoint)
        _ = self.allowed_networks

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
    def configured_hf_host(self) -> str:
        """The host name of a hub that the administrator chose; empty for the public one."""
        return "" if self.hf_endpoint == DEFAULT_HF_ENDPOINT else self.hf_host

    @property
    def s3_host(self) -> str:
        """The host name of the S3 endpoint; empty for AWS."""
        return urlsplit(self.s3_endpoint).hostname or ""


def _check_endpoint(name: str, endpoint: str) -> None:
    parts = urlsplit(endpoint)
    if endpoint and (parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query):
        raise ValueError(f"{name} is not an endpoint; write http(s)://HOST[:PORT]")


def settings_from_environ(environ: Mapping[str, str]) -> SourceSettings:
    """Return the settings that the usual variables name; called at composition roots only. Raises ValueError."""
    allow = environ.get("LARDER_ALLOW_ADDRESSES", "").replace(",", " ").split()
    return SourceSettings(
        hf_endpoint=environ.get("HF_ENDPOINT", "").rstrip("/") or DEFAULT_HF_ENDPOINT,
        s3_endpoint=environ.get("AWS_ENDPOINT_URL", "").rstrip("/"),
        s3_region=environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION") or DEFAULT_S3_REGION,
        allow_addresses=tuple(allow),
        ca_bundle=environ.get("SSL_CERT_FILE") or None,
    )


def credentials_from_environ(environ: Mapping[str, str], settings: SourceSettings) -> Credentials:
    """Return a person's own credentials; they may go to the hub, to the S3 endpoint or AWS, and nowhere else."""
    values = {key: environ[key] for key in _SECRET_KEYS if environ.get(key)}
    return Credentials(values, (*default_hosts("hf", settings), *default_hosts("s3", settings)))


def default_hosts(scheme: str, settings: SourceSettings) -> tuple[str, ...]:
    """Return the patterns of hosts that a Secret without `larder.dev/hosts` may be used with (see `host_matches`)."""
    match scheme:
        case "hf":
            return (settings.hf_host,)
        case "s3":
            return (settings.s3_host,) if settings.s3_host else _AWS_HOSTS
        case _:
            return ()
