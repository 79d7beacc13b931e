"""Eviction with the real control plane, agent and store."""

import random
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from rig.binaries import Binaries
from rig.larder.site import Site
from rig.pods import base_model_pod
from rig.ports import LOOPBACK
from shared.dra import DRIVER, RESOURCES, SLICES, device_name
from shared.kube.objects import timestamp
from tests.integration.system.sites import opened
from tests.readers.metrics import scrape

NODE = "e"
MIB = 2**20
LRU = "LeastRecentlyUsed"


@pytest.fixture(scope="module")
def site(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """One node that these tests fill; models are idle after two seconds."""
    settings = {
        "LARDER_DRAIN_SECONDS": "4",
        "LARDER_LEASE_SECONDS": "4",
        "LARDER_FINALIZER_SECONDS": "60",
        "LARDER_EVICTION_IDLE_SECONDS": "2",
        "LARDER_DRA": "true",
    }
    with opened(binaries, tmp_path_factory.mktemp("site"), settings, {NODE: {}}) as site:
        yield site


@pytest.fixture
def limited(site: Site) -> Iterator["LimitedNode"]:
    """A node with space for one large model or two small ones."""
    limited = LimitedNode(site, {"limited": site.name("s")})
    room = "5300Ki"  # 5 MiB, and the overhead of directories, marks and partial blocks
    limited.group = site.group(limited.labels, storageLimit=room, evictionPolicy=LRU)
    site.label(NODE, limited.labels)
    yield limited
    for body in site.api.get(SLICES)["items"]:
        site.api.delete(f"{SLICES}/{body['metadata']['name']}")
    for name in limited.models:
        if not site.is_gone("ClusterBaseModel", name):
            site.delete("ClusterBaseModel", name)
    for name in limited.models:
        site.until(lambda name=name: site.is_gone("ClusterBaseModel", name), f"{name} to be gone")  # type: ignore[misc]
    site.label(NODE, dict.fromkeys(limited.labels))


class LimitedNode:
    """The node, and what a test puts there."""

    def __init__(self, site: Site, labels: dict[str, str]) -> None:
        self.site, self.labels, self.models, self.group = site, labels, list[str](), ""

    def want(self, stem: str, mib: int, **annotations: str) -> str:
        """Declare a model of `mib` MiB of random bytes, and return its name."""
        name = self.site.name(stem)
        uri = self.site.push(files={"weights.bin": random.Random(name).randbytes(mib * MIB)})
        storage = {"storageUri": uri, "nodeSelector": self.labels}
        notes = {f"larder.dev/{key}": value for key, value in annotations.items()}
        spec = {"modelFormat": {"name": "safetensors"}, "storage": storage}
        self.models.append(self.site.create("ClusterBaseModel", name, spec, annotations=notes))
        return name

    def add_ready(self, stem: str, mib: int, **annotations: str) -> str:
        name = self.want(stem, mib, **annotations)
        self.until_ready(name)
        return name

    def until_ready(self, name: str) -> None:
        self.site.until(lambda: self.phase(name) == "Ready", f"{name} to be there")

    def phase(self, name: str) -> str:
        return next(iter(self.site.phases(NODE, name)), "")

    def is_evicted(self, name: str) -> bool:
        entries = self.site.entries(NODE, name)
        marked = [e for e in entries if e.get("evictedFor") and e.get("state") == "Absent"]
        return bool(marked) and self.phase(name) == "Absent"

    def is_marked(self, name: str) -> bool:
        return any(e.get("evictedFor") for e in self.site.entries(NODE, name))

    def lacks_room(self, name: str) -> bool:
        reported = self.site.status("ModelNode", NODE).get("entries", [])
        return any(s["id"] == name and s.get("reason") == "InsufficientStorage" and s.get("shortage") for s in reported)

    def message(self, name: str) -> str:
        reported = self.site.status("ModelNode", NODE).get("entries", [])
        return next((str(s.get("message", "")) for s in reported if s["id"] == name), "")

    def has_label(self, name: str) -> bool:
        return f"model-cache-ready-{name}" in self.site.labels(NODE)

    def limit(self, group: str, **spec: str) -> None:
        path = f"/apis/serving.kserve.io/v1alpha1/modelcachenodegroups/{group}"
        self.site.api.patch(path, {"spec": spec})


def larder(site: Site, *arguments: str) -> str:
    """Run the command as a user would, and return what it printed."""
    argv = [sys.executable, "-m", "shared.cli", *arguments, f"--kubeconfig={site.cluster.plane.kubeconfig}"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)  # noqa: S603 - our own command
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def counted(site: Site) -> dict[str, float]:
    """Return the eviction counters of all replicas together: any of them may have been the leader."""
    shown = [scrape(f"http://{LOOPBACK}:{c.health_port}") for c in site.cluster.controllers]
    names = ("larder_evictions_total", "larder_evicted_bytes_total")
    return {name: sum(one[name] for one in shown) for name in names}


def events(site: Site, name: str) -> list[str]:
    """Return what Events report about evictions of a model from its node."""
    found = (e["message"] for e in site.events(name) if e["reason"] == "Evicted")
    return [message for message in found if "frees" in message]


def test_an_idle_model_is_evicted_and_returns(site: Site, limited: LimitedNode) -> None:
    before = counted(site)
    old = limited.add_ready("old", 3)
    revision = site.status("ClusterBaseModel", old)["servingRevision"]
    new = limited.add_ready("new", 4)
    site.until(lambda: limited.is_evicted(old), "the old one to be marked")
    assert site.entries(NODE, old)[0]["evictedFor"] == new
    assert not site.snapshot(NODE, old, revision).exists()
    assert not limited.has_label(old)
    site.until(
        lambda: site.ready_condition("ClusterBaseModel", old)["reason"] == "Evicted",
        "its object to report the eviction",
    )
    reported = site.ready_condition("ClusterBaseModel", old)
    assert reported["status"] == "False"
    assert f"to make room for {new}" in reported["message"]
    site.until(lambda: events(site, old) != [], "the Event, which follows the eviction")
    (event,) = events(site, old)
    assert f"evicted from {NODE} to make room for {new}; this frees 3.0 MiB" in event
    after = counted(site)
    assert after["larder_evictions_total"] == before["larder_evictions_total"] + 1
    freed = after["larder_evicted_bytes_total"] - before["larder_evicted_bytes_total"]
    assert 3 * MIB <= freed <= 3 * MIB + 2**16  # with its directories and its mark

    pod = site.name("pod")
    site.pod(base_model_pod(pod, old))
    assert f"! {old} on node/{NODE}: Evicted" in larder(site, "why", f"cbm/{old}")
    assert "Evicted" in larder(site, "why", f"pod/{pod}")
    site.delete_pod(pod)

    site.delete("ClusterBaseModel", new)
    limited.until_ready(old)
    assert site.entries(NODE, old)[0].get("evictedFor", "") == ""


def test_models_in_use_or_pinned_are_kept_and_a_dry_run_explains_each_model(site: Site, limited: LimitedNode) -> None:
    used, pinned, idle = (
        limited.add_ready("used", 2),
        limited.add_ready("pinned", 1, pin="true"),
        limited.add_ready("idle", 1),
    )
    pod = site.name("pod")
    site.pod(base_model_pod(pod, used))
    site.until(lambda: site.pod_node(pod) == NODE, "the pod to be placed")
    new = limited.want("new", 4)
    site.until(lambda: "1.0 MiB may be evicted" in limited.message(new), "the message to have the numbers")
    assert "need 4210688 bytes = 4.0 MiB" in limited.message(new)
    shown = larder(site, "evict", "--dry-run", "--node", NODE, "--for", new, "--idle", "2")
    lines = {line.split()[0]: line for line in shown.splitlines() if line.strip()}
    assert f"keep: in use by default/{pod}" in lines[used]
    assert "keep: pinned" in lines[pinned]
    assert "evictable" in lines[idle]
    assert "not enough, so nothing is evicted" in shown
    assert [limited.phase(m) for m in (used, pinned, idle)] == ["Ready"] * 3

    site.delete_pod(pod)
    limited.until_ready(new)
    assert limited.phase(pinned) == "Ready"
    assert limited.is_evicted(used)
    assert site.entries(NODE, used)[0]["lastUsed"]


def test_the_end_of_a_device_claim_counts_as_the_last_use_of_its_model(site: Site, limited: LimitedNode) -> None:
    held, idle = limited.add_ready("held", 2), limited.add_ready("idle", 2)
    pod, claim = site.name("pod"), device_claim(site, held)
    site.pod({
        "metadata": {"name": pod},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": "m", "resourceClaimName": claim}],
            "containers": [{"name": "main", "image": "i", "resources": {"claims": [{"name": "m"}]}}],
        },
    })  # fmt: skip
    site.until(lambda: site.pod_node(pod) == NODE, "the pod to be placed by its claim")
    site.until(lambda: site.entries(NODE, held)[0].get("inUse", False), "the use to be seen")
    assert "lastUsed" not in site.entries(NODE, held)[0]
    ready_at = max(s["since"] for s in site.status("ModelNode", NODE)["entries"])
    site.until(lambda: timestamp(datetime.now(UTC)) > ready_at, "another second, for times are in seconds")
    site.delete_pod(pod)
    site.until(lambda: "lastUsed" in site.entries(NODE, held)[0], "the end of the use to be recorded")
    assert not site.entries(NODE, held)[0].get("inUse")
    limited.add_ready("new", 2)
    site.until(lambda: limited.is_evicted(idle) or limited.is_evicted(held), "either to make room")
    assert limited.is_evicted(idle)


