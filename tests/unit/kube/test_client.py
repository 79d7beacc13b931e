import subprocess
import sys

import pytest

AGENT_FIRST = """
import sys
from shared.kube.client import ApiClient, Configuration
assert not {"requests", "oauthlib", "kubernetes.client"} & set(sys.modules)
"""


def run(*lines: str) -> None:
    """Run a program of its own, for what is loaded stays loaded."""
    argv = [sys.executable, "-W", "error", "-c", "\n".join(lines)]
    subprocess.run(argv, check=True)  # noqa: S603 - our own text


@pytest.mark.parametrize(
    "use",
    [
        "from kubernetes import client; client.CoreV1Api",
        "import kubernetes; assert kubernetes.__version__ and kubernetes.config.load_kube_config",
        "import kubernetes.client; kubernetes.client.V1Pod",
        "import kubernetes.aio.client as aio; assert aio.Configuration is Configuration and aio.CoreV1Api",
        "from kubernetes import aio; assert aio.client.ApiClient is ApiClient and aio.dynamic",
        "import kubernetes; assert not hasattr(kubernetes, 'nothing') and not hasattr(kubernetes.aio, 'nothing')",
    ],
)
def test_the_rest_of_the_client_is_there_for_who_asks(use: str) -> None:
    run(AGENT_FIRST, use)


def test_a_client_that_is_loaded_already_stays_as_it_is() -> None:
    run(
        "from kubernetes.aio import client",
        "from shared.kube.client import ApiClient",
        "assert client.ApiClient is ApiClient",
    )
