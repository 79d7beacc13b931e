"""The command lines of the control plane, and the files that they refer to."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx

from rig.pki import Pair
from rig.ports import LOOPBACK

SERVICE_IP = "10.0.0.1"
NODE_AND_RBAC = "Node,RBAC"
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")

_SERVICE_RANGE = "10.0.0.0/16"
_ISSUER = "https://kubernetes.default.svc"
_HEALTH_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Files:
    """Certificates, keys and kubeconfigs below the state directory."""

    state: Path

    def write(self, pairs: Mapping[str, Pair]) -> None:
        """Write the key pairs by name, readable by their owner only."""
        self.pki.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name, pair in pairs.items():
            self.public(name).write_bytes(pair.public_pem)
            self.private(name).touch(mode=0o600)
            self.private(name).write_bytes(pair.private_pem)

    @property
    def pki(self) -> Path:
        """The directory of certificates and keys."""
        return self.state / "pki"

    def public(self, name: str) -> Path:
        """Return the file of a certificate or public key."""
        return self.pki / f"{name}.pem"

    def private(self, name: str) -> Path:
        """Return the file of a private key."""
        return self.pki / f"{name}.key"

    def kubeconfig(self, name: str) -> Path:
        """Return the kubeconfig of one of the programs."""
        return self.pki / f"{name}.kubeconfig"


def etcd(files: Files, client_url: str, peer_port: int) -> list[str]:
    """Return the arguments of etcd; no data needs to survive a power failure."""
    peer_url = f"http://{LOOPBACK}:{peer_port}"
    return [
        "--name=rig",
        f"--data-dir={files.state / 'etcd'}",
        "--unsafe-no-fsync",
        f"--listen-client-urls={client_url}",
        f"--advertise-client-urls={client_url}",
        f"--listen-peer-urls={peer_url}",
        f"--initial-advertise-peer-urls={peer_url}",
        f"--initial-cluster=rig={peer_url}",
        "--log-level=warn",
    ]


def apiserver(
    files: Files, port: int, etcd_url: str, address: str = LOOPBACK, authorization: str = NODE_AND_RBAC
) -> list[str]:
    """Return the arguments of the API server: RBAC, admission by webhooks and policies, as in a cluster.

    Args:
        files: The certificates and keys.
        port: The port to listen on.
        etcd_url: The client URL of etcd.
        address: The address for nodes; loopback if there are no real nodes.
        authorization: The modes of authorization.
    """
    return [
        f"--etcd-servers={etcd_url}",
        *(_without_nodes() if address == LOOPBACK else _with_nodes(files, address)),
        f"--secure-port={port}",
        f"--tls-cert-file={files.public('serving')}",
        f"--tls-private-key-file={files.private('serving')}",
        f"--client-ca-file={files.public('ca')}",
        f"--service-account-issuer={_ISSUER}",
        f"--service-account-key-file={files.public('service-accounts')}",
        f"--service-account-signing-key-file={files.private('service-accounts')}",
        f"--service-cluster-ip-range={_SERVICE_RANGE}",
        f"--authorization-mode={authorization}",
        "--enable-admission-plugins=NodeRestriction",
        "--shutdown-delay-duration=0s",
    ]


def _without_nodes() -> list[str]:
    return [
        f"--bind-address={LOOPBACK}",
        f"--advertise-address={LOOPBACK}",
        "--endpoint-reconciler-type=none",  # loopback is rejected as an endpoint
    ]


def _with_nodes(files: Files, address: str) -> list[str]:
    return [
        "--bind-address=0.0.0.0",
        f"--advertise-address={address}",
        "--allow-privileged=true",
        "--enable-aggregator-routing=true",  # calls webhook pods directly, because no kube-proxy runs beside it
        f"--kubelet-client-certificate={files.public('kubelet-client')}",
        f"--kubelet-client-key={files.private('kubelet-client')}",
        f"--kubelet-certificate-authority={files.public('ca')}",
        "--kubelet-preferred-address-types=InternalIP",
    ]


def controller_manager(files: Files, port: int, node_lost_after_s: float) -> list[str]:
    """Return the arguments of the controller manager; a node counts as lost after `node_lost_after_s`."""
    return [
        *_follower(files, "kube-controller-manager", port),
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={files.private('service-accounts')}",
        f"--root-ca-file={files.public('ca')}",
        f"--cluster-signing-cert-file={files.public('ca')}",
        f"--cluster-signing-key-file={files.private('ca')}",
        f"--node-monitor-grace-period={node_lost_after_s}s",
        "--node-monitor-period=2s",
        "--kube-api-qps=500",  # it creates forty service accounts at start
        "--kube-api-burst=1000",
    ]


def scheduler(files: Files, port: int, config: Path | None) -> list[str]:
    """Return the arguments of the scheduler; a configuration file replaces the default profile."""
    own = [f"--config={config}"] if config else []
    return [*_follower(files, "kube-scheduler", port), *own]


def _follower(files: Files, name: str, port: int) -> list[str]:
    own = files.kubeconfig(name)
    return [
        f"--kubeconfig={own}",
        f"--authentication-kubeconfig={own}",
        f"--authorization-kubeconfig={own}",
        f"--bind-address={LOOPBACK}",
        f"--secure-port={port}",
        f"--tls-cert-file={files.public('serving')}",
        f"--tls-private-key-file={files.private('serving')}",
        "--leader-elect=false",
    ]


def healthy(url: str, context: ssl.SSLContext) -> bool:
    """Return whether a health endpoint answers with 200."""
    try:
        return httpx.get(url, verify=context, timeout=_HEALTH_TIMEOUT_S, trust_env=False).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False
