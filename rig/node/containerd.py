"""containerd on a machine: its configuration, and importing images."""

import os
from pathlib import Path

from rig.errors import StartFailed
from rig.node import programs
from rig.node.addresses import NodeAddresses
from rig.node.binaries import NodeBinaries
from rig.node.machine import CONTAINERD, Machine
from rig.processes import Process

SANDBOX_IMAGE = "localhost/larder-rig:1"
_SOCKET = "/run/containerd/containerd.sock"
ENDPOINT = f"unix://{_SOCKET}"
_READY_S = 60.0


def start(machine: Machine, binaries: NodeBinaries) -> Process:
    """Start containerd and wait until it answers."""
    folder = machine.disk / "etc"
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    (folder / "cni" / "10-rig.conflist").write_text(network(machine.addresses))
    settings = folder / "containerd.toml"
    settings.write_text(config(folder / "cni"))
    path = f"{binaries.containerd_shim.parent}:{os.environ.get('PATH', '')}"  # for its shim, and runc
    process = machine.start("containerd", [str(binaries.containerd), "--config", str(settings)], {"PATH": path})
    process.wait_ready(lambda: _answers(machine, binaries), _READY_S)
    return process


def load(machine: Machine, binaries: NodeBinaries, archive: Path) -> None:
    """Import an image for pods, under the name in its archive."""
    machine.run([*_ctr(binaries), "images", "import", "--snapshotter=overlayfs", str(archive)])


def _answers(machine: Machine, binaries: NodeBinaries) -> bool:
    if not Path(f"/proc/{machine.init}/root{_SOCKET}").exists():
        return False
    try:
        machine.run([*_ctr(binaries), "version"])
    except StartFailed:
        return False
    return True


def _ctr(binaries: NodeBinaries) -> list[str]:
    return [str(binaries.ctr), f"--address={_SOCKET}", "--namespace=k8s.io"]


def config(cni: Path) -> str:
    """Return the configuration as TOML; `cni` is the directory of the network configuration."""
    # Without restrict_oom_score_adj every sandbox dies if root may not lower that score.
    return f"""\
version = 3
root = "{CONTAINERD}"
state = "/run/containerd"
disabled_plugins = ["io.containerd.nri.v1.nri"]
[grpc]
  address = "{_SOCKET}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{SANDBOX_IMAGE}"
[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{programs.CNI}"]
    conf_dir = "{cni}"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "{programs.RUNC}"
      SystemdCgroup = false
"""


def network(addresses: NodeAddresses) -> str:
    """Return the CNI configuration, which assigns addresses to pods."""
    return f"""\
{{"cniVersion": "1.0.0", "name": "rig", "plugins": [
  {{"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false, "hairpinMode": true,
    "ipam": {{"type": "host-local", "dataDir": "/run/cni-ipam", "ranges": [[{{"subnet": "{addresses.pods}"}}]],
              "routes": [{{"dst": "0.0.0.0/0"}}]}}}},
  {{"type": "portmap", "capabilities": {{"portMappings": true}}}}]}}
"""
