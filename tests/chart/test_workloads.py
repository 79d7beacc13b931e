"""Good practice for the pods of the chart: with the defaults, with every option, and with every optional feature."""

import re
from collections.abc import Iterator

import pytest

from agent.reconciler.startup_taint import STARTUP_TAINTS
from shared.json_object import Json
from tests.chart.conftest import Render
from tests.chart.everything import EVERYTHING
from tests.chart.objects import only, pod_specs

EVERYWHERE = {"commonLabels": {"team": "models"}, "certificates": {"provider": "cert-manager"}, **EVERYTHING}
_OPTIONAL = ("dra", "inferenceServices", "models", "scheduler", "trainingJobs", "volumeClaimTemplates")
FEATURES = {name: {"enabled": True} for name in _OPTIONAL}
PROGRAMS = {"larder-controller", "larder-agent"}
OPTIONAL_PROGRAMS = {"larder-dra", "larder-scheduler"}  # all other pods run once and end
HOST_PATHS = {
    ("larder-agent", "/var/lib/larder"),
    ("larder-dra", "/var/lib/larder"),
    ("larder-dra", "/var/lib/kubelet/plugins/model.larder.dev"),
    ("larder-dra", "/var/lib/kubelet/plugins_registry"),
    ("larder-dra", "/var/run/cdi"),
}
_UNITS = {"": 1, "m": 1e-3, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
_RECOMMENDED = {f"app.kubernetes.io/{name}" for name in ("name", "instance", "version", "part-of", "managed-by")}
_WITHOUT_HELM = re.compile(r"larder-controller|larder-agent(-nodes|-modelnodes)?")  # the rig installs these as they are


@pytest.fixture(params=[{}, EVERYWHERE, FEATURES], ids=["defaults", "everything", "features"])
def rendered(request: pytest.FixtureRequest, render: Render) -> list[Json]:
    """The chart's objects."""
    return render(request.param)


def _containers(rendered: list[Json]) -> Iterator[tuple[str, Json]]:
    for name, spec in pod_specs(rendered).items():
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            yield f"{name}/{container['name']}", container


def _amount(quantity: str) -> float:
    found = re.fullmatch(r"(\d+)([A-Za-z]*)", quantity)
    assert found
    return int(found[1]) * _UNITS[found[2]]


def test_pods_are_restricted_except_for_the_driver_and_the_container_that_needs_chown(
    rendered: list[Json],
) -> None:
    for name, spec in pod_specs(rendered).items():
        pod = spec["securityContext"]
        expected = (
            (False, 0, 0) if name == "larder-dra" else (True, 65532, 65532)
        )  # kubelet's directories are owned by root
        assert (pod["runAsNonRoot"], pod["runAsUser"], pod["runAsGroup"]) == expected, name
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}
        assert not {"hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"} & spec.keys()
    for name, container in _containers(rendered):
        own = container["securityContext"]
        assert own["readOnlyRootFilesystem"] is True, name
        assert own["allowPrivilegeEscalation"] is False
        assert own["capabilities"]["drop"] == ["ALL"]
        is_init = container["name"] == "own-store-root"
        assert own["capabilities"].get("add", []) == (["CHOWN"] if is_init else [])
        assert own.get("runAsNonRoot", True) is not is_init
        assert not {"privileged", "procMount", "seccompProfile"} & own.keys()
        assert not any("hostPort" in port for port in container.get("ports", []))


def test_only_node_programs_mount_host_directories_and_only_their_own(rendered: list[Json]) -> None:
    paths = {
        (name, volume["hostPath"]["path"])
        for name, spec in pod_specs(rendered).items()
        for volume in spec.get("volumes", [])
        if "hostPath" in volume
    }
    assert paths == {(name, path) for name, path in HOST_PATHS if name in pod_specs(rendered)}


def test_resources_are_requested_and_limited_except_for_a_cpu_limit(rendered: list[Json]) -> None:
    for name, container in _containers(rendered):
        requests, limits = container["resources"]["requests"], container["resources"]["limits"]
        assert requests.keys() == {"cpu", "memory", "ephemeral-storage"}, name
        assert limits.keys() == {"memory", "ephemeral-storage"}, name
        assert all(_amount(requests[key]) <= _amount(limits[key]) for key in limits), name
    for name, spec in pod_specs(rendered).items():
        for volume in spec.get("volumes", []):
            assert "sizeLimit" in volume.get("emptyDir", {"sizeLimit": ""}), name


def test_programs_have_startup_liveness_and_separate_readiness_probes(rendered: list[Json]) -> None:
    for name, spec in pod_specs(rendered).items():
        (container,) = spec["containers"]
        probes = {key for key in container if key.endswith("Probe")}
        startup = {"startupProbe"} if name in PROGRAMS else set()
        is_program = name in PROGRAMS | OPTIONAL_PROGRAMS
        assert probes == ({"livenessProbe", "readinessProbe"} | startup if is_program else set()), name
        if startup:
            ports = {port["name"] for port in container["ports"]}
            assert {container[key]["httpGet"]["port"] for key in probes} <= ports
            assert container["livenessProbe"]["httpGet"]["path"] != container["readinessProbe"]["httpGet"]["path"]
            assert container["livenessProbe"]["periodSeconds"] * container["livenessProbe"]["failureThreshold"] >= 30


def test_pods_have_their_own_account_and_a_token_only_if_they_need_it(rendered: list[Json]) -> None:
    accounts = {o["metadata"]["name"] for o in rendered if o["kind"] == "ServiceAccount"}
    for name, spec in pod_specs(rendered).items():
        assert spec["serviceAccountName"] == name
        assert name in accounts
        assert spec["automountServiceAccountToken"] is (
            name not in PROGRAMS | OPTIONAL_PROGRAMS
        )  # they mount a token that expires after an hour
        assert spec["enableServiceLinks"] is False
    for name in accounts:
        assert only(rendered, "ServiceAccount", name)["automountServiceAccountToken"] is False


