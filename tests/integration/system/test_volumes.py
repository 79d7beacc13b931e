"""Volumes and claims of models on a real control plane, under tenants' attacks and accidents."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from rig.larder.site import Site
from rig.pods import base_model_pod, plain_pod
from shared.json_object import Json

_CLAIMS = "persistentvolumeclaims"
_VOLUMES = "/api/v1/persistentvolumes"


@pytest.fixture(scope="module")
def model(site: Site) -> str:
    """A model that is ready on both nodes of the group."""
    name = site.base_model(nodeSelector={"gpu": "yes"})
    site.wait_ready("ClusterBaseModel", name)
    return name


@pytest.fixture
def namespace(site: Site) -> str:
    return new_namespace(site)


def new_namespace(site: Site) -> str:
    name = site.name("tenant")
    site.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    site.until(lambda: site.api.answers(f"/api/v1/namespaces/{name}/serviceaccounts/default"), "its account")
    return name


def path(namespace: str, kind: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{namespace}/{kind}" + (f"/{name}" if name else "")


def run(site: Site, namespace: str, model: str) -> str:
    """Create a pod that asks for the model, and return its name."""
    name = site.name("pod")
    site.api.create(path(namespace, "pods"), base_model_pod(name, model))
    return name


def end(site: Site, namespace: str, pod: str) -> None:
    site.api.delete(path(namespace, "pods", pod), grace_s=0)


def claim_of(site: Site, namespace: str, pod: str) -> str:
    """Return the name of the pod's claim."""
    volumes = site.api.get(path(namespace, "pods", pod))["spec"]["volumes"]
    return next(str(v["persistentVolumeClaim"]["claimName"]) for v in volumes if v["name"] == "larder-model")


def bound_claim(site: Site, namespace: str, claim: str) -> Json | None:
    """Return a claim if it exists and is bound; a claim that is being deleted may disappear at any moment."""
    found: list[Json] = site.api.get(path(namespace, _CLAIMS))["items"]
    bound = (c for c in found if c["metadata"]["name"] == claim and c.get("status", {}).get("phase") == "Bound")
    return next(bound, None)


def wait_bound(site: Site, namespace: str, claim: str) -> Json:
    found: list[Json] = []

    def is_bound() -> bool:
        bound = bound_claim(site, namespace, claim)
        found[:] = [bound] if bound else []
        return bool(found)

    site.until(is_bound, f"claim {claim} to be bound")
    return found[0]


def is_scheduled(site: Site, namespace: str, pod: str) -> bool:
    return bool(site.api.get(path(namespace, "pods", pod))["spec"].get("nodeName"))


def volumes(site: Site) -> list[Json]:
    found: list[Json] = site.api.get(_VOLUMES)["items"]
    return found


def volumes_for(site: Site, namespace: str) -> list[Json]:
    return [v for v in volumes(site) if v["spec"].get("claimRef", {}).get("namespace") == namespace]


def reasons(site: Site, namespace: str, name: str) -> dict[str, str]:
    """Return the messages of an object's Events by reason."""
    events = site.api.get(path(namespace, "events"))["items"]
    return {e["reason"]: e["message"] for e in events if e["involvedObject"]["name"] == name}


def test_each_namespace_gets_its_own_claim_on_the_same_files(site: Site, model: str) -> None:
    made = {new_namespace(site): "", new_namespace(site): ""}
    for namespace in made:
        made[namespace] = run(site, namespace, model)
    for namespace, pod in made.items():
        assert claim_of(site, namespace, pod) == model
        assert wait_bound(site, namespace, model)["spec"]["volumeName"] == f"{model}-{namespace}"
        site.until(lambda n=namespace, p=pod: is_scheduled(site, n, p), "the pod to be scheduled")  # type: ignore[misc]
    paths = {v["spec"]["local"]["path"] for namespace in made for v in volumes_for(site, namespace)}
    assert len(paths) == 1
    for namespace, pod in made.items():
        end(site, namespace, pod)
    for namespace in made:
        site.until(lambda n=namespace: not volumes_for(site, n), "its volume to be gone")  # type: ignore[misc]
        assert site.api.get(path(namespace, _CLAIMS))["items"] == []


