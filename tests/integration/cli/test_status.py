"""`larder status` on a real API server: at terminals of each width, with few rights, and watching."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from rig import kubeconfig
from rig.processes import wait_until
from shared.api.kinds import BASE_MODEL, CLUSTER_BASE_MODEL
from shared.json_object import Json
from tests.integration.cli.conftest import Cluster
from tests.integration.cli.terminal import at_terminal, piped, start

NODES = [f"ip-10-128-{n:03}-017.us-west-2.compute.internal"[:42] for n in range(40)]
SHORT = "InsufficientStorage"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
_END_S = 60


def ready(status: str, reason: str, message: str = "") -> Json:
    return {
        "type": "Ready", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip


@pytest.fixture
def fleet(cluster: Cluster) -> Iterator[str]:
    """A model on 40 nodes, two of them without space for it."""
    name = "llama-3-70b-instruct-fp8-of-our-own-tuning"
    nodes = [{"name": n, "phase": "Ready", "percent": 100} for n in NODES[:38]]
    nodes += [{"name": n, "phase": "Failed", "reason": SHORT, "message": "need 5, have 3"} for n in NODES[38:]]
    cluster.declare(
        name, storageStatus="Downloading", nodesTotal=40, nodesReadyCount=38, size=140 * 2**30, nodes=nodes,
        conditions=[ready("False", SHORT, "38 of 40 nodes have it")],
    )  # fmt: skip
    yield name
    cluster.delete(name)


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_state_readiness_and_reason_are_shown_at_every_terminal_width(
    cluster: Cluster, fleet: str, columns: int
) -> None:
    output = at_terminal(columns, cluster.plane.kubeconfig, "status")
    assert (output.code, output.err) == (0, "")
    head, row, *rest = output.out.splitlines()
    assert [w for w in head.split() if w in ("STATE", "READY", "REASON")] == ["STATE", "READY", "REASON"]
    assert {"Downloading", "38/40", SHORT} <= set(row.split())
    assert fleet.startswith(row.split()[0].removeprefix("cmc/"))
    assert max(map(len, output.out.splitlines())) <= columns
    assert f"{NODES[39]}): {SHORT}: need 5, have 3" in " ".join(line.strip() for line in rest)


def test_a_pipe_gets_every_column_in_one_line(cluster: Cluster, fleet: str) -> None:
    row = piped(cluster.plane.kubeconfig, "status").out.splitlines()[1]
    assert row.split() == [f"cmc/{fleet}", "Downloading", "38/40", "95%", "140.0", "GiB", SHORT]


def test_status_can_be_limited_to_one_node_and_printed_as_json_or_names(cluster: Cluster, fleet: str) -> None:
    admin = cluster.plane.kubeconfig
    cluster.plane.api.create(
        "/apis/larder.dev/v1alpha1/modelnodes",
        {"apiVersion": "larder.dev/v1alpha1", "kind": "ModelNode", "metadata": {"name": NODES[39]}, "spec": {}},
    )
    row = piped(admin, "status", f"--node={NODES[39]}").out.splitlines()[1]
    assert row.split()[:2] == [f"cmc/{fleet}", "Failed"]
    unknown = piped(admin, "status", "--node=nobody")
    assert (unknown.code, unknown.out) == (1, "")
    assert unknown.err == "NotFound: there is no ModelNode nobody; `kubectl get modelnodes` lists them\n"
    reported = json.loads(piped(admin, "status", "-o", "json").out)
    assert [n["name"] for n in reported["models"][0]["nodes"]] == NODES
    names = piped(admin, "status", "-o", "name").out.split()
    assert names == [f"clustermodelcache.serving.kserve.io/{fleet}"]


@pytest.fixture
def tenant(cluster: Cluster, tmp_path: Path) -> Iterator[Path]:
    """The kubeconfig of a user who may read the models of namespace `team` and nothing else."""
    api = cluster.plane.api
    for namespace in ("team", "foreign"):
        api.ensure("/api/v1/namespaces", {"metadata": {"name": namespace}})
        cluster.declare(f"of-{namespace}", BASE_MODEL, namespace, state="Ready", nodesTotal=1, nodesReadyCount=1)
    rules = [{"apiGroups": ["ome.io"], "resources": ["basemodels"], "verbs": ["get", "list", "watch"]}]
    names = {"metadata": {"name": "reader"}}
    api.ensure(f"{RBAC}/namespaces/team/roles", {**names, "rules": rules})
    subject = {"kind": "User", "name": "tina", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"kind": "Role", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"}
    api.ensure(f"{RBAC}/namespaces/team/rolebindings", {**names, "subjects": [subject], "roleRef": role})
    with closing(cluster.plane.api_for("tina")) as user:
        wait_until(lambda: user.answers(BASE_MODEL.path_in("team")), _END_S, "the rights of the user")
    config = json.loads(cluster.plane.kubeconfig_for("tina").read_text())
    config["contexts"][0]["context"]["namespace"] = "team"
    yield kubeconfig.write(config, tmp_path / "tina")
    for namespace in ("team", "foreign"):
        cluster.delete(f"of-{namespace}", BASE_MODEL, namespace)


@pytest.mark.usefixtures("fleet")
def test_a_tenant_sees_their_namespace_and_notes_about_kinds_they_may_not_list(cluster: Cluster, tenant: Path) -> None:
    output = piped(tenant, "status")
    assert output.code == 0
    assert [line.split()[0] for line in output.out.splitlines()] == ["MODEL", "bm/team/of-team"]
    assert output.err.splitlines() == [
        "Note: ClusterBaseModels are not shown: you may not list clusterbasemodels.ome.io in the cluster",
        "Note: ClusterModelCaches are not shown: you may not list clustermodelcaches.serving.kserve.io in the cluster",
        "Note: ModelCaches are not shown: you may not list modelcaches.serving.kserve.io in this namespace",
        "Note: Models are not shown: you may not list models.models.example.com in this namespace",
        "Note: TrainingJobs are not shown: you may not list trainingjobs.larder.dev in this namespace",
    ]
    everywhere = piped(tenant, "status", "-A")
    assert (everywhere.code, everywhere.out) == (0, output.out)
    assert everywhere.err.startswith("Note: BaseModels: only those in namespace team are shown: you may not list")
    foreign = piped(tenant, "status", "-n", "foreign")
    assert (foreign.code, foreign.out) == (1, "")
    assert foreign.err.startswith("Refused: 403 Forbidden: ")
    assert foreign.err.endswith("ask for a role that allows it, or name one of your namespaces with -n\n")
    admin = piped(cluster.plane.kubeconfig, "status", "-A", "-o", "name").out.split()
    assert admin == ["basemodel.ome.io/of-foreign", "basemodel.ome.io/of-team", *admin[2:]]
    mine = piped(cluster.plane.kubeconfig, "status", "-n", "team", "-o", "name").out.split()
    assert mine == ["basemodel.ome.io/of-team", *admin[2:]]


@contextmanager
def watching(cluster: Cluster, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    running = start(cluster.plane.kubeconfig, "status", "--watch", *arguments)
    try:
        yield running
    finally:
        running.send_signal(signal.SIGINT)
        running.wait(_END_S)
        for stream in (running.stdout, running.stderr):
            if stream:
                stream.close()


def line_of(running: "subprocess.Popen[str]") -> list[str]:
    assert running.stdout
    return running.stdout.readline().split()


def test_a_watch_prints_a_line_for_each_change_without_further_requests(cluster: Cluster) -> None:
    cluster.declare("m", storageStatus="Pending", nodesTotal=40)
    before = len(cluster.asked("larder-cli"))
    with watching(cluster) as running:
        assert line_of(running)[0] == "MODEL"
        assert line_of(running)[:3] == ["cmc/m", "Pending", "0/40"]
        wait_until(lambda: len(cluster.asked("larder-cli")) == before + 18, _END_S, "six watches")
        for count in range(1, 21):
            cluster.set_status("m", nodesReadyCount=count, storageStatus="Downloading")
            assert line_of(running)[:3] == ["cmc/m", "Downloading", f"{count}/40"]
        cluster.set_status("m", files=3)  # not visible in the table, so no line is printed
        cluster.declare("n", CLUSTER_BASE_MODEL, state="In_Transit")
        assert line_of(running)[:2] == ["cbm/n", "Pending"]
        assert line_of(running)[:2] == ["cbm/n", "In_Transit"]
        cluster.delete("n", CLUSTER_BASE_MODEL)
        assert line_of(running)[:2] == ["cbm/n", "Gone"]
        asked = cluster.asked("larder-cli")[before:]
    assert sorted(asked) == sorted(
        f"{verb} {kind}" for verb in ("list", "list", "watch")
        for kind in ("basemodels", "clusterbasemodels", "clustermodelcaches", "modelcaches", "models", "trainingjobs")
    )  # fmt: skip
    assert running.returncode == 130
    cluster.delete("m")


def test_a_watch_continues_after_the_api_server_was_down(cluster: Cluster) -> None:
    cluster.declare("m", storageStatus="Pending", nodesTotal=1)
    with watching(cluster) as running:
        assert [line_of(running)[0] for _ in range(2)] == ["MODEL", "cmc/m"]
        cluster.plane.stop_apiserver()
        assert running.stderr
        output = running.stderr.readline()
        assert output.startswith(f"Unreachable: the API server at {cluster.plane.url} does not answer: ")
        assert output.endswith("; the output may be out of date until the cluster answers again\n")
        cluster.plane.resume_apiserver()
        cluster.set_status("m", storageStatus="Ready", nodesReadyCount=1)
        assert line_of(running)[:3] == ["cmc/m", "Ready", "1/1"]
    cluster.delete("m")


def test_a_watch_of_one_node_writes_json_lines(cluster: Cluster) -> None:
    def on(phase: str) -> list[Json]:
        return [{"name": "a", "phase": phase}, {"name": "b", "phase": "Ready"}]

    cluster.plane.api.ensure(
        "/apis/larder.dev/v1alpha1/modelnodes",
        {"apiVersion": "larder.dev/v1alpha1", "kind": "ModelNode", "metadata": {"name": "a"}, "spec": {}},
    )
    cluster.declare("m", nodesTotal=2, nodes=on("Waiting"))
    with watching(cluster, "--node=a", "-o", "json") as running:
        assert running.stdout
        assert json.loads(running.stdout.readline())["state"] == "Waiting"
        cluster.set_status("m", nodes=on("Ready"))
        assert json.loads(running.stdout.readline())["state"] == "Ready"
        cluster.set_status("m", nodes=on("Ready")[1:])
        assert json.loads(running.stdout.readline())["state"] == "Gone"
    cluster.delete("m")


def test_a_watch_ends_quietly_when_its_output_is_closed(cluster: Cluster) -> None:
    cluster.declare("m", nodesTotal=1)
    with watching(cluster, "-o", "name") as running:
        assert line_of(running) == ["clustermodelcache.serving.kserve.io/m"]
        assert running.stdout
        running.stdout.close()
        cluster.declare("n", nodesTotal=1)
        assert running.wait(_END_S) == 1
        assert running.stderr
        assert running.stderr.read() == ""
    for name in ("m", "n"):
        cluster.delete(name)


def test_a_cluster_without_larders_kinds_is_reported_as_not_found(cluster: Cluster, tmp_path: Path) -> None:
    config = json.loads(cluster.plane.kubeconfig.read_text())
    config["clusters"][0]["cluster"]["server"] += "/apis/nothing-is-here"
    output = piped(kubeconfig.write(config, tmp_path / "config"), "status")
    assert (output.code, output.out) == (1, "")
    assert output.err.startswith("NotFound: the cluster serves none of Larder's kinds; install the chart larder-crds")
    wrong = piped(cluster.plane.kubeconfig, "status", "--context=nope")
    assert (wrong.code, wrong.out) == (1, "")
    assert wrong.err.startswith("NoCluster: cannot use context nope of the kubeconfig")
