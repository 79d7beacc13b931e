"""What the chart larder renders, without a cluster."""

import json
import re
from base64 import b64decode
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.x509 import load_pem_x509_certificate
from pydantic_settings import BaseSettings

from agent.settings import AgentSettings
from controller.models.finalizers import OWN_FINALIZER
from controller.settings import ControllerSettings
from rig.errors import HelmFailed
from rig.helm import LARDER, LARDER_CRDS, Helm
from rig.larder.webhooks import (
    AtService,
    WebhookSettings,
    injector_configuration,
    mutating_configuration,
    validating_configuration,
)
from rig.pki import Authority
from shared.json_object import Json
from tests.chart.conftest import NAMESPACE, Render
from tests.chart.everything import EVERYTHING, KEY
from tests.chart.objects import environment, kinds, only, pod_specs


@pytest.mark.parametrize("chart", [LARDER, LARDER_CRDS])
def test_helm_lint_reports_nothing(chart: Any, helm: Helm) -> None:
    helm.run("lint", "--strict", str(chart), "--namespace", NAMESPACE)


@pytest.mark.parametrize(("root", "namespace"), [("/var/lib/larder", NAMESPACE), ("/mnt/nvme/models", "kube-system")])
def test_the_webhooks_match_those_that_the_controller_expects(root: str, namespace: str, render: Render) -> None:
    pem = Authority().ca_pem
    certificates = {"provider": "existing", "secretName": "mine", "caBundle": pem.decode()}
    rendered = render({"storeRoot": root, "certificates": certificates, "admission": {"pathKeys": [KEY]}}, namespace)
    settings = WebhookSettings(AtService(namespace, "larder"), pem, KEY, namespace, root)
    assert only(rendered, "MutatingWebhookConfiguration", "larder") == mutating_configuration(settings)
    assert only(rendered, "ValidatingWebhookConfiguration", "larder") == validating_configuration(settings)


def test_the_webhook_of_the_model_injector_matches_the_one_that_the_controller_expects(render: Render) -> None:
    pem = Authority().ca_pem
    certificates = {"provider": "existing", "secretName": "mine", "caBundle": pem.decode()}
    values = {"models": {"enabled": True}, "certificates": certificates, "admission": {"pathKeys": [KEY]}}
    settings = WebhookSettings(AtService(NAMESPACE, "larder"), pem, KEY, NAMESPACE, "/var/lib/larder")
    rendered = render(values, NAMESPACE)
    assert only(rendered, "MutatingWebhookConfiguration", "model-injector") == injector_configuration(settings)
    assert "model-injector" not in {found["metadata"]["name"] for found in render({"admission": {"pathKeys": [KEY]}})}


def test_the_model_injector_may_only_read_storage_classes_by_name(render: Render) -> None:
    role = only(render({"models": {"enabled": True}}), "ClusterRole", "larder-model-injector")
    assert {(*rule["resources"], *rule["verbs"]) for rule in role["rules"]} == {("storageclasses", "get")}
    assert "larder-model-injector" not in {found["metadata"]["name"] for found in render()}


def test_the_failure_policy_of_pods_can_be_set(render: Render) -> None:
    rendered = render({"admission": {"failurePolicy": {"pods": "Ignore"}}})
    webhooks = only(rendered, "MutatingWebhookConfiguration", "larder")["webhooks"]
    assert [w["failurePolicy"] for w in webhooks] == ["Ignore", "Ignore", "Fail"]


def test_the_agent_mounts_one_host_directory_and_only_the_ca_of_the_secret(render: Render) -> None:
    spec = pod_specs(render({"storeRoot": "/mnt/models"}))["larder-agent"]
    volumes = {v["name"]: v for v in spec["volumes"]}
    assert [v["hostPath"] for v in volumes.values() if "hostPath" in v] == [
        {"path": "/mnt/models", "type": "DirectoryOrCreate"}
    ]
    assert [i["key"] for i in volumes["api-ca"]["secret"]["items"]] == ["ca.crt"]
    assert spec["automountServiceAccountToken"] is False
    (init,) = spec["initContainers"]
    assert [m["name"] for m in init["volumeMounts"]] == ["store"]
    (token,) = volumes["api-token"]["projected"]["sources"]
    assert token["serviceAccountToken"] == {"path": "token", "audience": "larder", "expirationSeconds": 3600}


