"""Removes secrets, and anything that looks like one, from everything that goes into a bundle."""

import hashlib
import re
from functools import lru_cache
from typing import Any

from shared.json_object import Json

REMOVED = "<removed>"

_WORDS = (
    r"pass(?:word|wd|phrase)|secret|token|credential|cookie|signature"
    r"|(?:api|access|private|account|security)[-_.]?key|authorization"
)
_SUSPICIOUS = re.compile(_WORDS, re.IGNORECASE)

# Fields that name a Secret, or a key in one; engineers need to see the names.
_NAMES = frozenset({"secret", "secretName", "secretNamespace", "secretKey", "credentialsSecret"})
# Maps with arbitrary user values; only the keys are kept.
_FREE = frozenset({"parameters", "modelConfiguration", "additionalMetadata", "data", "stringData", "binaryData"})
_LABELS = frozenset({"labels", "matchLabels", "nodeSelector"})
_PRIVATE = frozenset({"command", "args", "httpHeaders"})
_ENVIRONMENT = frozenset(
    {"HF_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION", "SSL_CERT_FILE", "HOME", "POD_IP"}
)
_OWN_PATHS = frozenset({"LARDER_TOKEN_FILE", "LARDER_PRIVATE_KEY", "LARDER_TOKEN_AUDIENCE"})
# Annotations whose values are kept; kubectl.kubernetes.io/last-applied-configuration is not among them.
_ANNOTATIONS = (
    "larder.dev/", "ome.io/", "serving.kserve.io/", "internal.serving.kserve.io/", "meta.helm.sh/",
    "deployment.kubernetes.io/", "deprecated.daemonset.template.generation", "cert-manager.io/",
    "kubernetes.io/", "api-approved.kubernetes.io",
)  # fmt: skip

# If a pattern has a group `cut`, only that group is removed; a match without it is kept. Each match thus consumes
# everything that was scanned, so no text is scanned twice.
_TEXT: tuple[re.Pattern[str], ...] = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL),
    # a user name, unless it is the bucket in s3://BUCKET@REGION
    re.compile(r"(?i)(?<=[a-z0-9+.-])://(?!(?<=s3://)[a-z0-9.-]+@[a-z]{2}-[a-z-]+-\d)(?P<cut>[^/\s\"'<>?#]*)(?=@)"),
    # anyone who knows this path can send admission reviews; the API server quotes it when a webhook call fails
    re.compile(r"/admission/(?P<cut>[A-Za-z0-9-]{16,})"),
    # a URL's query is not needed to see where it leads, and many are signed
    re.compile(r"(?i)(?<=[a-z0-9+.-])://[^\s\"'<>?#]*+(?:\?(?P<cut>[^\s\"'<>]+))?"),
    re.compile(r"(?i)\b(?:X-(?:Amz|Goog)-[a-z-]{1,40}|sig|signature|AWSAccessKeyId)=(?P<cut>[^\s&\"']+)"),
    re.compile(r"(?i)\b(?:bearer|basic|digest|negotiate)\s+(?P<cut>[A-Za-z0-9._~+/=-]{8,})"),
    re.compile(r"(?i)(?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?P<cut>[^\"'\r\n,}]+)"),
    re.compile(
        rf"(?i)(?:{_WORDS})[\w.-]*+(?:\\?[\"']?\s*+[:=]\s*+\\?[\"']?(?!<removed>|(?:true|false|null)\b)(?P<cut>[^\s\"'\\,;&)}}\]]+))?"
    ),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]++)*+"),
    re.compile(r"\b(?:hf|api_org|ghp|gho|ghs|github_pat|glpat|xox[abp])[_-][A-Za-z0-9_-]{10,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
)


@lru_cache(maxsize=16384)  # thousands of nodes share a few revisions, URIs and times
def redact_text(text: str) -> str:
    """Return a text without tokens, passwords, keys, user names in URLs, and queries of URLs."""
    for pattern in _TEXT:
        text = pattern.sub(_without_secret, text)
    return text


def _without_secret(found: re.Match[str]) -> str:
    if "cut" not in found.re.groupindex:
        return REMOVED
    start, end = (place - found.start() for place in found.span("cut"))
    return found[0] if found["cut"] is None else f"{found[0][:start]}{REMOVED}{found[0][end:]}"


def redact(value: Any, name: str = "") -> Any:  # noqa: ANN401 - any JSON
    """Return JSON without secrets; `name` is the field that contains it."""
    match value:
        case dict():
            return _redact_map(value, name)
        case list():
            return [_redact_variable(v) if name == "env" else redact(v, name) for v in value]
        case str() if name == "caBundle":
            return f"{len(value)} characters, SHA-256 {hashlib.sha256(value.encode()).hexdigest()[:16]}"
        case str() if name not in _NAMES and _SUSPICIOUS.search(name):
            return REMOVED
        case str():
            return redact_text(value)
        case _:
            return value


def _redact_map(value: Json, name: str) -> Json:
    if name == "annotations":
        return {key: _redact_annotation(key, text) for key, text in value.items()}
    if name in _LABELS:
        return {key: redact_text(text) if isinstance(text, str) else text for key, text in value.items()}
    if name in _FREE:
        return {key: redact(inner, key) if key in _NAMES else REMOVED for key, inner in value.items()}
    kept = {key: inner for key, inner in value.items() if key != "managedFields"}
    return {key: REMOVED if key in _PRIVATE else redact(inner, key) for key, inner in kept.items()}


def _redact_annotation(key: str, text: str) -> str:
    return redact_text(text) if key.startswith(_ANNOTATIONS) else REMOVED


def _redact_variable(variable: Json) -> Json:
    """Keep the values only of variables that Larder itself reads."""
    name = variable.get("name", "")
    known = name in _ENVIRONMENT or name in _OWN_PATHS or (name.startswith("LARDER_") and not _SUSPICIOUS.search(name))
    kept = {key: inner for key, inner in redact(variable).items() if key != "value"}
    if "value" not in variable:
        return kept
    return kept | {"value": redact_text(variable["value"]) if known else REMOVED}
