"""The port of a source: list its files once, then open any part of one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

from shared.manifest import File, Manifest


@dataclass(frozen=True, slots=True)
class Credentials:
    """Secret values by their usual names (HF_TOKEN or token, AWS_ACCESS_KEY_ID, ...) and the hosts they may go to.

    `hosts` are patterns for `host_grants.host_matches`; none means the default hosts of the scheme. A source sends the
    values to no other host, redirects included, except to an endpoint that the administrator configured. `ambient` is
    set if they come from the user's environment and files instead of a Secret, so that messages name the right one.
    """

    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    hosts: tuple[str, ...] = ()
    ambient: bool = False


ANONYMOUS = Credentials()


class Body(Protocol):
    """An open part of a file: bytes in order until `readinto` returns 0. Every error is a LarderError.

    `skips` is set if the server sent the file from its start, so that a part costs as much as the whole.
    """

    skips: bool

    def skip(self, max_bytes: int) -> int:
        """Discard some bytes before the part. Optional: `readinto` discards what is left.

        Args:
            max_bytes: How many bytes to discard at most.

        Returns:
            The number of discarded bytes; 0 once the part begins.

        Raises:
            Unreachable: The connection failed or timed out.
        """
        ...

    def readinto(self, buffer: memoryview) -> int:
        """Read the next bytes of the part.

        Args:
            buffer: Receives the bytes at its start.

        Returns:
            The number of bytes read; 0 at the end of the part.

        Raises:
            Unreachable: The connection failed or timed out.
        """
        ...

    def close(self) -> None:
        """Return the connection to the pool if the body was read to its end, else drop it."""
        ...


class Source(Protocol):
    """One model at one place. Methods block and are called from several threads at a time."""

    def resolve(self) -> Manifest:
        """List the files of the current revision.

        Returns:
            The manifest, which pins the revision.

        Raises:
            SourceNotFound: There is no such repository, bucket, prefix or file.
            RevisionNotFound: There is no such branch, tag or commit.
            AuthDenied: The source refuses the credentials, or requires some.
            RateLimited: The server asks for a pause.
            Unreachable: No complete response arrives.
            AddressRefused: The host resolves to an address that must not be contacted.
            UnsafePath: A file name would be outside its directory.
        """
        ...

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """Open a part of a file of the manifest.

        Args:
            file: A file that `resolve` listed.
            offset: The first byte.
            length: The number of bytes; None for all that follow.

        Returns:
            The open part, which the caller closes.

        Raises:
            SourceChanged: The file is no longer the resolved one.
            LarderError: The errors of `resolve`.
        """
        ...

    def close(self) -> None:
        """Close all kept connections."""
        ...


@runtime_checkable
class SharedRights(Protocol):
    """A source such as a repository, where everyone who may read one large file may read all files.

    In other sources, such as buckets, each file can have its own readers.
    """

    shares_rights: Literal[True]


@runtime_checkable
class Probe(Protocol):
    """A source that can find its current revision more cheaply than by a listing."""

    def revision(self) -> str:
        """Find the current revision.

        Returns:
            The revision that `resolve` would pin.

        Raises:
            LarderError: The errors of `resolve`.
        """
        ...