def test_deleting_the_claim_of_a_running_pod_does_not_block_other_pods(site: Site, model: str, namespace: str) -> None:
    first = run(site, namespace, model)
    before = wait_bound(site, namespace, model)["metadata"]["uid"]
    site.until(lambda: is_scheduled(site, namespace, first), "the pod to be scheduled")
    site.api.delete(path(namespace, _CLAIMS, model))
    assert site.api.get(path(namespace, _CLAIMS, model))["metadata"]["deletionTimestamp"]  # its pod protects it
    second = run(site, namespace, model)
    while claim_of(site, namespace, second) == model:  # a replica learns of the deletion a moment later
        site.until(lambda p=second: "VolumeTerminating" in reasons(site, namespace, p), "the reason")  # type: ignore[misc]
        end(site, namespace, second)
        second = run(site, namespace, model)
    site.until(lambda: is_scheduled(site, namespace, second), "the second pod to be scheduled beside the first")
    end(site, namespace, first)
    site.until(lambda: not site.api.answers(path(namespace, _CLAIMS, model)), "the deleted claim to be gone")
    third = run(site, namespace, model)
    site.until(lambda: is_scheduled(site, namespace, third), "the third pod to be scheduled")
    assert wait_bound(site, namespace, claim_of(site, namespace, third))["metadata"]["uid"] != before
    end(site, namespace, second)
    end(site, namespace, third)


def test_a_claim_deleted_manually_before_its_pod_is_scheduled_is_recreated(
    site: Site, model: str, namespace: str
) -> None:
    pod = base_model_pod(site.name("pod"), model)
    pod["spec"]["schedulingGates"] = [{"name": "rig/held"}]
    name = site.api.create(path(namespace, "pods"), pod)["metadata"]["name"]
    before = wait_bound(site, namespace, model)["metadata"]["uid"]
    volume = site.api.get(f"{_VOLUMES}/{model}-{namespace}")["metadata"]["uid"]
    site.api.delete(path(namespace, _CLAIMS, model))

    def is_another() -> bool:
        found = bound_claim(site, namespace, model)
        return found is not None and found["metadata"]["uid"] != before

    site.until(is_another, "another claim")
    assert site.api.get(f"{_VOLUMES}/{model}-{namespace}")["metadata"]["uid"] != volume
    site.api.patch(path(namespace, "pods", name), {"spec": {"schedulingGates": None}})
    site.until(lambda: is_scheduled(site, namespace, name), "the pod to be scheduled")
    end(site, namespace, name)


def test_a_volume_deleted_manually_is_recreated(site: Site, model: str, namespace: str) -> None:
    first = run(site, namespace, model)
    volume = wait_bound(site, namespace, model)["spec"]["volumeName"]
    before = site.api.get(f"{_VOLUMES}/{volume}")["metadata"]["uid"]
    site.api.delete(f"{_VOLUMES}/{volume}")
    end(site, namespace, first)
    site.until(lambda: not volumes_for(site, namespace), "both to be gone")
    second = run(site, namespace, model)
    while claim_of(site, namespace, second) != model:  # a replica learns of the deletion a moment later
        end(site, namespace, second)
        second = run(site, namespace, model)
    wait_bound(site, namespace, model)
    site.until(lambda: is_scheduled(site, namespace, second), "the second pod to be scheduled")
    assert site.api.get(f"{_VOLUMES}/{volume}")["metadata"]["uid"] != before
    end(site, namespace, second)


def forbid_claims(site: Site, namespace: str) -> str:
    """Forbid all claims of a namespace by a quota, and return its path."""
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {_CLAIMS: "0"}}}
    site.api.create(path(namespace, "resourcequotas"), quota)
    used = path(namespace, "resourcequotas", "none")
    site.until(lambda: "used" in site.api.get(used).get("status", {}), "the quota to be in force")
    return used


