"""Explains why a ResourceClaim for a model (DRA) is not allocated. No input or output, no clock."""

from collections import defaultdict
from collections.abc import Iterator

from controller.cli.why.device_kinds import (
    OUR_CLASSES,
    DeviceChoice,
    DeviceSurroundings,
    ObservedResourceClaim,
    PodClaim,
    PublishedDevice,
)
from controller.cli.why.findings import Finding, fact, some, stop, wait
from controller.cli.why.kinds import ObservedPod
from controller.cli.why.view import ClusterView
from shared.api.model_node import COMPLETE_PHASES, EntryState, Phase
from shared.dra import FETCH_CLASS, PRIVATE_CLASS, SHARED_CLASS, attribute_text
from shared.names import namespace_of

_SWITCH_ON = "set dra.enabled in the chart; see docs/dra.md"
_DRIVER_LOG = "`kubectl -n {} logs daemonset/larder-dra` and the Events of the node say why"


def resource_claim_findings(pod: ObservedPod, found: DeviceSurroundings, cluster: ClusterView) -> Iterator[Finding]:
    """Yield the state of each claim of a pod that asks for models, and which nodes could fulfil it."""
    if found.claims and not found.served:
        yield stop(
            "claims", "DevicesNotServed",
            "the API server does not serve resource.k8s.io/v1, so no claim can be allocated",
            "use Kubernetes 1.34 or newer, and do not switch the API off with --runtime-config",
        )  # fmt: skip
        return
    if found.hidden:
        yield fact("claims", "NotShown", f"you may not read {some(found.hidden)}")
    for one in found.claims:
        about = f"claim/{one.claim_name or one.name}"
        if one.claim is None:
            yield _missing(about, one, found)
        elif one.claim.is_for_models:
            yield from _claim(about, one.claim, pod, found, cluster)


def requests_resource_claims(found: DeviceSurroundings) -> bool:
    """Return whether a pod claims models, or may do so with claims that do not exist yet or cannot be read."""
    return any(one.claim is None or one.claim.is_for_models for one in found.claims)


def _missing(about: str, one: PodClaim, found: DeviceSurroundings) -> Finding:
    if found.hidden:
        return fact(about, "NotShown", "you may not read the claim")
    if one.template:
        message = f"it has not been created yet from ResourceClaimTemplate {one.template}"
        return wait(about, "ClaimNotCreated", message, "check that the template exists; the pod's Events say why")
    return stop(about, "ClaimNotFound", "there is no ResourceClaim of this name", "create it, or correct the pod")


def _claim(
    about: str, claim: ObservedResourceClaim, pod: ObservedPod, found: DeviceSurroundings, cluster: ClusterView
) -> Iterator[Finding]:
    if nodes := claim.model_nodes:
        held = [device.device for name in nodes for device in claim.models_on(name)]
        yield fact(about, "Allocated", f"holds {some(held)} on {some(f'node/{name}' for name in nodes)}")
        return
    for choice in claim.choices:
        if choice.device_class_name != FETCH_CLASS:
            yield from _choice(about, choice, pod, found, cluster)
    if not found.slices and "resourceslices" not in found.hidden:
        log = _DRIVER_LOG.format(cluster.release_namespace)
        yield stop(about, "NoDriver", "no node publishes models as devices: no driver is ready", f"{_SWITCH_ON}; {log}")


def _choice(
    about: str, choice: DeviceChoice, pod: ObservedPod, found: DeviceSurroundings, cluster: ClusterView
) -> Iterator[Finding]:
    name, identity = choice.device_class_name, choice.model
    if found.classes is not None and name not in found.classes:
        advice = _SWITCH_ON if name in OUR_CLASSES else "create it, or correct the claim"
        yield stop(about, "NoDeviceClass", f"there is no DeviceClass {name}", advice)
        return
    if not identity:
        conditions = " && ".join(choice.expressions) or "any model"
        yield fact(about, "AnyModel", f"requests a device of class {name}: {conditions}")
        return
    if refusal := _refusal(about, name, identity, pod.metadata.namespace):
        yield refusal
        return
    yield from _nodes(about, identity, found, cluster)


