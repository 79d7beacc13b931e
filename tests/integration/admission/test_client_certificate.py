"""A real API server that presents a client certificate to webhooks, and callers that do not."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from controller.admission.server import VALIDATE_PATH, path_with
from rig.binaries import Binaries
from rig.control_plane import ControlPlane, Options
from rig.errors import CallRefused
from rig.larder import objects
from rig.larder.cluster import LarderCluster, LarderOptions
from rig.larder.objects import refused_group
from rig.larder.programs import ADMISSION_KEY, NAMESPACE, STORE_ROOT, ControllerProgram
from rig.larder.webhooks import AtUrl, WebhookSettings
from rig.pki import Authority, Pair
from rig.ports import LOOPBACK, free_port
from rig.processes import wait_until

NAME = "kube-apiserver"


def _configuration(folder: Path, authority: Authority) -> Path:
    """Write the configuration from docs/security.md that makes the API server present a certificate to webhooks."""
    folder.mkdir(parents=True)
    pair = authority.issue(NAME)
    (folder / "client.crt").write_bytes(pair.public_pem)
    (folder / "client.key").write_bytes(pair.private_pem)
    shown = {"client-certificate": f"{folder}/client.crt", "client-key": f"{folder}/client.key"}
    users = [{"name": "*", "user": shown}]
    (folder / "webhooks").write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "users": users}))
    version = "apiserver.config.k8s.io/v1"
    plugin = {"apiVersion": version, "kind": "WebhookAdmissionConfiguration", "kubeConfigFile": f"{folder}/webhooks"}
    names = ("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    plugins = [{"name": one, "configuration": plugin} for one in names]
    file = folder / "admission.yaml"
    file.write_text(yaml.safe_dump({"apiVersion": version, "kind": "AdmissionConfiguration", "plugins": plugins}))
    return file


@pytest.fixture(scope="module")
def authority() -> Authority:
    """The CA of the API server's client certificate."""
    return Authority("webhook-clients")


@pytest.fixture(scope="module")
def cluster(
    authority: Authority, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LarderCluster]:
    """An API server with a client certificate, and a controller that requires it and has answered a review."""
    folder = tmp_path_factory.mktemp("plane")
    ca = folder / "clients.crt"
    ca.write_bytes(authority.ca_pem)
    options = Options(apiserver_flags=[f"--admission-control-config-file={_configuration(folder / 'api', authority)}"])
    environ = {"LARDER_ADMISSION_CLIENT_CA": str(ca), "LARDER_ADMISSION_CLIENT_NAMES": f"apiserver.test, {NAME}"}
    with (
        ControlPlane(binaries, folder / "plane", options) as plane,
        LarderCluster(plane, folder / "larder", LarderOptions(controller=environ)) as running,
    ):
        yield running


def test_a_request_with_the_api_servers_client_certificate_is_answered(cluster: LarderCluster) -> None:
    with pytest.raises(CallRefused, match=r"spec\.storageLimit: 0 is too small"):
        cluster.api.create(*refused_group("wrong"))


def _refusal(cluster: LarderCluster) -> str:
    try:
        cluster.api.create(*refused_group("wrong"))
    except CallRefused as refused:
        return str(refused)
    return ""


def _post(cluster: LarderCluster, folder: Path, pair: Pair | None, path: str) -> int:
    program = cluster.controllers[0]
    trust = ssl.create_default_context(cafile=str(program.ca))
    if pair is not None:
        (folder / "client.pem").write_bytes(pair.private_pem + pair.public_pem)
        trust.load_cert_chain(folder / "client.pem")
    return httpx.post(f"{program.url}{path}", content=b"{}", verify=trust, trust_env=False, timeout=60).status_code


def test_callers_without_the_right_certificate_and_path_are_refused(
    cluster: LarderCluster, authority: Authority, tmp_path: Path
) -> None:
    path = path_with(ADMISSION_KEY, VALIDATE_PATH)
    assert _post(cluster, tmp_path, authority.issue(NAME), path) == 400, (
        "the caller is accepted, but not its empty review"
    )
    assert _post(cluster, tmp_path, authority.issue(NAME), path_with("k" * 48, VALIDATE_PATH)) == 404
    assert _post(cluster, tmp_path, authority.issue("somebody-else"), path) == 403
    assert _post(cluster, tmp_path, None, path) == 403
    with pytest.raises((httpx.TransportError, ssl.SSLError)):
        _post(cluster, tmp_path, Authority("webhook-clients").issue(NAME), path)


def test_an_unreachable_webhook_exposes_its_secret_path_in_the_error(cluster: LarderCluster) -> None:
    """This is why docs/security.md recommends the certificate: the API server prints the URL in its error."""
    settings = WebhookSettings(
        AtUrl(f"https://{LOOPBACK}:{free_port()}"), cluster.plane.ca_pem, ADMISSION_KEY, NAMESPACE, STORE_ROOT
    )
    objects.install_webhooks(cluster.api, settings)
    try:
        wait_until(lambda: ADMISSION_KEY in _refusal(cluster), 60, "the error of the API server")
    finally:
        cluster.aim_webhooks(cluster.controllers[0])


def test_the_api_for_agents_needs_no_client_certificate(cluster: LarderCluster, tmp_path: Path) -> None:
    assert _post(cluster, tmp_path, None, "/v1/credentials") == 401


def test_a_client_certificate_with_another_name_is_refused_with_the_reason(
    cluster: LarderCluster, authority: Authority
) -> None:
    ca = cluster.state / "clients.crt"
    ca.write_bytes(authority.ca_pem)
    environ = {"LARDER_ADMISSION_CLIENT_CA": str(ca), "LARDER_ADMISSION_CLIENT_NAMES": "another"}
    program = ControllerProgram(cluster.plane, cluster.state, "controller-strict", environ)
    program.start()
    settings = WebhookSettings(AtUrl(program.url), cluster.plane.ca_pem, ADMISSION_KEY, NAMESPACE, STORE_ROOT)

    try:
        objects.install_webhooks(cluster.api, settings)
        wait_until(lambda: "this client certificate is not the API server's" in _refusal(cluster), 60, "the refusal")
        assert ADMISSION_KEY not in program.log.read_text()
    finally:
        cluster.aim_webhooks(cluster.controllers[0])
        program.process.stop()
