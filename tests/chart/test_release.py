"""Both charts on a real API server: installation, upgrades and removal."""

import base64
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import pytest
import trustme
import yaml
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from rig.api import Api
from rig.binaries import KUBERNETES_VERSION
from rig.control_plane import ControlPlane
from rig.errors import CallRefused
from rig.helm import LARDER, LARDER_CRDS, Helm
from rig.processes import wait_until
from shared.json_object import Json
from tests.chart.conftest import NAMESPACE, VALUES, Render
from tests.chart.everything import EVERYTHING
from tests.chart.objects import KINDS, kinds, pod_specs

TLS = f"/api/v1/namespaces/{NAMESPACE}/secrets/larder-tls"
CA = f"/api/v1/namespaces/{NAMESPACE}/secrets/larder-ca"
RENEW_AFTER, OLD_CA_UNTIL = "larder.dev/renew-after", "larder.dev/old-ca-until"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/larder"
FOREIGN = ("monitoring.coreos.com", "cert-manager.io")  # foreign kinds that this cluster does not have


def _collection(api: Api, found: Json) -> str:
    """Return the path of an object's collection, from the API server's discovery."""
    version = found["apiVersion"]
    root = f"/api/{version}" if "/" not in version else f"/apis/{version}"
    (resource,) = (
        r for r in api.get(root)["resources"] if r["kind"] == found["kind"] and "/" not in r["name"]
    )  # fmt: skip
    inside = f"/namespaces/{found['metadata'].get('namespace', NAMESPACE)}" if resource["namespaced"] else ""
    return f"{root}{inside}/{resource['name']}"


@pytest.mark.parametrize("values", [{}, EVERYTHING, {"ipFamily": "IPv6"}], ids=["defaults", "everything", "IPv6"])
def test_the_api_server_accepts_every_object_unchanged(values: Json, render: Render, api: Api) -> None:
    ours = [o for o in render(values) if not o["apiVersion"].startswith(FOREIGN)]
    assert len(ours) > 20
    assert {"NetworkPolicy", "FlowSchema", "PodDisruptionBudget", "Job"} <= {o["kind"] for o in ours}
    accounts = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts"
    for name in (o["metadata"]["name"] for o in ours if o["kind"] == "ServiceAccount"):
        api.ensure(accounts, {"metadata": {"name": name}})  # objects of hooks exist only while these run
    for found in ours:
        path = f"{_collection(api, found)}/{found['metadata']['name']}"
        query = "dryRun=All&fieldValidation=Strict&fieldManager=test&force=true"
        api.call("PATCH", f"{path}?{query}", found, "application/apply-patch+yaml")


def test_policies_pass_type_checking_without_warnings(api: Api) -> None:
    policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"

    def checked() -> bool:
        return all(p.get("status", {}).get("observedGeneration") for p in _ours(api, policies))

    wait_until(checked, 60, "the policies to be type-checked")
    assert {p["metadata"]["name"] for p in _ours(api, policies)} == {
        "larder-agent-nodes", "larder-agent-modelnodes", "larder-store-paths", "larder-metadata-jobs", "larder-records",
        "larder-manifests",
        "larder-inference-services", "larder-inference-service-owners", "larder-training-jobs",
        "larder-training-job-owners", "larder-pods", "larder-store-volumes",
        "larder-volumes", "larder-download-jobs", "larder-download-claims", "larder-dra", "larder-dra-events",
        "larder-private-models", "larder-claims-of-pods", "larder-device-annotations",
    }  # fmt: skip
    for policy in _ours(api, policies):
        assert not policy["status"].get("typeChecking", {}).get("expressionWarnings"), policy["metadata"]["name"]


def _ours(api: Api, path: str) -> list[Json]:
    return [o for o in api.get(path)["items"] if o["metadata"]["name"].startswith("larder")]


