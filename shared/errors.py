"""What can go wrong with a model, grouped by what the caller should do.

LarderError                     reason = the class name, a stable word for status, logs and exit lines
├── Retryable                   retry soon, with jittered backoff
│   ├── Unreachable             no complete response from a server
│   ├── RateLimited             the server asks for a pause (`after_s`)
│   ├── DigestMismatch          the bytes differ from the published digest
│   ├── SourceChanged           the source moved between resolve and fetch
│   ├── NotGranted              the controller does not list this model for this node (yet)
│   ├── InsufficientStorage     it does not fit under the limit or on the disk now
│   ├── TooManyResolutions      the namespace has asked sources too often in a minute
│   ├── TooManyManifests        the file lists of the namespace take too many bytes
│   ├── TooManyModels           the node's ModelNode has no room for another model of the namespace
│   ├── TooManyFilesOnNode      the node's agent has no memory for the list of files
│   ├── FilesInUse              pods use files that another list of the same revision would replace
│   ├── StoreFailure            the disk of the node failed
│   └── InternalError           a bug in Larder
└── NeedsAction                 needs an action by hand; retried every 15 to 60 minutes and at once on a change
    ├── AuthDenied              the source refuses these credentials
    ├── SourceNotFound          no such repository, bucket, object or file
    ├── RevisionNotFound        no such branch, tag or commit
    ├── UnsafePath              a file name that would be outside its directory
    ├── PickleRefused           a file may be a pickle, which can run code, and pickles are not allowed
    ├── TooManyFiles            the manifest does not fit its ConfigMap
    ├── AddressRefused          a host that must not be contacted from here
    ├── InvalidURI              not a URI that any source serves
    ├── InvalidSettings         an environment variable of the program has an invalid value
    └── NameConflict            another object has this model id, or a name that Larder needs
"""

from typing import ClassVar


class LarderError(Exception):
    """A failure with a stable reason and a message that says what, where, why and what to do."""

    retryable: ClassVar[bool] = True

    @property
    def reason(self) -> str:
        """The stable word used in conditions and exit lines."""
        return type(self).__name__


class Retryable(LarderError):
    """Retrying soon may help."""


class NeedsAction(LarderError):
    """Only a change by hand helps."""

    retryable = False


class Unreachable(Retryable):
    """No complete response arrived: DNS, TLS, reset, timeout or a 5xx.

    `tries` is how many such failures in a row mean that further tries are useless; 0 if unknown.
    """

    def __init__(self, message: str, tries: int = 0) -> None:
        super().__init__(message)
        self.tries = tries


class RateLimited(Retryable):
    """The server asks for a pause of `after_s` seconds."""

    def __init__(self, message: str, after_s: float) -> None:
        super().__init__(message)
        self.after_s = after_s


class DigestMismatch(Retryable):
    """The bytes of a file do not have the digest or the size in the manifest."""


class SourceChanged(Retryable):
    """A file is no longer the one that was resolved."""


class NotGranted(Retryable):
    """The controller does not list this model for this node, or not yet."""


class InsufficientStorage(Retryable):
    """The missing bytes do not fit; the message has need, have and limit.

    `shortage_bytes` must be freed first; 0 if unknown, or if freeing cannot help.
    """

    def __init__(self, message: str, shortage_bytes: int = 0) -> None:
        super().__init__(message)
        self.shortage_bytes = shortage_bytes


class TooManyResolutions(Retryable):
    """The namespace has used up its resolutions per minute."""


class TooManyManifests(Retryable):
    """The stored file lists of the namespace would exceed its limit in bytes."""


class TooManyModels(Retryable):
    """The ModelNode of a node has no room for another model of the namespace."""


class TooManyFilesOnNode(Retryable):
    """The list of files does not fit into the memory that the node's agent has for the namespace."""


class FilesInUse(Retryable):
    """Pods on the node use a snapshot whose files would be replaced by others of the same revision."""


class StoreFailure(Retryable):
    """The disk of the node failed to write, sync or rename."""


class InternalError(Retryable):
    """A bug in Larder raised an unforeseen error; the log has the traceback."""


class AuthDenied(NeedsAction):
    """The source refuses the credentials, or requires some."""


class SourceNotFound(NeedsAction):
    """There is no such repository, bucket, prefix or file."""


class RevisionNotFound(NeedsAction):
    """There is no such branch, tag or commit."""


class UnsafePath(NeedsAction):
    """A file name would be outside its directory or hide a file of Larder."""


class PickleRefused(NeedsAction):
    """A file may be a pickle, and the model must not have any."""


class TooManyFiles(NeedsAction):
    """The list of files is too large to store, or the files are larger than any disk."""


class AddressRefused(NeedsAction):
    """The host resolves to an address that must not be contacted from here."""


class InvalidURI(NeedsAction):
    """The text is not a URI that an installed source serves."""


class InvalidSettings(NeedsAction):
    """An environment variable has an invalid value; the message names the variable and says what to write."""


class NameConflict(NeedsAction):
    """An older object has the same model id but another source or other files, or a name that Larder needs is taken.

    `digest` is that of the file list whose ConfigMap does not belong to Larder.
    """

    def __init__(self, message: str, digest: str = "") -> None:
        super().__init__(message)
        self.digest = digest
