"""The steps of the demo, each of which raises an error if it does not work."""

import asyncio
import difflib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml
from rich.console import Console

from controller.cli.status.command import reports_of
from controller.cli.status.observe import read_models
from controller.cli.status.report import ModelOnNode, ModelReport
from controller.cli.status.show import View, Writer
from rig.demo import parts
from rig.errors import StartFailed
from shared.api.model_node import Phase
from shared.devices.annotation import ANNOTATION
from shared.json_object import Json
from shared.kube.errors import KubeError
from shared.kube.transport import Kube, connect
from shared.names import NODE_PREFIXES, READY_PREFIX

_PATHS = {
    "ModelCacheNodeGroup": "/apis/serving.kserve.io/v1alpha1/modelcachenodegroups",
    "ClusterModelCache": "/apis/serving.kserve.io/v1alpha1/clustermodelcaches",
    "ClusterBaseModel": "/apis/ome.io/v1beta1/clusterbasemodels",
}
_PODS = "/api/v1/namespaces/default/pods"
_READY_S, _PLACED_S, _STEP_S = 60.0, 60.0, 0.25
_SHOWN = ("nodeName", "nodeSelector", "initContainers", "containers", "volumes")


def show(console: Console, kubeconfig: Path) -> None:
    """Run and show all steps. Raises StartFailed if a step does not work."""
    asyncio.run(_show(console, kubeconfig))


async def _show(console: Console, kubeconfig: Path) -> None:
    async with connect(kubeconfig, user_agent="larder-demo") as kube:
        nodes = ", ".join(
            f"{name} ({'in' if labels else 'not in'} the GPU group)" for name, labels in parts.NODES.items()
        )
        console.print(f"   nodes: {nodes}; an agent on each\n")
        console.print("[bold]2. Models are declared[/bold]")
        for declared in parts.objects():
            await _declare(console, kube, declared)
        console.print("\n[bold]3. The right nodes fetch and verify them[/bold]")
        await _watch(console, kube)
        console.print("\n[bold]4. Their nodes are labelled[/bold]")
        await _show_labels(console, kube)
        console.print("\n[bold]5. Pods that name a model are rewritten, and placed by the scheduler[/bold]")
        for pod in parts.pods():
            await _place(console, kube, pod)
        console.print("\n[bold]6. Pods that request devices get them from larder-scheduler[/bold]")
        console.print("   each GPU node has four GPUs, linked in pairs")
        await _allocate(console, kube, parts.pod_with_linked_gpus("trainer", 2))
        await _refuse(console, kube, parts.pod_with_linked_gpus("too-large", 3))


async def _declare(console: Console, kube: Kube, declared: Json) -> None:
    console.print(_yaml(declared), style="dim")
    await kube.request("POST", _PATHS[declared["kind"]], body=declared)


async def _watch(console: Console, kube: Kube) -> None:
    deadline, before = time.monotonic() + _READY_S, ""
    while True:
        reports = reports_of(await read_models(kube, everywhere=True))
        if (line := _line(reports)) != before:
            console.print(f"   {line}", style="dim")
            before = line
        if _all_ready(reports):
            Writer(console, View()).show_table(reports)
            return
        if time.monotonic() > deadline:
            problems = "; ".join(t for r in reports for t in r.problems)
            raise StartFailed(f"not all nodes were ready within {_READY_S:.0f} s: {problems}")
        await asyncio.sleep(_STEP_S)


def _all_ready(reports: Sequence[ModelReport]) -> bool:
    return bool(reports) and all(r.state == "Ready" and r.ready == r.total != 0 for r in reports)


def _line(reports: Sequence[ModelReport]) -> str:
    """Return where each model is and how far its download got, in one line."""
    return "; ".join(f"{r.model}: " + (", ".join(_where(n) for n in r.nodes) or r.state) for r in reports)


def _where(node: ModelOnNode) -> str:
    return f"{node.name} {node.phase}" + (f" {node.percent}%" if node.phase == Phase.DOWNLOADING else "")


async def _show_labels(console: Console, kube: Kube) -> None:
    for name in parts.NODES:
        node = await _get(kube, f"/api/v1/nodes/{name}")
        ours = sorted(k for k in node["metadata"]["labels"] if k.startswith(NODE_PREFIXES))
        console.print(f"   {name}: {', '.join(ours)}")
    for name, labels in parts.NODES.items():
        node = await _get(kube, f"/api/v1/nodes/{name}")
        has = f"{READY_PREFIX}{parts.CACHE}" in node["metadata"]["labels"]
        if has != bool(labels):
            raise StartFailed(f"node {name} {'has' if has else 'lacks'} the label of {parts.CACHE}")


