"""Validates a Model beyond what its definition can: names, sources and sizes. No input or output."""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

import msgspec

from controller.admission.errors import InvalidName, InvalidQuantity, InvalidSelector, SourceNotAllowed
from controller.admission.rules.field_problems import Spec, refuse
from controller.admission.rules.selectors import selector_problems
from controller.modeloperator.objects import JOB_PREFIX, LONGEST_NAME
from controller.modeloperator.source import source_of
from controller.placement.allowed_sources import AllowedSources
from shared.api.model import ModelSpec
from shared.errors import InvalidURI, LarderError
from shared.quantity import parse_quantity

_LONGEST_JOB = 63  # a Job's name is a label of its pods
_MAX_BYTES = 2**63 - 1
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def check_model(obj: Mapping[str, Any], allowed: AllowedSources) -> None:
    """Raise all problems with a Model in one message, with the reason of the first."""
    spec: Spec = obj.get("spec") or {}
    problems = [
        *_name_problems(str((obj.get("metadata") or {}).get("name") or "")),
        *_source_problems(spec, allowed),
        *_size_problems(str((spec.get("storage") or {}).get("size") or "")),
        *_class_problems(str((spec.get("storage") or {}).get("storageClass") or "")),
        *_secret_problems(str(spec.get("credentialsSecret") or "")),
        *(InvalidSelector(p) for p in selector_problems("spec.nodeSelector", spec.get("nodeSelector") or {})),
    ]
    refuse(problems)


def model_warnings(obj: Mapping[str, Any], *, known_class: bool) -> list[str]:
    """Return warnings about a valid Model."""
    spec: Spec = obj.get("spec") or {}
    storage: Spec = spec.get("storage") or {}
    return [
        *(() if known_class else [_no_class(str(storage.get("storageClass")))]),
        *(_mode_warnings(storage.get("accessModes") or ["ReadWriteOnce"])),
    ]


def _no_class(name: str) -> str:
    return f"spec.storage.storageClass: there is no StorageClass {name}, so the claim stays Pending until it exists"


def _mode_warnings(modes: list[str]) -> Iterator[str]:
    if set(modes) == {"ReadOnlyMany"}:
        yield (
            "spec.storage.accessModes: with ReadOnlyMany alone, the download cannot write to the claim; add "
            "ReadWriteOnce or ReadWriteMany"
        )
    elif modes == ["ReadWriteOncePod"]:
        yield "spec.storage.accessModes: with ReadWriteOncePod, only one pod at a time can mount the model"


def _name_problems(name: str) -> Iterator[LarderError]:
    if len(name) > LONGEST_NAME:
        yield InvalidName(
            f"metadata.name has {len(name)} characters; the Job {JOB_PREFIX}<name> can have {_LONGEST_JOB}, so choose "
            f"a name of at most {LONGEST_NAME}"
        )


def _source_problems(spec: Spec, allowed: AllowedSources) -> Iterator[LarderError]:
    for field, url in _urls(spec.get("source") or {}):
        if problem := _url_problem(url):
            yield InvalidURI(f"{field}: {problem}")
            return
    field = f"spec.source.{next(iter(spec.get('source') or {}), '')}"
    try:
        source = source_of(msgspec.convert(spec, ModelSpec))
    except (InvalidURI, msgspec.ValidationError) as error:
        yield InvalidURI(f"{field}: {error}")
        return
    for uri in (source.uri, *source.endpoints):
        if refusal := allowed.refusal_of(uri):
            yield SourceNotAllowed(f"{field}: {refusal}")


def _urls(source: Spec) -> Iterator[tuple[str, str]]:
    for kind, field in (("url", "url"), ("gitlfs", "repoUrl"), ("s3", "endpoint")):
        if url := str((source.get(kind) or {}).get(field) or ""):
            yield f"spec.source.{kind}.{field}", url


def _url_problem(url: str) -> str:
    """Return what is wrong with a URL, or an empty string."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        return f"{url!r} is not a URL: {error}"
    if parts.scheme not in ("http", "https") or not host or re.search(r"[\s\x00-\x1f\\]", url):
        return f"{url!r} is not a URL of a server; write https://HOST/PATH"
    if parts.username is not None or parts.password is not None:
        return f"the URL at {host} has a user or password, which anyone who can read the Model can see; use a Secret"
    return ""


def _size_problems(size: str) -> Iterator[LarderError]:
    try:
        size_bytes = parse_quantity(size)
    except (ValueError, ArithmeticError):
        hint = "; Kubernetes has the suffixes k and Ki, but not K" if size.endswith("K") else ""
        yield InvalidQuantity(f"spec.storage.size: {size!r} is not a quantity{hint}; write, for example, 20Gi")
        return
    if not 0 < size_bytes <= _MAX_BYTES:
        wrong = "large" if size_bytes else "small"
        yield InvalidQuantity(f"spec.storage.size: {size} is too {wrong}; write, for example, 20Gi")


def _class_problems(name: str) -> Iterator[LarderError]:
    if not _OBJECT_NAME.fullmatch(name):
        yield InvalidName(f"spec.storage.storageClass: {name!r} cannot be the name of a StorageClass; write it in full")


def _secret_problems(name: str) -> Iterator[LarderError]:
    if name and not _OBJECT_NAME.fullmatch(name):
        yield InvalidName(
            f"spec.credentialsSecret: {name!r} cannot be the name of a Secret; write only its name, not a path"
        )
