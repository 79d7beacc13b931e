"""What tests on real nodes ask of the machine."""

import os

import pytest

from rig.node.prepare import hindrances


def require_real_nodes() -> None:
    """Skip the test, saying why, where this machine cannot have real nodes; LARDER_E2E=required makes it fail."""
    if found := hindrances(os.environ):
        reason = f"NOT TESTED on a real node: {'; '.join(found)}"
        if os.environ.get("LARDER_E2E") == "required":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
