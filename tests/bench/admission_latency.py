"""How long admission takes at a steady rate: `python -m tests.bench.admission_latency [RATE [SECONDS]]`.

A real controller, confined to one core, is asked about pods that name a model: directly, as the API server asks, and by
creating pods (`dryRun=All`) at the API server. Plain pods, which are never sent to a webhook, show the API server's own
share. Requests start by the clock, whether or not those before have been answered. What else the machine does is
measured, too: the load generator's own lateness tells how much that is, and the requests that it sent on time suffer
least from it.
"""

import asyncio
import gc
import json
import math
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import httpx

from controller.admission.pods.pod_annotations import BASE_MODEL
from controller.admission.server import MUTATE_PATH, path_with
from rig import agents
from rig.binaries import find
from rig.control_plane import ControlPlane
from rig.hub import Hub
from rig.larder.cluster import LarderCluster, LarderOptions
from rig.larder.objects import path_of
from rig.larder.programs import ADMISSION_KEY, Sources
from rig.model import write_model
from rig.pods import base_model_pod, plain_pod
from rig.ports import LOOPBACK
from rig.processes import wait_until
from shared.json_object import Json

Send = Callable[[int], Awaitable[bool]]
DEFAULTS = (100.0, 20.0)
MODEL = "bench"
PODS = "/api/v1/namespaces/default/pods?dryRun=All"
READY_S = 60.0
WARM_UP_S = 3.0
ON_TIME_S = 0.002
QUANTILES = (0.5, 0.9, 0.99, 1.0)


def declare_model(cluster: LarderCluster, hub: Hub, folder: Path) -> None:
    """Declare a model that no node should hold, and return when pods can name it."""
    hub.push(f"org/{MODEL}", write_model(folder, size_bytes=2**20))
    storage = {"storageUri": f"hf://org/{MODEL}", "nodeSelector": {"bench": "none"}}
    spec = {"modelFormat": {"name": "safetensors"}, "storage": storage}
    body = {"apiVersion": "ome.io/v1beta1", "kind": "ClusterBaseModel", "metadata": {"name": MODEL}, "spec": spec}
    path = path_of("ClusterBaseModel", MODEL)
    cluster.api.create(path.rpartition("/")[0], body)
    wait_until(lambda: bool(cluster.api.get(path).get("status", {}).get("servingRevision")), READY_S, "the revision")
    wait_until(lambda: is_rewritten(cluster), READY_S, "the webhook")


def is_rewritten(cluster: LarderCluster) -> bool:
    """Return whether a pod that names the model gets its selectors."""
    try:
        pod = cluster.api.create(PODS, base_model_pod("probe", MODEL))
    except Exception:  # noqa: BLE001 - the account of the namespace may not exist yet; the wait has a limit
        return False
    return bool(pod["spec"].get("nodeSelector"))


def administrator(cluster: LarderCluster) -> str:
    """Return the token of an account with all rights."""
    api, name, namespace = cluster.api, MODEL, "default"
    agents.ensure_service_account(api, name, namespace)
    subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    api.ensure(bindings, {"metadata": {"name": name}, "subjects": [subject], "roleRef": role})
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    return str(api.create(path, {"spec": {"expirationSeconds": 3600}})["status"]["token"])