def test_all_pods_except_the_agent_are_accepted_in_a_restricted_namespace(render: Render, api: Api) -> None:
    label = {"pod-security.kubernetes.io/enforce": "restricted"}
    api.ensure("/api/v1/namespaces", {"metadata": {"name": "restricted", "labels": label}})
    wait_until(lambda: api.answers("/api/v1/namespaces/restricted/serviceaccounts/default"), 60, "its account")
    specs = pod_specs(render())
    refused = {name: _refusal(api, spec) for name, spec in specs.items()}
    assert not any(refused[name] for name in specs.keys() - {"larder-agent"})
    assert "hostPath" in refused["larder-agent"]
    assert "privileged" not in refused["larder-agent"]
    assert "unrestricted capabilities" in refused["larder-agent"]  # its init container needs CHOWN


def _refusal(api: Api, spec: Json) -> str:
    pod = {"metadata": {"generateName": "x-"}, "spec": spec | {"serviceAccountName": "default"}}
    try:
        api.create("/api/v1/namespaces/restricted/pods?dryRun=All", pod)
    except CallRefused as refusal:
        return str(refusal)
    return ""


def _data(api: Api, path: str) -> dict[str, bytes]:
    return {key: base64.b64decode(value) for key, value in api.get(path)["data"].items()}


def test_the_certificate_is_kept_by_upgrades_and_renewed_by_the_same_ca(cluster: Helm, api: Api) -> None:
    first, authority = _data(api, TLS), _data(api, CA)
    cluster.upgrade(LARDER, VALUES | {"controller": {"replicas": 3}}, NAMESPACE)
    assert (_data(api, TLS), _data(api, CA)) == (first, authority)
    _skip_wait(api, RENEW_AFTER)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    second = _data(api, TLS)
    assert second["tls.crt"] != first["tls.crt"]
    assert (second["ca.crt"], _data(api, CA)) == (first["ca.crt"], authority)
    assert int(_annotations(api)[RENEW_AFTER]) > 1_000_000_000
    assert _trusted(api) == first["ca.crt"]


def _trusted(api: Api) -> bytes:
    (bundle,) = {w["clientConfig"]["caBundle"] for w in api.get(WEBHOOKS)["webhooks"]}
    return base64.b64decode(bundle)


def _skip_wait(api: Api, annotation: str) -> None:
    """Remove an annotation, so that the next upgrade proceeds without waiting."""
    api.patch(TLS, {"metadata": {"annotations": {annotation: None}}})


def _annotations(api: Api) -> dict[str, str]:
    return dict(api.get(TLS)["metadata"]["annotations"])


def _vouches(authority: bytes, certificate: bytes) -> bool:
    issuer = x509.load_pem_x509_certificate(authority)
    try:
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(issuer)
    except InvalidSignature:
        return False
    return True


def test_a_lost_ca_is_replaced_over_several_upgrades_without_breaking_clients(cluster: Helm, api: Api) -> None:
    first = _data(api, TLS)
    api.delete(CA)
    output = cluster.upgrade(LARDER, VALUES, NAMESPACE)
    both, authority = _data(api, TLS), _data(api, CA)["ca.crt"]
    assert "Its CA is being replaced" in output
    assert both["ca.crt"] == _trusted(api) == authority + first["ca.crt"]
    assert (both["tls.crt"], both["tls.key"]) == (first["tls.crt"], first["tls.key"])
    assert time.time() < int(_annotations(api)[RENEW_AFTER]) < time.time() + 3700
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    assert _data(api, TLS) == both  # the hour is not over yet

    _skip_wait(api, RENEW_AFTER)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    signed = _data(api, TLS)
    assert signed["ca.crt"] == _trusted(api) == both["ca.crt"]
    assert _vouches(authority, signed["tls.crt"])
    assert not _vouches(first["ca.crt"], signed["tls.crt"])
    assert "Its CA is being replaced" in cluster.upgrade(LARDER, VALUES, NAMESPACE)
    assert _data(api, TLS) == signed
    assert OLD_CA_UNTIL in _annotations(api)

    _skip_wait(api, OLD_CA_UNTIL)
    assert "Its CA is being replaced" not in cluster.upgrade(LARDER, VALUES, NAMESPACE)
    assert _data(api, TLS) == signed | {"ca.crt": authority}
    assert _trusted(api) == authority
    assert OLD_CA_UNTIL not in _annotations(api)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    assert _data(api, TLS) == signed | {"ca.crt": authority}


