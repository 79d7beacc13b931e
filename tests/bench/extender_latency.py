"""How long the scheduler extender takes: `python -m tests.bench.extender_latency [NODES [RATE [SECONDS]]]`.

A real controller, confined to one core, is asked about pods with devices on nodes with eight cards each: directly, with
the names of all nodes, as kube-scheduler asks; to bind pods directly, eight to a node, as kube-scheduler would; and by
a real kube-scheduler that places pods as they are created. Beside binding, the load generator makes the two writes of
a binding itself; beside placement, the default scheduler places as many plain pods by a node selector on the same
nodes.
"""

import asyncio
import json
import os
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import httpx

from controller.extender.callers import extender_key
from controller.extender.reservations import PREFIX
from rig.binaries import Binaries, find
from rig.control_plane import ControlPlane, Options
from rig.control_plane_flags import Files
from rig.larder.cluster import LarderCluster, LarderOptions
from rig.larder.programs import ADMISSION_KEY, NAMESPACE, ControllerProgram
from rig.larder.scheduler import LarderScheduler
from rig.pods import plain_pod
from rig.ports import LOOPBACK
from rig.processes import wait_until
from shared.devices.annotation import ANNOTATION
from shared.devices.scheduler import SCHEDULER_NAME
from shared.json_object import Json
from tests.bench.admission_latency import Series, administrator, confine, cpu_s, print_result, steadily
from tests.bench.unplaced_pods import describe_unplaced

DEFAULTS = (1000.0, 100.0, 10.0)
PODS = "/api/v1/namespaces/default/pods"
OWN_LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
CARDS_PER_NODE = 8
LABEL = {"bench": "yes"}
AT_ONCE = 20
PLACED_S = 180.0
TOO_MANY_REQUESTS = 429
ASKS = json.dumps({"runningcontainer": {"main": {"requests": {"resource/group/gpu/0/cards": 1}}}})


def node(index: int) -> Json:
    """Return a node with two groups of four cards."""
    cards = {f"resource/group/gpugrp0/{card // 4}/gpu/{card}/cards": 1 for card in range(CARDS_PER_NODE)}
    text = json.dumps({"name": f"n-{index}", "allocatable": cards})
    return {"metadata": {"name": f"n-{index}", "labels": LABEL, "annotations": {ANNOTATION: text}}}


def ready() -> Json:
    """Return the status of a node that accepts pods."""
    resources = {"cpu": "64", "memory": "256Gi", "pods": "500"}
    conditions = [{"type": "Ready", "status": "True", "reason": "Bench", "message": "no kubelet"}]
    return {"status": {"capacity": resources, "allocatable": resources, "conditions": conditions}}


