"""`larder why` on a real cluster: blocked objects are named with the cause and a remedy."""

import base64
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from rig.hub import RepositoryAccess
from rig.larder.programs import NAMESPACE
from rig.larder.site import Site
from rig.pods import base_model_pod, plain_pod
from tests.integration.system.conftest import Why

SECRETS = f"/api/v1/namespaces/{NAMESPACE}/secrets"


@pytest.fixture
def label(site: Site) -> Iterator[dict[str, str]]:
    """A label of this test on node c, which no other test's group uses."""
    labels = {"why": site.name("w")}
    site.label("c", labels)
    yield labels
    site.label("c", {"why": None})


def test_a_model_that_does_not_fit_is_reported_with_a_remedy(site: Site, why: Why, label: dict[str, str]) -> None:
    group = site.group(label, storageLimit="3Mi")
    name = site.cache(site.push(size_bytes=8 * 2**20), group=group)
    site.wait_reason("ClusterModelCache", name, "InsufficientStorage")
    first = f"ClusterModelCache {name}: {name} on node/c: InsufficientStorage"
    site.until(lambda: why(f"cmc/{name}", exits=1).splitlines()[0] == first, "the reason, and no agent that is late")
    output = why(f"cmc/{name}", exits=1)
    assert "need" in output
    assert "fix: remove a model, raise storageLimit" in output
    assert re.search(r"controller: Leading: controller-\d_\w+ is the leader", output)
    output = why("node/c")
    assert "limit 3.0 MiB" in output
    assert f"! {name} on node/c: InsufficientStorage" in output
    assert "c; each can hold 3Mi" in why(f"mcng/{group}")
    site.delete("ClusterModelCache", name)
    site.until(lambda: site.is_gone("ClusterModelCache", name), "the cache to be gone")


def test_missing_or_wrong_credentials_are_reported_with_a_remedy(site: Site, why: Why) -> None:
    bare = site.cache(site.upload())
    site.wait_reason("ClusterModelCache", bare, "AuthDenied")
    output = why(f"clustermodelcache/{bare}", exits=1)
    assert "! source: AuthDenied" in output
    assert "names no Secret" in output
    assert f"create a Secret in namespace {NAMESPACE}, label it larder.dev/credentials=true" in output

    secret = site.name("token")
    data = {"token": base64.b64encode(b"a-wrong-token").decode()}
    labels = {"larder.dev/credentials": "true"}
    site.api.create(SECRETS, {"metadata": {"name": secret, "labels": labels}, "data": data})
    named = site.cache(site.push(access=RepositoryAccess(frozenset({"the-right-token"}))), credentialsSecret=secret)
    site.wait_reason("ClusterModelCache", named, "AuthDenied")
    output = why(f"cmc/{named}", exits=1)
    assert f"Secret {secret} in namespace {NAMESPACE}" in output
    assert "a-wrong-token" not in output


def test_a_pod_waiting_for_a_ready_label_is_explained(site: Site, why: Why) -> None:
    nowhere = {"why": site.name("nowhere")}
    name, pod = site.base_model(nodeSelector=nowhere), site.name("early")
    site.until(lambda: "servingRevision" in site.status("ClusterBaseModel", name), "the model to be resolved")
    site.pod(base_model_pod(pod, name), behind="not resolved yet")
    output = why(f"pod/{pod}")
    assert f". admission: Injected: the pod was admitted with {name}@" in output
    assert f"! labels: NoNodeHasLabel: model-cache-ready-{name}: no node has it" in output
    assert f"! ClusterBaseModel {name}: NoNodes" in output
    assert f"larder why clusterbasemodel/{name}" in output
    assert f"why={nowhere['why']} is on 0" in why(f"cbm/{name}")
    site.label("c", nowhere)
    site.until(lambda: site.pod_node(pod) == "c", "the pod to be placed")
    site.until(lambda: "pod: Running: on c" in why(f"pod/default/{pod}"), "the pod to run")
    site.delete_pod(pod)
    site.label("c", {"why": None})


