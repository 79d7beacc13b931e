"""`larder support` on a real cluster: the bundle has what a ticket needs, and none of the planted secrets."""

import base64
import json
import re
import ssl
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
import yaml

from rig.errors import CallRefused
from rig.larder.programs import NAMESPACE
from rig.larder.site import Site
from rig.scripted_http import ScriptedRequest, reply, scripted
from shared.json_object import Json

PLANT = "pl4nted"
ENGINEER = "support-engineer"
NODE, POD = "logs-node", "larder-controller-planted"
CORE, APPS = f"/api/v1/namespaces/{NAMESPACE}", f"/apis/apps/v1/namespaces/{NAMESPACE}"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
OPERATIONS = Path(__file__).parents[3] / "docs" / "operations.md"
SIGNED = f"https://host.example/f?X-Amz-Credential={PLANT}-1&X-Amz-Signature={PLANT}-2&sig={PLANT}-3"
USERINFO = f"https://bob:{PLANT}-4@host.example/model"
LINES = [
    f'{{"event": "called", "authorization": "Bearer {PLANT}-5", "model": "kept-in-the-log"}}',
    f"GET {SIGNED}",
    f"Authorization: Basic {PLANT}c2VjcmV0",
    f'{{"event": "connecting", "url": "{USERINFO}", "password": "{PLANT}-6"}}',
    f"AWS_SECRET_ACCESS_KEY={PLANT}-7 HF_TOKEN={PLANT}-8",
    f"-----BEGIN RSA PRIVATE KEY-----\n{PLANT}-9\n-----END RSA PRIVATE KEY-----",
]
LABELS = {"app.kubernetes.io/name": "larder", "app.kubernetes.io/component": "controller", "planted": "yes"}
ANNOTATIONS = {
    "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"spec": {"env": f"{PLANT}-10"}}),
    "team.example/contact": f"{PLANT}-11",
    "larder.dev/note": f"see {SIGNED}",
}
ENV = [
    {"name": "HF_TOKEN", "value": f"{PLANT}-12"},
    {"name": "DATABASE", "value": f"{PLANT}-13"},
    {"name": "LARDER_PASSWORD", "value": f"{PLANT}-14"},
    {"name": "HF_ENDPOINT", "value": f"https://bob:{PLANT}-15@hub.example"},
    {"name": "LARDER_STORE_ROOT", "value": "/var/lib/larder"},
]
CONTAINER = {"name": "controller", "image": "kept.example/larder", "env": ENV, "args": [f"--token={PLANT}-16"]}


@dataclass(frozen=True)
class Bundle:
    """An unpacked bundle."""

    root: Path

    def text(self, file: str) -> str:
        return (self.root / file).read_text()

    def lines(self, file: str) -> list[Json]:
        return [json.loads(line) for line in self.text(file).splitlines()]

    def files(self) -> list[str]:
        return sorted(str(p.relative_to(self.root)) for p in self.root.rglob("*") if p.is_file())


def kubelet(asked: ScriptedRequest) -> bytes:
    """Answer like a kubelet that is asked for a container's log."""
    previous = "previous=true" in asked.target
    lines = [f"2026-11-21T00:00:00Z {line}" for line in LINES]
    lines.append("this is the log before the restart" if previous else "this is the log of now")
    return reply(200, "\n".join(lines).encode())


