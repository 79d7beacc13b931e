"""A control plane with Larder's kinds, for controllers that run in the test's own process."""

from collections.abc import Iterator

import pytest

from rig.binaries import Binaries
from rig.control_plane import ControlPlane
from rig.larder.objects import install_kinds


@pytest.fixture(scope="package")
def plane(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A separate control plane: the controllers here lead, and reconcile everything on it."""
    with ControlPlane(binaries, tmp_path_factory.mktemp("plane")) as running:
        install_kinds(running.api)
        yield running