async def _place(console: Console, kube: Kube, pod: Json) -> None:
    name = pod["metadata"]["name"]
    placed = await _create(kube, pod, _bound, "placed")
    console.print(f"\n   pod {name}, as written (-) and as admitted (+):")
    for line in difflib.unified_diff(_lines(pod), _lines(placed), n=1, lineterm=""):
        if not line.startswith(("---", "+++", "@@")):
            console.print(f"     {line}", style={"-": "red", "+": "green"}.get(line[:1], "dim"), markup=False)
    chosen = placed["spec"]["nodeName"]
    node = await _get(kube, f"/api/v1/nodes/{chosen}")
    wanted = placed["spec"].get("nodeSelector", {})
    if not wanted or any(node["metadata"]["labels"].get(k) != v for k, v in wanted.items()):
        raise StartFailed(f"pod {name} is on {chosen}, which does not have the labels {wanted}")
    console.print(f"   the scheduler chose [bold]{chosen}[/bold], which has both labels")


async def _allocate(console: Console, kube: Kube, pod: Json) -> None:
    """Create a pod and show which devices it gets."""
    name = pod["metadata"]["name"]
    placed = await _create(kube, pod, _bound, "placed")
    allocated = json.loads(placed["metadata"]["annotations"][ANNOTATION])["runningcontainer"]["main"]["allocatefrom"]
    console.print(
        f"\n   pod {name} is on [bold]{placed['spec']['nodeName']}[/bold]; each device that it requested, and got:"
    )
    for requested, got in sorted(allocated.items()):
        console.print(f"     {requested} -> {got}", style="green", markup=False)
    if len({got.rpartition("/gpu/")[0] for got in allocated.values()}) != 1:
        raise StartFailed(f"pod {name} got devices of several groups: {allocated}")


async def _refuse(console: Console, kube: Kube, pod: Json) -> None:
    """Create a pod that fits no node, and show why."""
    refused = await _create(kube, pod, _refused, "refused")
    console.print(f"\n   pod {pod['metadata']['name']} waits: {refused['message']}", markup=False)


async def _refused(kube: Kube, name: str) -> Json | None:
    pod = await _get(kube, f"{_PODS}/{name}")
    conditions = pod.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each.get("reason") == "Unschedulable"), None)


async def _create(kube: Kube, pod: Json, look: Callable[[Kube, str], Awaitable[Json | None]], state: str) -> Json:
    """Create a pod, and return the first result of `look`; `state` is for the error message."""
    name = pod["metadata"]["name"]
    await kube.request("POST", _PODS, body=pod)
    return await _until(lambda: look(kube, name), _PLACED_S, f"pod {name} to be {state}")


async def _bound(kube: Kube, name: str) -> Json | None:
    pod = await _get(kube, f"{_PODS}/{name}")
    return pod if pod["spec"].get("nodeName") else None


async def _until(look: Callable[[], Awaitable[Json | None]], within_s: float, what: str) -> Json:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found = await look()
        if found is not None:
            return found
        await asyncio.sleep(_STEP_S)
    raise StartFailed(f"gave up waiting for {what} after {within_s:.0f} s")


async def _get(kube: Kube, path: str) -> Json:
    try:
        found: Json = msgspec.json.decode(await kube.request("GET", path))
    except KubeError as error:
        raise StartFailed(f"{path} cannot be read: {error}") from error
    return found


def _lines(pod: Json) -> list[str]:
    """Return the parts of a pod that are worth comparing, as YAML."""
    meta = {k: pod["metadata"][k] for k in ("labels", "annotations") if k in pod["metadata"]}
    spec = {k: pod["spec"][k] for k in _SHOWN if k in pod["spec"]}
    spec["containers"] = [_short(c) for c in spec["containers"]]
    if "initContainers" in spec:
        spec["initContainers"] = [_short(c) for c in spec["initContainers"]]
    return yaml.safe_dump({"metadata": meta, "spec": spec}, width=120).splitlines()


def _short(container: dict[str, Any]) -> Json:
    kept = ("name", "args", "env", "volumeMounts")
    return {k: container[k] for k in kept if k in container}


def _yaml(value: object) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False, width=120)
    return text.rstrip()