def test_images_are_pinned_to_a_version_or_digest(rendered: list[Json]) -> None:
    for name, container in _containers(rendered):
        assert re.search(r"@sha256:[0-9a-f]{64}$|:v?\d+\.\d+\.\d+[^:]*$", container["image"]), name
        assert container["imagePullPolicy"] in ("IfNotPresent", "Always"), name


def test_the_grace_period_covers_the_time_that_programs_need_to_stop(rendered: list[Json]) -> None:
    for name in PROGRAMS:
        spec = pod_specs(rendered)[name]
        (container,) = spec["containers"]
        before_s = container.get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
        own_s = [int(e["value"]) for e in container["env"] if e["name"] == "LARDER_STOP_SECONDS"]
        assert len(own_s) == (name == "larder-agent"), "the controller needs less than 10 s, and has no setting"
        assert spec["terminationGracePeriodSeconds"] >= before_s + sum(own_s) + 10, name


def test_programs_have_priority_over_pods_that_wait_for_them(rendered: list[Json]) -> None:
    classes = {name: pod_specs(rendered)[name]["priorityClassName"] for name in PROGRAMS}
    assert classes == {"larder-controller": "larder", "larder-agent": "system-node-critical"}
    (scope,) = only(rendered, "ResourceQuota", "larder-system-priority")["spec"]["scopeSelector"]["matchExpressions"]
    assert scope == {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
    assert only(rendered, "PriorityClass", "larder")["globalDefault"] is False


def test_agents_always_tolerate_the_startup_taints_that_they_remove(render: Render) -> None:
    policies = render({"agent": {"tolerations": []}})
    tolerated = pod_specs(policies)["larder-agent"]["tolerations"]
    assert {t["key"] for t in tolerated} == STARTUP_TAINTS
    policy = only(policies, "ValidatingAdmissionPolicy", "larder-agent-nodes")
    (foreign,) = [v["expression"] for v in policy["spec"]["variables"] if v["name"] == "foreignTaints"]
    assert all(f"'{key}'" in foreign for key in STARTUP_TAINTS)


def test_replicas_of_the_controller_are_spread_and_not_evicted_together(rendered: list[Json]) -> None:
    deployment = only(rendered, "Deployment", "larder-controller")["spec"]
    assert deployment["replicas"] >= 2
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    budget = only(rendered, "PodDisruptionBudget", "larder-controller")["spec"]
    assert budget["selector"] == deployment["selector"]
    assert budget["maxUnavailable"] < deployment["replicas"]
    spread = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert {s["topologyKey"] for s in spread} == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    assert all(s["labelSelector"] == deployment["selector"] for s in spread)


def test_services_and_workloads_select_pods_by_immutable_labels(rendered: list[Json]) -> None:
    pods = {
        o["metadata"]["name"]: o["spec"]["template"]
        for o in rendered
        if o["kind"] in ("Deployment", "DaemonSet")
    }  # fmt: skip
    for o in rendered:
        if o["kind"] in ("Deployment", "DaemonSet"):
            selector = o["spec"]["selector"]["matchLabels"]
            assert selector.items() <= o["spec"]["template"]["metadata"]["labels"].items()
            assert selector.keys() == {"app.kubernetes.io/name", "app.kubernetes.io/component"}
        if o["kind"] == "Service":
            assert o["spec"]["selector"].keys() == {"app.kubernetes.io/name", "app.kubernetes.io/component"}
            chosen = [
                t for t in pods.values() if o["spec"]["selector"].items() <= t["metadata"]["labels"].items()
            ]  # fmt: skip
            (pod,) = chosen
            open_ports = {port["name"] for c in pod["spec"]["containers"] for port in c["ports"]}
            assert {port["targetPort"] for port in o["spec"]["ports"]} <= open_ports


def test_common_labels_replace_none_that_selectors_need(render: Render) -> None:
    added = {"app.kubernetes.io/component": "ml", "app.kubernetes.io/part-of": "ml", "helm.sh/chart": "ml", "team": "a"}
    rendered = render({"commonLabels": added, **EVERYTHING})
    for workload in (o for o in rendered if o["kind"] in {"Deployment", "DaemonSet"}):
        labels = workload["spec"]["template"]["metadata"]["labels"]
        assert labels.items() >= workload["spec"]["selector"]["matchLabels"].items()
        assert (labels["app.kubernetes.io/part-of"], labels["team"]) == ("larder", "a")


def test_objects_have_the_recommended_labels(rendered: list[Json]) -> None:
    looked_at = set[str]()
    for o in rendered:
        name = o["metadata"]["name"]
        by_helm = not (_WITHOUT_HELM.fullmatch(name) and o["apiVersion"].startswith(("v1", "rbac", "admission")))
        if by_helm and not o["kind"].endswith("WebhookConfiguration"):
            looked_at.add(o["kind"])
            assert o["metadata"].get("labels", {}).keys() >= _RECOMMENDED, (o["kind"], name)
    assert looked_at >= {"DaemonSet", "Deployment", "NetworkPolicy", "Secret", "Service"}


def test_no_role_has_wildcards_or_escalation_verbs(rendered: list[Json]) -> None:
    for o in rendered:
        for rule in o.get("rules") or []:
            if o["kind"] in ("Role", "ClusterRole"):
                resources = [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
                assert "*" not in resources, o["metadata"]["name"]
                assert not {"escalate", "bind", "impersonate", "deletecollection"} & set(rule["verbs"])
