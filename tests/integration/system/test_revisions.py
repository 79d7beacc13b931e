"""New revisions beside old ones: requested by an annotation or an edit, served when complete, removed when unused."""

import os
from functools import partial
from typing import Any

from rig.hub.faults import Refuse
from rig.larder.objects import path_of
from rig.larder.site import Site
from rig.pods import base_model_pod
from shared.names import snapshot_label
from tests.integration.system.conftest import Why

KIND = "ClusterBaseModel"
OLD = {"config.json": b'{"n": 1}', "a.safetensors": b"a" * 3_000_000, "b.safetensors": b"b" * 500_000}
NEW = OLD | {"config.json": b'{"n": 2}', "b.safetensors": b"B" * 500_000}


def repo_of(uri: str) -> str:
    return uri.removeprefix("hf://")


def refresh(site: Site, kind: str, name: str, value: str) -> None:
    site.api.patch(path_of(kind, name), {"metadata": {"annotations": {"larder.dev/refresh": value}}})


def condition(site: Site, kind: str, name: str, which: str) -> dict[str, Any]:
    conditions = site.status(kind, name).get("conditions", [])
    found: dict[str, Any] = next((c for c in conditions if c["type"] == which), {})
    return found


def fetched(site: Site, repo: str) -> set[str]:
    """Return the files that nodes fetched, ignoring access checks of one byte and 64 KiB reads by the controller."""
    asked = site.hub.journal.requests(f"/{repo}/resolve/*")
    return {seen.path.rpartition("/")[2] for seen in asked if seen.range not in ("bytes=0-0", "bytes=0-65535")}


def reported(site: Site, name: str, which: str) -> tuple[str, str]:
    found = condition(site, KIND, name, which)
    return found.get("status", ""), found.get("reason", "")


def test_a_refresh_downloads_only_changed_files_and_running_pods_keep_the_old_revision(site: Site, why: Why) -> None:
    before = {path: os.urandom(len(body)) for path, body in OLD.items()}  # no node has any of these files
    after = before | {path: os.urandom(len(NEW[path])) for path in ("config.json", "b.safetensors")}
    uri = site.push(files=before)
    name = site.base_model(uri, nodeSelector={"gpu": "yes"})
    old = site.wait_ready(KIND, name)["servingRevision"]
    site.until(lambda: site.status(KIND, name)["ready"] == "2/2", "both nodes to have the model")
    first = site.name("pod")
    admitted = site.pod(base_model_pod(first, name))
    site.until(lambda: bool(site.pod_node(first)), "the pod to be placed")
    home = site.pod_node(first)
    other = "b" if home == "a" else "a"

    site.hub.journal.clear()
    site.push(files=after, repo=repo_of(uri))
    refresh(site, KIND, name, "one")
    site.until(lambda: site.status(KIND, name)["servingRevision"] != old, "the new revision to serve")
    new = site.status(KIND, name)["servingRevision"]
    assert fetched(site, repo_of(uri)) == {"config.json", "b.safetensors"}
    assert site.status(KIND, name)["refreshed"] == "one"
    assert reported(site, name, "Refreshed") == ("True", "NewRevision")

    site.until(lambda: not site.snapshot(other, name, old).exists(), "the old one to go where nobody uses it")
    site.until(lambda: reported(site, name, "Removing") == ("True", "InUse"), "the old one to be kept")
    phrase = f"revision {old[:12]} on {home}: kept while in use by default/{first}"
    site.until(lambda: phrase in condition(site, KIND, name, "Removing")["message"], "the user to be named")
    assert site.snapshot(home, name, old).joinpath("config.json").read_bytes() == before["config.json"]
    assert snapshot_label(name, old) in admitted["spec"]["nodeSelector"]
    output = why(f"cbm/{name}")
    assert f"kept while in use by default/{first}" in output
    assert f"MultipleRevisions: {home}: " in output
    states = {home: sorted([old, new]), other: [new]}

    def here() -> dict[str, list[str]]:
        return {n["name"]: sorted(n["revisions"]) for n in site.status(KIND, name)["nodes"]}

    site.until(lambda: here() == states, "the status to list the revisions of each node")

    second = site.name("pod")
    selector = site.pod(base_model_pod(second, name))["spec"]["nodeSelector"]
    assert snapshot_label(name, new) in selector
    assert snapshot_label(name, old) not in selector

    site.delete_pod(first)
    site.until(lambda: not site.snapshot(home, name, old).exists(), "the old one to go with its last pod")
    site.until(lambda: reported(site, name, "Removing")[0] == "False", "the condition to clear")
    assert site.snapshot(home, name, new).joinpath("a.safetensors").read_bytes() == after["a.safetensors"]
    site.delete_pod(second)


def test_a_refresh_of_an_unchanged_source_is_handled_once(site: Site) -> None:
    uri = site.push(files=OLD)
    name = site.base_model(uri, nodeSelector={"gpu": "yes"})
    site.wait_ready(KIND, name)
    site.until(lambda: site.status(KIND, name)["ready"] == "2/2", "both nodes to have fetched the model")
    before = site.status(KIND, name)
    site.hub.journal.clear()
    refresh(site, KIND, name, "again")
    site.until(lambda: reported(site, name, "Refreshed") == ("True", "Unchanged"), "the refresh to be answered")
    assert site.hub.journal.requests(f"/api/models/{repo_of(uri)}/tree/*") != []
    assert fetched(site, repo_of(uri)) <= {"config.json"}  # the controller reads the metadata again
    after = site.status(KIND, name)
    assert [after[k] for k in ("resolvedRevision", "resolutionNumber")] == [
        before[k] for k in ("resolvedRevision", "resolutionNumber")
    ]

    site.hub.journal.clear()
    for controller in site.cluster.controllers:
        controller.process.stop()
    for controller in site.cluster.controllers:
        controller.start()
    another = site.base_model(nodeSelector={"gpu": "yes"})
    site.wait_ready(KIND, another)  # by now, the present leader has reconciled all earlier objects
    listed = site.hub.journal.requests(f"/api/models/{repo_of(uri)}/tree/*")  # a drift check asks for the commit only
    assert listed == []
    assert site.status(KIND, name)["refreshed"] == "again"


