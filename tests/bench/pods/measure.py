"""`pods`: how long it takes from the creation of a pod until its container has its model."""

import os
import random
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from rig.node.installation import Installation
from rig.processes import wait_until
from rig.progress import Notify
from shared.json_object import Json
from tests.bench.pods.cluster import NAMESPACE, NODE, add_models, add_namespace, bench_cluster, s3_variables
from tests.bench.pods.contenders import READY, Contender, contenders, named
from tests.bench.pods.summary import summarize
from tests.bench.transfer.report import Section

_LONGEST_S = 300.0
_LOGS = "var/log/pods"


def measure_pods(work: Path, sizes: Sequence[int], rounds: int, notify: Notify) -> Section:
    """Start pods of every kind in random order, `rounds` times after a warm-up, and return the section `pods`."""
    with bench_cluster(work, notify) as site:
        models = add_models(site, sizes, notify)
        for model in models:
            _start(site, NAMESPACE, f"holder-{model.name}", named(model, "claim"))  # its claim is kept
        taken = _rounds(site, contenders(models, s3_variables(site)), rounds, notify)
    return Section("pods", summarize(taken, work))


def _rounds(
    site: Installation, compared: Sequence[Contender], rounds: int, notify: Notify
) -> Mapping[str, Sequence[float]]:
    taken, order = defaultdict[str, list[float]](list), random.Random(0)
    for number in range(rounds + 1):
        for contender in order.sample(compared, len(compared)):
            seconds = _sample(site, contender)
            if number:
                taken[contender.name].append(seconds)
        notify(f"pods: round {number} of {rounds}" if number else "pods: warm-up done")
    return {contender.name: taken[contender.name] for contender in compared}


def _sample(site: Installation, contender: Contender) -> float:
    """Start one pod, remove it, and return the seconds until it had its model."""
    namespace, name = NAMESPACE, site.name("pod")
    if contender.fresh:
        namespace = site.name("bench")
        add_namespace(site, namespace)
    os.sync()
    seconds = _start(site, namespace, name, contender.pod)
    path = f"/api/v1/namespaces/{namespace}/pods/{name}"
    site.api.delete(path)
    site.until(lambda: not site.api.answers(path), f"the end of pod {name}")
    if contender.fresh:
        site.api.delete(f"/api/v1/namespaces/{namespace}")
    return seconds


def _start(site: Installation, namespace: str, name: str, pod: Json) -> float:
    """Create a pod and return the seconds until its container wrote that it has its model."""
    body = {**pod, "metadata": {**pod["metadata"], "name": name}}
    sent = time.time()
    uid = site.api.create(f"/api/v1/namespaces/{namespace}/pods", body)["metadata"]["uid"]
    folder = site.cluster.machine(NODE).disk / _LOGS / f"{namespace}_{name}_{uid}" / "main"
    wait_until(lambda: _ready_at(folder) > 0, _LONGEST_S, f"pod {namespace}/{name} to be {READY}")
    return _ready_at(folder) - sent


def _ready_at(folder: Path) -> float:
    """Return when the container wrote READY, by the clock of containerd; 0 if it has not."""
    log = folder / "0.log"
    for line in log.read_text().splitlines() if log.exists() else ():
        moment, _, _, written = line.split(" ", 3)
        if written == READY:
            return datetime.fromisoformat(moment).timestamp()
    return 0.0
