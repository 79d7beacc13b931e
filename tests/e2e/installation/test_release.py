import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rig.errors import CallRefused, HelmFailed
from rig.helm import LARDER, LARDER_CRDS
from rig.node.images import AGENT
from rig.node.installation import CRDS_RELEASE, NAMESPACE, RELEASE, Installation, is_pod_ready
from rig.node.label_log import LabelLog
from rig.node.namespaces import command
from shared.json_object import Json
from shared.names import ready_label, snapshot_label
from tests.chart.last_release import last_release, last_release_for_todays_images

CONTROLLER = {"drainSeconds": 2}
GPUS = {"gpu": "yes"}
_SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"
_WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/larder"
_DAEMON_SET = f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/larder-agent"


def _uninstall(site: Installation, *options: str) -> None:
    site.cluster.helm.run("uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", *options)
    site.until(lambda: not site.pods("app.kubernetes.io/part-of=larder"), "the end of Larder's pods")


@contextmanager
def _uninstalled(site: Installation) -> Iterator[None]:
    """The cluster without Larder, which is installed again afterwards."""
    _uninstall(site)
    try:
        yield
    finally:
        site.install(controller=CONTROLLER)


@dataclass(frozen=True)
class _Kept:
    """State that neither an upgrade nor a rollback may change."""

    model: str
    node: str
    pod: tuple[str, int]
    secrets: tuple[dict[str, str], ...]


def _kept(site: Installation, model: str, web: str) -> _Kept:
    (pod,) = site.pods(f"app={web}", "default")
    assert site.sh(pod, "cat $MODEL_PATH/config.json")
    restarts = sum(status["restartCount"] for status in pod["status"]["containerStatuses"])
    return _Kept(
        site.get("ClusterBaseModel", model)["metadata"]["uid"],
        site.get("ModelNode", "one")["metadata"]["uid"],
        (pod["metadata"]["uid"], restarts),
        tuple(site.api.get(f"{_SECRETS}/{name}")["data"] for name in ("larder-tls", "larder-ca")),
    )


def _chart_of(site: Installation) -> str:
    return str(site.api.get(_DAEMON_SET)["metadata"]["labels"]["helm.sh/chart"])


def test_an_upgrade_from_the_last_release_and_a_rollback_keep_models_pods_and_labels(
    site: Installation, tmp_path: Path
) -> None:
    helm = site.cluster.helm
    values = site.values(controller=CONTROLLER)
    values["image"]["tag"] = AGENT.rpartition(":")[2]  # the images of that release are not published
    del values["models"], values["trainingJobs"], values["volumeClaimTemplates"]  # unknown to that release
    with _uninstalled(site):
        helm.upgrade(last_release(LARDER_CRDS), {}, NAMESPACE, CRDS_RELEASE)
        helm.upgrade(last_release_for_todays_images(tmp_path), values, NAMESPACE, RELEASE)
        site.wait_rolled_out()
        model = site.base_model(nodeSelector=GPUS)
        site.wait_ready("ClusterBaseModel", model)
        web = site.deployment(model)
        site.running(web)
        old, before = _chart_of(site), _kept(site, model, web)

        with LabelLog(site.cluster, "one", tmp_path) as labels:
            site.install(controller=CONTROLLER)
            assert _chart_of(site) != old
            assert _kept(site, model, web) == before
            site.wait_ready("ClusterBaseModel", site.base_model(nodeSelector=GPUS))
            helm.run("rollback", RELEASE, "1", "--namespace", NAMESPACE)
            site.wait_rolled_out()
            assert _chart_of(site) == old
            assert _kept(site, model, web) == before
            site.wait_ready("ClusterBaseModel", site.base_model(nodeSelector=GPUS))
            site.cluster.wait_node("one")  # another heartbeat was observed
        assert labels.always(ready_label(model))