def test_a_model_is_removed_only_after_its_driver_has_tainted_it(site: Site, limited: LimitedNode) -> None:
    old = limited.add_ready("old", 3)
    path = f"{SLICES}/{publish(site, old)}"
    limited.want("new", 4, priority="1")

    def is_drained() -> bool:
        reported = next(s for s in site.status("ModelNode", NODE)["entries"] if s["id"] == old)
        late = datetime.now(UTC) - datetime.fromisoformat(reported["since"]) > timedelta(seconds=8)
        return reported["phase"] == "Draining" and late

    site.until(is_drained, "twice the time of a drain that waits for nobody")
    assert site.entries(NODE, old)[0]["state"] == "Draining"
    body = site.api.get(path)
    body["spec"]["devices"][0]["taints"] = [{"key": "larder.dev/leaving", "effect": "NoSchedule"}]
    tainted_at = datetime.now(UTC)
    site.api.call("PUT", path, body)
    site.until(lambda: limited.is_evicted(old), "the old one to be gone")
    absent_at = datetime.fromisoformat(site.entries(NODE, old)[0]["since"])
    assert absent_at - tainted_at > timedelta(seconds=2.9), "a whole drain of 4 s, in full seconds"


def publish(site: Site, model: str) -> str:
    """Publish a model as the only device of the node, as its driver does; return the name of the device."""
    device = device_name(model, site.status("ClusterBaseModel", model)["servingRevision"])
    uid = site.get("Node", NODE)["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": NODE, "uid": uid}
    pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
    site.api.create(SLICES, {
        "metadata": {"name": device, "ownerReferences": [owner]},
        "spec": {"driver": DRIVER, "nodeName": NODE, "pool": pool, "devices": [{"name": device}]},
    })  # fmt: skip
    return device


