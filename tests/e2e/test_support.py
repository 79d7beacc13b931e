"""The commands for operators, against real kubelets."""

import subprocess
import sys
import tarfile
from pathlib import Path

from rig.node.installation import NAMESPACE, Installation, is_pod_ready


def _larder(site: Installation, *arguments: str) -> str:
    """Run a command as an operator and return what it printed."""
    command = [sys.executable, "-m", "shared.cli", *arguments, "--kubeconfig", str(site.cluster.kubeconfig)]
    done = subprocess.run(  # noqa: S603 - ourselves
        command, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_bundle_has_the_logs_and_metrics_of_every_pod(site: Installation, tmp_path: Path) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    site.wait_ready("ClusterBaseModel", model)
    site.wait_rolled_out()
    pods = [pod["metadata"]["name"] for pod in site.pods("app.kubernetes.io/part-of=larder") if is_pod_ready(pod)]
    assert len(pods) >= 3
    for pod in pods:
        logs = ("logs", pod, f"--namespace={NAMESPACE}")
        site.until(lambda words=logs: '"event"' in site.cluster.kubectl(*words), f"the kubelet to return logs of {pod}")  # type: ignore[misc]
    file = tmp_path / "bundle.tar.gz"
    _larder(site, "support", "--output", str(file))
    with tarfile.open(file) as bundle:
        bundle.extractall(tmp_path, filter="data")
    found = {str(p.relative_to(tmp_path)): p for p in tmp_path.rglob("*") if p.is_file()}

    def text(part: str, pod: str) -> str:
        return "".join(p.read_text() for name, p in found.items() if part in name and pod in name)

    for pod in pods:
        assert '"event"' in text("logs/", pod), (pod, text("errors.txt", ""))
        assert "process_resident_memory_bytes" in text("metrics/", pod), pod
    assert model in text("objects/", "")
    site.delete("ClusterBaseModel", model)


def test_why_reports_that_a_model_is_ready(site: Installation) -> None:
    model = site.base_model(nodeSelector={"gpu": "yes"})
    site.wait_ready("ClusterBaseModel", model)
    expected = f"ClusterBaseModel {model}: no problems found"
    site.until(lambda: expected in _larder(site, "why", f"cbm/{model}"), "the agent to act on its last instructions")
    site.delete("ClusterBaseModel", model)
