"""Larder installed by its charts on real nodes, with the actions that need real pods."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rig.api import Api
from rig.errors import CallRefused, StartFailed
from rig.helm import LARDER, LARDER_CRDS
from rig.larder.cluster_driver import ClusterDriver
from rig.larder.objects import open_to_services, refused_group
from rig.larder.programs import ADMISSION_TIMEOUT_S
from rig.node.cluster import NodeCluster
from rig.node.containerd import SANDBOX_IMAGE
from rig.node.machine import STORE
from shared.json_object import Json

NAMESPACE = "larder-system"
RELEASE, CRDS_RELEASE = "larder", "larder-crds"
_LEVEL = "pod-security.kubernetes.io"
_ROLLED_OUT_S = 240.0
_SLEEPER: Json = {
    "name": "main",
    "image": SANDBOX_IMAGE,
    "imagePullPolicy": "Never",
    "command": ["sleep", "infinity"],
}


@dataclass(frozen=True)
class _Workload:
    path: str
    namespace: str
    selector: str


@dataclass(kw_only=True)
class Installation(ClusterDriver):
    """The cluster and its sources, which run beside the control plane."""

    cluster: NodeCluster
    _workloads: list["_Workload"] = field(default_factory=list, init=False)

    @property
    def api(self) -> Api:
        """A client with all rights."""
        return self.cluster.api

    def values(self, **changes: Any) -> Json:  # noqa: ANN401 - values of a chart
        """Return the default values, except for the origin of images and models and the admission timeout."""
        image = {"registry": "localhost", "pullPolicy": "Never"}
        addresses = [f"{self.cluster.host}/32"]
        sources = {"hfEndpoint": self.hub.endpoint, "s3Endpoint": self.s3.endpoint, "allowAddresses": addresses}
        agent = {"floor": "1Gi", **changes.pop("agent", {})}  # the nodes share the disk of this machine
        services, admission = {"enabled": True}, {"timeoutSeconds": ADMISSION_TIMEOUT_S}
        more = {
            "inferenceServices": services,
            "trainingJobs": services,
            "volumeClaimTemplates": services,
            "models": services,
            "admission": admission,
            **changes,
        }
        return {"image": image, "sources": sources, "agent": agent, **more}

    def install(self, **changes: Any) -> None:  # noqa: ANN401 - values of a chart
        """Install or upgrade both charts, and wait until all their pods are ready."""
        levels = {f"{_LEVEL}/enforce": "privileged", f"{_LEVEL}/audit": "restricted", f"{_LEVEL}/warn": "restricted"}
        self.api.ensure("/api/v1/namespaces", {"metadata": {"name": NAMESPACE, "labels": levels}})
        open_to_services(self.api, "default")
        self.cluster.helm.upgrade(LARDER_CRDS, {}, NAMESPACE, CRDS_RELEASE)
        self.cluster.helm.upgrade(LARDER, self.values(**changes), NAMESPACE, RELEASE)
        self.wait_rolled_out()

    def wait_rolled_out(self) -> None:
        """Wait until all pods of both programs are current and ready, and admission no longer calls former ones."""
        for workload in ("deployment/larder-controller", "daemonset/larder-agent"):
            timeout = f"--timeout={_ROLLED_OUT_S:.0f}s"
            self.cluster.kubectl("rollout", "status", workload, f"--namespace={NAMESPACE}", timeout)
        self.until(lambda: not self._leaving_controllers(), "the end of former controllers")
        self.until(self._admits, "admission to answer")

    def _leaving_controllers(self) -> list[Json]:
        """Return the controllers that are being deleted; a rollout does not wait for them."""
        found = self.pods("app.kubernetes.io/component=controller")
        return [pod for pod in found if "deletionTimestamp" in pod["metadata"]]

    def _admits(self) -> bool:
        """Return whether the API server reaches the webhook; ready pods become its endpoints a moment later."""
        try:
            self.api.create(*refused_group(self.name("probe")))
        except CallRefused as refusal:
            return "failed calling webhook" not in str(refusal)
        return True

    def pods(self, selector: str, namespace: str = NAMESPACE) -> list[Json]:
        """Return pods by label selector."""
        found: list[Json] = self.api.get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={selector}")["items"]
        return found

    def agent(self, node: str) -> Json | None:
        """Return the agent's pod on a node if it is Ready and not terminating."""
        for pod in self.pods("app.kubernetes.io/component=agent"):
            if pod["spec"].get("nodeName") == node and is_pod_ready(pod):
                return pod
        return None

    def ready_agent(self, node: str, other_than: str = "") -> Json:
        """Wait until an agent on a node is Ready, other than the pod with this uid, and return its pod."""
        found: list[Json] = []

        def is_there() -> bool:
            found[:] = [pod] if (pod := self.agent(node)) and pod["metadata"]["uid"] != other_than else []
            return bool(found)

        self.until(is_there, f"the agent of {node}")
        return found[0]

    def deployment(
        self,
        model: str,
        namespace: str = "default",
        main: Mapping[str, Any] | None = None,
        annotations: Mapping[str, str] | None = None,
        **pod_spec: Any,  # noqa: ANN401 - a pod's fields
    ) -> str:
        """Create a small workload that uses a base model, and return its name; `main` are fields of its container."""
        return self.workload({"ome.io/base-model-name": model, **(annotations or {})}, namespace, main, **pod_spec)

    def workload(
        self,
        annotations: Mapping[str, str],
        namespace: str = "default",
        main: Mapping[str, Any] | None = None,
        **pod_spec: Any,  # noqa: ANN401 - a pod's fields
    ) -> str:
        """Create a small Deployment whose pods have these annotations, and return its name."""
        name = self.name("web")
        container = {**_SLEEPER, **(main or {})}
        template = {
            "metadata": {"labels": {"app": name}, "annotations": dict(annotations)},
            "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **pod_spec},
        }
        spec = {"selector": {"matchLabels": {"app": name}}, "template": template}
        self.run("/apis/apps/v1/namespaces/{}/deployments", {"metadata": {"name": name}, "spec": spec}, namespace)
        return name

    def run(self, collection: str, body: Json, namespace: str = "default", label: str = "app") -> Json:
        """Create a workload that `remove_workloads` removes, and return it.

        Args:
            collection: the path of its kind, with `{}` for the namespace.
            body: the object.
            namespace: its namespace.
            label: the label that has its name as value on its pods.
        """
        path, name = collection.format(namespace), body["metadata"]["name"]
        created: Json = self.api.create(path, body)
        self._workloads.append(_Workload(f"{path}/{name}", namespace, f"{label}={name}"))
        return created

    def remove_workloads(self) -> None:
        """Delete every workload created here that still exists, and wait until their pods are gone."""
        created = [self._workloads.pop() for _ in range(len(self._workloads))]
        for workload in created:
            self.api.delete(f"{workload.path}?propagationPolicy=Background&gracePeriodSeconds=0")
        for workload in created:
            self.until(lambda w=workload: not self.pods(w.selector, w.namespace), f"the end of {workload.path}")  # type: ignore[misc]

    def pod_on_claim(self, claim: str, namespace: str, mounts: Sequence[Json] = (), **pod_spec: Any) -> Json:  # noqa: ANN401 - a pod's fields
        """Run a pod whose author mounts a claim, and return it.

        The claim is the pod's volume `m`, mounted at /m and as `mounts` specify.
        """
        container = {**_SLEEPER, "volumeMounts": [{"name": "m", "mountPath": "/m"}, *mounts]}
        volume = {"name": "m", "persistentVolumeClaim": {"claimName": claim}}
        spec = {"terminationGracePeriodSeconds": 0, "containers": [container], "volumes": [volume], **pod_spec}
        return self.pod(self.name("own"), spec, namespace)

    def pod(self, name: str, spec: Json, namespace: str = "default") -> Json:
        """Run a pod, and return it when it is Ready."""
        self.run(
            "/api/v1/namespaces/{}/pods", {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}, namespace
        )
        return self.running(name, namespace)

    def running(self, workload: str, namespace: str = "default", within_s: float | None = None) -> Json:
        """Wait until a pod of a workload, which is its label `app`, is Ready, and return it."""
        found: list[Json] = []

        def ready() -> bool:
            found[:] = filter(is_pod_ready, self.pods(f"app={workload}", namespace))
            return bool(found)

        self.until(ready, f"{workload} to run", within_s)
        return found[0]

    def remove_deployment(self, name: str, namespace: str = "default") -> None:
        """Delete a workload and wait until its pods are gone."""
        self.api.delete(f"/apis/apps/v1/namespaces/{namespace}/deployments/{name}")
        self.until(lambda: not self.pods(f"app={name}", namespace), f"the end of {name}")

    def delete_pod(self, pod: Json, grace_s: int | None = None) -> None:
        """Delete a pod."""
        metadata = pod["metadata"]
        self.api.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", grace_s)

    def sh(self, pod: Json, script: str, container: str = "") -> str:
        """Run a shell script in a pod and return its output; raises StartFailed with the error."""
        metadata = pod["metadata"]
        return self.cluster.exec(metadata["namespace"], metadata["name"], ["sh", "-c", script], container)

    def leader(self) -> str:
        """Return the name of the leading controller pod."""
        lease = self.api.get(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/larder-controller")
        return str(lease["spec"].get("holderIdentity", "")).rpartition("_")[0]

    def store(self, node: str) -> Path:
        """Return the path of a node's store on this machine."""
        return self.cluster.machine(node).disk / STORE.lstrip("/")

    def explain(self) -> str:
        """Return pods, nodes, Events, and the end of the logs of both programs."""
        asked: list[Callable[[], str]] = [
            lambda: self.cluster.kubectl("get", "pods,modelnodes,clusterbasemodels", "--all-namespaces", "-o", "wide"),
            lambda: self.cluster.kubectl("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"),
        ]
        for component in ("controller", "agent"):
            chosen = f"--selector=app.kubernetes.io/component={component}"
            asked.append(lambda s=chosen: self.cluster.kubectl("logs", f"--namespace={NAMESPACE}", s, "--tail=40"))  # type: ignore[misc]
        return "\n".join(_output(ask) for ask in asked)


def is_pod_ready(pod: Json) -> bool:
    """Return whether a pod is Ready and not being deleted."""
    conditions = {c["type"]: c["status"] for c in pod.get("status", {}).get("conditions", [])}
    return conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]


def _output(ask: Callable[[], str]) -> str:
    try:
        return ask()
    except StartFailed as refusal:
        return str(refusal)