@pytest.fixture(scope="module")
def planted(site: Site) -> Iterator[None]:
    """Secrets in every place that a bundle is made from, and a node whose kubelet serves logs."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    api = site.api
    api.ensure(f"{CORE}/serviceaccounts", {"metadata": {"name": "default"}})
    data = {"token": base64.b64encode(f"{PLANT}-17".encode()).decode()}
    secret = {"metadata": {"name": "planted", "labels": {"larder.dev/credentials": "true"}}, "data": data}
    storage = {
        "storageUri": "hf://nobody/planted", "key": "planted", "parameters": {"secretKey": "token", "x": f"{PLANT}-18"},
        "unknown": f"{PLANT}-19",
    }  # fmt: skip
    spec = {"storage": storage, "modelConfiguration": {"a": f"{PLANT}-20"}, "more": f"{PLANT}-21", "disabled": True}
    event = {
        "metadata": {"name": "planted"}, "type": "Warning", "reason": "KeptReason", "message": f"{USERINFO} {SIGNED}",
        "involvedObject": {"kind": "Pod", "name": POD, "namespace": NAMESPACE},
    }  # fmt: skip
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
    deployment = {
        "metadata": {"name": "larder-controller", "labels": LABELS, "annotations": ANNOTATIONS},
        "spec": {"replicas": 0, "selector": {"matchLabels": LABELS}, "template": template},
    }
    pod = {
        "metadata": {"name": POD, "labels": LABELS, "annotations": ANNOTATIONS},
        "spec": {"nodeName": NODE, "containers": [CONTAINER]},
    }
    with scripted(kubelet, tls) as server:
        api.create("/api/v1/nodes", {"metadata": {"name": NODE, "annotations": ANNOTATIONS}})
        address = [{"type": "InternalIP", "address": "127.0.0.1"}]
        endpoint = {"kubeletEndpoint": {"Port": server.port}}
        api.patch(f"/api/v1/nodes/{NODE}/status", {"status": {"addresses": address, "daemonEndpoints": endpoint}})
        api.create(f"{CORE}/secrets", secret)
        site.create("ClusterBaseModel", "planted", spec, annotations=ANNOTATIONS)
        api.create(f"{CORE}/events", event)
        api.create(f"{APPS}/deployments", deployment)
        api.create(f"{CORE}/pods", pod)
        state = {"name": "controller", "restartCount": 1, "ready": False, "image": "i", "imageID": "i"}
        status = {"phase": "Running", "message": f"token={PLANT}-22", "containerStatuses": [state]}
        api.patch(f"{CORE}/pods/{POD}/status", {"status": status})
        yield
        api.delete(f"{CORE}/pods/{POD}", grace_s=0)
        api.delete(f"{APPS}/deployments/larder-controller")
        site.delete("ClusterBaseModel", "planted")
        api.delete(f"/api/v1/nodes/{NODE}")


def grant(site: Site, user: str) -> None:
    """Give a user exactly the rights that the page on operations names."""
    block = re.search(r"```yaml\n(# rights for `larder support`.*?)```", OPERATIONS.read_text(), re.DOTALL)
    assert block is not None
    for manifest in yaml.safe_load_all(block[1].replace("ENGINEER", user)):
        kind = f"{manifest['kind'].lower()}s"
        place = manifest["metadata"].get("namespace")
        site.api.ensure(f"{RBAC}/namespaces/{place}/{kind}" if place else f"{RBAC}/{kind}", manifest)


def run(site: Site, user: str, folder: Path) -> tuple[Bundle, str]:
    """Run the command as this user; return what it wrote, unpacked, and what it printed."""
    kubeconfig, file = site.cluster.plane.kubeconfig_for(user), folder / "bundle.tar.gz"
    argv = [sys.executable, "-m", "shared.cli", "support", f"--kubeconfig={kubeconfig}", f"--output={file}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as archive:
        archive.extractall(folder, filter="data")
    return Bundle(folder / "larder-support"), done.stdout


@pytest.fixture(scope="module")
def bundle(site: Site, planted: None, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    """A bundle made by a user without the right to read Secrets."""
    assert planted is None
    grant(site, ENGINEER)
    site.wait_ready("ClusterModelCache", site.cache(name="stocked-for-support"))
    site.until(lambda: site.events("stocked-for-support") != [], "its Event, which is written after the status")
    site.until(lambda: bool(site.status("ClusterBaseModel", "planted")), "the controller to look at it")
    site.leader()
    return run(site, ENGINEER, tmp_path_factory.mktemp("support"))[0]


def test_a_bundle_contains_no_secret(bundle: Bundle) -> None:
    found = {
        (file, mark)
        for file in bundle.files()
        for mark in re.findall(rf"{PLANT}[-\w]*", (bundle.root / file).read_bytes().decode(errors="replace"))
    }
    assert found == set()


def test_a_user_without_access_to_secrets_gets_a_complete_bundle(site: Site, bundle: Bundle) -> None:
    with closing(site.cluster.plane.api_for(ENGINEER)) as api, pytest.raises(CallRefused, match="403"):
        api.get(f"{CORE}/secrets")
    errors = bundle.text("errors.txt")
    # agents of the rig have no kubelet and no address, so only their logs and metrics are missing
    beside = [line for line in errors.splitlines() if not line.startswith(("logs/larder-agent-", "metrics/"))]
    assert beside == []
    assert "forbidden" not in errors


def test_a_bundle_has_models_nodes_leases_kinds_webhooks_and_events(site: Site, bundle: Bundle) -> None:
    models = {m["metadata"]["name"]: m for m in bundle.lines("objects/clusterbasemodels.jsonl")}
    assert models["planted"]["spec"]["storage"]["storageUri"] == "hf://nobody/planted"
    assert models["planted"]["spec"]["storage"]["key"] == "planted"
    assert models["planted"]["spec"]["storage"]["parameters"]["secretKey"] == "token"
    assert models["planted"]["status"]["conditions"]
    assert "cmc/stocked-for-support" in bundle.text("status.txt")
    nodes = {n["metadata"]["name"]: n for n in bundle.lines("nodes.jsonl")}
    assert nodes["a"]["metadata"]["labels"]["model-cache-ready-stocked-for-support"] == "true"
    assert nodes["a"]["metadata"]["labels"]["gpu"] == "yes", "a label that a group selects by"
    assert "cpu" in nodes["a"]["status"]["capacity"]
    figures = dict(line.split("\t", 1) for line in bundle.text("objects/modelnodes.tsv").splitlines())
    assert {"node", "a", "b", "c"} <= figures.keys()
    assert {n["metadata"]["name"] for n in bundle.lines("objects/modelnodes.jsonl")} >= {"a", "b", "c"}
    assert {g["metadata"]["name"] for g in bundle.lines("objects/modelcachenodegroups.jsonl")} >= {"gpus"}
    leases = {lease["metadata"]["name"]: lease for lease in bundle.lines("namespace/leases.jsonl")}
    assert leases["larder-controller"]["spec"]["holderIdentity"].startswith("controller-")
    kinds = {k["metadata"]["name"]: k for k in bundle.lines("cluster/kinds.jsonl")}
    assert kinds["modelnodes.larder.dev"]["status"]["storedVersions"] == ["v1alpha1"]
    assert [w["metadata"]["name"] for w in bundle.lines("cluster/mutating-webhooks.jsonl")] == ["larder"]
    assert "KeptReason" in bundle.text("namespace/events.jsonl")
    assert site.get("ClusterModelCache", "stocked-for-support")["metadata"]["uid"] in bundle.text(
        "events/clustermodelcaches.jsonl"
    )


def test_pods_and_settings_are_reported_without_their_secrets(bundle: Bundle) -> None:
    pods = {p["metadata"]["name"]: p for p in bundle.lines("namespace/pods.jsonl")}
    reported = pods[POD]["spec"]["containers"][0]
    assert reported["image"] == "kept.example/larder"
    env = {e["name"]: e["value"] for e in reported["env"]}
    assert env["LARDER_STORE_ROOT"] == "/var/lib/larder"
    assert env["HF_TOKEN"] == env["DATABASE"] == "<removed>"
    assert env["HF_ENDPOINT"] == "https://<removed>@hub.example"
    assert "LARDER_STORE_ROOT" in bundle.text("settings.json")
    about = json.loads(bundle.text("versions.json"))
    assert about["workloads"]["larder-controller"]["images"] == ["kept.example/larder"]
    assert about["server"]["major"] == "1"


def test_a_bundle_contains_the_current_and_the_previous_log(bundle: Bundle) -> None:
    log = bundle.text(f"logs/{POD}/controller.log")
    assert "this is the log of now" in log
    assert "kept-in-the-log" in log
    assert "this is the log before the restart" in bundle.text(f"logs/{POD}/controller.previous.log")


def test_the_index_names_every_file(bundle: Bundle) -> None:
    index = json.loads(bundle.text("index.json"))
    listed = {c["file"]: c["size_bytes"] for c in index["files"]}
    assert sorted([*listed, "index.json"]) == bundle.files()
    assert all((bundle.root / file).stat().st_size == size for file, size in listed.items())


def test_a_bundle_lists_what_could_not_be_read_and_contains_the_rest(site: Site, tmp_path: Path) -> None:
    made, output = run(site, "somebody-without-rights", tmp_path)
    errors = made.text("errors.txt")
    for part in ("nodes.jsonl", "objects/modelnodes.jsonl", "namespace/pods.jsonl", "cluster/kinds.jsonl"):
        assert re.search(rf"^{re.escape(part)}: GET .*: Refused: 403", errors, re.MULTILINE), part
    assert "items are missing, see errors.txt" in output
    assert json.loads(made.text("versions.json"))["server"]["major"] == "1"


def test_no_bundle_is_written_without_an_api_server(site: Site, tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(
        re.sub(r"https://127.0.0.1:\d+", "https://127.0.0.1:9", site.cluster.plane.kubeconfig.read_text())
    )
    argv = [
        sys.executable,
        "-m",
        "shared.cli",
        "support",
        f"--kubeconfig={kubeconfig}",
        f"--output={tmp_path / 'x.gz'}",
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert done.returncode == 1
    assert done.stderr.startswith("Unreachable: ")
    assert [p.name for p in tmp_path.iterdir()] == ["kubeconfig"]