def _refusal(about: str, class_name: str, identity: str, namespace: str) -> Finding | None:
    """Return why a claim of a namespace can never get a model through a class, or None."""
    owner = namespace_of(identity)
    if owner and owner != namespace:
        return stop(
            about, "NamespaceNotAllowed",
            f"model {identity} belongs to namespace {owner}; a claim of {namespace} may not use it",
            "use a model of the pod's own namespace or a cluster-scoped one",
        )  # fmt: skip
    if owner and class_name == SHARED_CLASS:
        message = f"class {SHARED_CLASS} has only cluster-scoped models, and {identity} is one of namespace {owner}"
        return stop(about, "OtherClass", message, f"claim it through class {PRIVATE_CLASS}")
    if not owner and class_name == PRIVATE_CLASS:
        message = f"class {PRIVATE_CLASS} has only namespaced models, and {identity} is cluster-scoped"
        return stop(about, "OtherClass", message, f"claim it through class {SHARED_CLASS}")
    return None


def _nodes(about: str, identity: str, found: DeviceSurroundings, cluster: ClusterView) -> Iterator[Finding]:
    """Yield which nodes offer a model, are removing or repairing it, are fetching it, or have no driver for it."""
    published = _published(identity, found)
    offering = sorted(node for node, devices in published.items() if any(not d.taints for d in devices))
    if offering:
        yield fact(about, "Nodes", f"{identity} is offered by {some(offering)}")
    for node in sorted(published.keys() - set(offering)):
        taints = some(dict.fromkeys(taint.key for device in published[node] for taint in device.taints))
        yield wait(
            f"{identity} on node/{node}", "Tainted", f"the device has the taint {taints}, so no new claim gets it"
        )
    fetching, unpublished = _not_published(identity, cluster, published)
    for node, phase in sorted(fetching.items()):
        yield wait(f"{identity} on node/{node}", "Fetching", f"{phase}; it is offered once it is Ready")
    for node in unpublished if "resourceslices" not in found.hidden else ():
        log = _DRIVER_LOG.format(cluster.release_namespace)
        yield stop(
            f"{identity} on node/{node}", "NotPublished", "the node has the model, but offers no device for it", log
        )
    if not published and not fetching and not unpublished and "modelnodes" not in cluster.hidden:
        message = f"no node has model {identity} or is fetching it"
        yield stop(about, "NoNodes", message, "run `larder why` on the model, and check the name in the selector")


def _published(identity: str, found: DeviceSurroundings) -> dict[str, list[PublishedDevice]]:
    wanted, nodes = attribute_text(identity), defaultdict[str, list[PublishedDevice]](list)
    for body in found.slices:
        for device in body.spec.devices:
            if wanted and device.attributes.get("model") is not None and device.attributes["model"].string == wanted:
                nodes[body.spec.node_name].append(device)
    return dict(nodes)


def _not_published(
    identity: str, cluster: ClusterView, published: dict[str, list[PublishedDevice]]
) -> tuple[dict[str, str], list[str]]:
    """Return the nodes that are fetching a model, with its phase, and those that have it but do not offer it."""
    fetching, unpublished = dict[str, str](), list[str]()
    for name, found in sorted(cluster.model_nodes.items()):
        statuses = {status.key: status.phase for status in found.status.entries}
        for entry in found.spec.entries:
            if entry.id != identity or name in published or entry.state != EntryState.PRESENT:
                continue
            phase = statuses.get(entry.key, Phase.PENDING)
            if phase in COMPLETE_PHASES:
                unpublished.append(name)
            else:
                fetching[name] = phase
    return fetching, list(dict.fromkeys(unpublished))