def test_a_settings_change_is_rolled_out_to_one_agent_at_a_time(site: Installation) -> None:
    site.cluster.add_node("spare")
    site.ready_agent("spare")
    site.wait_rolled_out()
    agents = "app.kubernetes.io/component=agent"
    before = {pod["metadata"]["uid"] for pod in site.pods(agents)}
    assert len(before) > 1
    changed = site.values(controller=CONTROLLER, agent={"downloads": 3, "maxUnavailable": "10%"})
    ready: list[int] = []

    def all_new() -> bool:
        pods = site.pods(agents)
        there = [pod for pod in pods if is_pod_ready(pod)]
        ready.append(len(there))
        return len(there) == len(before) and not before & {pod["metadata"]["uid"] for pod in pods}

    try:
        site.cluster.helm.upgrade(LARDER, changed, NAMESPACE, RELEASE)
        site.until(all_new, "new agents everywhere", 300)
        assert min(ready) == len(before) - 1
        agent = site.ready_agent("one")
        assert {"name": "LARDER_DOWNLOADS", "value": "3"} in agent["spec"]["containers"][0]["env"]
    finally:
        site.cluster.remove_node("spare")
        site.install(controller=CONTROLLER)


def _ask_for(model: str) -> Json:
    return {
        "metadata": {"generateName": "asks-", "annotations": {"ome.io/base-model-name": model}},
        "spec": {"containers": [{"name": "main", "image": "x"}]},
    }


def test_without_larder_nothing_is_refused_and_models_can_be_deleted(site: Installation) -> None:
    kept, deleted = (site.base_model(nodeSelector=GPUS) for _ in range(2))
    revisions = {m: site.wait_ready("ClusterBaseModel", m)["servingRevision"] for m in (kept, deleted)}
    files = site.snapshot("one", deleted, revisions[deleted])
    tenant = _tenant_s_model(site)
    with _uninstalled(site):
        assert site.api.create("/api/v1/namespaces/default/pods?dryRun=All", _ask_for("no-such-model"))
        assert not site.api.answers(_WEBHOOKS)
        site.until(lambda: not _left_over(site), "all other objects of the release to be gone")
        site.delete("ClusterBaseModel", deleted)
        assert site.is_gone("ClusterBaseModel", deleted)
        site.api.delete(f"/api/v1/namespaces/{tenant}")
        site.until(lambda: not site.api.answers(f"/api/v1/namespaces/{tenant}"), "the end of a namespace with a model")
        assert files.exists()
        labels = site.labels("one")
        assert labels[ready_label(deleted)] == labels[snapshot_label(deleted, revisions[deleted])] == "true"
    site.until(lambda: not files.exists(), "the files of a model deleted in between to be gone")
    site.until(lambda: ready_label(deleted) not in site.labels("one"), "its label to be gone")
    assert site.labels("one")[ready_label(kept)] == "true"
    site.until(
        lambda: bool(site.get("ClusterBaseModel", kept)["metadata"].get("finalizers")), "the finalizer of the other"
    )
    with pytest.raises(CallRefused, match="no-such-model"):
        site.api.create("/api/v1/namespaces/default/pods?dryRun=All", _ask_for("no-such-model"))


def _tenant_s_model(site: Installation) -> str:
    """Create a namespace with a BaseModel that Larder has reconciled, and return its name."""
    namespace = site.name("tenant")
    site.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    spec = {"modelFormat": {"name": "x"}, "storage": {"storageUri": site.push(), "nodeSelector": GPUS}}
    model = {"apiVersion": "ome.io/v1beta1", "kind": "BaseModel", "metadata": {"name": "m"}, "spec": spec}
    path = _base_models(namespace)
    site.api.create(path, model)
    site.until(lambda: bool(site.api.get(f"{path}/m")["metadata"].get("finalizers")), "the finalizer")
    return namespace


def _base_models(namespace: str) -> str:
    return f"/apis/ome.io/v1beta1/namespaces/{namespace}/basemodels"


def _left_over(site: Installation) -> list[str]:
    """Return the objects that the release left in the cluster, without its namespace."""
    kinds = "clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingwebhookconfigurations,flowschemas"
    kinds += ",priorityclasses,jobs,roles,rolebindings,serviceaccounts,secrets,networkpolicies"
    found = site.cluster.kubectl("get", kinds, "--all-namespaces", "-o", "name").split()
    return [name for name in found if "larder" in name and "sh.helm.release" not in name]