class Client:
    """An administrator's connection to the API server, and one to the extender, as a scheduler has."""

    def __init__(self, session: aiohttp.ClientSession, cluster: LarderCluster, token: str, names: list[str]) -> None:
        self._session, self._server, self._names = session, cluster.plane.url, names
        self._extender = f"{cluster.controllers[0].url}/scheduler/{extender_key(ADMISSION_KEY)}"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._pod = plain_pod("asked", {ANNOTATION: ASKS})
        self._pod["metadata"] |= {"namespace": "default", "uid": "u"}

    async def add_nodes(self, count: int) -> None:
        """Create the nodes."""
        free = asyncio.Semaphore(AT_ONCE)

        async def add(index: int) -> None:
            async with free:
                await self.call("POST", "/api/v1/nodes", node(index))
                await self.call("PATCH", f"/api/v1/nodes/n-{index}/status", ready())

        await asyncio.gather(*(add(index) for index in range(count)))

    async def are_nodes_ready(self) -> bool:
        """Return whether every node accepts pods, and has the Lease of its devices."""
        nodes, leases = await self.call("GET", "/api/v1/nodes"), await self.call("GET", LEASES)
        of_devices = [each for each in leases["items"] if each["metadata"]["name"].startswith(PREFIX)]
        is_tainted = any(each["spec"].get("taints") for each in nodes["items"])
        return not is_tainted and len(of_devices) >= len(self._names)

    def ask(self, verb: str) -> Callable[[int], Any]:
        """Return a function that calls the extender about all nodes."""

        async def send(_: int) -> bool:
            body = {"Pod": self._pod, "Nodes": None, "NodeNames": self._names}
            async with self._session.post(f"{self._extender}/{verb}", json=body) as response:
                answer = await response.json()
                return len(answer["NodeNames"] if verb == "filter" else answer) == len(self._names)

        return send

    async def create_pods(self, stem: str, body: Callable[[str], Json], count: int) -> list[Json]:
        """Create pods that no scheduler places yet."""
        free = asyncio.Semaphore(AT_ONCE)

        async def create(index: int) -> Json:
            async with free:
                return await self.call("POST", PODS, body(f"{stem}-{index}"))

        return list(await asyncio.gather(*(create(index) for index in range(count))))

    def bind(self, pods: list[Json]) -> Callable[[int], Any]:
        """Return a function that calls the extender to bind one of the pods."""

        async def send(index: int) -> bool:
            metadata = pods[index]["metadata"]
            body = {"PodName": metadata["name"], "PodNamespace": "default", "PodUID": metadata["uid"]}
            body["Node"] = self._names[index // CARDS_PER_NODE]
            async with self._session.post(f"{self._extender}/bind", json=body) as response:
                return not (await response.json()).get("Error")

        return send

    async def write(self, pods: list[Json]) -> Callable[[int], Any]:
        """Return a function with both writes of a binding, of a Lease and of the pod's node, without the extender.

        The Leases exist, as the extender's do, and each has one writer at a time, because a write names the version
        that it replaces.
        """
        nodes = [self._names[-1 - index // CARDS_PER_NODE] for index in range(len(pods))]
        leases = {node: await self.call("POST", OWN_LEASES, {"metadata": {"name": node}}) for node in set(nodes)}
        locks = {node: asyncio.Lock() for node in leases}

        async def send(index: int) -> bool:
            node, name = nodes[index], pods[index]["metadata"]["name"]
            async with locks[node]:
                version = leases[node]["metadata"]["resourceVersion"]
                lease = {"metadata": {"name": node, "resourceVersion": version, "annotations": {"for": name + ASKS}}}
                leases[node] = await self.call("PUT", f"{OWN_LEASES}/{node}", lease)
            metadata, target = {"name": name, "annotations": {"devices": ASKS}}, {"kind": "Node", "name": node}
            answer = await self.call("POST", f"{PODS}/{name}/binding", {"metadata": metadata, "target": target})
            return leases[node]["kind"] == "Lease" and answer.get("status") == "Success"

        return send

    async def place(self, stem: str, body: Callable[[str], Json], rate: float, seconds: float) -> list[float]:
        """Create pods at a fixed rate, and return how long each waited for its node."""
        created, placed = dict[str, float](), dict[str, float]()
        watching = asyncio.create_task(self._watch(placed))
        await asyncio.sleep(1)

        async def create(index: int) -> bool:
            name, began = f"{stem}-{index}", time.monotonic()
            answer = await self.call("POST", PODS, body(name))
            if "spec" in answer:
                created[name] = began
            else:
                sys.stdout.write(f"{name} was not created: {answer}\n")
            return "spec" in answer

        await steadily(create, rate, seconds)
        try:
            await until(lambda: watching.done() or not created.keys() - placed.keys())
        except TimeoutError:
            missing = sorted(created.keys() - placed.keys())
            sys.stdout.write(await describe_unplaced(lambda path: self.call("GET", path), missing))
            raise
        if watching.done():
            await watching  # it ends only with an error
        watching.cancel()
        took_s = max(placed[name] for name in created) - min(created.values())
        sys.stdout.write(f"{stem}: {len(created) / took_s:.0f} pods placed per second\n")
        return [placed[name] - began for name, began in created.items()]

    async def _watch(self, placed: dict[str, float]) -> None:
        """Record when pods get their node; a watch that the API server ends starts again with a list."""
        url = f"{self._server}{PODS}?watch=true"
        endless = aiohttp.ClientTimeout(total=None)
        while True:
            async with self._session.get(url, headers=self._headers, timeout=endless) as response:
                async for line in response.content:
                    event = json.loads(line)
                    if event["type"] == "ERROR":
                        break
                    if event["object"]["spec"].get("nodeName"):
                        placed.setdefault(event["object"]["metadata"]["name"], time.monotonic())

    async def call(self, method: str, path: str, body: Json | None = None) -> Json:
        """Return the response of the API server; requests that it rejects because it is busy are retried."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = self._headers | {"Content-Type": kind}
        while True:
            data = json.dumps(body)
            async with self._session.request(method, self._server + path, data=data, headers=headers) as answer:
                if answer.status != TOO_MANY_REQUESTS:
                    found: Json = await answer.json()
                    return found
            await asyncio.sleep(1)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(PLACED_S):
        while not condition():  # noqa: ASYNC110 - a watch changes the condition
            await asyncio.sleep(0.1)


def with_devices(name: str) -> Json:
    """Return a pod that requests a card."""
    return plain_pod(name, {ANNOTATION: ASKS})


def with_selector(name: str) -> Json:
    """Return a pod for the same nodes."""
    pod = plain_pod(name)
    pod["spec"]["nodeSelector"] = LABEL
    return pod


def with_another_scheduler(name: str) -> Json:
    """Return a pod that no scheduler places."""
    pod = plain_pod(name)
    pod["spec"]["schedulerName"] = "none"
    return pod


def own_figures(port: int) -> list[str]:
    """Return how many responses took at most 20 ms, and their total, as the controller counted them."""
    text = httpx.get(f"http://{LOOPBACK}:{port}/metrics", trust_env=False).text
    prefix = "larder_extender_duration_seconds_bucket"
    wanted = ('le="0.005"', 'le="0.02"', 'le="0.1"', 'le="+Inf"')
    lines = (line for line in text.splitlines() if line.startswith(prefix) and not line.endswith(" 0.0"))
    return [line for line in lines if any(each in line for each in wanted)]


async def measure_verbs(client: Client, controller: ControllerProgram, count: int, rate: float, seconds: float) -> None:
    """Print how long the caller waits for each verb."""
    await client.add_nodes(count)
    while not await client.are_nodes_ready():  # noqa: ASYNC110 - a bench may ask
        await asyncio.sleep(1)
    calls = {verb: client.ask(verb) for verb in ("filter", "prioritize")}
    for call in calls.values():
        await steadily(call, rate, 2)
    to_bind = int(rate * seconds)
    calls["bind"] = client.bind(await client.create_pods("bound-directly", with_devices, to_bind))
    calls["bind's two writes"] = await client.write(
        await client.create_pods("written", with_another_scheduler, to_bind)
    )
    for verb, call in calls.items():
        before_s = cpu_s(controller.process.pid)
        found: Series = await steadily(call, rate, seconds)
        used_s = cpu_s(controller.process.pid) - before_s
        print_result(f"{verb}, directly", [took_s for _, took_s in found.calls])
        print_result("  the load generator's own lateness", [late_s for late_s, _ in found.calls])
        sys.stdout.write(f"  {found.wrong} without the right answer; ")
        sys.stdout.write(f"CPU of the controller for each: {used_s / len(found.calls) * 1e3:.2f} ms\n")


async def measure_placement(client: Client, pids: Mapping[str, int], rate: float, seconds: float) -> None:
    """Print how long pods wait for their node, by devices and by a selector, once both schedulers know the nodes.

    Beside it, what each program used for a pod; the bench itself creates the pods and watches them.
    """
    for stem, body in (("first-by-devices", with_devices), ("first-by-node-selector", with_selector)):
        await client.place(stem, body, 5, 4)
    for what, body in (("by devices", with_devices), ("by node selector", with_selector)):
        before_s = {name: cpu_s(pid) for name, pid in pids.items()}
        waits = await client.place(what.replace(" ", "-"), body, rate, seconds)
        print_result(f"pod to node, {what}", waits)
        used_ms = {name: (cpu_s(pid) - before_s[name]) / len(waits) * 1e3 for name, pid in pids.items()}
        by_program = ", ".join(f"{name} {each:.2f}" for name, each in used_ms.items())
        sys.stdout.write(f"  CPU for each: {sum(used_ms.values()):.2f} ms: {by_program}\n")


@asynccontextmanager
async def connected(cluster: LarderCluster, token: str, count: int) -> AsyncIterator[Client]:
    """Connect to the API server and to the extender."""
    context = ssl.create_default_context(cadata=cluster.plane.ca_pem.decode())
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=0), trust_env=False) as session:
        yield Client(session, cluster, token, [f"n-{index}" for index in range(count)])


async def measure(binaries: Binaries, cluster: LarderCluster, state: Path, count: int, rate: float, s: float) -> None:
    """Print all series; the scheduler starts when the pods that are bound directly have their nodes."""
    controller = cluster.controllers[0]
    async with connected(cluster, administrator(cluster), count) as client:
        await measure_verbs(client, controller, count, rate, s)
        scheduler = LarderScheduler(binaries, cluster.plane, controller, state / "scheduler")
        await asyncio.to_thread(scheduler.start)
        try:
            ours = {"controller": controller.process.pid, "larder-scheduler": scheduler.pid, "bench": os.getpid()}
            await measure_placement(client, cluster.plane.pids() | ours, rate, s)
        finally:
            scheduler.stop()


def scheduler_options(state: Path) -> Options:
    """Return options with which the default scheduler binds as fast as ours, and nodes need no heartbeat."""
    state.mkdir(parents=True)
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(Files(state).kubeconfig("kube-scheduler")), "qps": 500, "burst": 1000},
        "leaderElection": {"leaderElect": False},
    }
    path = state / "default-scheduler.json"
    path.write_text(json.dumps(config))
    return Options(node_lost_after_s=36000, scheduler_config=path)


def run(binaries: Binaries, state: Path, count: int, rate: float, seconds: float) -> None:
    """Start everything, measure, and stop everything."""
    with ControlPlane(binaries, state / "plane", scheduler_options((state / "plane").absolute())) as plane:
        options = LarderOptions(controller={"LARDER_SCHEDULER": "true"})
        with LarderCluster(plane, state, options) as cluster:
            controller = cluster.controllers[0]
            wait_until(lambda: plane.api.answers(PODS), PLACED_S, "pods")
            cores = sorted(os.sched_getaffinity(0))
            confine(controller.process.pid, cores[-1])
            busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
            sys.stdout.write(
                f"{time.strftime('%Y-%m-%d %H:%M')}, {SCHEDULER_NAME}, {count} nodes, {rate:g} pods a second for "
                f"{seconds:g} s, {len(cores)} cores, load {busy}\n"
            )
            asyncio.run(measure(binaries, cluster, state, count, rate, seconds))
            sys.stdout.write("the extender's own count, seconds at most:\n")
            for line in own_figures(controller.health_port):
                sys.stdout.write(f"  {line}\n")


def main(nodes: float, rate: float, seconds: float) -> None:
    """Measure in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        run(find(os.environ), Path(folder), int(nodes), rate, seconds)


if __name__ == "__main__":
    given = [float(argument) for argument in sys.argv[1:]]
    main(*(*given, *DEFAULTS[len(given) :]))