def review(pod: Json, uid: str) -> Json:
    """Return the review that the API server would send about a pod."""
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    request = {
        "uid": uid,
        "kind": kind,
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "default",
        "operation": "CREATE",
        "userInfo": {"username": "bench"},
        "object": pod,
        "oldObject": None,
        "dryRun": True,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def confine(pid: int, core: int) -> None:
    """Confine every thread of a process to one core; later threads inherit that."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})


@dataclass
class Series:
    """The lateness and the duration of each call, in seconds, and the number of wrong answers."""

    calls: list[tuple[float, float]] = field(default_factory=list)
    wrong: int = 0


async def steadily(send: Send, rate: float, seconds: float) -> Series:
    """Call `send` at a fixed rate."""
    loop, series = asyncio.get_running_loop(), Series()

    async def one(index: int) -> None:
        due = began + index / rate
        await asyncio.sleep(max(due - loop.time(), 0))
        sent = loop.time()
        series.wrong += not await send(index)
        series.calls.append((sent - due, loop.time() - sent))

    with without_collections():
        began = loop.time()
        await asyncio.gather(*(one(index) for index in range(int(rate * seconds))))
    return series


@contextmanager
def without_collections() -> Iterator[None]:
    """Collect garbage now, and not within the block: a pause of the load generator would look like a slow server."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def print_result(what: str, seconds: list[float]) -> None:
    """Print the number of durations, and their quantiles."""
    found, last = sorted(seconds) or [math.nan], max(len(seconds) - 1, 0)
    shown = (f"p{q * 100:<3.0f} {found[min(int(q * len(seconds)), last)] * 1e3:7.2f} ms" for q in QUANTILES)
    sys.stdout.write(f"{what:42} {len(seconds):5}  {'  '.join(shown)}\n")


class Load:
    """Sends pods and reviews, and checks that each gets the right answer."""

    def __init__(self, session: aiohttp.ClientSession, cluster: LarderCluster, token: str) -> None:
        self._session, self._server, self._webhook = session, cluster.plane.url, cluster.controllers[0].url
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        full = cluster.api.create(PODS, plain_pod("reviewed"))
        full["metadata"]["annotations"] = {BASE_MODEL: MODEL}
        self._pod = full

    async def review(self, index: int) -> bool:
        """Send a review to the webhook directly."""
        body = json.dumps(review(self._pod, f"uid-{index}"))
        url = f"{self._webhook}{path_with(ADMISSION_KEY, MUTATE_PATH)}"
        return "patch" in (await self._post(url, body)).get("response", {})

    async def pod_with_model(self, index: int) -> bool:
        """Create a pod that admission rewrites."""
        answer = await self._post(f"{self._server}{PODS}", json.dumps(base_model_pod(f"p-{index}", MODEL)))
        return "nodeSelector" in answer.get("spec", {})

    async def plain_pod(self, index: int) -> bool:
        """Create a pod that no webhook sees."""
        return "spec" in await self._post(f"{self._server}{PODS}", json.dumps(plain_pod(f"p-{index}")))

    async def _post(self, url: str, body: str) -> Json:
        async with self._session.post(url, data=body, headers=self._headers) as response:
            text = await response.read()
            answer: Json = json.loads(text) if response.ok else {}
            return answer


async def measure(cluster: LarderCluster, token: str, rate: float, seconds: float) -> None:
    """Print three series."""
    context = ssl.create_default_context(cadata=cluster.plane.ca_pem.decode())
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    async with aiohttp.ClientSession(connector=connector, trust_env=False) as session:
        load = Load(session, cluster, token)
        series: Mapping[str, Send] = {
            "webhook, asked directly": load.review,
            "pod with a model, through the API server": load.pod_with_model,
            "plain pod, through the API server": load.plain_pod,
        }
        for what, send in series.items():
            await steadily(send, rate, WARM_UP_S)
            before_s = cpu_s(cluster.controllers[0].process.pid)
            found = await steadily(send, rate, seconds)
            used_s = cpu_s(cluster.controllers[0].process.pid) - before_s
            print_result(what, [took_s for _, took_s in found.calls])
            print_result(
                "  those that were sent on time", [took_s for late_s, took_s in found.calls if late_s < ON_TIME_S]
            )
            print_result("  the load generator's own lateness", [late_s for late_s, _ in found.calls])
            sys.stdout.write(f"  {found.wrong} without the right answer; ")
            sys.stdout.write(f"CPU of the controller for each: {used_s / len(found.calls) * 1e3:.2f} ms\n")


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def own_figures(port: int) -> Iterator[str]:
    """Yield the durations that the controller itself counted, by bucket."""
    text = httpx.get(f"http://{LOOPBACK}:{port}/metrics", trust_env=False).text
    for line in text.splitlines():
        wanted = 'outcome="allowed"' in line and f'path="{MUTATE_PATH}"' in line
        if wanted and line.startswith("larder_admission_duration_seconds_bucket"):
            yield line.partition("le=")[2]


def main(rate: float, seconds: float) -> None:
    """Start everything, measure, and stop everything."""
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        with ControlPlane(find(os.environ), state / "plane") as plane, Hub(state / "hub") as hub:
            options = LarderOptions(Sources(hub.endpoint, allow_addresses=f"{LOOPBACK}/32"))
            with LarderCluster(plane, state, options) as cluster:
                declare_model(cluster, hub, state / "model")
                token, controller = administrator(cluster), cluster.controllers[0]
                cores = sorted(os.sched_getaffinity(0))
                confine(controller.process.pid, cores[-1])
                busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
                began = time.strftime("%Y-%m-%d %H:%M")
                sys.stdout.write(f"{began}, {rate:g} a second for {seconds:g} s, {len(cores)} cores, load {busy}\n")
                asyncio.run(measure(cluster, token, rate, seconds))
                sys.stdout.write("the webhook's own count, seconds at most: \n")
                for line in own_figures(controller.health_port):
                    sys.stdout.write(f"  {line}\n")


if __name__ == "__main__":
    arguments = [float(argument) for argument in sys.argv[1:]]
    main(*(*arguments, *DEFAULTS[len(arguments) :]))
