"""The Debian programs that nodes need, and their packages."""

import os
from collections.abc import Mapping
from pathlib import Path

NSENTER = "/usr/bin/nsenter"
UNSHARE = "/usr/bin/unshare"
SETPRIV = "/usr/bin/setpriv"
SLEEP = "/bin/sleep"
DF = "/bin/df"
FALLOCATE = "/usr/bin/fallocate"
IP = "/sbin/ip"
SYSCTL = "/sbin/sysctl"
TINI = "/usr/bin/tini"
RUNC = "/usr/sbin/runc"
BUILDAH = "/usr/bin/buildah"
BUSYBOX = "/bin/busybox"
MMDEBSTRAP = "/usr/bin/mmdebstrap"
CNI = "/usr/lib/cni"

PACKAGES: Mapping[str, str] = {
    "buildah": BUILDAH,
    "busybox-static": BUSYBOX,
    "containernetworking-plugins": f"{CNI}/bridge",
    "iproute2": IP,
    "iptables": "/usr/sbin/iptables",
    "mmdebstrap": MMDEBSTRAP,
    "procps": SYSCTL,
    "runc": RUNC,
    "tini": TINI,
    "util-linux": UNSHARE,
}


def missing() -> list[str]:
    """Return the packages whose program is missing."""
    return sorted(name for name, path in PACKAGES.items() if not os.access(Path(path), os.X_OK))
