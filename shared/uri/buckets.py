"""URIs of object stores: a bucket or container, and a prefix in it."""

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from shared.errors import InvalidURI

_S3_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_S3_REGION = re.compile(r"[a-z0-9-]{1,40}")
_S3_ENDPOINT = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}:[0-9]{1,5}")
_GCS_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")
_CONTAINER = re.compile(r"\$root|\$web|(?=[a-z0-9-]{3,63}$)[a-z0-9]+(?:-[a-z0-9]+)*")
_OCI_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_AZURE_HOST = ".blob.core.windows.net"


@dataclass(frozen=True, slots=True)
class S3Uri:
    """An object, or everything below a prefix, in an S3 bucket; no prefix means all of it.

    The prefixes of all bucket URIs have no slash at either end. `endpoint`, as HOST:PORT, occurs only in manifests of
    models whose Secret names it; it is contacted over https.
    """

    bucket: str
    prefix: str
    region: str = ""
    endpoint: str = ""

    def __str__(self) -> str:
        at = "".join(f"@{part}" for part in (self.region, self.endpoint) if part)
        return f"s3://{self.bucket}{at}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, slots=True)
class GcsUri:
    """An object, or everything below a prefix, in a Google Cloud Storage bucket; no prefix means all of it."""

    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"gs://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, slots=True)
class AzureUri:
    """A blob, or everything below a prefix, in a container of an Azure storage account; no prefix means all of it."""

    account: str
    container: str
    prefix: str

    def __str__(self) -> str:
        return f"az://{self.account}/{self.container}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, slots=True)
class OciObjectsUri:
    """An object, or everything below a prefix, in a bucket of OCI Object Storage; no prefix means all of it."""

    namespace: str
    bucket: str
    prefix: str

    def __str__(self) -> str:
        return f"oci://n/{self.namespace}/b/{self.bucket}/o/{self.prefix}".rstrip("/")


def parse_s3(rest: str) -> S3Uri:
    """Parse what follows `s3://`. Raises InvalidURI."""
    host, _, path = rest.partition("/")
    bucket, _, at = host.partition("@")
    region, _, endpoint = at.rpartition("@") if ":" in at else (at, "", "")
    prefix = path.strip("/")
    place_is_valid = (not region or _S3_REGION.fullmatch(region)) and (not endpoint or _S3_ENDPOINT.fullmatch(endpoint))
    if not _S3_BUCKET.fullmatch(bucket) or not place_is_valid:
        raise InvalidURI(f"s3://{rest} has no valid bucket; write s3://BUCKET/PREFIX or s3://BUCKET@REGION/PREFIX")
    return S3Uri(bucket, without_dots(prefix, f"s3://{rest}"), region, endpoint)


def parse_gcs(rest: str) -> GcsUri:
    """Parse what follows `gs://`. Raises InvalidURI."""
    bucket, _, path = rest.partition("/")
    prefix = path.strip("/")
    if not _GCS_BUCKET.fullmatch(bucket):
        raise InvalidURI(f"gs://{rest} has no valid bucket; write gs://BUCKET/PREFIX")
    return GcsUri(bucket, without_dots(prefix, f"gs://{rest}"))


def parse_azure(rest: str) -> AzureUri:
    """Parse what follows `az://`; the account may include the domain of its host. Raises InvalidURI."""
    host, _, path = rest.partition("/")
    uri = _azure_uri(host.removesuffix(_AZURE_HOST), path)
    if uri is None:
        raise InvalidURI(f"az://{rest} has no valid account and container; write az://ACCOUNT/CONTAINER/PREFIX")
    return AzureUri(uri.account, uri.container, without_dots(uri.prefix, f"az://{rest}"))


def azure_of_url(url: str) -> AzureUri | None:
    """Return the blob of an https URL of Azure; None for other URLs, and for those with a query or port.

    A single path segment is a blob in the root container of the account, and so an ordinary file.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.query or not host.endswith(_AZURE_HOST) or parts.netloc.lower() != host:
        return None
    path = unquote(parts.path.lstrip("/"), errors="replace")
    uri = _azure_uri(host.removesuffix(_AZURE_HOST), path)
    plain = uri is not None and uri.prefix and path.isprintable() and not _has_dots(uri.prefix)
    return uri if plain else None


def _azure_uri(account: str, path: str) -> AzureUri | None:
    container, _, prefix = path.partition("/")
    prefix = prefix.strip("/")
    if not _ACCOUNT.fullmatch(account) or not _CONTAINER.fullmatch(container):
        return None
    return AzureUri(account, container, prefix)


def is_oci_objects(rest: str) -> bool:
    """Return whether `oci://` means object storage (`n/...` or `BUCKET@NAMESPACE/...`) and not a registry."""
    host = rest.partition("/")[0]
    return host == "n" or "@" in host


def parse_oci_objects(rest: str) -> OciObjectsUri:
    """Parse either form. Raises InvalidURI."""
    head, _, path = rest.partition("/")
    bucket, at, namespace = head.partition("@")
    if not at:
        namespace, b, bucket, o, path = (*path.split("/", 4), "", "", "", "", "")[:5]
        at = "n" if b == "b" and o in ("o", "") else ""
    prefix = path.strip("/")
    if not at or not _OCI_NAME.fullmatch(namespace) or not _OCI_NAME.fullmatch(bucket):
        raise InvalidURI(
            f"oci://{rest} has no valid namespace and bucket; write oci://n/NAMESPACE/b/BUCKET/o/PREFIX or "
            "oci://BUCKET@NAMESPACE/PREFIX"
        )
    return OciObjectsUri(namespace, bucket, without_dots(prefix, f"oci://{rest}"))


def without_dots(path: str, text: str) -> str:
    """Return the path of a URI; raises InvalidURI if it has a `.` or `..` segment."""
    if _has_dots(path):
        raise InvalidURI(f"{text} has a . or .. in its path; write the path without them")
    return path


def _has_dots(path: str) -> bool:
    return any(part in (".", "..") for part in path.split("/"))
