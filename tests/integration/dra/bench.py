"""A driver under test: a Node and a ModelNode on a real API server, a store, and the sockets of a kubelet."""

import json
import sys
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from agent.store.download_plan import DownloadPlan
from agent.store.store import Store
from agent.transfer.engine import fetch
from agent.transfer.progress import Progress
from rig.api import Api
from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program, wait_until
from shared.api.model_node import PATH, Entry, ModelNodeSpec
from shared.dra import DRIVER, FETCH_DEVICE, RESOURCES, SLICES, device_name
from shared.json_object import Json
from shared.sources.memory import MemoryRepository
from shared.sources.retry import RetryPolicy
from tests.integration.dra.kubelet import SOON_S, DraKubelet

RUNTIME = "containerd://2.2.9"
FILES = {"config.json": b'{"model_type": "llama", "architectures": ["LlamaForCausalLM"]}', "README.md": b"x" * 64}


CLASSES = f"{RESOURCES}/deviceclasses"


@dataclass
class DraBench:
    """Everything around one driver."""

    api: Api
    node: str
    namespace: str
    kubeconfig: Path
    store: Store
    folder: Path
    kubelet: DraKubelet
    allow: str = "{}"
    port: int = field(default_factory=free_port)
    environ: dict[str, str] = field(default_factory=dict)
    drivers: list[Process] = field(default_factory=list)

    @property
    def cdi(self) -> Path:
        return self.folder / "cdi"

    def create_node(self, runtime: str = RUNTIME) -> None:
        """Create a Node to which kube-scheduler binds pods, and its ModelNode."""
        status = {
            "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"},
            "capacity": {"cpu": "8", "memory": "8Gi", "pods": "110"},
            "nodeInfo": {"containerRuntimeVersion": runtime} | dict.fromkeys(
                ("architecture", "bootID", "kernelVersion", "kubeProxyVersion", "kubeletVersion", "machineID",
                 "operatingSystem", "osImage", "systemUUID"), "x"),
        }  # fmt: skip
        body = {"metadata": {"name": self.node, "labels": {"node": self.node}}}
        uid = self.api.create("/api/v1/nodes", body)["metadata"]["uid"]
        self.set_runtime(runtime, status)
        self.api.create(PATH, {
            "apiVersion": "larder.dev/v1alpha1", "kind": "ModelNode", "metadata": {"name": self.node},
            "spec": msgspec.to_builtins(ModelNodeSpec(node_uid=uid)),
        })  # fmt: skip

    def set_runtime(self, runtime: str, status: Json | None = None) -> None:
        """Report another container runtime."""
        status = status or {"nodeInfo": {"containerRuntimeVersion": runtime}}
        self.api.patch(f"/api/v1/nodes/{self.node}/status", {"status": status})

    def hold(self, identity: str, files: Mapping[str, bytes] = FILES) -> Entry:
        """Put a model into the store, and return its entry."""
        source = MemoryRepository(dict(files))
        plan = DownloadPlan(source.resolve())
        policy = RetryPolicy(attempts=3, timeout_s=5, first_s=0.001, cap_s=0.01)
        fetched = fetch(source, plan, self.store, progress=Progress(), stop=threading.Event(), policy=policy)
        snapshot = self.store.snapshots.commit(plan, identity, fetched.blobs, fetched.unpacked)
        return Entry(id=identity, revision=snapshot.revision, manifest=snapshot.manifest_digest, granted=True)

    def want(self, *entries: Entry) -> None:
        """Write the entries of the ModelNode."""
        self.api.patch(f"{PATH}/{self.node}", {"spec": {"entries": [msgspec.to_builtins(entry) for entry in entries]}})

    # The driver.

    def start(self) -> Process:
        """Start a driver in addition to any that run."""
        options = {
            "--node-name": self.node, "--root": self.store.root, "--kubeconfig": self.kubeconfig,
            "--kubelet": self.kubelet.folder, "--cdi": self.cdi, "--scan-seconds": 0.5, "--allow": self.allow,
            "--listen": f"{LOOPBACK}:{self.port}",
        }  # fmt: skip
        words = [str(word) for pair in options.items() for word in pair]
        log = self.folder / f"dra-{len(self.drivers)}.log"
        driver = Process(Program("larder dra", [sys.executable, "-m", "shared.cli", "dra", *words], self.environ), log)
        self.drivers.append(driver)
        return driver

    def start_registered(self) -> Process:
        """Start the driver, and register it as kubelet does."""
        driver = self.start()
        self.kubelet.register()
        return driver

    def close(self) -> None:
        """Stop the drivers and delete objects that would affect other tests."""
        for driver in self.drivers:
            driver.stop()
        self.store.close()
        for each in self.slices():
            self.api.delete(f"{SLICES}/{each['metadata']['name']}")
        for path in (f"/api/v1/nodes/{self.node}", f"{PATH}/{self.node}"):
            self.api.delete(path)

    # What it publishes.

    def slices(self) -> list[Json]:
        """Return the slices of this node."""
        items: list[Json] = self.api.get(f"{SLICES}?fieldSelector=spec.nodeName={self.node}")["items"]
        return items

    def devices(self) -> dict[str, Json]:
        """Return the published models by device name, without the device that is always published."""
        found = {each["name"]: each for body in self.slices() for each in body["spec"].get("devices") or ()}
        return {name: each for name, each in found.items() if name != FETCH_DEVICE}

    def wait_devices(self, *entries: Entry) -> None:
        """Wait until exactly these models are published."""
        names = {device_name(*entry.key) for entry in entries}
        self.until(lambda: bool(self.slices()) and self.devices().keys() == names, f"the devices {names}")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition."""
        wait_until(condition, SOON_S, what)

    # What users create.

    def claim(self, expression: str, requests: Sequence[str] = ("model",), namespace: str = "") -> Json:
        """Create a claim for devices whose attributes meet a condition; each request gets one."""
        condition = f"device.attributes['{DRIVER}'].{expression}"
        exactly = {"deviceClassName": self.ensure_class(), "selectors": [{"cel": {"expression": condition}}]}
        return self.create_claim({"requests": [{"name": name, "exactly": exactly} for name in requests]}, namespace)

    def create_claim(self, devices: Json, namespace: str = "") -> Json:
        """Create a claim."""
        name, namespace = f"c-{uuid.uuid4().hex[:8]}", namespace or self.namespace
        path = f"{RESOURCES}/namespaces/{namespace}/resourceclaims"
        return self.api.create(path, {"metadata": {"name": name}, "spec": {"devices": devices}})

    def ensure_class(self) -> str:
        """Create a class of all devices of the driver."""
        path = f"device.driver == '{DRIVER}'"
        self.api.ensure(
            CLASSES, {"metadata": {"name": self.node}, "spec": {"selectors": [{"cel": {"expression": path}}]}}
        )
        return self.node

    def pod(self, *claims: Json, annotations: Mapping[str, str] | None = None, containers: Sequence[Json] = ()) -> Json:
        """Create a pod with all claims in its container, and return it once it is bound to this node."""
        uses = [{"name": claim["metadata"]["name"]} for claim in claims]
        spec = {
            "containers": list(containers) or [{"name": "main", "image": "i", "resources": {"claims": uses}}],
            "resourceClaims": [use | {"resourceClaimName": use["name"]} for use in uses],
            "nodeSelector": {"node": self.node},
            "tolerations": [{"operator": "Exists"}],
        }
        namespace = claims[0]["metadata"]["namespace"] if claims else self.namespace
        path = f"/api/v1/namespaces/{namespace}/pods"
        meta = {"name": f"p-{uuid.uuid4().hex[:8]}", "annotations": dict(annotations or {})}
        pod = self.api.create(path, {"metadata": meta, "spec": spec})
        where = f"{path}/{pod['metadata']['name']}"
        self.until(lambda: bool(self.api.get(where)["spec"].get("nodeName")), f"pod {where} to be bound")
        return self.api.get(where)

    def own(self, claim: Json, pod: Json) -> None:
        """Make a pod the owner of a claim, as for claims from templates."""
        meta = claim["metadata"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        path = f"{RESOURCES}/namespaces/{meta['namespace']}/resourceclaims/{meta['name']}"
        self.api.patch(path, {"metadata": {"ownerReferences": [owner | {"controller": True}]}})

    def current(self, claim: Json) -> Json:
        """Return the current claim."""
        meta = claim["metadata"]
        return self.api.get(f"{RESOURCES}/namespaces/{meta['namespace']}/resourceclaims/{meta['name']}")

    def prepared(self, claim: Json) -> list[str]:
        """Prepare a claim, which must work; return the ids of its CDI devices."""
        answer = self.kubelet.prepare(claim)[claim["metadata"]["uid"]]
        assert answer.error == "", answer.error
        return [name for device in answer.devices for name in device.cdi_device_ids]

    def refused(self, claim: Json) -> str:
        """Prepare a claim, which must fail; return the message."""
        answer = self.kubelet.prepare(claim)[claim["metadata"]["uid"]]
        assert answer.error
        return str(answer.error)

    def cdi_path(self, claim: Json) -> Path:
        """Return where the file of a claim is."""
        return self.cdi / f"{DRIVER}-{claim['metadata']['uid']}.json"

    def edits(self, claim: Json) -> list[Json]:
        """Return the container edits of a prepared claim, in the order of its devices."""
        return [each["containerEdits"] for each in json.loads(self.cdi_path(claim).read_text())["devices"]]

    def events(self) -> list[str]:
        """Return the messages of the driver's Events on the Node."""
        items = self.api.get("/api/v1/namespaces/default/events")["items"]
        return [each["message"] for each in items if each["involvedObject"]["name"] == self.node]

    def status(self) -> str:
        """Return the status of the probes."""
        path = self.kubelet.folder / "plugins" / DRIVER / "status"
        return path.read_text().strip() if path.exists() else ""

    @property
    def url(self) -> str:
        """The driver's health and metrics."""
        return f"http://{LOOPBACK}:{self.port}"

    def wipe(self) -> None:
        """Delete the slices, as kubelet does when it starts and 30 s after it lost the driver."""
        for each in self.slices():
            self.api.delete(f"{SLICES}/{each['metadata']['name']}")
