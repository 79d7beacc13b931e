"""`claims`: the claims of a large TrainingJob, created by the real controller, whose leader is killed twice.

Nothing but Larder acts on the objects, because its CPU time is what is measured: the pods stay behind a scheduling
gate, and the controller manager, which would look at every unbound claim again each 15 seconds, is stopped.
"""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from textwrap import fill
from typing import Any

from rig.binaries import Binaries
from rig.control_plane import ControlPlane
from rig.larder import LarderCluster, LarderOptions
from rig.larder.programs import ControllerProgram
from rig.processes import wait_until
from rig.progress import Notify
from tests.bench.claims.figures import QueueFigures, queue_figures
from tests.bench.claims.recorder import ClaimRecorder
from tests.bench.transfer.machine import where
from tests.bench.transfer.report import Section

BURST = 10
_JOBS = "/apis/larder.dev/v1alpha1/namespaces/{}/trainingjobs"
_LEASE_S = 4
_LONGEST_S = 120.0  # for steps that should take seconds
_WIDTH = 100
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def measure_claims(work: Path, binaries: Binaries, claims: int, qps: float, jobs: int, notify: Notify) -> Section:
    """Request claims in as many namespaces as jobs, kill the leader at each third, and return the section `claims`."""
    settings = {
        "LARDER_VOLUMES_QPS": str(qps),
        "LARDER_VOLUMES_BURST": str(BURST),
        "LARDER_LEASE_SECONDS": str(_LEASE_S),
    }
    options = LarderOptions(controller=settings, replicas=2)
    with ControlPlane(binaries, work / "plane") as plane, LarderCluster(plane, work, options) as cluster:
        namespaces = [_namespace(cluster, number) for number in range(jobs)]
        plane.stop_controller_manager()
        with ClaimRecorder(plane.kubeconfig) as recorder:
            figures = _run(cluster, recorder, _shares(claims, namespaces), qps, notify)
    return Section("claims", summary(figures, claims, qps, jobs, work))


def summary(figures: QueueFigures, claims: int, qps: float, jobs: int, work: Path) -> str:
    """Return the figures as Markdown."""
    rows = "\n".join(
        f"| {number} | {one.claims:,} | {one.seconds:.1f} | {one.per_second:.2f} |"
        for number, one in enumerate(figures.leaderships, start=1)
    )
    cpu = ", ".join(f"{name} {ms:.1f} ms" for name, ms in sorted(figures.cpu_ms.items(), key=lambda item: -item[1]))
    kept, result = ("kept" if figures.is_on_rate(qps) else "NOT kept"), ("met" if figures.is_good(qps) else "NOT met")
    number = "one TrainingJob" if jobs == 1 else f"{jobs} TrainingJobs"
    requested = (
        f"{claims:,} replicas of {number}, each with a claim, at {qps:g} claims per second with a burst of {BURST}. "
        "The leader was killed twice."
    )
    found = (
        f"{figures.lost} lost, {figures.twice} created twice, {figures.out_of_order} out of order, the rate within 5 % "
        f"{kept}: the target is {result}. CPU time for each claim with its pod: {cpu}."
    )
    head = "| leader | claims | seconds | per second, without the first burst |\n|---|---|---|---|"
    parts = ("## Claims of training jobs", fill(requested, _WIDTH), where(work), f"{head}\n{rows}", fill(found, _WIDTH))
    return "\n\n".join(parts)


def _run(
    cluster: LarderCluster, recorder: ClaimRecorder, shares: Mapping[str, int], qps: float, notify: Notify
) -> QueueFigures:
    wanted, before, began, kills = sum(shares.values()), _cpu_s(cluster), time.monotonic(), list[float]()
    for namespace, count in shares.items():
        cluster.api.create(_JOBS.format(namespace), _job(count))
    spent = dict[str, float]()
    for third in (1, 2, 3):
        goal = wanted * third // 3
        wait_until(lambda goal=goal: len(recorder.created) >= goal, wanted / qps * 3 + _LONGEST_S, f"{goal} claims")  # type: ignore[misc]
        notify(f"claims: {len(recorder.created)} after {time.monotonic() - began:.1f} s")
        if third < 3:
            killed = _leader(cluster)
            spent[killed.name] = spent.get(killed.name, 0.0) + _seconds_of(killed.process.pid)
            killed.process.kill()
            kills.append(time.monotonic())
            killed.start()
    after = _cpu_s(cluster)
    spent = {name: spent.get(name, 0.0) + seconds - before[name] for name, seconds in after.items()}
    spent = _by_program(spent)
    return queue_figures(
        wanted, BURST, recorder.created, kills, {name: 1000 * one / wanted for name, one in spent.items()}
    )


def _shares(claims: int, namespaces: list[str]) -> dict[str, int]:
    """Return how many replicas the job of each namespace has."""
    jobs = len(namespaces)
    return {name: claims // jobs + (number < claims % jobs) for number, name in enumerate(namespaces)}


def _namespace(cluster: LarderCluster, number: int) -> str:
    name = f"bench-{number}"
    labels = {"larder.dev/training-jobs": "true"}
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    wait_until(lambda: cluster.api.answers(account), _LONGEST_S, account)
    return name


def _job(replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "pause:3.10", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
    pod = {"automountServiceAccountToken": False, "schedulingGates": [{"name": "larder.bench/measured"}]}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    worker = {
        "replicas": replicas,
        "template": {"spec": pod | {"containers": [container]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim}],
    }
    kind = {"apiVersion": "larder.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": "train"}}
    return kind | {"spec": {"replicaSpecs": {"Worker": worker}}}


def _leader(cluster: LarderCluster) -> ControllerProgram:
    found: list[ControllerProgram] = []

    def leads() -> bool:
        found[:] = [leader] if (leader := cluster.leader()) and leader.process.exit_code is None else []
        return bool(found)

    wait_until(leads, _LONGEST_S, "a leader")
    return found[0]


def _cpu_s(cluster: LarderCluster) -> dict[str, float]:
    """Return the CPU seconds of each running program."""
    programs = dict(cluster.plane.pids()) | {one.name: one.process.pid for one in cluster.controllers}
    return {name: _seconds_of(pid) for name, pid in programs.items()}


def _seconds_of(pid: int) -> float:
    """Return user and system time; a program of the rig may be the child of its launcher, but has its process id."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _by_program(spent: Mapping[str, float]) -> dict[str, float]:
    """Return CPU seconds with those of all replicas of the controller as one."""
    replicas = [seconds for name, seconds in spent.items() if name.startswith("controller-")]
    others = {name: seconds for name, seconds in spent.items() if not name.startswith("controller-")}
    return {**others, "larder-controller (both replicas)": sum(replicas)}
