"""`larder why` of a pod whose author chose hostile names, with the rights of an administrator."""

import subprocess
import sys

from controller.replica_claims.gate import CLAIMS_LABEL
from rig.processes import wait_until
from tests.integration.cli.conftest import Cluster


def test_the_name_of_a_claim_cannot_lead_to_a_secret(cluster: Cluster) -> None:
    api, space = cluster.plane.api, "/api/v1/namespaces/hostile"
    api.create("/api/v1/namespaces", {"metadata": {"name": "hostile"}})
    wait_until(lambda: api.answers(f"{space}/serviceaccounts/default"), 60, "the namespace's account")
    names = ["../secrets/annotated", "../secrets/mounted"]
    mounted = {"name": "v", "persistentVolumeClaim": {"claimName": names[1]}}
    labels = {CLAIMS_LABEL: "true"}
    annotations = {"larder.dev/models": "m@r", "larder.dev/claims": f"{names[0]}=m@r"}
    spec = {"nodeSelector": {"no": "node"}, "volumes": [mounted], "containers": [{"name": "c", "image": "i"}]}
    meta = {"name": "web", "labels": labels, "annotations": annotations}
    api.create(f"{space}/pods", {"metadata": meta, "spec": spec})
    argv = ["why", "pod/hostile/web", f"--kubeconfig={cluster.plane.kubeconfig}"]
    done = subprocess.run([sys.executable, "-m", "shared.cli", *argv], capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert (done.returncode, done.stderr) == (0, "")
    wait_until(lambda: "list events" in cluster.asked("larder-cli"), 60, "the audit log")
    assert "get secrets" not in cluster.asked("larder-cli")
    assert all(f"~ claim/{name}: Queued" in done.stdout for name in names)
