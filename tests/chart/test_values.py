"""Values for pods, service accounts and ports of both programs."""

import pytest

from shared.json_object import Json
from tests.chart.conftest import NAMESPACE, Render
from tests.chart.objects import environment, kinds, only, pod_specs

PROGRAMS = pytest.mark.parametrize("program", ["controller", "agent"])


def _template(rendered: list[Json], program: str) -> Json:
    kind = {"controller": "Deployment", "agent": "DaemonSet"}[program]
    found: Json = only(rendered, kind, f"larder-{program}")["spec"]["template"]
    return found


@PROGRAMS
def test_labels_arguments_volumes_and_dns_settings_can_be_added(program: str, render: Render) -> None:
    volume, mount = {"name": "extra", "emptyDir": {}}, {"name": "extra", "mountPath": "/extra"}
    own = {
        "podLabels": {"team": "models", "app.kubernetes.io/component": "other"},
        "extraArgs": ["--log-level=debug"],
        "extraVolumes": [volume],
        "extraVolumeMounts": [mount],
        "dnsPolicy": "None",
        "dnsConfig": {"nameservers": ["10.0.0.10"]},
    }
    template = _template(render({program: own}), program)
    spec, (container,) = template["spec"], template["spec"]["containers"]
    assert template["metadata"]["labels"]["team"] == "models"
    assert template["metadata"]["labels"]["app.kubernetes.io/component"] == program, "the selector labels are kept"
    assert container["args"] == ["--log-level=debug"]
    assert volume in spec["volumes"]
    assert mount in container["volumeMounts"]
    assert (spec["dnsPolicy"], spec["dnsConfig"]) == ("None", {"nameservers": ["10.0.0.10"]})
    plain = _template(render(), program)["spec"]
    assert not {"dnsPolicy", "dnsConfig", "hostNetwork"} & plain.keys()
    assert "args" not in plain["containers"][0]


@PROGRAMS
def test_the_log_level_is_passed_to_both_programs(program: str, render: Render) -> None:
    for values, level in (({}, "info"), ({"logLevel": "debug"}, "debug")):
        (container,) = _template(render(values), program)["spec"]["containers"]
        assert environment(container)["LARDER_LOG_LEVEL"] == level


def test_the_mount_and_placement_of_models_are_passed_to_the_controller(render: Render) -> None:
    chosen = {"mount": "hostPath", "placement": "preferred"}
    for values, found in (({}, ("claim", "required")), ({"pods": chosen}, ("hostPath", "preferred"))):
        (container,) = _template(render(values), "controller")["spec"]["containers"]
        variables = environment(container)
        assert (variables["LARDER_MOUNT"], variables["LARDER_PLACEMENT"]) == found


@PROGRAMS
def test_a_renamed_service_account_gets_all_rights_and_policies(program: str, render: Render) -> None:
    account = {"name": "mine", "annotations": {"eks.amazonaws.com/role-arn": "arn"}}
    rendered = render({program: {"serviceAccount": account}, "credentialNamespaces": ["team-a"]})
    made = only(rendered, "ServiceAccount", "mine")
    assert made["metadata"]["annotations"] == account["annotations"]
    assert _template(rendered, program)["spec"]["serviceAccountName"] == "mine"
    former = f"system:serviceaccount:{NAMESPACE}:larder-{program}"
    subject = {"kind": "ServiceAccount", "name": f"larder-{program}", "namespace": NAMESPACE}
    for found in rendered:
        assert former not in str(found), (found["kind"], found["metadata"]["name"])
        assert subject not in found.get("subjects", []), (found["kind"], found["metadata"]["name"])
    assert f"system:serviceaccount:{NAMESPACE}:mine" in str(rendered)
    controller = environment(_template(rendered, "controller")["spec"]["containers"][0])
    assert (controller["LARDER_AGENT_SERVICE_ACCOUNT"] == "mine") is (program == "agent")
    objects = render({program: {"serviceAccount": {"create": False, "name": "theirs"}}})
    assert ("ServiceAccount", "theirs") not in kinds(objects)
    assert _template(objects, program)["spec"]["serviceAccountName"] == "theirs"


