"""Errors of requests to the API server, grouped by what the caller should do.

LarderError (shared.errors)
└── KubeError
    ├── Unreachable   no complete response, or a 5xx: back off and retry; a write may or may not have happened
    ├── Busy          429 or 503: not done; retry after `after_s`
    ├── Expired       410: the version is gone; start over with a list
    ├── Conflict      409: another writer was first: read again
    │   └── AlreadyExists   the name is taken
    ├── NotFound      404
    ├── Refused       any other 4xx: retrying the same request cannot help
    │   └── NotAdmitted   a webhook or a quota failed to answer: not done, and it may be admitted later
    ├── Malformed     a response that breaks the API contract
    └── NoCluster     no usable kubeconfig or service account
"""

from shared.errors import LarderError

_FORBIDDEN = 403


class KubeError(LarderError):
    """The API server did not do what was asked."""


class Unreachable(KubeError):
    """No complete response arrived, so the outcome of a write is unknown."""


class Busy(KubeError):
    """The server asks for a pause of `after_s` seconds; None if it names no time.

    After a 429, wait for the whole time, because the server is overloaded. A 503 comes from a server that is starting,
    and its "5 s" is a guess.
    """

    def __init__(self, message: str, after_s: float | None, code: int) -> None:
        super().__init__(message)
        self.after_s = after_s
        self.code = code


class Expired(KubeError):
    """The resource version or continue token is too old."""


class Conflict(KubeError):
    """The object has changed since it was read, or another object that the server checks has, such as a quota."""


class AlreadyExists(Conflict):
    """An object of this name exists."""


class NotFound(KubeError):
    """No such object, or no such kind."""

    retryable = False


class Refused(KubeError):
    """The server rejects the request, and would reject it again."""

    retryable = False

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code

    @property
    def is_forbidden(self) -> bool:
        """Whether the caller lacks a permission."""
        return self.code == _FORBIDDEN


class NotAdmitted(Refused):
    """A webhook or the evaluation of a quota failed, or a webhook asks for another attempt; nothing was written."""

    retryable = True


class Malformed(KubeError):
    """The response could not be decoded."""


class NoCluster(KubeError):
    """There are no usable credentials for any cluster."""

    retryable = False