def test_every_variable_of_both_programs_is_a_known_setting(render: Render, monkeypatch: pytest.MonkeyPatch) -> None:
    specs = pod_specs(render(EVERYTHING))
    programs: list[tuple[str, type[BaseSettings]]] = [("controller", ControllerSettings), ("agent", AgentSettings)]
    for name, settings in programs:
        (container,) = specs[f"larder-{name}"]["containers"]
        variables = environment(container)
        known = {f"LARDER_{field.upper()}" for field in settings.model_fields}
        known |= {"LARDER_ALLOW_ADDRESSES", "LARDER_S3_ADDRESSING"}
        assert {key for key in variables if key.startswith("LARDER_")} <= known
        with monkeypatch.context() as patch:
            for key, value in variables.items():
                patch.setenv(key, value)
            settings()
        assert variables["LARDER_ALLOW_ADDRESSES"] == "10.1.0.0/16,fd00::/8"
        assert variables["HF_ENDPOINT"] == "https://hub.example.com"
        assert variables["LARDER_S3_ADDRESSING"] == "virtual"
        mounted = {m["mountPath"] for m in container["volumeMounts"]}
        assert variables["SSL_CERT_FILE"].rpartition("/")[0] in mounted


def test_agent_and_controller_use_matching_addresses_and_labels(render: Render) -> None:
    rendered = render()
    specs = pod_specs(rendered)
    agent = environment(specs["larder-agent"]["containers"][0])
    controller = environment(specs["larder-controller"]["containers"][0])
    service = only(rendered, "Service", "larder")
    assert agent["LARDER_API_URL"] == f"https://larder.{NAMESPACE}.svc"
    assert controller["LARDER_TLS_NAME"] == f"larder.{NAMESPACE}.svc"
    assert service["spec"]["ports"] == [{"name": "https", "port": 443, "targetPort": "https"}]
    labels = only(rendered, "Deployment", "larder-controller")["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    labels = only(rendered, "DaemonSet", "larder-agent")["spec"]["template"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/component"] == "agent"  # the controller finds the pods by these labels


def test_listen_addresses_are_bracketed_for_ipv6(render: Render) -> None:
    specs = pod_specs(render({"ipFamily": "IPv6"}))
    assert environment(specs["larder-controller"]["containers"][0])["LARDER_ADVERTISE"] == "[$(POD_IP)]:8443"
    assert environment(specs["larder-agent"]["containers"][0])["LARDER_LISTEN"] == "[::]:8081"


def test_a_quantity_may_be_a_whole_number(render: Render) -> None:
    (container,) = pod_specs(render({"controller": {"defaultStorageLimit": 100 * 2**30}}))["larder-controller"][
        "containers"
    ]
    assert environment(container)["LARDER_DEFAULT_STORAGE_LIMIT"] == "107374182400"


def test_secrets_are_readable_only_in_the_named_namespaces(render: Render) -> None:
    rendered = render(EVERYTHING)
    with_secrets = {
        (o["kind"], o["metadata"].get("namespace"))
        for o in rendered
        for rule in o.get("rules") or []
        if "secrets" in rule.get("resources", []) or "*" in rule.get("resources", [])
    }
    assert with_secrets == {("Role", NAMESPACE), ("Role", "team-a"), ("Role", "team-b")}
    assert not any(name == "larder-credentials" for _, name in kinds(render()))


def test_optional_objects_can_be_switched_on_and_off(render: Render) -> None:
    optional = {"ServiceMonitor", "PodMonitor", "PrometheusRule"}
    assert not optional & {o["kind"] for o in render()}
    assert optional <= {o["kind"] for o in render(EVERYTHING)}
    off = {
        "admission": {"protectStoreRoot": False},
        "networkPolicy": {"enabled": False},
        "flowControl": {"enabled": False},
        "priorityClass": {"create": False},
        "podDisruptionBudget": {"enabled": False},
        "agent": {"ownStoreRoot": False, "priorityClassName": ""},
        "uninstall": {"releaseModels": False},
    }
    left = {o["kind"] for o in render(off)}
    assert not left & {"NetworkPolicy", "FlowSchema", "PriorityClass", "ResourceQuota", "PodDisruptionBudget", "Job"}
    assert not any(name == "larder-uninstall" for _, name in kinds(render(off)))
    assert "initContainers" not in pod_specs(render(off))["larder-agent"]
    assert "priorityClassName" not in pod_specs(render(off))["larder-agent"]