def test_a_quota_that_refuses_the_claim_is_reported_on_the_pod_and_its_owner(
    site: Site, model: str, namespace: str
) -> None:
    used = forbid_claims(site, namespace)
    template = base_model_pod("any", model)
    template["metadata"] = {"labels": {"app": "x"}, "annotations": template["metadata"]["annotations"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    site.api.create(sets, {"metadata": {"name": "web"}, "spec": spec})
    site.until(lambda: "VolumeRefused" in reasons(site, namespace, "web"), "the Event on the ReplicaSet")
    assert "exceeded quota: none" in reasons(site, namespace, "web")["VolumeRefused"]
    (pod,) = site.api.get(path(namespace, "pods"))["items"]
    assert "exceeded quota: none" in reasons(site, namespace, pod["metadata"]["name"])["VolumeRefused"]
    site.api.delete(used)
    wait_bound(site, namespace, model)
    site.api.delete(f"{sets}/web")


@pytest.mark.parametrize("spec", ["pvSpec", "pvcSpec"])
def test_a_missing_storage_class_does_not_block_pods(site: Site, namespace: str, spec: str) -> None:
    fields: Json = {spec: {"storageClassName": "missing"}}
    cache = site.cache(**fields)
    site.wait_ready("ClusterModelCache", cache)
    pod = site.name("pod")
    site.api.create(path(namespace, "pods"), plain_pod(pod, {"larder.dev/model": cache}))
    (volume,) = site.api.get(path(namespace, "pods", pod))["spec"]["volumes"]
    bound = wait_bound(site, namespace, volume["persistentVolumeClaim"]["claimName"])
    assert bound["spec"]["storageClassName"] == "missing"
    site.until(lambda: is_scheduled(site, namespace, pod), "the pod to be scheduled")
    end(site, namespace, pod)


@contextmanager
def without_binding(site: Site) -> Iterator[None]:
    """Stop the program that binds claims to volumes, and start it again afterwards."""
    site.cluster.plane.stop_controller_manager()
    try:
        yield
    finally:
        site.cluster.plane.resume_controller_manager()


def test_a_claim_that_is_never_bound_is_reported_on_the_pod_and_its_owner(
    site: Site, model: str, namespace: str
) -> None:
    sets = f"/apis/apps/v1/namespaces/{namespace}/replicasets"
    template = {"metadata": {"labels": {"app": "x"}}, "spec": plain_pod("any")["spec"]}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "x"}}, "template": template}
    owner = site.api.create(sets, {"metadata": {"name": "web"}, "spec": spec})["metadata"]
    pod = base_model_pod("web-0", model)
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner["uid"], "controller": True}
    pod["metadata"]["ownerReferences"] = [reference]
    with without_binding(site):
        site.api.create(path(namespace, "pods"), pod)
        for name in ("web-0", "web"):
            site.until(lambda n=name: "VolumeNotBound" in reasons(site, namespace, n), f"the Event on {name}")  # type: ignore[misc]
        assert f"kubectl describe pvc {model} -n {namespace}" in reasons(site, namespace, "web")["VolumeNotBound"]
    wait_bound(site, namespace, model)
    end(site, namespace, "web-0")


def test_a_tenant_s_claim_of_the_same_name_is_not_touched(site: Site, model: str, namespace: str) -> None:
    own = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1"}}, "storageClassName": "none"}
    before = site.api.create(path(namespace, _CLAIMS), {"metadata": {"name": model}, "spec": own})
    site.until(lambda: site.api.answers(path(namespace, _CLAIMS, model)), "the claim")
    claim, pod = model, ""
    while claim == model:  # a replica learns of the claim a moment later
        if pod:
            site.until(lambda p=pod: "NameConflict" in reasons(site, namespace, p), "the conflict")  # type: ignore[misc]
            end(site, namespace, pod)
        pod = run(site, namespace, model)
        claim = claim_of(site, namespace, pod)
    wait_bound(site, namespace, claim)
    after = site.api.get(path(namespace, _CLAIMS, model))
    assert (after["metadata"]["uid"], after["spec"].get("volumeName")) == (before["metadata"]["uid"], None)
    end(site, namespace, pod)


