"""What injection knows about a Model. No input or output."""

from collections.abc import Mapping
from dataclasses import dataclass, field

READY = "Ready"


@dataclass(frozen=True, slots=True)
class InjectableModel:
    """A Model as pods see it.

    Args:
        name: Its name, in the namespace of the pod.
        phase: `status.phase`; pods can mount only a model that is Ready.
        claim: Name of the claim with the files.
        message: `status.message`, for a refusal.
        version: `spec.version`.
        source_type: Which source the Model has, as `MODEL_<NAME>_SOURCE_TYPE` states it.
        source: What else the variables state about the source, by the end of their names.
        sub_path: Directory of the files on the claim; empty if they are at its root.
        deleting: Whether it is being deleted.
    """

    name: str
    phase: str
    claim: str
    message: str = ""
    version: str = ""
    source_type: str = ""
    source: Mapping[str, str] = field(default_factory=dict)
    sub_path: str = ""
    deleting: bool = False

    @property
    def usable(self) -> bool:
        """Whether pods can mount it now."""
        return self.phase == READY and not self.deleting