@PROGRAMS
def test_tokens_expire_after_an_hour(program: str, render: Render) -> None:
    """A token that kubelet mounts by default stays valid for a year."""
    spec = pod_specs(render())[f"larder-{program}"]
    assert spec["automountServiceAccountToken"] is False
    sources = [s for v in spec["volumes"] for s in v.get("projected", {}).get("sources", [])]
    tokens = [s["serviceAccountToken"] for s in sources if "serviceAccountToken" in s]
    assert [token["expirationSeconds"] for token in tokens] == [3600] * (2 if program == "agent" else 1)


def test_the_controller_can_run_on_the_host_network(render: Render) -> None:
    rendered = render({"controller": {"hostNetwork": True, "port": 9443, "healthPort": 9080}, "ipFamily": "IPv6"})
    spec = _template(rendered, "controller")["spec"]
    (container,) = spec["containers"]
    assert (spec["hostNetwork"], spec["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert {p["name"]: p["containerPort"] for p in container["ports"]} == {"https": 9443, "health": 9080}
    variables = environment(container)
    assert (variables["LARDER_LISTEN"], variables["LARDER_LISTEN_HEALTH"]) == ("[::]:9443", "[::]:9080")
    assert variables["LARDER_ADVERTISE"] == "[$(POD_IP)]:9443"
    strategy = only(rendered, "Deployment", "larder-controller")["spec"]["strategy"]
    assert strategy == {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}, "two replicas do not fit on one node"
    (port,) = only(rendered, "Service", "larder-metrics")["spec"]["ports"]
    assert port["port"] == 9080, "a headless Service translates no port"
    (test,) = pod_specs(rendered)["larder-test"]["containers"]
    assert f"larder-metrics.{NAMESPACE}.svc:9080" in test["args"]


def test_update_strategies_and_topology_spread_can_be_set(render: Render) -> None:
    constraint = {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"}
    values = {
        "controller": {"strategy": {"type": "Recreate"}, "topologySpreadConstraints": [constraint]},
        "agent": {"updateStrategy": {"type": "OnDelete"}, "preStopSeconds": 0},
    }
    rendered = render(values)
    deployment, daemon_set = (only(rendered, *o)["spec"] for o in (("Deployment", "larder-controller"),
                                                                  ("DaemonSet", "larder-agent")))  # fmt: skip
    assert deployment["strategy"] == {"type": "Recreate"}
    assert deployment["template"]["spec"]["topologySpreadConstraints"] == [constraint]
    assert daemon_set["updateStrategy"] == {"type": "OnDelete"}
    assert "lifecycle" not in daemon_set["template"]["spec"]["containers"][0]
    (agent,) = pod_specs(render())["larder-agent"]["containers"]
    assert agent["lifecycle"] == {"preStop": {"sleep": {"seconds": 2}}}


def test_the_model_cache_can_be_switched_off_with_one_value(render: Render) -> None:
    for values, reported in (({}, "True"), ({"modelCache": {"enabled": False}}, "False")):
        (container,) = _template(render(values), "controller")["spec"]["containers"]
        assert environment(container)["LARDER_MODEL_CACHE_ENABLED"] == reported.lower()


@pytest.mark.parametrize(
    ("volumes", "rate", "burst"),
    [
        ({}, "5", "10"),
        ({"pvcCreateQPS": 20, "pvcCreateBurst": 40}, "20", "40"),
        ({"qps": 0.5, "burst": 3}, "0.5", "3"),  # the former names
    ],
)
def test_the_claim_rate_is_passed_to_the_controller(volumes: Json, rate: str, burst: str, render: Render) -> None:
    template = _template(render({"controller": {"volumes": volumes}}), "controller")
    variables = {v["name"]: v.get("value") for v in template["spec"]["containers"][0]["env"]}
    assert (variables["LARDER_VOLUMES_QPS"], variables["LARDER_VOLUMES_BURST"]) == (rate, burst)
