"""What can go wrong between us and the API server, split by what the caller shall do.

LarderError (shared.errors)
└── KubeError
    ├── Unreachable   no whole answer, or a 5xx: back off and retry; a write may or may not have happened
    ├── Busy          429 or 503: not done; come back after `after_s`
    ├── Expired       410: the version is gone, start again with a list
    ├── Conflict      409: another writer was first (or the name is taken): read again
    ├── NotFound      404
    ├── Refused       any other 4xx: retrying the same request cannot help
    ├── Malformed     an answer that is not what the API promises
    └── NoCluster     neither a kubeconfig nor a service account that could be used
"""

from shared.errors import LarderError


class KubeError(LarderError):
    """The API server did not do what was asked."""


class Unreachable(KubeError):
    """No complete answer came, so the outcome of a write is unknown."""


class Busy(KubeError):
    """The server asks to be left alone for `after_s` seconds; None when it named no time.

    429 is overload and means its time; 503 comes from a starting server, whose "5 s" is a guess.
    """

    def __init__(self, message: str, after_s: float | None, code: int) -> None:
        super().__init__(message)
        self.after_s = after_s
        self.code = code


class Expired(KubeError):
    """The resource version or continue token is too old."""


class Conflict(KubeError):
    """The object changed since it was read, or already exists."""


class NotFound(KubeError):
    """No such object, or no such kind."""

    retryable = False


class Refused(KubeError):
    """The server will not do this, however often it is asked."""

    retryable = False

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Malformed(KubeError):
    """The answer could not be decoded."""


class NoCluster(KubeError):
    """There are no usable credentials for any cluster."""

    retryable = False