def _not_after(certificate: bytes) -> datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def test_no_certificate_outlives_its_ca_when_the_validity_is_raised(cluster: Helm, api: Api) -> None:
    for secret in (CA, TLS):
        api.delete(secret)
    cluster.upgrade(LARDER, VALUES | {"certificates": {"validityDays": 30}}, NAMESPACE)
    short = _data(api, CA)["ca.crt"]
    assert "Its CA is being replaced" in cluster.upgrade(LARDER, VALUES, NAMESPACE)
    _skip_wait(api, RENEW_AFTER)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    authority, signed = _data(api, CA)["ca.crt"], _data(api, TLS)["tls.crt"]
    assert authority != short
    assert _vouches(authority, signed)
    assert _not_after(signed) < _not_after(authority)
    _skip_wait(api, OLD_CA_UNTIL)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    assert _trusted(api) == authority
    cluster.upgrade(LARDER, VALUES | {"certificates": {"validityDays": 30}}, NAMESPACE)
    assert _data(api, CA)["ca.crt"] == authority  # a CA may sign shorter certificates


def test_webhooks_keep_trusting_running_replicas_when_both_secrets_are_lost(cluster: Helm, api: Api) -> None:
    first = _data(api, TLS)
    api.delete(CA)
    api.delete(TLS)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    authority = _data(api, CA)["ca.crt"]
    assert _trusted(api) == _data(api, TLS)["ca.crt"] == authority + first["ca.crt"]
    assert _vouches(authority, _data(api, TLS)["tls.crt"])
    _skip_wait(api, OLD_CA_UNTIL)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    assert _trusted(api) == authority


def test_new_keys_are_p_256_and_an_existing_rsa_ca_still_signs(cluster: Helm, api: Api) -> None:
    for secret, key in ((TLS, "tls.key"), (CA, "ca.key")):
        found = load_pem_private_key(_data(api, secret)[key], None)
        assert isinstance(found, ec.EllipticCurvePrivateKey)
        assert isinstance(found.curve, ec.SECP256R1)
    old = trustme.CA(key_type=trustme.KeyType.RSA)
    pair = {"ca.crt": old.cert_pem.bytes(), "ca.key": old.private_key_pem.bytes()}
    api.patch(CA, {"data": {name: base64.b64encode(text).decode() for name, text in pair.items()}})
    api.delete(TLS)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    assert _data(api, CA) == pair
    assert _vouches(pair["ca.crt"], _data(api, TLS)["tls.crt"])
    for secret in (CA, TLS):
        api.delete(secret)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)
    _skip_wait(api, OLD_CA_UNTIL)
    cluster.upgrade(LARDER, VALUES, NAMESPACE)


def test_the_certificate_passes_strict_verification_for_the_service_name(api: Api, tmp_path: Path) -> None:
    found = _data(api, TLS)
    for name, body in found.items():
        (tmp_path / name).write_bytes(body)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    client = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT  # Python 3.13 requires this
    assert _handshake(server, client, f"larder.{NAMESPACE}.svc")["subjectAltName"]
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        _handshake(server, client, "other.example.com")


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> Json:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    there = server.wrap_bio(to_server, to_client, server_side=True)
    here = client.wrap_bio(to_client, to_server, server_hostname=name)
    for _ in range(4):
        for end in (here, there):
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return dict(here.getpeercert() or {})


def test_kinds_owned_by_others_are_not_installed_and_api_groups_can_be_switched_off(cluster: Helm, api: Api) -> None:
    name = "basemodels.ome.io"
    with _without_our_label(api, f"{KINDS}/{name}"):
        assert name not in _kinds_to_install(cluster)
    assert name in _kinds_to_install(cluster)
    assert _kinds_to_install(cluster, **{"ome.io": False, "serving.kserve.io": False}) == {
        "modelnodes.larder.dev",
        "models.models.example.com",
        "trainingjobs.larder.dev",
    }


