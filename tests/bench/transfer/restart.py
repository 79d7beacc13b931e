"""`restart`: how soon an agent is Ready again on a node that holds many models."""

import hashlib
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import httpx
import msgspec
import yaml

from agent.store.download_plan import DownloadPlan
from agent.store.store import Store
from rig.api import Api
from rig.binaries import Binaries
from rig.control_plane import ControlPlane
from rig.ports import LOOPBACK, free_port
from rig.processes import Process, Program, wait_until
from rig.progress import Notify
from shared.api.model_node import PATH, Entry, ModelNodeSpec
from shared.manifest import File, Manifest, build_manifest
from tests.bench.transfer.report import Section
from tests.bench.transfer.sampling import resident_mb

_NODE = "bench"
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_CRD = Path("crds/modelnodes.larder.dev.yaml")
_FIRST_S, _AGAIN_S = 120.0, 60.0
_POLL_S = 0.01
_SHARDS, _SHARD_BYTES = 4, 5 * 2**30
_SMALL, _SMALL_BYTES = 8, 16 * 2**10
_TARGET_S = 3.0


def measure_restart(work: Path, binaries: Binaries, models: int, rounds: int, notify: Notify) -> Section:
    """Fill a store with sparse models, start an agent on it again and again, and return the section `restart`."""
    manifests = [_manifest(number) for number in range(models)]
    notify(f"restart: filling a store with {models} models ...")
    fill(work / "store", manifests)
    with ControlPlane(binaries, work / "plane") as plane:
        _want(plane.api, manifests)
        _start_once(plane, work, _FIRST_S)  # the labels are set only once
        taken = [_start_once(plane, work, _AGAIN_S) for _ in range(rounds)]
    ready_s, idle_mb = median(t[0] for t in taken), median(t[1] for t in taken)
    size_tb = sum(m.size_bytes for m in manifests) / 1e12
    notify(f"restart: Ready after {ready_s:.2f} s, {idle_mb:.0f} MB")
    text = (
        f"## Restart of an agent\n\n{models} models of {_SHARDS + _SMALL} files, {size_tb:.1f} TB (sparse), a real API "
        f"server, labels in place. From process start to `/readyz`: {ready_s:.2f} s (target: below "
        f"{_TARGET_S:.0f}; median of {rounds}, {min(t[0] for t in taken):.2f} to {max(t[0] for t in taken):.2f}). "
        f"The process then used {idle_mb:.0f} MB, with all models loaded."
    )
    return Section("restart", text)


def fill(root: Path, manifests: Sequence[Manifest]) -> None:
    """Create a store with these models; the digests are invented and the files are sparse."""
    store, stop = Store.open(root), threading.Event()
    try:
        for manifest in manifests:
            plan = DownloadPlan(manifest)
            digests = {f.path: f.digest.partition(":")[2] for f in manifest.files}
            for file in manifest.files:
                with store.incoming.open(plan.keys[file.path], file, stop) as partial:
                    assert partial is not None  # nothing else writes
                    os.ftruncate(partial.descriptor, file.size)
                    store.incoming.put_blob(partial, digests[file.path])
            store.snapshots.commit(plan, _identity(manifest), digests)
    finally:
        store.close()


def _manifest(number: int) -> Manifest:
    sizes = {f"model-{n}.safetensors": _SHARD_BYTES for n in range(_SHARDS)}
    sizes |= {f"extra-{n}.json": _SMALL_BYTES for n in range(_SMALL)}
    name = f"model-{number:03}"
    files = [File(p, s, f"sha256:{hashlib.sha256(f'{name}/{p}'.encode()).hexdigest()}") for p, s in sizes.items()]
    revision = hashlib.sha256(name.encode()).hexdigest()[:40]
    return build_manifest(f"hf://bench/{name}@{revision}", revision, files)


def _identity(manifest: Manifest) -> str:
    return manifest.uri.partition("@")[0].rpartition("/")[2]


def _want(api: Api, manifests: Sequence[Manifest]) -> None:
    api.ensure(_CRDS, yaml.safe_load(_CRD.read_text()))
    wait_until(lambda: api.answers(PATH), _AGAIN_S, "the ModelNode kind")
    uid = str(api.create("/api/v1/nodes", {"metadata": {"name": _NODE}})["metadata"]["uid"])
    entries = [
        Entry(
            id=_identity(m), revision=m.revision, uri=m.uri, manifest=m.digest, size=m.size_bytes, granted=True
        )
        for m in manifests
    ]  # fmt: skip
    spec = msgspec.to_builtins(ModelNodeSpec(node_uid=uid, entries=entries))
    kind = {"apiVersion": "larder.dev/v1alpha1", "kind": "ModelNode", "metadata": {"name": _NODE}}
    api.create(PATH, {**kind, "spec": spec})


def _start_once(plane: ControlPlane, work: Path, longest_s: float) -> tuple[float, float]:
    """Start the agent, stop it when it is ready, and return the seconds until then and its resident MB."""
    (work / "token").write_text("nobody asks for it")
    port = free_port()
    argv = [sys.executable, "-m", "agent", f"--node-name={_NODE}", f"--root={work / 'store'}", "--floor=0"]
    argv += ["--scrub-rate=0"]  # the digests are invented
    argv += [f"--kubeconfig={plane.kubeconfig}", f"--listen={LOOPBACK}:{port}", f"--token-file={work / 'token'}"]
    argv += [f"--api-url=https://{LOOPBACK}:1"]
    with httpx.Client(trust_env=False, timeout=1.0) as client:
        started = time.monotonic()
        agent = Process(Program("larder-agent", argv), work / "agent.log")
        try:
            while not _is_ready(client, port):
                if agent.exit_code is not None or time.monotonic() - started > longest_s:
                    agent.wait_ready(lambda: False, 0.0)  # the response shows why
                time.sleep(_POLL_S)
            return time.monotonic() - started, resident_mb(agent.pid) or 0.0
        finally:
            agent.stop()


def _is_ready(client: httpx.Client, port: int) -> bool:
    try:
        return client.get(f"http://{LOOPBACK}:{port}/readyz").is_success
    except httpx.HTTPError:
        return False
