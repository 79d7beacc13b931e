"""What can go wrong with the components that the rig builds and runs.

LarderError (shared.errors)
└── NeedsAction
    ├── SetupFailed      a binary could not be found, built or fetched
    ├── MissingBinaries  binaries are missing, and the caller does not build them
    ├── StartFailed      a program ended, or was not ready in time
    ├── CallRefused      the API server answered a request of the rig with an error
    └── HelmFailed       helm ended with an error
"""

from shared.errors import NeedsAction


class SetupFailed(NeedsAction):
    """A binary could not be found, built or fetched; the message says what to do."""


class MissingBinaries(NeedsAction):
    """Binaries are neither in KUBEBUILDER_ASSETS nor in the cache."""


class StartFailed(NeedsAction):
    """A program ended, or was not ready in time; the message has the end of its log."""


class HelmFailed(NeedsAction):
    """Helm failed; the message has its output."""


class CallRefused(NeedsAction):
    """The API server refused a request of the rig."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status
