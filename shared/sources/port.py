"""The port of a source: list its files once, then open any part of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from shared.manifest import File, Manifest


@dataclass(frozen=True, slots=True)
class Credentials:
    """Secret values by their usual names (HF_TOKEN or token, AWS_ACCESS_KEY_ID, ...) and the hosts they may go to.

    `hosts` are host names without ports, or `*.` and a name (`hosts.host_matches`); none means the scheme's own. A
    source sends the values to no other, but for an endpoint that the administrator configured; redirects included.
    `own`: they are a person's, of environment and files, and no Secret's; messages name the one or the other.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    hosts: tuple[str, ...] = ()
    own: bool = False


ANONYMOUS = Credentials()


class Body(Protocol):
    """An open part of a file: bytes in order, until `readinto` returns 0. Errors are LarderErrors.

    `skips` is whether the server sent the file from its start, so that parts of it cost as much as the whole.
    """

    skips: bool

    def skip(self, most_bytes: int) -> int:
        """Pass over some of what was sent before the part; return how many bytes, 0 at the part. Raises Unreachable.

        Who needs no say in how that goes need not call it: `readinto` passes over what is left.
        """
        ...

    def readinto(self, buffer: memoryview) -> int:
        """Fill the start of the buffer and return how many bytes came; 0 at the end. Raises Unreachable."""
        ...

    def close(self) -> None:
        """Give the connection back where the body was read to its end, else drop it."""
        ...


class Source(Protocol):
    """One model at one place. Methods block and are called from threads, several at a time."""

    def resolve(self) -> Manifest:
        """List the files of the present revision, pinned.

        Raises SourceNotFound, RevisionNotFound, AuthDenied, RateLimited, Unreachable, AddressRefused, UnsafePath.
        """
        ...

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open `length` bytes (all that follow where None) of a file of the manifest, from `offset` on.

        Raises as `resolve`, and SourceChanged where the file is no longer the resolved one.
        """
        ...

    def close(self) -> None:
        """Close the connections that are kept."""
        ...


@runtime_checkable
class SharedRights(Protocol):
    """A source that whoever may read one large file of may read whole, such as a repository.

    Of others, a bucket among them, each file can have readers of its own.
    """

    shares_rights: Literal[True]


@runtime_checkable
class Probe(Protocol):
    """A source that can tell what its present revision is for less than a listing costs."""

    def revision(self) -> str:
        """Return the revision that `resolve` would pin; raises as that does."""
        ...