def _commands(number: int) -> str:
    """Return a block of commands of the chart's README from the section on uninstalling."""
    section = (LARDER / "README.md").read_text().partition("## Uninstalling\n")[2].partition("\n## ")[0]
    return section.split("```\n")[2 * number + 1]


def _sh(site: Installation, script: str, folder: Path) -> str:
    """Run a documented script as an administrator."""
    for name, program in (("kubectl", site.cluster.tools.plane.kubectl), ("helm", site.cluster.tools.helm)):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(program)
    env = [f"PATH={folder}:{os.environ['PATH']}", f"HOME={folder}", f"KUBECONFIG={site.cluster.kubeconfig}"]
    return command(["/usr/bin/env", *env, "/bin/sh", "-ec", script])


def test_the_documented_commands_remove_every_file_and_label(site: Installation, tmp_path: Path) -> None:
    model = site.base_model(nodeSelector=GPUS)
    site.wait_ready("ClusterBaseModel", model)
    assert _files(site)
    try:
        output = _sh(site, _commands(0), tmp_path)
        assert re.search(r"^one +<none>$", output, re.MULTILINE), output
        assert _files(site) == []
        assert not any(_ours(label) for label in site.labels("one"))
    finally:
        site.install(controller=CONTROLLER)


def _files(site: Installation) -> list[str]:
    roots = [site.store("one") / "models", site.store("one") / "blobs"]
    return [str(Path(folder) / name) for root in roots for folder, _, files in os.walk(root) for name in files]


def _ours(label: str) -> bool:
    return label.startswith(("model-cache-ready-", "snapshot.larder.dev/"))


def test_labels_and_finalizers_can_be_removed_manually_after_larder_was_uninstalled(
    site: Installation, tmp_path: Path
) -> None:
    model = site.base_model(nodeSelector=GPUS)
    site.wait_ready("ClusterBaseModel", model)
    tenant = _tenant_s_model(site)
    _uninstall(site, "--no-hooks")  # agents and controllers that still end might restore what the script removes
    try:
        assert site.get("ClusterBaseModel", model)["metadata"]["finalizers"]
        _sh(site, _commands(2), tmp_path)
        assert "finalizers" not in site.get("ClusterBaseModel", model)["metadata"]
        assert "finalizers" not in site.api.get(f"{_base_models(tenant)}/m")["metadata"]
        assert any(_ours(label) for label in site.labels("one"))
        _sh(site, _commands(1), tmp_path)
        assert not any(_ours(label) for label in site.labels("one"))
        assert site.labels("one")["gpu"] == "yes"
    finally:
        site.install(controller=CONTROLLER)
    site.wait_ready("ClusterBaseModel", model)
    site.until(lambda: ready_label(model) in site.labels("one"), "the label to be there again")
    site.api.delete(f"/api/v1/namespaces/{tenant}")


def test_the_helm_test_reports_agents_refused_by_pod_security(site: Installation) -> None:
    level = "pod-security.kubernetes.io/enforce"
    namespace, agent = f"/api/v1/namespaces/{NAMESPACE}", site.ready_agent("one")
    site.api.patch(namespace, {"metadata": {"labels": {level: "restricted"}}})
    try:
        site.delete_pod(agent)
        site.until(lambda: site.agent("one") is None, "the end of the agent")
        site.until(lambda: _agents_made(site) == _nodes(site) - 1, "its count")
        with pytest.raises(HelmFailed):
            site.cluster.helm.run("test", RELEASE, "--namespace", NAMESPACE)
        output = site.cluster.kubectl("logs", f"--namespace={NAMESPACE}", "larder-test")
        assert "have no pod" in output
        assert f"kubectl label namespace {NAMESPACE} {level}=privileged" in output
    finally:
        site.api.patch(namespace, {"metadata": {"labels": {level: "privileged"}}})
    site.ready_agent("one")
    site.until(lambda: _agents_made(site) == _nodes(site), "its count")
    site.cluster.helm.run("test", RELEASE, "--namespace", NAMESPACE)


def _agents_made(site: Installation) -> int:
    return int(site.api.get(_DAEMON_SET)["status"]["currentNumberScheduled"])


def _nodes(site: Installation) -> int:
    return len(site.api.get("/api/v1/nodes")["items"])