def test_image_references_use_the_tag_or_the_digest_of_the_values(render: Render) -> None:
    digest = "sha256:" + "0" * 64
    values = {
        "image": {"registry": "registry.example.com/larder/", "tag": "9"},
        "agent": {"image": {"digest": digest}},
    }
    specs = pod_specs(render(values))
    assert specs["larder-controller"]["containers"][0]["image"] == "registry.example.com/larder/larder-controller:9"
    assert specs["larder-agent"]["initContainers"][0]["image"] == f"registry.example.com/larder/larder-agent@{digest}"
    values["controller"] = {"image": {"tag": "8"}}
    (container,) = pod_specs(render(values))["larder-test"]["containers"]
    assert container["image"].endswith("/larder-controller:8")
    (container,) = pod_specs(render())["larder-test"]["containers"]
    assert re.fullmatch(r"larder-controller:\d+\.\d+\.\d+", container["image"])


def test_cert_manager_makes_the_certificate_and_fills_in_the_ca(render: Render) -> None:
    keys = {"pathKeys": [KEY]}
    rendered = render({"certificates": {"provider": "cert-manager"}, "admission": keys})
    assert ("Secret", "larder-tls") not in kinds(rendered)
    certificate = only(rendered, "Certificate", "larder-tls")["spec"]
    assert certificate["issuerRef"]["name"] == "larder-ca"
    assert f"larder.{NAMESPACE}.svc" in certificate["dnsNames"]
    # with another key, the API server would refuse the certificate that replicas serve for another minute
    assert only(rendered, "Certificate", "larder-ca")["spec"]["privateKey"]["rotationPolicy"] == "Never"
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        configuration = only(rendered, kind, "larder")
        wanted = {"cert-manager.io/inject-ca-from": f"{NAMESPACE}/larder-tls"}
        assert configuration["metadata"]["annotations"] == wanted
        assert all("caBundle" not in w["clientConfig"] for w in configuration["webhooks"])
    issuer = {"name": "company", "kind": "ClusterIssuer"}
    rendered = render({"certificates": {"provider": "cert-manager", "issuerRef": issuer}, "admission": keys})
    assert only(rendered, "Certificate", "larder-tls")["spec"]["issuerRef"] == issuer
    assert not any(kind == "Issuer" for kind, _ in kinds(rendered))


@pytest.mark.parametrize(
    ("values", "phrase"),
    [
        ({"replicas": 3}, "replicas"),
        ({"controller": {"replicas": 0}}, "replicas"),
        ({"storeRoot": "var/lib"}, "storeRoot"),
        ({"storeRoot": "/"}, "storeRoot"),
        ({"storeRoot": "/var/lib/../etc"}, "storeRoot"),
        ({"storeRoot": "/var/lib/larder/"}, "storeRoot"),
        ({"storeRoot": "/var/lib/a'b"}, "storeRoot"),
        ({"storeRoot": "/var/lib"}, "storeRoot"),
        ({"storeRoot": "/etc/larder"}, "storeRoot"),
        ({"storeRoot": "/var/lib/kubelet/models"}, "storeRoot"),
        ({"controller": {"defaultStorageLimit": "100GB"}}, "defaultStorageLimit"),
        ({"agent": {"maxUnavailable": "0%"}}, "maxUnavailable"),
        ({"agent": {"image": {"digest": "latest"}}}, "digest"),
        ({"sources": {"hfEndpoint": "hub.example.com"}}, "hfEndpoint"),
        ({"sources": {"hfEndpoint": "https://user:secret@hub.example.com"}}, "hfEndpoint"),
        ({"sources": {"allowAddresses": "10.0.0.0/8"}}, "allowAddresses"),
        ({"credentialNamespaces": ["*"]}, "credentialNamespaces"),
        ({"admission": {"failurePolicy": {"pods": "Maybe"}}}, "failurePolicy"),
        ({"admission": {"pathKeys": ["guess"]}}, "pathKeys"),
        ({"admission": {"pathKeys": [KEY.upper()]}}, "pathKeys"),
        ({"admission": {"pathKeys": [f"{KEY}/.."]}}, "pathKeys"),
        ({"admission": {"clientCA": "ca.crt"}}, "clientCA"),
        ({"certificates": {"provider": "vault"}}, "provider"),
        ({"certificates": {"provider": "existing"}}, "secretName"),
        ({"priorityClass": {"value": 2000000000}}, "value"),
        ({"devices": {"prefixes": []}}, "prefixes"),
        ({"devices": {"prefixes": ["cpu"]}}, "prefixes"),
        ({"devices": {"prefixes": ["kubernetes.io/"]}}, "prefixes"),
        ({"devices": {"prefixes": ["node.kubernetes.io/x"]}}, "prefixes"),
        ({"devices": {"prefixes": ["larder.dev/') || true || k.startsWith('"]}}, "prefixes"),
        ({"devices": {"intervalSeconds": 0}}, "intervalSeconds"),
    ],
)
def test_the_schema_refuses_invalid_values(values: dict[str, Any], phrase: str, helm: Helm) -> None:
    with pytest.raises(HelmFailed, match=phrase):
        helm.template(LARDER, values, NAMESPACE)


