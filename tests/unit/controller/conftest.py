from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.kube.transport import Kube
from tests.builders.api_server import Objects, serving


@pytest.fixture
def objects() -> Objects:
    """The objects of the API server; add objects by their path."""
    return Objects()


@pytest.fixture
async def kube(objects: Objects, tmp_path: Path) -> AsyncIterator[Kube]:
    """A connection to a server with the objects."""
    async with serving(objects, tmp_path) as connected:
        yield connected