def test_a_refresh_does_not_wait_for_an_earlier_failure(site: Site) -> None:
    uri = site.push(files=OLD)
    site.hub.faults.add(Refuse(429, retry_after_s=3600), f"/api/models/{repo_of(uri)}*")
    name = site.base_model(uri, nodeSelector={"gpu": "yes"})
    site.wait_reason(KIND, name, "RateLimited")  # asked again in an hour at the earliest
    site.hub.faults.clear()
    refresh(site, KIND, name, "now")
    site.wait_ready(KIND, name)
    assert site.status(KIND, name)["refreshed"] == "now"


def test_two_objects_of_one_source_change_their_revision_together(site: Site) -> None:
    uri, name = site.push(files=OLD), site.name("shared")
    site.cache(uri, name=name)
    site.base_model(uri, name=name, nodeSelector={"gpu": "yes"})
    kinds = ("ClusterModelCache", KIND)
    before = [site.wait_ready(kind, name)["servingRevision"] for kind in kinds]
    assert len(set(before)) == 1
    for files, asked in ((NEW, KIND), (OLD, "ClusterModelCache")):
        site.push(files=files, repo=repo_of(uri))
        refresh(site, asked, name, site.name())
        for kind in kinds:
            site.until(
                partial(serves, site, kind, name, site.hub.head(repo_of(uri))), f"{kind} to serve the new revision"
            )
        assert len({site.status(kind, name)["resolutionNumber"] for kind in kinds}) == 1


def serves(site: Site, kind: str, name: str, revision: str) -> bool:
    return bool(site.status(kind, name)["servingRevision"] == revision)


def test_the_old_revision_keeps_serving_while_both_do_not_fit(site: Site, why: Why) -> None:
    label = {"pool": site.name("tight")}
    group = site.group(label, storageLimit=site.limit_with_room("c", 5_000_000))
    site.label("c", label)
    uri = site.push(files=OLD)
    name = site.cache(uri, group=group)
    old = site.wait_ready("ClusterModelCache", name)["servingRevision"]
    site.push(files={path: body.upper() for path, body in OLD.items()}, repo=repo_of(uri))
    refresh(site, "ClusterModelCache", name, "big")
    site.until(lambda: is_reported_with_room(site, name), "the object to report why it keeps the old revision")
    status = site.status("ClusterModelCache", name)
    assert (status["storageStatus"], status["servingRevision"], status["ready"]) == ("Ready", old, "1/1")
    assert status["nodeStatus"] == {"c": "ready"}
    assert site.ready_condition("ClusterModelCache", name)["status"] == "True"
    assert site.labels("c")[snapshot_label(name, old)] == "true"

    assert "fix: both revisions must fit for a while" in why(f"cmc/{name}")

    site.api.patch(path_of("ModelCacheNodeGroup", group), {"spec": {"storageLimit": "64M"}})
    site.until(lambda: site.status("ClusterModelCache", name)["servingRevision"] != old, "the new one to serve")
    site.until(
        lambda: condition(site, "ClusterModelCache", name, "Updating")["status"] == "False", "the condition to clear"
    )
    site.label("c", {"pool": None})


def is_reported_with_room(site: Site, name: str) -> bool:
    """Return whether a cache reports the shortage of space of its node for the update."""
    status = site.status("ClusterModelCache", name)
    updating: dict[str, str] = next((c for c in status.get("conditions", []) if c["type"] == "Updating"), {})
    phrase = [n["message"] for n in status.get("nodes", []) if n.get("reason") == "InsufficientStorage"]
    return updating.get("reason") == "InsufficientStorage" and phrase != [] and phrase[0] in updating["message"]


def test_the_old_revision_keeps_serving_after_a_change_to_a_missing_source(site: Site) -> None:
    name = site.base_model(nodeSelector={"gpu": "yes"})
    old = site.wait_ready(KIND, name)["servingRevision"]
    site.until(lambda: site.status(KIND, name)["ready"] == "2/2", "both nodes to have the model")
    site.api.patch(path_of(KIND, name), {"spec": {"storage": {"storageUri": "hf://org/nowhere-at-all"}}})
    site.until(lambda: reported(site, name, "Updating") == ("True", "AuthDenied"), "the trouble to be reported")
    assert reported(site, name, "Resolved")[0] == "False"
    status = site.status(KIND, name)
    assert (status["state"], status["servingRevision"], status["ready"]) == ("Ready", old, "2/2")
    assert site.labels("a")[snapshot_label(name, old)] == "true"

    site.api.patch(path_of(KIND, name), {"spec": {"storage": {"storageUri": site.push()}}})
    site.until(lambda: site.status(KIND, name)["servingRevision"] != old, "the new source to serve")
    site.until(lambda: reported(site, name, "Updating") == ("False", "UpToDate"), "the condition to clear")