def test_the_former_name_of_a_value_is_refused_rather_than_ignored(helm: Helm) -> None:
    with pytest.raises(HelmFailed, match=r"controller\.modelCacheEnabled is now modelCache\.enabled; set that to"):
        helm.template(LARDER, {"controller": {"modelCacheEnabled": False}}, NAMESPACE)


def test_an_existing_certificate_needs_a_ca_bundle_if_helm_sees_no_cluster(helm: Helm) -> None:
    values = {"certificates": {"provider": "existing", "secretName": "mine"}, "admission": {"pathKeys": [KEY]}}
    with pytest.raises(HelmFailed, match=r"certificates\.caBundle: Secret mine .* has no ca\.crt that helm could read"):
        helm.template(LARDER, values, NAMESPACE)


@pytest.mark.parametrize("provider", ["cert-manager", "existing"])
def test_random_path_keys_are_refused_if_helm_sees_no_cluster(provider: str, helm: Helm) -> None:
    """Argo CD renders without access to the cluster; it cannot use the chart's own certificate."""
    ca = Authority().ca_pem.decode()
    values: Json = {"certificates": {"provider": provider, "secretName": "mine", "caBundle": ca}}
    with pytest.raises(HelmFailed, match=r"admission\.pathKeys: helm sees no cluster .* openssl rand -hex 24"):
        helm.template(LARDER, values, NAMESPACE)
    values["admission"] = {"pathKeys": [KEY, KEY[::-1]]}
    rendered = [helm.template(LARDER, values, NAMESPACE) for _ in range(2)]
    assert rendered[0] == rendered[1], "nothing else changes"
    assert b64decode(only(rendered[0], "Secret", "larder-admission")["data"]["keys"]).decode() == f"{KEY}\n{KEY[::-1]}"


def test_a_generated_webhook_path_is_random(helm: Helm) -> None:
    rendered = [helm.template(LARDER, {}, NAMESPACE) for _ in range(2)]
    keys = [b64decode(only(found, "Secret", "larder-admission")["data"]["keys"]).decode() for found in rendered]
    assert keys[0] != keys[1]
    for key, found in zip(keys, rendered, strict=True):
        assert re.fullmatch("[a-z0-9]{48}", key)
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            webhooks = only(found, kind, "larder")["webhooks"]
            assert all(w["clientConfig"]["service"]["path"].startswith(f"/admission/{key}/") for w in webhooks)


def test_pods_are_replaced_when_the_client_ca_changes(render: Render) -> None:
    """A running program would keep trusting the old CA."""
    templates = [
        only(render({"admission": {"clientCA": ca}}), "Deployment", "larder-controller")["spec"]["template"]
        for ca in ("", Authority().ca_pem.decode(), Authority().ca_pem.decode())
    ]
    annotations = [t["metadata"]["annotations"].get("larder.dev/client-ca") for t in templates]
    assert annotations[0] is None
    assert annotations[1] != annotations[2]


CRD_NAMES = {path.stem for path in (LARDER_CRDS / "files").glob("*.yaml")}
OWN_KINDS = {"modelnodes.larder.dev", "models.models.example.com", "trainingjobs.larder.dev"}


