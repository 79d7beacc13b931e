"""The kinds that the API server serves, looked up by any name that kubectl accepts."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from shared.api.meta import ApiStruct
from shared.kube.collection import decode
from shared.kube.objects import Object
from shared.kube.transport import Kube

_DISCOVERY = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"


class _Kind(ApiStruct, frozen=True, kw_only=True):
    kind: str = ""


class _Resource(ApiStruct, frozen=True, kw_only=True):
    resource: str = ""
    response_kind: _Kind = _Kind()
    scope: str = ""
    singular_resource: str = ""
    short_names: list[str] = []


class _Version(ApiStruct, frozen=True, kw_only=True):
    version: str = ""
    resources: list[_Resource] = []


class _Group(Object, frozen=True, kw_only=True):
    versions: list[_Version] = []


class _Groups(ApiStruct, frozen=True, kw_only=True):
    items: list[_Group] = []


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind in the version that its group prefers.

    Args:
        names: Its names: plural, singular, short names and the kind itself, in lower case.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    names: frozenset[str]

    @property
    def is_secret(self) -> bool:
        """Whether its objects are Secrets, which must not be read."""
        return (self.group, self.plural) == ("", "secrets")

    def path(self, namespace: str, name: str = "") -> str:
        """Return the API path of its objects in a namespace, or of one object.

        The name is escaped: it may come from an owner reference that a tenant wrote, and the request uses the caller's
        rights.
        """
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        place = f"/namespaces/{namespace}" if self.namespaced else ""
        return f"{root}{place}/{self.plural}" + (f"/{quote(name, safe='')}" if name else "")


class ServedKinds:
    """The kinds of a cluster."""

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self._kinds = tuple(kinds)

    def named(self, word: str, group: str = "") -> list[ServedKind]:
        """Return the kinds with this name; there may be several if no group is given."""
        return [k for k in self._kinds if word.lower() in k.names and group in ("", k.group)]

    def of(self, api_version: str, kind: str) -> ServedKind | None:
        """Return the kind of an owner reference or an Event, in the version that its group prefers."""
        group = api_version.rpartition("/")[0]
        return next((k for k in self._kinds if (k.group, k.kind) == (group, kind)), None)


async def read_served_kinds(kube: Kube) -> ServedKinds:
    """Ask the API server which kinds it serves. Raises KubeError."""
    listed = [await kube.request("GET", path, accept=_DISCOVERY) for path in ("/api", "/apis")]
    return ServedKinds(kind for body in listed for group in decode(body, _Groups).items for kind in _kinds(group))


def _kinds(group: _Group) -> Iterator[ServedKind]:
    """Yield the kinds of a group; the versions are in the order of its preference."""
    known = set[str]()
    for version in group.versions:
        for found in version.resources:
            if found.resource not in known:
                known.add(found.resource)
                kind = found.response_kind.kind
                names = {found.resource, found.singular_resource, kind.lower(), *found.short_names} - {""}
                namespaced = found.scope == "Namespaced"
                yield ServedKind(
                    group.metadata.name, version.version, kind, found.resource, namespaced, frozenset(names)
                )
