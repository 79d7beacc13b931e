"""What a Model's source means to `larder fill`. No input or output, no clock."""

import hashlib
import json
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from shared.api.model import BucketSource, GitLfsSource, ModelSpec
from shared.errors import InvalidURI
from shared.http.origins import origin_of
from shared.sources.credential_keys import AWS_KEYS, DOCKER_CONFIG_KEYS, GIT_KEYS
from shared.uri.buckets import S3Uri
from shared.uri.model_uri import HfUri, HttpsUri, ModelUri, PluginUri, parse_uri

URL_FILE = "model"  # the name that the specification gives to the file of a URL
_HUB_KEYS = ("HF_TOKEN",)
_S3_KEYS = (*AWS_KEYS, "AWS_SESSION_TOKEN")
_DIGEST_HEX = 16


@dataclass(frozen=True, slots=True)
class DownloadSource:
    """A source as a download Job gets it.

    Args:
        uri: Its URI.
        arguments: Further arguments of `larder fill`.
        keys: Keys of the credentials Secret that it takes.
        hosts: Hosts that may receive the credentials; empty for those of the scheme.
        endpoints: Further places that it names, which the administrator must allow as well.
    """

    uri: ModelUri
    arguments: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    endpoints: tuple[ModelUri, ...] = ()


def source_of(spec: ModelSpec) -> DownloadSource:
    """Return the source of a Model. Raises InvalidURI, which says how to correct it."""
    source = spec.source
    if source.hugging_face is not None:
        uri = HfUri(source.hugging_face.repo_id, source.hugging_face.revision)
        return DownloadSource(parse_uri(str(uri)), keys=_HUB_KEYS)
    if source.s3 is not None:
        return _bucket(source.s3)
    if source.url is not None:
        if not source.url.url.startswith("https://"):
            raise InvalidURI(
                f"{source.url.url} is not encrypted, so anyone on the way could change the file; write an https:// URL"
            )
        return DownloadSource(parse_uri(source.url.url), (f"--file-name={URL_FILE}",))
    if source.gitlfs is not None:
        return _git(source.gitlfs)
    if source.oci is not None:
        return DownloadSource(parse_uri(f"oci://{source.oci.ref}"), keys=DOCKER_CONFIG_KEYS)
    if source.plugin is not None:
        return _plugin(source.plugin.uri)
    raise InvalidURI("spec.source is empty; set exactly one of huggingFace, url, s3, gitlfs, oci and plugin")


def wanted_digest(spec: ModelSpec) -> str:
    """Return a digest of the wanted download: the source and the user's version."""
    source = source_of(spec)
    text = json.dumps([str(source.uri), source.arguments, source.hosts, spec.version])
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_HEX]


def _bucket(source: BucketSource) -> DownloadSource:
    if any(character in source.bucket for character in "/@?#") or source.key.startswith("/"):
        raise InvalidURI(f"bucket {source.bucket!r} with key {source.key!r} is not valid; write the key without a '/'")
    uri = parse_uri(str(S3Uri(source.bucket, source.key, source.region)))
    if not source.endpoint:
        return DownloadSource(uri, keys=_S3_KEYS)
    parts = urlsplit(source.endpoint)
    if parts.scheme != "https" or not parts.hostname or parts.path.strip("/") or parts.query:
        raise InvalidURI(
            f"endpoint {source.endpoint!r} is not https://HOST[:PORT]; for a store without TLS, leave it out, and have "
            "an administrator set sources.s3Endpoint in the chart"
        )
    place = HttpsUri(f"https://{parts.netloc}/{source.bucket}/{quote(source.key)}")
    return DownloadSource(uri, (f"--endpoint={source.endpoint}",), _S3_KEYS, (_place(source.endpoint),), (place,))


def _git(source: GitLfsSource) -> DownloadSource:
    if not source.repo_url.startswith("https://"):
        raise InvalidURI(f"{source.repo_url} is not encrypted; write an https:// URL")
    uri = parse_uri(f"git+{source.repo_url.rstrip('/')}@{source.revision}")
    return DownloadSource(uri, keys=GIT_KEYS.secrets, hosts=(_place(source.repo_url),))


def _plugin(text: str) -> DownloadSource:
    uri = parse_uri(text)
    if not isinstance(uri, PluginUri):
        raise InvalidURI(
            f"{text} needs no plugin; write it in huggingFace, url, s3, gitlfs or oci, or use a ModelCache"
        )
    return DownloadSource(uri, keys=GIT_KEYS.secrets)


def _place(url: str) -> str:
    """Return the host of a URL, with its port unless that is 443, as the only one that may receive credentials."""
    return origin_of(url).netloc