def device_claim(site: Site, model: str) -> str:
    """Claim a model as a device of the node; return the name of the claim."""
    name = publish(site, model)
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    site.api.create(f"{RESOURCES}/deviceclasses", {"metadata": {"name": name}, "spec": {"selectors": [selector]}})
    asked = {"requests": [{"name": "model", "exactly": {"deviceClassName": name}}]}
    path = f"{RESOURCES}/namespaces/default/resourceclaims"
    site.api.create(path, {"metadata": {"name": name}, "spec": {"devices": asked}})
    return name


def test_a_node_of_two_groups_evicts_only_if_both_groups_allow_it(site: Site, limited: LimitedNode) -> None:
    other = site.group(limited.labels, storageLimit="5Mi")
    site.until(lambda: site.status("ModelCacheNodeGroup", other).get("nodes") == [NODE], "both groups to count")
    old = limited.add_ready("old", 3)
    new = limited.want("new", 3)
    site.until(lambda: limited.lacks_room(new), "the new one to lack space")
    assert site.get("ModelNode", NODE)["spec"].get("evictionPolicy", "Never") == "Never"
    assert "can be evicted in total" in larder(site, "evict", "--dry-run", "--idle", "0")
    assert limited.phase(old) == "Ready"
    limited.limit(other, evictionPolicy=LRU)
    limited.until_ready(new)
    assert limited.is_evicted(old)
    limited.limit(other, evictionPolicy="Never")
    site.until(lambda: limited.lacks_room(old), "the old one to be wanted again, and to lack space")
    assert limited.phase(new) == "Ready"


