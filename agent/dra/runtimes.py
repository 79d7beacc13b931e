"""Whether a container runtime passes CDI devices to containers: pure functions of its reported version."""

import re

_VERSION = re.compile(r"([a-z-]+)://v?(\d+)\.(\d+)")
# The first versions with CDI. An earlier runtime silently starts the container without the mount.
_FIRST = {"containerd": (1, 7), "cri-o": (1, 23)}


def cdi_problem(runtime: str) -> str:
    """Return why the runtime would ignore the devices of a container, or an empty string.

    Args:
        runtime: `status.nodeInfo.containerRuntimeVersion`, such as `containerd://2.2.9`; unknown runtimes are
            assumed to work.
    """
    found = _VERSION.match(runtime)
    if found is None:
        return ""
    first = _FIRST.get(found[1])
    if first is None or (int(found[2]), int(found[3])) >= first:
        return ""
    needed = ".".join(map(str, first))
    return (
        f"the container runtime {runtime} ignores CDI devices, so containers would start without their model; "
        f"upgrade it to {found[1]} {needed} or newer"
    )


def needs_cdi_switched_on(runtime: str) -> bool:
    """Return whether CDI is off in this runtime unless its configuration has `enable_cdi = true`."""
    found = _VERSION.match(runtime)
    return found is not None and found[1] == "containerd" and (int(found[2]), int(found[3])) == (1, 7)