def test_a_pod_whose_selector_excludes_the_nodes_with_the_model_is_explained(
    site: Site, why: Why, label: dict[str, str]
) -> None:
    name, pod = site.base_model(nodeSelector=label), site.name("elsewhere")
    site.wait_ready("ClusterBaseModel", name)
    body = base_model_pod(pod, name)
    body["spec"]["nodeSelector"] = {"gpu": "yes"}
    site.pod(body)
    output = why(f"pod/{pod}")
    assert "! node/c: DoesNotFit: the node has the model, but lacks gpu=yes, which the pod selects" in output
    site.delete_pod(pod)


def test_a_pod_that_requests_no_model_is_reported(site: Site, why: Why) -> None:
    pod = site.name("plain")
    site.pod(plain_pod(pod, {}))
    assert "AsksForNoModel" in why(f"pod/{pod}").splitlines()[0]
    site.delete_pod(pod)


def test_a_node_without_an_agent_is_reported(site: Site, why: Why) -> None:
    bare = site.name("bare")
    site.cluster.nodes.add(bare, {"why": bare})
    try:
        name = site.base_model(nodeSelector={"why": bare})
        site.until(lambda: site.status("ClusterBaseModel", name).get("nodesTotal") == 1, "the node to be a target")
        output = why(f"node/{bare}")
        assert f"! node/{bare}: NoAgent: the node has no pod of DaemonSet larder-agent" in output
        assert "agent.tolerations" in output
        assert f"! node/{bare}: NoAgent" in why(f"cbm/{name}")
    finally:
        site.cluster.nodes.remove(bare)


def test_no_problems_are_reported_for_a_ready_cache(site: Site, why: Why) -> None:
    name = site.cache()
    site.wait_ready("ClusterModelCache", name)
    first = f"ClusterModelCache {name}: no problems found"
    site.until(lambda: why(f"cmc/{name}").splitlines()[0] == first, "the model to be well everywhere")


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "Job"])
def test_a_workload_whose_pods_admission_refuses_is_explained(site: Site, why: Why, kind: str) -> None:
    name, short = site.name("web"), {"Deployment": "deploy", "ReplicaSet": "rs", "StatefulSet": "sts", "Job": "job"}
    path = create_workload(site, kind, name, base_model_pod("any", "nobody"))
    phrase = "there is no BaseModel 'nobody' in namespace default and no ClusterBaseModel of that name"
    site.until(
        lambda: f"! admission: PodRefused: {phrase}" in why(f"{short[kind]}/{name}"), "the refusal to be reported"
    )
    output = why(f"{kind.lower()}/default/{name}")
    assert output.splitlines()[0] == f"{kind} default/{name}: template: ModelNotFound"
    assert output.count(phrase) == 1
    site.api.delete(f"{path}/{name}")


def create_workload(site: Site, kind: str, name: str, pod: dict[str, Any], namespace: str = "default") -> str:
    """Create a workload with one pod of this kind, and return the path of its collection."""
    labels = {"app": name}
    template = {"metadata": pod["metadata"] | {"labels": labels}, "spec": pod["spec"] | {"restartPolicy": "Always"}}
    template["metadata"].pop("name", None)
    spec: dict[str, Any] = {"template": template}
    if kind == "Job":
        template["spec"]["restartPolicy"] = "Never"
    else:
        spec |= {"replicas": 1, "selector": {"matchLabels": labels}}
    if kind == "StatefulSet":
        spec["serviceName"] = name
    group = "batch" if kind == "Job" else "apps"
    path = f"/apis/{group}/v1/namespaces/{namespace}/{kind.lower()}s"
    site.api.create(path, {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec})
    return path


def test_the_exit_code_is_1_for_a_deployment_whose_model_failed(site: Site, why: Why) -> None:
    model, name = site.base_model("s3://no-such-bucket-anywhere/x"), site.name("web")
    site.until(lambda: site.status("ClusterBaseModel", model).get("state") == "Failed", "the model to fail")
    path = create_workload(site, "Deployment", name, base_model_pod("any", model))
    assert f"! ClusterBaseModel {model}: Model: " in why(f"deploy/{name}", exits=1)
    why(f"cbm/{model}", exits=1)
    site.api.delete(f"{path}/{name}")


