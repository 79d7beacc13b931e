"""URIs of artifacts in a container registry."""

import re
from dataclasses import dataclass

from shared.errors import InvalidURI

_HOST = re.compile(r"(?=.*[.:]|localhost$)[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:[1-9][0-9]{0,4})?")
_PART = re.compile(r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_LONGEST_REPOSITORY = 255
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class ArtifactUri:
    """A repository at a tag or at a digest (`sha256:HEX`, after `@` in the text); the digest takes precedence."""

    registry: str
    repository: str
    reference: str = "latest"

    @property
    def is_pinned(self) -> bool:
        """Whether the reference is a digest."""
        return ":" in self.reference

    def __str__(self) -> str:
        return f"oci://{self.registry}/{self.repository}{'@' if self.is_pinned else ':'}{self.reference}"


def parse_artifact(rest: str) -> ArtifactUri:
    """Parse what follows `oci://`. Raises InvalidURI."""
    registry, _, path = rest.rstrip("/").partition("/")
    named, at, digest = path.partition("@")
    repository, colon, tag = named.partition(":")
    parts_are_valid = all(_PART.fullmatch(part) for part in repository.split("/"))
    reference_is_valid = (not colon or _TAG.fullmatch(tag)) and (not at or _DIGEST.fullmatch(digest))
    if not _is_host(registry) or not parts_are_valid or len(repository) > _LONGEST_REPOSITORY or not reference_is_valid:
        raise InvalidURI(
            f"oci://{rest} is neither an artifact nor a bucket; write oci://REGISTRY/REPOSITORY:TAG, "
            "oci://REGISTRY/REPOSITORY@sha256:DIGEST or oci://n/NAMESPACE/b/BUCKET/o/PREFIX"
        )
    return ArtifactUri(registry, repository, digest or tag or "latest")


def _is_host(text: str) -> bool:
    port = text.rpartition(":")[2] if ":" in text else "443"
    return bool(_HOST.fullmatch(text)) and int(port) <= _LARGEST_PORT
