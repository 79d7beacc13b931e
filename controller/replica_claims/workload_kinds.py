"""The kinds of workloads whose pods may get claims from an annotation. No input or output, no clock."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """A namespaced kind that controls pods, directly or through others.

    Args:
        api_version: Group and version to read it in.
        kind: Its kind.
        resource: Its plural, as in API paths.
    """

    api_version: str
    kind: str
    resource: str

    @property
    def group(self) -> str:
        """The API group."""
        return group_of(self.api_version)

    def path(self, namespace: str, name: str) -> str:
        """Return the API path of an object; the name may come from an owner reference, so it is untrusted."""
        root = "apis" if self.group else "api"
        return f"/{root}/{self.api_version}/namespaces/{namespace}/{self.resource}/{quote(name, safe='')}"


@dataclass(frozen=True, slots=True)
class WorkloadKinds:
    """The kinds that the chart names; if empty, the annotation is switched off."""

    kinds: tuple[WorkloadKind, ...] = ()

    def of(self, reference: Mapping[str, object]) -> WorkloadKind | None:
        """Return the kind of an owner reference in any version, or None."""
        named = group_of(str(reference.get("apiVersion", ""))), reference.get("kind")
        return next((known for known in self.kinds if (known.group, known.kind) == named), None)

    @property
    def enabled(self) -> bool:
        """Whether any kind is named."""
        return bool(self.kinds)


POD = WorkloadKind("v1", "Pod", "pods")  # may be between two workloads, and owns no claims itself


def group_of(api_version: str) -> str:
    """Return the API group of an apiVersion; empty for the core group."""
    return api_version.rpartition("/")[0]
