"""The cost of ResourceClaims for a controller that watches them: `python -m tests.bench.watched_claims [CLAIMS]`.

A real controller on a real API server, first without `dra.enabled`, then with it: without a claim, with claims that
hold a model each, and with as many of another driver.
"""

import asyncio
import json
import os
import ssl
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from rig.binaries import find
from rig.control_plane import ControlPlane
from rig.larder.cluster import LarderCluster, LarderOptions
from rig.larder.programs import ControllerProgram
from shared.dra import DRIVER, RESOURCES
from shared.json_object import Json
from tests.bench.admission_latency import administrator, cpu_s

DEFAULT = 10_000
NODES = 100
OTHER = "gpu.example.com"
CLAIMS = f"{RESOURCES}/namespaces/default/resourceclaims"
AT_ONCE = 20
SETTLED_S = 10.0
CHANGES = 1000


def claim(index: int, driver: str) -> Json:
    """Return a claim as created from a template, for one pod."""
    name = f"server-{index}-model-{driver.partition('.')[0]}"
    selector = {"cel": {"expression": f'device.attributes["{driver}"].model == "qwen"'}}
    request = {"name": "model", "exactly": {"deviceClassName": driver, "selectors": [selector]}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def allocated(index: int, driver: str) -> Json:
    """Return the status of a claim that holds a device, as kube-scheduler writes it."""
    node = f"node-{index % NODES}"
    held = {"request": "model", "driver": driver, "pool": node, "device": f"qwen-{index % 20}-0123456789abcdef0123"}
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}]
    allocation = {"devices": {"results": [held]}, "nodeSelector": {"nodeSelectorTerms": terms}}
    user = {"resource": "pods", "name": f"server-{index}", "uid": f"0b5cf9ea-0000-0000-0000-{index:012}"}
    return {"status": {"allocation": allocation, "reservedFor": [user]}}


class Client:
    """An administrator's connection to the API server."""

    def __init__(self, session: aiohttp.ClientSession, server: str, token: str) -> None:
        self._session, self._server, self._token = session, server, token

    async def call(self, method: str, path: str, body: Json) -> None:
        """Send a request, which must succeed."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind}
        url = self._server + path
        async with self._session.request(method, url, data=json.dumps(body), headers=headers) as answer:
            if answer.status >= 300:
                raise RuntimeError(await answer.text())

    async def each(self, count: int, send: Callable[[int], Any]) -> None:
        """Make many calls, a few at a time."""
        free = asyncio.Semaphore(AT_ONCE)

        async def one(index: int) -> None:
            async with free:
                await send(index)

        await asyncio.gather(*(one(index) for index in range(count)))

    async def hold(self, count: int, driver: str) -> None:
        """Create claims that hold a device each."""

        async def send(index: int) -> None:
            body = claim(index, driver)
            await self.call("POST", CLAIMS, body)
            await self.call("PATCH", f"{CLAIMS}/{body['metadata']['name']}/status", allocated(index, driver))

        await self.each(count, send)

    async def touch(self, count: int, driver: str) -> None:
        """Change claims in a way that is irrelevant to Larder."""

        async def send(index: int) -> None:
            name = claim(index, driver)["metadata"]["name"]
            await self.call("PATCH", f"{CLAIMS}/{name}", {"metadata": {"annotations": {"touched": str(time.time())}}})

        await self.each(count, send)


def rss_mib(pid: int, field: str = "VmRSS") -> float:
    """Return the memory of a process in MiB; `VmHWM` is its peak."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(field)).split()[1]) / 1024


def settled(what: str, program: ControllerProgram) -> None:
    """Print the cost of a program since its start, once it is idle."""
    time.sleep(SETTLED_S)
    pid = program.process.pid
    figures = f"{rss_mib(pid):7.1f} MiB, peak {rss_mib(pid, 'VmHWM'):7.1f} MiB, {cpu_s(pid):6.2f} s of CPU"
    sys.stdout.write(f"{what:50} {figures}\n")


def restart(program: ControllerProgram) -> None:
    """Start a program again."""
    program.process.stop()
    program.start()


async def measure(cluster: LarderCluster, token: str, count: int) -> None:
    """Print all figures."""
    context = ssl.create_default_context(cadata=cluster.plane.ca_pem.decode())
    program = cluster.controllers[0]
    settled("dra.enabled, no claim", program)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context), trust_env=False) as session:
        client = Client(session, cluster.plane.url, token)
        for driver in (OTHER, DRIVER):
            before_s = cpu_s(program.process.pid)
            await client.hold(count, driver)
            settled(f"after {count} claims of {driver}", program)
            used_s = cpu_s(program.process.pid) - before_s
            sys.stdout.write(f"  {used_s / count * 1e3:.3f} ms of CPU for each, with its allocation\n")
            before_s = cpu_s(program.process.pid)
            changes = min(CHANGES, count)
            await client.touch(changes, driver)
            time.sleep(SETTLED_S)  # noqa: ASYNC251 - nothing else runs
            used_s = cpu_s(program.process.pid) - before_s
            sys.stdout.write(f"  {used_s / changes * 1e3:.3f} ms of CPU for a change that is no use\n")
            restart(program)
            settled("  started again", program)


def main(count: int) -> None:
    """Measure in a temporary folder."""
    with tempfile.TemporaryDirectory() as folder, ControlPlane(find(os.environ), Path(folder) / "plane") as plane:
        busy = ", ".join(f"{load:.1f}" for load in os.getloadavg())
        sys.stdout.write(f"{time.strftime('%Y-%m-%d %H:%M')}, {count} claims of each driver, load {busy}\n")
        for dra in ("false", "true"):
            options = LarderOptions(controller={"LARDER_DRA": dra})
            with LarderCluster(plane, Path(folder) / dra, options) as cluster:
                if dra == "false":
                    settled("without dra.enabled", cluster.controllers[0])
                    continue
                token = administrator(cluster)
                plane.stop_controller_manager()  # it would free the devices of pods that do not exist
                asyncio.run(measure(cluster, token, count))
                plane.resume_controller_manager()


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else DEFAULT)
