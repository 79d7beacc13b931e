"""A uniform view of every kind that declares a model for nodes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from shared.api.meta import LeftOut
from shared.selection.choice import WHOLE, Selection


@dataclass(frozen=True, slots=True)
class Resolution:
    """The result of resolving a source: the files that the selection with this key chose."""

    uri: str
    revision: str
    manifest: str
    size_bytes: int
    files: int = 0
    selection: str = ""
    left_out: LeftOut | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Demand:
    """A declared model; `uri` is canonical, or empty with the reason in `invalid`.

    `refused`: why a namespaced model may not name this source; nodes keep the entries they already list, but download
    nothing more. `foreign`: a vendor's own scheme, which Larder ignores entirely. Demands compare equal if they differ
    only in what no node needs to know: `claim_revision` (whose claims have the plain name), `refresh` and `refreshed`
    (requested and last handled), `follows` (the drift policy), `upstream` (last seen there), `number` (of the
    resolution, among those of objects that share it), and `declared_bytes` (`spec.modelSize`).
    """

    kind: str
    namespace: str
    name: str
    uid: str
    created: str
    id: str
    uri: str
    invalid: str = ""
    refused: str = ""
    on_claim: bool = False
    foreign: bool = False
    groups: tuple[str, ...] = ()
    node_selector: Mapping[str, str] = field(default_factory=dict)
    node_affinity: Mapping[str, Any] = field(default_factory=dict)
    secret: str = ""
    secret_key: str = ""
    reuse: bool = False
    disabled: bool = False
    selection: Selection = WHOLE
    reserved: bool = False
    deleting: bool = False
    pinned: bool = False
    priority: int = 0
    resolution: Resolution | None = None
    serving: str = ""
    claim_revision: str = field(default="", compare=False)
    refresh: str = field(default="", compare=False)
    refreshed: str = field(default="", compare=False)
    follows: bool = field(default=False, compare=False)
    upstream: str = field(default="", compare=False)
    number: int = field(default=0, compare=False)
    declared_bytes: int = field(default=0, compare=False)

    @property
    def refresh_pending(self) -> bool:
        """Whether a refresh was requested that the source has not answered yet."""
        return self.refresh not in ("", self.refreshed)

    @property
    def age(self) -> tuple[str, str]:
        """Sort key by age: creation time, then uid."""
        return self.created, self.uid

    def wants_same_as(self, other: "Demand") -> bool:
        """Return whether both want the same files of the same source."""
        return self.uri == other.uri and self.selection == other.selection

    @property
    def placeable(self) -> bool:
        """Whether nodes should hold it according to its own object."""
        return not (self.on_claim or self.foreign or self.invalid or self.refused or self.disabled or self.deleting)
