"""The kinds in kubectl: what is accepted and printed, and that one object cannot break others."""

import json
import re
import subprocess
from collections.abc import Callable

import pytest
import yaml

from rig.binaries import Binaries
from rig.errors import CallRefused
from rig.larder.site import Site
from shared.json_object import Json
from tests.integration.system.absent import DEFINITIONS

Kubectl = Callable[..., str]


@pytest.fixture
def kubectl(site: Site, binaries: Binaries) -> Kubectl:
    """Run kubectl as an administrator, and return what it printed."""

    def run(*arguments: str, stdin: object = None) -> str:
        argv = [str(binaries.kubectl), f"--kubeconfig={site.cluster.plane.kubeconfig}", *arguments]
        text = None if stdin is None else json.dumps(stdin)
        return subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout  # noqa: S603 - the rig's own kubectl

    return run


def columns(table: str) -> Json:
    """Return the single row of a printed table by column name; each name is aligned with its column."""
    head, row = table.splitlines()
    starts = [i for i, char in enumerate(head) if char != " " and (i == 0 or head[i - 1] == " ")]
    ends = [*starts[1:], max(len(head), len(row))]
    return {head[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)}


def clear(site: Site, **objects: str) -> None:
    """Delete the objects and their files: other tests count bytes on the nodes."""
    for kind, name in objects.items():
        site.delete(kind, name)
        site.until(lambda kind=kind, name=name: site.is_gone(kind, name), f"{name} to be gone")  # type: ignore[misc]


def test_kubectl_tables_show_status_nodes_and_sizes(site: Site, kubectl: Kubectl) -> None:
    uri = site.push()
    cache = site.cache(uri)
    model = site.base_model(uri, nodeSelector={"kubernetes.io/hostname": "c"})
    site.wait_ready("ClusterModelCache", cache)
    site.wait_ready("ClusterBaseModel", model)
    shown = columns(kubectl("get", "cmc", cache))
    assert {k: shown[k] for k in ("NAME", "STATUS", "NODES", "REASON", "GROUPS")} == {
        "NAME": cache, "STATUS": "Ready", "NODES": "2/2", "REASON": "Stocked", "GROUPS": "gpus",
    }  # fmt: skip
    shown = columns(kubectl("get", "cbm", model, "-o", "wide"))
    assert (shown["STATE"], shown["NODES"], shown["URI"]) == ("Ready", "1/1", uri)
    assert len(shown["REVISION"]) == 40
    assert shown["SIZE"] == "1.0 MiB"
    assert re.fullmatch(r"\d+[smh].*", shown["SINCE"])
    shown = columns(kubectl("get", "mcng", "gpus"))
    assert (shown["NODES"], shown["LIMIT"]) == ("2", "1Gi")
    site.until(lambda: columns(kubectl("get", "mcng", "gpus"))["USED"].endswith("MiB"), "what is used to be reported")
    shown = columns(kubectl("get", "modelnode", "a", "-o", "wide"))
    assert (shown["READY"], shown["LIMIT"]) == ("True", "1.0 GiB")
    assert shown["FREE"].endswith("iB")
    assert cache in kubectl("get", "larder", "--all-namespaces")
    clear(site, ClusterModelCache=cache, ClusterBaseModel=model)


def test_null_fields_of_a_manifest_are_treated_as_unset(site: Site, kubectl: Kubectl) -> None:
    cache, model = site.name("null"), site.name("null")
    spec = {"storageUri": site.push(), "nodeGroup": "gpus"}
    nothing = {"pvSpec": None, "pvcSpec": None, "modelSize": None, "credentialsSecret": None, "nodeGroups": None}
    body = {"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ClusterModelCache", "metadata": {"name": cache}}
    kubectl("apply", "-f-", stdin=body | {"spec": spec | nothing})
    site.wait_ready("ClusterModelCache", cache)
    storage = {"storageUri": site.push(), "path": None, "key": None, "nodeSelector": None, "parameters": None}
    fields = {"modelFormat": None, "modelType": None, "modelCapabilities": None, "modelConfiguration": None}
    body = {"apiVersion": "ome.io/v1beta1", "kind": "ClusterBaseModel", "metadata": {"name": model}}
    kubectl("apply", "-f-", stdin=body | {"spec": fields | {"storage": storage}})
    site.wait_ready("ClusterBaseModel", model)
    clear(site, ClusterModelCache=cache, ClusterBaseModel=model)


def test_applying_a_manifest_twice_changes_nothing(site: Site, kubectl: Kubectl) -> None:
    name = site.name("twice")
    spec = {"storage": {"storageUri": "hf://a/b", "later": {"deep": [{"x": 1}]}}, "disabled": True, "new": {"y": 2}}
    body = {"apiVersion": "ome.io/v1beta1", "kind": "ClusterBaseModel", "metadata": {"name": name}, "spec": spec}
    assert "created" in kubectl("apply", "-f-", stdin=body)
    site.until(lambda: bool(site.status("ClusterBaseModel", name)), "a status")
    assert "unchanged" in kubectl("apply", "-f-", stdin=body)
    assert yaml.safe_load(kubectl("get", "cbm", name, "-o", "yaml"))["spec"] == spec


def test_absurd_numbers_in_one_object_do_not_affect_others(site: Site) -> None:
    """They are valid in their own object, but would be too large for the ModelNodes."""
    labels = {"wild": site.name("w")}
    group = site.group(labels, storageLimit="9E", bandwidthLimit="9E")
    site.label("c", labels)
    uri, wild = site.push(), site.name("wild")
    annotations = {"larder.dev/priority": "9" * 30}
    spec = {"storageUri": uri, "nodeGroup": group}
    site.create("ClusterModelCache", wild, spec, annotations=annotations)
    tame = site.cache(uri, group=group)
    site.wait_ready("ClusterModelCache", wild)
    site.wait_ready("ClusterModelCache", tame)
    site.until(lambda: site.get("ModelCacheNodeGroup", group).get("status", {}).get("used", 0) > 0, "usage")
    site.label("c", {"wild": None})
    clear(site, ClusterModelCache=wild)
    clear(site, ClusterModelCache=tame)


@pytest.mark.parametrize("limit", ["-1", -1, "1 Gi", "", {}, None])
def test_a_limit_that_is_not_a_quantity_is_refused(site: Site, limit: object) -> None:
    with pytest.raises(CallRefused, match="storageLimit"):
        site.group({"x": "y"}, storageLimit=limit)


def test_a_definition_that_is_older_than_the_controller_is_reported(site: Site) -> None:
    """It drops the field for the file selection, so the resolved source can never be stored."""
    path = f"{DEFINITIONS}/clustermodelcaches.serving.kserve.io"
    today, older = site.api.get(path)["spec"]["versions"], site.api.get(path)["spec"]["versions"]
    del older[0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]["selection"]
    site.api.patch(path, {"spec": {"versions": older}})
    try:
        logs = [c.log for c in site.cluster.controllers]
        site.until(lambda: all('"definition_outdated"' in log.read_text() for log in logs), "the news")
        cache = site.cache(duplicateWeights="skip")
        message = site.wait_reason("ClusterModelCache", cache, "OutdatedDefinition")
        assert ".status.selection" in message
        assert message.endswith("upgrade the larder-crds chart")
    finally:
        site.api.patch(path, {"spec": {"versions": today}})
    site.wait_ready("ClusterModelCache", cache)
    clear(site, ClusterModelCache=cache)
