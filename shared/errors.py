"""What can go wrong with a model, split by what the caller shall do.

LarderError                     reason = the class name, a stable word for status, logs and exit lines
├── Retryable                   try again soon, with jittered back-off
│   ├── Unreachable             no whole answer from a server
│   ├── RateLimited             the server asks to wait (`after_s`)
│   ├── DigestMismatch          the bytes are not those that the publisher named
│   ├── SourceChanged           the source moved between resolve and fetch
│   ├── NotGranted              the controller does not list this model for this node (yet)
│   ├── InsufficientStorage     it does not fit under the limit or on the disk now
│   ├── TooManyResolutions      the namespace has asked sources too often within a minute
│   ├── TooManyManifests        the lists of files of the namespace take too many bytes
│   ├── TooManyModels           the node's ModelNode has no room for another model of the namespace
│   ├── StoreFailure            the node's own disk refused
│   └── InternalError           a mistake in Larder itself
└── NeedsAction                 somebody must act; tried again every 15 to 60 minutes and at once on a change
    ├── AuthDenied              the source refuses these credentials
    ├── SourceNotFound          no such repository, bucket, object or file
    ├── RevisionNotFound        no such branch, tag or commit
    ├── UnsafePath              a file name that would leave its directory
    ├── PickleRefused           a file may be a pickle, which runs code, and none are accepted
    ├── TooManyFiles            the manifest does not fit its ConfigMap
    ├── AddressRefused          a host that must not be contacted from here
    ├── InvalidURI              not a form that any source serves
    └── NameConflict            another object has this model id, or a name that Larder needs
"""

from typing import ClassVar


class LarderError(Exception):
    """A failure with a stable reason and a message that says what, where, why and what to do."""

    retryable: ClassVar[bool] = True

    @property
    def reason(self) -> str:
        """The stable word, as it stands in conditions and exit lines."""
        return type(self).__name__


class Retryable(LarderError):
    """Trying the same again soon may help."""


class NeedsAction(LarderError):
    """Only a change by somebody helps."""

    retryable = False


class Unreachable(Retryable):
    """No whole answer came: DNS, TLS, reset, time-out or a 5xx.

    `tries` is after how many failures in a row this one tells that the next will be no better; 0 where it does not.
    """

    def __init__(self, message: str, tries: int = 0) -> None:
        super().__init__(message)
        self.tries = tries


class RateLimited(Retryable):
    """The server asks to be left alone for `after_s` seconds."""

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


class DigestMismatch(Retryable):
    """A file's bytes do not have the digest or the size that the manifest names."""


class SourceChanged(Retryable):
    """A file is no longer the one that was resolved."""


class NotGranted(Retryable):
    """The controller does not list this model for this node, or not yet."""


class InsufficientStorage(Retryable):
    """The missing bytes do not fit; the message has need, have and limit.

    `shortage_bytes` would have to go first; 0 where that is not known, or cannot help.
    """

    def __init__(self, message: str, shortage_bytes: int = 0) -> None:
        super().__init__(message)
        self.shortage_bytes = shortage_bytes


class TooManyResolutions(Retryable):
    """The namespace has had the resolutions that a namespace may have in a minute."""


class TooManyManifests(Retryable):
    """The lists of files that are kept for the namespace take all the bytes that a namespace may have."""


class TooManyModels(Retryable):
    """The ModelNode of a node has no room for another model of the namespace."""


class StoreFailure(Retryable):
    """The node's own disk refused to write, sync or rename."""


class InternalError(Retryable):
    """Larder's own code failed in a way that it does not foresee; the log has the traceback."""


class AuthDenied(NeedsAction):
    """The source refuses the credentials, or needs some."""


class SourceNotFound(NeedsAction):
    """There is no such repository, bucket, prefix or file."""


class RevisionNotFound(NeedsAction):
    """There is no such branch, tag or commit."""


class UnsafePath(NeedsAction):
    """A file name would leave its directory or hide what is ours."""


class PickleRefused(NeedsAction):
    """A file is of no kind that cannot be a pickle, and the model is to have none."""


class TooManyFiles(NeedsAction):
    """The list of files is too large to be kept, or the files are larger than any disk."""


class AddressRefused(NeedsAction):
    """The host resolves to an address that must not be contacted from here."""


class InvalidURI(NeedsAction):
    """The text is not a URI of a form that an installed source serves."""


class NameConflict(NeedsAction):
    """An older object has the same model id and another source, or other files of it; or a name of ours is taken.

    `digest` is that of the list of files whose ConfigMap is not Larder's.
    """

    def __init__(self, message: str, digest: str = "") -> None:
        super().__init__(message)
        self.digest = digest
