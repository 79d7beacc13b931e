"""kubelet and kube-proxy on a machine, and the cluster DNS for its pods."""

import json
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rig.control_plane import ControlPlane
from rig.node.addresses import GATEWAY, POD_RANGE
from rig.node.binaries import NodeBinaries
from rig.node.containerd import ENDPOINT
from rig.node.lan import Lan
from rig.node.machine import Machine
from rig.node.namespaces import within_network
from rig.processes import Process, Program

DOMAIN = "cluster.local"
_DNS_READY_S = 60.0


def start_kubelet(
    machine: Machine, plane: ControlPlane, binaries: NodeBinaries, settings: Mapping[str, Any]
) -> Process:
    """Start kubelet, which registers its Node if there is none; `settings` override the rig's configuration."""
    folder = machine.disk / "etc"
    pair = plane.server_certificate(dns=[machine.name], ips=[machine.addresses.ip])
    certificate, key = folder / "kubelet.pem", folder / "kubelet.key"
    certificate.write_bytes(pair.public_pem)
    key.touch(mode=0o600)
    key.write_bytes(pair.private_pem)
    (folder / "ca.pem").write_bytes(plane.ca_pem)
    (folder / "resolv.conf").touch()
    user = plane.kubeconfig_for(
        f"system:node:{machine.name}", ["system:nodes"], folder / "kubelet.kubeconfig", plane.node_url
    )
    config = _write(folder / "kubelet.json", {**_kubelet(machine, folder), **settings})
    argv = [str(binaries.kubelet), f"--config={config}", f"--kubeconfig={user}"]
    argv += [f"--hostname-override={machine.name}", f"--node-ip={machine.addresses.ip}"]
    return machine.start("kubelet", argv)


def start_kube_proxy(machine: Machine, plane: ControlPlane, binaries: NodeBinaries) -> Process:
    """Start kube-proxy, which routes Service addresses to pods."""
    folder = machine.disk / "etc"
    user = plane.kubeconfig_for("system:kube-proxy", (), folder / "kube-proxy.kubeconfig", plane.node_url)
    config = _write(folder / "kube-proxy.json", _kube_proxy(machine, user))
    return machine.start("kube-proxy", [str(binaries.kube_proxy), f"--config={config}"])


def start_dns(lan: Lan, plane: ControlPlane, binaries: NodeBinaries, state: Path) -> Process:
    """Start the cluster DNS beside the control plane, and wait until it listens."""
    corefile = state / "Corefile"
    corefile.write_text(f"""\
.:53 {{
  bind {GATEWAY}
  errors
  kubernetes {DOMAIN} {{
    kubeconfig {plane.kubeconfig}
  }}
  cache 5
}}
""")
    program = Program("coredns", [*lan.enter, str(binaries.coredns), "-conf", str(corefile)])
    process = Process(program, state / "log" / "coredns.log")
    process.wait_ready(lambda: _listens(lan, 53), _DNS_READY_S)
    return process


def _listens(lan: Lan, port: int) -> bool:
    with within_network(lan.network):
        try:
            socket.create_connection((GATEWAY, port), 1).close()
        except OSError:
            return False
    return True


def _write(path: Path, config: dict[str, Any]) -> Path:
    path.write_text(json.dumps(config, indent=1))
    return path


def _kubelet(machine: Machine, folder: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "containerRuntimeEndpoint": ENDPOINT,
        "failCgroupV1": False,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{machine.cgroup}",
        "failSwapOn": False,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(folder / "ca.pem")},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(folder / "kubelet.pem"),
        "tlsPrivateKeyFile": str(folder / "kubelet.key"),
        "resolvConf": str(folder / "resolv.conf"),
        "clusterDomain": DOMAIN,
        "clusterDNS": [GATEWAY],
        "enforceNodeAllocatable": ["pods"],
        "evictionHard": {"memory.available": "200Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "imageGCHighThresholdPercent": 100,  # images cannot be pulled again
        "imageGCLowThresholdPercent": 99,
        "nodeStatusUpdateFrequency": "4s",
        "nodeLeaseDurationSeconds": 8,
        "syncFrequency": "3s",
        "protectKernelDefaults": False,
    }


def _kube_proxy(machine: Machine, user: Path) -> dict[str, Any]:
    unlimited = {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(user)},
        "clusterCIDR": POD_RANGE,
        "hostnameOverride": machine.name,
        "conntrack": unlimited,  # its limits would apply to the whole machine
        "iptables": {"minSyncPeriod": "100ms"},
    }
