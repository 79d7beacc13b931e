"""Modules that a connection loads: they cost memory on each node."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import trustme

CONNECT = """
import asyncio, sys
from pathlib import Path
from shared.kube.transport import connect

async def main(kubeconfig, folder):
    async with connect(kubeconfig or None, Path(folder), environ={"KUBERNETES_SERVICE_HOST": "10.0.0.1"}) as kube:
        print(kube.access.server, "kubernetes" in sys.modules)

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize("in_cluster", [True, False])
def test_only_a_kubeconfig_loads_the_kubernetes_client(tmp_path: Path, *, in_cluster: bool) -> None:
    (tmp_path / "token").write_text("t")
    trustme.CA().cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    cluster, context = {"server": "http://127.0.0.1:1"}, {"cluster": "c", "user": "u"}
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": context}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "mine"}}],
    }
    (tmp_path / "config").write_text(json.dumps(config))
    argv = [sys.executable, "-W", "error", "-c", CONNECT, "" if in_cluster else f"{tmp_path}/config", str(tmp_path)]
    output = subprocess.run(argv, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own text
    assert output.split() == (["https://10.0.0.1:443", "False"] if in_cluster else ["http://127.0.0.1:1", "True"])
