"""Requirements of tests on real nodes."""

import os

import pytest

from rig.node.prepare import unmet_requirements


def require_real_nodes() -> None:
    """Skip the test with a reason if this machine cannot run real nodes; with LARDER_E2E=required, fail it."""
    if found := unmet_requirements(os.environ):
        reason = f"NOT TESTED on a real node: {'; '.join(found)}"
        if os.environ.get("LARDER_E2E") == "required":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