def test_lowering_the_limit_evicts_nothing_until_space_is_needed(site: Site, limited: LimitedNode) -> None:
    first, second = limited.add_ready("first", 2), limited.add_ready("second", 2)
    limited.limit(limited.group, storageLimit="3200Ki")
    site.until(lambda: site.get("ModelNode", NODE)["status"].get("limit") == 3200 * 1024, "the agent to know the limit")
    assert (limited.phase(first), limited.phase(second)) == ("Ready", "Ready")
    small = limited.add_ready("small", 1)
    assert sorted(limited.is_evicted(m) for m in (first, second)) == [False, True]
    assert limited.phase(small) == "Ready"


def test_an_eviction_completes_although_agent_and_controller_are_killed(site: Site, limited: LimitedNode) -> None:
    old, lead, agent = limited.add_ready("old", 3), site.leader(), site.cluster.agents[NODE]
    new = limited.want("new", 4, priority="1")
    site.until(lambda: limited.is_marked(old), "the mark")
    agent.process.kill()
    lead.process.kill()
    other = next(c for c in site.cluster.controllers if c is not lead)
    site.cluster.aim_webhooks(other)
    site.until(lambda: site.leader() is other, "the other replica to lead")
    lead.start()
    site.cluster.start_agent(NODE)
    limited.until_ready(new)
    site.until(lambda: limited.is_evicted(old), "the old one to be gone")
    site.cluster.aim_webhooks(site.cluster.controllers[0])


def test_a_draining_model_that_a_pod_begins_to_use_is_kept(site: Site, limited: LimitedNode) -> None:
    old = limited.add_ready("old", 3)
    device = publish(site, old)  # so that the drain lasts until the pod is there, however slow this machine is
    new = limited.want("new", 4, priority="1")
    site.until(lambda: limited.is_marked(old), "the mark")
    pod = base_model_pod(site.name("pod"), old)
    pod["spec"]["nodeName"] = NODE  # the label may be gone already
    site.pod(pod)
    site.until(lambda: not limited.is_marked(old), "the mark to be gone")
    site.until(lambda: limited.has_label(old), "its label to be set again")
    site.until(lambda: limited.lacks_room(new), "the new one to lack space")
    site.api.delete(f"{SLICES}/{device}")
    site.delete_pod(pod["metadata"]["name"])
    limited.until_ready(new)
    assert limited.is_evicted(old)


def test_deleting_the_waiting_model_cancels_a_running_eviction(site: Site, limited: LimitedNode) -> None:
    old = limited.add_ready("old", 3)
    publish(site, old)  # so that the drain lasts until the deletion
    new = limited.want("new", 4, priority="1")
    site.until(lambda: limited.is_marked(old), "the mark")
    site.delete("ClusterBaseModel", new)
    site.until(lambda: not limited.is_marked(old), "the mark to be gone")
    limited.until_ready(old)
    site.until(lambda: limited.has_label(old), "its label")