def test_a_tenant_with_rights_in_one_namespace_can_ask_about_its_objects(site: Site, why: Why, tmp_path: Path) -> None:
    """A user with rights in one namespace sees its workloads and models, and a clear refusal for the rest."""
    team, name = site.name("team"), site.name("web")
    site.api.create("/api/v1/namespaces", {"metadata": {"name": team}})
    accounts, rbac = f"/api/v1/namespaces/{team}/serviceaccounts", "/apis/rbac.authorization.k8s.io/v1"
    site.api.create(accounts, {"metadata": {"name": "dev"}})
    rules = [{"apiGroups": ["ome.io"], "resources": ["basemodels"], "verbs": ["get", "list"]}]
    site.api.create(f"{rbac}/namespaces/{team}/roles", {"metadata": {"name": "models"}, "rules": rules})
    for kind, role in (("ClusterRole", "view"), ("Role", "models")):
        subject = {"kind": "ServiceAccount", "name": "dev", "namespace": team}
        body = {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}, "subjects": [subject]}
        site.api.create(f"{rbac}/namespaces/{team}/rolebindings", body | {"metadata": {"name": role}})
    token = str(site.api.create(f"{accounts}/dev/token", {"spec": {}})["status"]["token"])
    own = f"--kubeconfig={site.cluster.plane.token_kubeconfig(token, tmp_path / 'kubeconfig')}"
    create_workload(site, "Deployment", name, base_model_pod("any", "nobody"), team)
    phrase = "! admission: PodRefused: there is no BaseModel 'nobody'"
    site.until(lambda: phrase in why(f"deploy/{name}", own, "-n", team), "the refusal to be reported")
    model, path = site.name("m"), f"/apis/ome.io/v1beta1/namespaces/{team}/basemodels"
    body = {"apiVersion": "ome.io/v1beta1", "kind": "BaseModel", "metadata": {"name": model}}
    storage = {"storageUri": site.push(), "nodeSelector": {"kubernetes.io/hostname": "c"}}
    site.api.create(path, body | {"spec": {"storage": storage}})
    site.until(lambda: ". node/c: Ready" in why(f"bm/{model}", own, "-n", team), "the model to be Ready")
    argv = [sys.executable, "-m", "shared.cli", "why", "node/c", own]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert (done.returncode, done.stdout) == (1, "")
    assert "nodes is forbidden" in done.stderr
    site.api.delete(f"{path}/{model}")
    site.until(lambda: not site.api.answers(f"{path}/{model}"), "the model to be gone")
    site.api.delete(f"/api/v1/namespaces/{team}")


def test_objects_are_looked_up_in_the_namespace_of_the_context(site: Site, why: Why, tmp_path: Path) -> None:
    kubeconfig = yaml.safe_load(site.cluster.plane.kubeconfig.read_text())
    for context in kubeconfig["contexts"]:
        context["context"]["namespace"] = "kube-system"
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(kubeconfig))
    assert "no such object in namespace kube-system" in why("pod/nobody", f"--kubeconfig={own}", exits=1)
    assert "no such object in namespace default" in why("deploy/nobody", exits=1)
    assert "no such object in namespace other" in why("sts/nobody", f"--kubeconfig={own}", "-n", "other", exits=1)


def test_an_unreachable_api_server_is_reported_in_one_sentence(site: Site, tmp_path: Path) -> None:
    kubeconfig = yaml.safe_load(site.cluster.plane.kubeconfig.read_text())
    kubeconfig["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    own = tmp_path / "kubeconfig"
    own.write_text(yaml.safe_dump(kubeconfig))
    argv = [sys.executable, "-m", "shared.cli", "why", "cbm/x", f"--kubeconfig={own}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert done.returncode == 1
    assert done.stderr.startswith("Unreachable: the API server at https://127.0.0.1:1 does not answer: ")
    assert "Error" not in done.stderr


def test_missing_objects_nodes_and_groups_are_reported(why: Why) -> None:
    assert "NotFound: there is no such object" in why("cbm/nobody", exits=1)
    assert "NotFound: there is no such node" in why("node/nobody", exits=1)
    assert "existing groups: gpus" in why("mcng/nobody", exits=1)
