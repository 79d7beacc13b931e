"""Reads pods, workloads, and objects of any kind with their dependents; never a Secret."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote

from controller.cli.why.claims import template_claims
from controller.cli.why.discovery import ServedKind, ServedKinds, read_served_kinds
from controller.cli.why.kinds import ObservedPod, Workload, WorkloadEvent
from controller.cli.why.objects import ObservedObject, ObservedTree
from controller.cli.why.observe import listed_unless_forbidden
from controller.cli.why.observe_devices import DeviceObserver
from controller.cli.why.owner_references import controller_of, descendants, unknown_owners
from controller.cli.why.subject import WORKLOADS
from controller.cli.why.view import PodSurroundings
from controller.cli.why.workloads import ObservedWorkload, blocked_pods, workload_of
from controller.placement.volume_names import read_claims
from shared.api.core import PersistentVolumeClaim, claims_in, pods_in
from shared.kube.collection import get_object, list_metadata, list_objects
from shared.kube.errors import NotFound, Refused
from shared.kube.objects import Meta, Object
from shared.kube.transport import Kube

_MAX_OWNERS = 10
_MAX_KINDS = 30  # read to find an object's dependents, with pods and workloads


@dataclass(slots=True)
class ObjectObserver:
    """Reads objects that are not Larder's: pods and their owners; `larder_namespace` is where Larder runs."""

    kube: Kube
    larder_namespace: str
    _served: ServedKinds | None = field(default=None, init=False)

    async def served(self) -> ServedKinds:
        """Return the kinds that the API server serves, read once. Raises KubeError."""
        if self._served is None:
            self._served = await read_served_kinds(self.kube)
        return self._served

    async def pod(self, namespace: str, name: str) -> ObservedPod | None:
        """Read a pod, or return None if it does not exist. Raises KubeError."""
        return await get_object(self.kube, f"{pods_in(namespace)}/{quote(name, safe='')}", ObservedPod)

    async def workload(self, kind: str, namespace: str, name: str) -> ObservedWorkload | None:
        """Read a workload with its pods and the warnings about it; None if it does not exist. Raises KubeError."""
        path = _collection(kind, namespace)
        body = await get_object(self.kube, f"{path}/{quote(name, safe='')}", Workload)
        if body is None:
            return None
        labels = {"labelSelector": ",".join(f"{k}={v}" for k, v in sorted(body.spec.selector.match_labels.items()))}
        sets = []
        if kind == "Deployment":
            sets = await list_objects(self.kube, _collection("ReplicaSet", namespace), Workload, labels)
        pods = await list_objects(self.kube, pods_in(namespace), ObservedPod, labels)
        found = workload_of(kind, body, sets, pods, ())
        uids = [meta.uid for meta in (body.metadata, found.newest.metadata if found.newest else None) if meta]
        warnings = tuple([event for uid in uids for event in await self._warnings(namespace, uid)])
        return replace(found, warnings=warnings, around=await self.around_all(found.pods))

    async def tree(self, kind: ServedKind, namespace: str, name: str) -> ObservedTree | None:
        """Read an object of any kind, and the pods and workloads below it; None if it does not exist. Raises KubeError.

        Owner references lead upwards only. So the namespace's pods, workloads and warnings are read first, then the
        kinds of their owners, as far as this user may list them.
        """
        root = await get_object(self.kube, kind.path(namespace, name), ObservedObject)
        if root is None:
            return None
        if not kind.namespaced:
            return ObservedTree(kind.kind, root)
        hidden: dict[str, Refused] = {}
        pods = await listed_unless_forbidden(list_objects(self.kube, pods_in(namespace), ObservedPod), "pods", hidden)
        workloads = await self._workloads(namespace, hidden)
        warnings = await self._warnings(namespace)
        known = {one.metadata.uid: one.metadata for one in (root, *pods, *(w for ws in workloads.values() for w in ws))}
        known |= await self._owners(known, warnings, namespace, hidden)
        below = descendants(root.metadata.uid, known)
        found = [
            workload_of(word, body, workloads["ReplicaSet"], pods, warnings)
            for word, bodies in workloads.items()
            for body in bodies
            if body.metadata.uid in below and not (word == "ReplicaSet" and _has_owner(body, "Deployment"))
        ]
        loose = _pods_outside(found, [pod for pod in pods if pod.metadata.uid in below])
        reported = {pod.metadata.uid for pod in pods} | {uid for workload in found for uid in _reported_uids(workload)}
        unreported = {root.metadata.uid, *below} - reported
        return ObservedTree(
            kind.kind,
            root,
            tuple([replace(w, around=await self.around_all(w.pods)) for w in found]),
            loose,
            tuple(event for event in warnings if event.involved_object.uid in unreported),
            await self.around_all(loose),
            tuple(sorted(hidden)),
        )

    async def _workloads(self, namespace: str, hidden: dict[str, Refused]) -> dict[str, Sequence[Workload]]:
        """Return the namespace's workloads by kind; kinds that this user may not list are added to `hidden`."""
        return {
            kind: await listed_unless_forbidden(
                list_objects(self.kube, _collection(kind, namespace), Workload), f"{kind.lower()}s", hidden
            )
            for kind in WORKLOADS
        }

    async def around_all(self, pods: Sequence[ObservedPod]) -> dict[str, PodSurroundings]:
        """Read the surroundings of the pods that are explained one by one."""
        return {pod.metadata.uid: await self.around(pod, owners=False) for pod in blocked_pods(pods)}

    async def around(self, pod: ObservedPod, *, owners: bool = True) -> PodSurroundings:
        """Read the surroundings of a pod. Raises KubeError."""
        meta = pod.metadata
        warnings = await self._warnings(meta.namespace, meta.uid)
        above = await self._owners_of(meta) if owners else ()
        devices = DeviceObserver(self.kube, self.larder_namespace)
        return PodSurroundings(
            above,
            await self._claims(pod),
            tuple(warnings),
            await devices.around(pod),
            await devices.scheduling(pod),
        )

    async def _claims(self, pod: ObservedPod) -> dict[str, PersistentVolumeClaim] | None:
        """Return the pod's claims that Larder created, by name; None if this user may not read them.

        The names are escaped: the API server does not check them, and the request uses the caller's rights.
        """
        found, path = dict[str, PersistentVolumeClaim](), claims_in(pod.metadata.namespace)
        for name in (*read_claims(pod.metadata.annotations), *template_claims(pod)):
            try:
                claim = await get_object(self.kube, f"{path}/{quote(name, safe='')}", PersistentVolumeClaim)
            except Refused:
                return None
            if claim is not None:
                found[name] = claim
        return found

    async def _owners_of(self, meta: Meta) -> tuple[str, ...]:
        """Return the owners of an object that this user may read, from its controller upwards."""
        found: list[str] = []
        above: Meta | None = meta
        while above is not None and (owner := controller_of(above)) is not None and len(found) < _MAX_OWNERS:
            found.append(f"{owner.get('kind', '')} {owner.get('name', '')}")
            kind = (await self.served()).of(str(owner.get("apiVersion", "")), str(owner.get("kind", "")))
            above = await self._meta(kind, meta.namespace, str(owner.get("name", "")))
        return tuple(found)

    async def _meta(self, kind: ServedKind | None, namespace: str, name: str) -> Meta | None:
        if kind is None or kind.is_secret:
            return None
        try:
            found = await get_object(self.kube, kind.path(namespace, name), Object)
        except Refused:
            return None
        return found.metadata if found is not None else None

    async def _owners(
        self, known: Mapping[str, Meta], warnings: Sequence[WorkloadEvent], namespace: str, hidden: dict[str, Refused]
    ) -> dict[str, Meta]:
        """Return the objects above the known ones, and those that warnings are about, by uid."""
        served, found = await self.served(), dict(known)
        wanted = {(e.involved_object.api_version, e.involved_object.kind) for e in warnings} | unknown_owners(found)
        read = {("v1", "Pod"), *(("batch/v1" if w == "Job" else "apps/v1", w) for w in WORKLOADS)}
        while (ahead := sorted(wanted - read)) and len(read) < _MAX_KINDS:
            read.add(ahead[0])
            kind = served.of(*ahead[0])
            if kind is None or kind.is_secret or not kind.namespaced:
                continue
            try:
                listed = await listed_unless_forbidden(
                    list_metadata(self.kube, kind.path(namespace)), kind.plural, hidden
                )
            except NotFound:
                continue  # a kind that was removed, or that cannot be listed
            found |= {one.metadata.uid: one.metadata for one in listed}
            wanted |= unknown_owners(found)
        return found

    async def _warnings(self, namespace: str, uid: str = "") -> list[WorkloadEvent]:
        """Return the warnings about an object, or in a namespace, newest first; none if Events may not be read."""
        query = {"fieldSelector": "type=Warning" + (f",involvedObject.uid={uid}" if uid else "")}
        try:
            found = await list_objects(self.kube, f"/api/v1/namespaces/{namespace}/events", WorkloadEvent, query)
        except Refused:
            return []
        return sorted(found, key=lambda event: event.time, reverse=True)


def _collection(kind: str, namespace: str) -> str:
    return f"/apis/{'batch' if kind == 'Job' else 'apps'}/v1/namespaces/{namespace}/{kind.lower()}s"


def _pods_outside(workloads: Sequence[ObservedWorkload], pods: Sequence[ObservedPod]) -> tuple[ObservedPod, ...]:
    theirs = {pod.metadata.uid for workload in workloads for pod in workload.pods}
    return tuple(pod for pod in pods if pod.metadata.uid not in theirs)


def _reported_uids(workload: ObservedWorkload) -> set[str]:
    """Return the uids of the workload and its newest ReplicaSet, whose warnings are reported with the workload."""
    return {body.metadata.uid for body in (workload.body, workload.newest) if body is not None}


def _has_owner(workload: Workload, kind: str) -> bool:
    return any(reference.get("kind") == kind for reference in workload.metadata.owner_references)
