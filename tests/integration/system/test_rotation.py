"""Certificates are renewed while programs run: replicas and agents trust both the old and the new CA."""

import ssl
from pathlib import Path

import httpx
import pytest

from rig.larder import objects
from rig.larder.cluster_driver import TIMEOUT_S
from rig.larder.programs import ADMISSION_KEY, ADMISSION_TIMEOUT_S, NAMESPACE, STORE_ROOT, ControllerProgram
from rig.larder.site import Site
from rig.larder.webhooks import AtUrl, WebhookSettings
from rig.pki import Authority
from rig.ports import LOOPBACK


def put(path: Path, content: bytes) -> None:
    """Replace a file by a new one of the same name, as kubelet does."""
    fresh = path.with_suffix(".fresh")
    fresh.write_bytes(content)
    fresh.chmod(0o600)
    fresh.replace(path)


def renew(controller: ControllerProgram, authority: Authority) -> None:
    folder = controller.ca.parent
    pair = authority.issue("larder", dns=[f"larder.{NAMESPACE}.svc"], ips=[LOOPBACK])
    put(folder / "tls.key", pair.private_pem)
    put(folder / "tls.crt", pair.public_pem)
    put(controller.ca, authority.ca_pem)


def shows(controller: ControllerProgram, authority: Authority) -> bool:
    """Return whether a new connection gets a certificate of this CA."""
    context = ssl.create_default_context(cadata=authority.ca_pem.decode())
    try:
        with httpx.Client(base_url=controller.url, verify=context, trust_env=False, timeout=TIMEOUT_S) as client:
            client.get("/")
    except httpx.ConnectError:
        return False
    return True


@pytest.fixture
def roles(site: Site) -> tuple[ControllerProgram, ControllerProgram]:
    """The leader, and the other."""
    first, second = site.cluster.controllers
    return (first, second) if site.leader() is first else (second, first)


def forwards(site: Site, standby: ControllerProgram, authority: bytes) -> bool:
    """Return whether a report sent to the follower reaches the leader."""
    context = ssl.create_default_context(cadata=authority.decode())
    headers = {"Authorization": f"Bearer {site.cluster.agents['a'].token_file.read_text()}"}
    with httpx.Client(base_url=standby.url, verify=context, trust_env=False, timeout=TIMEOUT_S) as client:
        return client.post("/v1/progress", json={"entries": []}, headers=headers).status_code == httpx.codes.NO_CONTENT


def test_reports_and_agent_requests_work_throughout_a_certificate_renewal(
    site: Site, roles: tuple[ControllerProgram, ControllerProgram]
) -> None:
    leader, standby = roles
    old, new = site.cluster.plane.ca_pem, Authority("renewed")
    site.until(lambda: forwards(site, standby, old), "reports to reach the leader")
    address, wait_s = AtUrl(site.cluster.controllers[0].url), ADMISSION_TIMEOUT_S
    both = WebhookSettings(address, old + new.ca_pem, ADMISSION_KEY, NAMESPACE, STORE_ROOT, timeout_s=wait_s)
    objects.install_webhooks(site.api, both)
    renew(standby, new)
    site.until(lambda: shows(standby, new), "the follower to show its new certificate")
    site.until(lambda: forwards(site, standby, new.ca_pem), "a leader to be trusted that is not renewed yet")
    renew(leader, new)
    site.until(lambda: shows(leader, new), "the leader to show its new certificate")
    site.until(lambda: forwards(site, standby, new.ca_pem), "a leader to be trusted that is renewed")
    name = site.cache()
    site.wait_ready("ClusterModelCache", name)
    site.delete("ClusterModelCache", name)
    for controller in site.cluster.controllers:  # restore the CA that the webhooks of other tests trust
        pair = site.cluster.plane.server_certificate(dns=[f"larder.{NAMESPACE}.svc"])
        put(controller.ca.parent / "tls.key", pair.private_pem)
        put(controller.ca.parent / "tls.crt", pair.public_pem)
        put(controller.ca, old)
    site.cluster.aim_webhooks(site.cluster.controllers[0])
    site.until(lambda: not any(shows(c, new) for c in (leader, standby)), "the first certificates")
