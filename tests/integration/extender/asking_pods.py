"""Pods that ask for devices in their annotation, for tests with a real scheduler."""

import json

from rig.larder.site import Site
from rig.pods import plain_pod
from shared.devices.annotation import ANNOTATION


def asking(site: Site, count: int = 1, namespace: str = "default", **spec: object) -> str:
    """Create a pod whose container asks for cards, as in the README of KubeDevice, and return its name."""
    asks = {f"resource/group/gpu/{i}/cards": 1 for i in range(count)}
    pod = plain_pod(site.name("pod"), {ANNOTATION: json.dumps({"runningcontainer": {"main": {"requests": asks}}})})
    pod["spec"] |= spec
    return str(site.api.create(f"/api/v1/namespaces/{namespace}/pods", pod)["metadata"]["name"])


def is_bound(site: Site, *names: str) -> bool:
    return all(site.pod_node(name) for name in names)