@contextmanager
def _without_our_label(api: Api, path: str) -> Iterator[None]:
    api.patch(path, {"metadata": {"labels": {"app.kubernetes.io/part-of": None}}})
    try:
        yield
    finally:
        api.patch(path, {"metadata": {"labels": {"app.kubernetes.io/part-of": "larder"}}})


def _kinds_to_install(helm: Helm, **groups: bool) -> set[str]:
    arguments = ["template", "larder-crds", str(LARDER_CRDS), f"--namespace={NAMESPACE}", "--dry-run=server"]
    arguments += ["--kube-version", KUBERNETES_VERSION]  # a helm built from its module does not know it
    arguments += [f"--set=groups.{group.replace('.', chr(92) + '.')}={str(on).lower()}" for group, on in groups.items()]
    return {name for kind, name in kinds(filter(None, yaml.load_all(helm.run(*arguments), yaml.CSafeLoader)))}


def test_switching_off_a_group_deletes_no_definition(cluster: Helm, api: Api) -> None:
    before = _crds(api)
    cluster.upgrade(LARDER_CRDS, {"groups": {"ome.io": False}}, NAMESPACE, "larder-crds")
    assert _crds(api) == before
    cluster.upgrade(LARDER_CRDS, {}, NAMESPACE, "larder-crds")
    assert _crds(api) == before


def test_the_ca_of_an_existing_certificate_is_read_from_its_secret(cluster: Helm, api: Api) -> None:
    secrets = f"/api/v1/namespaces/{NAMESPACE}/secrets"
    api.create(secrets, {"metadata": {"name": "mine"}, "stringData": {"ca.crt": "PEM"}})
    values = VALUES | {"certificates": {"provider": "existing", "secretName": "mine"}}
    try:
        cluster.upgrade(LARDER, values, NAMESPACE)
        assert _trusted(api) == b"PEM"
        assert not api.answers(TLS)
    finally:
        cluster.upgrade(LARDER, VALUES, NAMESPACE)
        api.delete(f"{secrets}/mine")
    assert api.answers(TLS)


def test_the_notes_ask_for_the_pod_security_label_until_it_is_set(cluster: Helm, api: Api) -> None:
    asked = "pod-security.kubernetes.io/enforce=privileged"
    assert asked in cluster.upgrade(LARDER, VALUES, NAMESPACE)
    api.patch(f"/api/v1/namespaces/{NAMESPACE}", {"metadata": {"labels": dict([asked.split("=")])}})
    output = cluster.upgrade(LARDER, VALUES, NAMESPACE)
    assert asked not in output
    assert "WARNING" not in output


def test_uninstalling_keeps_the_definitions_and_their_objects(cluster: Helm, plane: ControlPlane) -> None:
    api = plane.api
    path, daemonsets = "/apis/larder.dev/v1alpha1/modelnodes", f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets"
    assert api.get(daemonsets)["items"]
    api.create(
        path, {"apiVersion": "larder.dev/v1alpha1", "kind": "ModelNode", "metadata": {"name": "kept"}, "spec": {}}
    )
    cluster.run("uninstall", "larder", "--namespace", NAMESPACE, "--no-hooks")  # no pod runs here
    cluster.run("uninstall", "larder-crds", "--namespace", NAMESPACE)
    try:
        assert api.answers(f"{path}/kept")
        assert len(_crds(api)) == 9
        assert not api.answers(WEBHOOKS)
        assert not api.get(daemonsets)["items"]
    finally:
        cluster.upgrade(LARDER_CRDS, {}, NAMESPACE, "larder-crds")  # takes over the kinds that it left
        cluster.upgrade(LARDER, VALUES, NAMESPACE)
    assert api.answers(f"{path}/kept")
    api.delete(f"{path}/kept")


def _crds(api: Api) -> list[str]:
    return [c["metadata"]["name"] for c in api.get(KINDS)["items"]]