def test_a_tenant_s_claim_that_names_our_volume_is_never_bound(site: Site, model: str, namespace: str) -> None:
    other = new_namespace(site)
    volume = f"{model}-{namespace}"
    wanted = {"accessModes": ["ReadOnlyMany"], "resources": {"requests": {"storage": "1"}}, "storageClassName": ""}
    for where in (namespace, other):  # before the volume exists
        thief = {"metadata": {"name": "thief"}, "spec": wanted | {"volumeName": volume}}
        site.api.create(path(where, _CLAIMS), thief)
    pod = run(site, namespace, model)
    assert wait_bound(site, namespace, model)["spec"]["volumeName"] == volume
    site.until(lambda: is_scheduled(site, namespace, pod), "the pod to be scheduled")
    for where in (namespace, other):
        assert site.api.get(path(where, _CLAIMS, "thief"))["status"]["phase"] == "Pending"
        site.api.delete(path(where, _CLAIMS, "thief"))
    end(site, namespace, pod)


def test_a_tenant_s_volume_of_the_same_name_is_never_adopted(site: Site, model: str, namespace: str) -> None:
    theirs = {
        "metadata": {"name": f"{model}-{namespace}", "labels": {"larder.dev/volume": "true"}},
        "spec": {
            "capacity": {"storage": "1"},
            "accessModes": ["ReadOnlyMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": "/srv/theirs"},
            "claimRef": {"namespace": namespace, "name": model},
        },
    }
    site.api.create(_VOLUMES, theirs)
    pod = run(site, namespace, model)
    volume = wait_bound(site, namespace, model)["spec"]["volumeName"]
    assert volume.startswith(f"{model}-{namespace}-")
    assert site.api.get(f"{_VOLUMES}/{volume}")["spec"]["mountOptions"] == ["ro"]
    end(site, namespace, pod)
    site.until(lambda: len(volumes_for(site, namespace)) == 1, "ours to be gone")
    assert site.api.get(f"{_VOLUMES}/{model}-{namespace}")["spec"]["hostPath"]["path"] == "/srv/theirs"
    site.api.delete(f"{_VOLUMES}/{model}-{namespace}")


def test_a_pod_that_names_another_team_s_model_by_annotation_gets_no_volume(site: Site, namespace: str) -> None:
    pod = site.name("forged")
    body = plain_pod(pod)
    body["spec"]["volumes"] = [{"name": "m", "persistentVolumeClaim": {"claimName": "secret"}}]
    site.api.create(path(namespace, "pods"), body)
    forged = {
        "labels": {"model.larder.dev/any": "true"},
        "annotations": {"larder.dev/claims": "secret=team-b_secret@0123"},
    }
    site.api.patch(path(namespace, "pods", pod), {"metadata": forged})
    site.until(lambda: "ModelNotAllowed" in reasons(site, namespace, pod), "the refusal")
    assert site.api.get(path(namespace, _CLAIMS))["items"] == []
    assert volumes_for(site, namespace) == []
    end(site, namespace, pod)


def test_a_namespace_deleted_while_it_uses_a_model_leaves_no_volume(site: Site, model: str, namespace: str) -> None:
    run(site, namespace, model)
    wait_bound(site, namespace, model)
    site.api.delete(f"/api/v1/namespaces/{namespace}")
    for pod in site.api.get(path(namespace, "pods"))["items"]:
        end(site, namespace, pod["metadata"]["name"])  # there is no kubelet to do it
    site.until(lambda: not site.api.answers(f"/api/v1/namespaces/{namespace}"), "the namespace to be gone")
    site.until(lambda: not volumes_for(site, namespace), "its volume to be gone")


def test_a_killed_controller_creates_each_volume_and_claim_once(site: Site, model: str) -> None:
    namespaces = [new_namespace(site) for _ in range(25)]
    pods = {namespace: run(site, namespace, model) for namespace in namespaces}
    site.until(lambda: any(volumes_for(site, n) for n in namespaces), "the first volume")
    killed = site.leader()
    killed.process.kill()
    killed.start()
    site.cluster.aim_webhooks(site.cluster.controllers[0])
    for namespace in namespaces:
        wait_bound(site, namespace, model)
        assert len(volumes_for(site, namespace)) == 1
        assert len(site.api.get(path(namespace, _CLAIMS))["items"]) == 1
    for namespace, pod in pods.items():
        end(site, namespace, pod)
    site.until(lambda: not any(volumes_for(site, n) for n in namespaces), "all volumes to be gone")