def _crds(helm: Helm, **values: Json) -> dict[str, Json]:
    return {o["metadata"]["name"]: o for o in helm.template(LARDER_CRDS, values, NAMESPACE)}


def test_kinds_shared_with_other_products_are_rendered_only_on_request_if_helm_sees_no_cluster(helm: Helm) -> None:
    """Argo CD renders without access to the cluster, so a definition of OME or KServe would be replaced."""
    phrase = r"helm sees no cluster .* Set groups\.\w+"
    for values in ({}, {"groups": {"ome.io": True}}, {"groups": {"ome.io": False, "serving.kserve.io": "auto"}}):
        with pytest.raises(HelmFailed, match=phrase):
            _crds(helm, **values)
    assert _crds(helm, groups={"ome.io": False, "serving.kserve.io": False}).keys() == OWN_KINDS
    assert _crds(helm, groups={"ome.io": True, "serving.kserve.io": True}).keys() == CRD_NAMES
    services = "inferenceservices.ome.io"
    chosen = _crds(helm, groups={"ome.io": True, "serving.kserve.io": False}, kinds={services: False})
    assert chosen.keys() == {*OWN_KINDS, "basemodels.ome.io", "clusterbasemodels.ome.io"}
    chosen = _crds(helm, groups={"ome.io": False, "serving.kserve.io": False}, kinds={services: True})
    assert chosen.keys() == {*OWN_KINDS, services}
    with pytest.raises(HelmFailed, match="clusterbasemodel"):
        _crds(helm, kinds={"clusterbasemodel": True})


def test_definitions_are_kept_by_helm_and_argo_cd(helm: Helm) -> None:
    for found in _crds(helm, groups={"ome.io": True, "serving.kserve.io": True}).values():
        annotations = found["metadata"]["annotations"]
        assert annotations["helm.sh/resource-policy"] == "keep"
        options = set(annotations["argocd.argoproj.io/sync-options"].split(","))
        assert options == {"Prune=false", "Delete=false", "ServerSideApply=true"}


WITHOUT_FINALIZER = {
    "inferenceservices.ome.io",
    "modelcachenodegroups.serving.kserve.io",
    "modelnodes.larder.dev",
    "models.models.example.com",
    "trainingjobs.larder.dev",
}


def test_the_uninstall_hook_knows_and_may_change_only_the_kinds_with_finalizers(render: Render) -> None:
    rendered = render()
    names = CRD_NAMES - WITHOUT_FINALIZER
    (container,) = pod_specs(rendered)["larder-uninstall"]["containers"]
    finalizers = json.loads(container["args"][-1])
    assert finalizers.keys() == names
    assert all(word in (f"{name}/finalizer", OWN_FINALIZER) for name, word in finalizers.items())
    assert f'"{OWN_FINALIZER}"' in container["args"][0]
    definitions, *models = only(rendered, "ClusterRole", "larder-uninstall")["rules"]
    assert set(definitions["resourceNames"]) == names
    assert {f"{r}.{g}" for rule in models for r in rule["resources"] for g in rule["apiGroups"]} == names
    assert {verb for rule in models for verb in rule["verbs"]} == {"get", "list", "patch"}
    for kind in ("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Job"):
        assert only(rendered, kind, "larder-uninstall")["metadata"]["annotations"]["helm.sh/hook"] == "post-delete"


def test_the_notes_ask_for_the_label_that_create_namespace_does_not_set(helm: Helm) -> None:
    arguments = ["install", "larder", str(LARDER), "--namespace", "new", "--create-namespace", "--dry-run=client"]
    assert "kubectl label namespace new pod-security.kubernetes.io/enforce=privileged" in helm.run(*arguments)


def test_certificates_of_a_hundred_years_have_a_ca_that_lives_longer(render: Render) -> None:
    rendered = render({"certificates": {"validityDays": 36500}})
    secrets = {o["metadata"]["name"]: o["data"] for o in rendered if o["kind"] == "Secret"}
    authority, signed = (
        load_pem_x509_certificate(b64decode(secrets[name][key])).not_valid_after_utc
        for name, key in (("larder-ca", "ca.crt"), ("larder-tls", "tls.crt"))
    )
    assert datetime.now(UTC) + timedelta(days=36499) < signed < authority