def test_a_controller_killed_between_volume_and_claim_continues_with_the_same_volume(
    site: Site, model: str, namespace: str
) -> None:
    quota = forbid_claims(site, namespace)  # the volume is created, its claim refused
    pod = run(site, namespace, model)
    site.until(lambda: "VolumeRefused" in reasons(site, namespace, pod), "the claim to be refused")
    (before,) = volumes_for(site, namespace)
    killed = site.leader()
    killed.process.kill()
    site.api.delete(quota)
    killed.start()
    site.cluster.aim_webhooks(site.cluster.controllers[0])
    wait_bound(site, namespace, model)
    (after,) = volumes_for(site, namespace)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    end(site, namespace, pod)


def test_caches_whose_shortened_names_collide_have_separate_files_and_volumes(site: Site, namespace: str) -> None:
    stem = site.name("m").ljust(243, "x")  # with the namespace longer than a name may be
    names = [site.base_model(name=f"{stem}{end}", nodeSelector={"gpu": "yes"}) for end in ("-a", "-b")]
    for name in names:
        site.wait_ready("ClusterBaseModel", name)
    pods = [run(site, namespace, name) for name in names]
    for name, pod in zip(names, pods, strict=True):
        assert claim_of(site, namespace, pod) == name
        wait_bound(site, namespace, name)
        site.until(lambda p=pod: is_scheduled(site, namespace, p), "the pod to be scheduled")  # type: ignore[misc]
    made = {v["spec"]["claimRef"]["name"]: v for v in volumes_for(site, namespace)}
    assert made.keys() == set(names)
    assert (
        len({v["metadata"]["name"] for v in made.values()})
        == len({v["spec"]["local"]["path"] for v in made.values()})
        == 2
    )
    for pod in pods:
        end(site, namespace, pod)


def test_two_claims_with_colliding_volume_names_get_separate_volumes(site: Site) -> None:
    short = new_namespace(site)
    longer = f"b-{short}"
    site.api.create("/api/v1/namespaces", {"metadata": {"name": longer}})
    site.until(lambda: site.api.answers(f"/api/v1/namespaces/{longer}/serviceaccounts/default"), "its account")
    name = site.name("m")
    models = {longer: name, short: f"{name}-b"}  # both volumes would be <name>-b-<short>
    pods = {}
    for namespace, model in models.items():
        site.wait_ready("ClusterBaseModel", site.base_model(name=model, nodeSelector={"gpu": "yes"}))
        pods[namespace] = run(site, namespace, model)
        wait_bound(site, namespace, model)
    first, second = ({v["metadata"]["name"] for v in volumes_for(site, n)} for n in models)
    assert first == {f"{name}-b-{short}"}
    assert len(second) == 1
    assert not first & second
    for namespace in models:
        end(site, namespace, pods[namespace])


def test_a_tenant_s_volume_with_our_labels_is_never_treated_as_ours(site: Site, model: str, namespace: str) -> None:
    elsewhere = new_namespace(site)
    other = run(site, elsewhere, model)
    site.until(lambda: len(volumes_for(site, elsewhere)) == 1, "a volume of ours")
    (ours,) = volumes_for(site, elsewhere)
    forged = {"metadata": {"name": site.name("forged")} | {k: ours["metadata"][k] for k in ("labels", "annotations")}}
    spec = {k: ours["spec"][k] for k in ("capacity", "accessModes", "mountOptions", "nodeAffinity")}
    theirs = {"local": {"path": "/srv/theirs"}, "claimRef": {"namespace": namespace, "name": model}}
    site.api.create(_VOLUMES, forged | {"spec": spec | theirs | {"persistentVolumeReclaimPolicy": "Retain"}})
    pod = run(site, namespace, model)
    bound = wait_bound(site, namespace, claim_of(site, namespace, pod))["spec"]["volumeName"]
    assert site.api.get(f"{_VOLUMES}/{bound}")["spec"]["local"]["path"] == ours["spec"]["local"]["path"]
    assert site.api.get(f"{_VOLUMES}/{forged['metadata']['name']}")["spec"]["local"]["path"] == "/srv/theirs"
    end(site, namespace, pod)
    end(site, elsewhere, other)
    site.api.delete(f"{_VOLUMES}/{forged['metadata']['name']}")
