"""`larder why`: explains why one object is not in its desired state."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from controller.cli.cluster import add_cluster_options, add_namespace_options, run_on_cluster
from controller.cli.why.downloads import why_model_cache, why_model_object
from controller.cli.why.findings import Diagnosis, Finding, not_found
from controller.cli.why.groups import why_group
from controller.cli.why.models import why_model
from controller.cli.why.nodes import why_node
from controller.cli.why.objects import why_object
from controller.cli.why.observe import Observer
from controller.cli.why.observe_objects import ObjectObserver
from controller.cli.why.pods import why_pod
from controller.cli.why.subject import EXAMPLES, WORKLOADS, Subject, parse_subject
from controller.cli.why.training_jobs import why_training_job
from controller.cli.why.view import ClusterView
from controller.cli.why.workloads import why_workload
from shared.api.kinds import TRAINING_JOB
from shared.exit_codes import printable
from shared.kube.transport import Kube

_NEEDED = {
    "BaseModel": "basemodels",
    "ClusterBaseModel": "clusterbasemodels",
    "ClusterModelCache": "clustermodelcaches",
    "ModelCacheNodeGroup": "modelcachenodegroups",
    "Node": "nodes",
}  # without permission to list these, the kind cannot be diagnosed


def main(arguments: Sequence[str]) -> int:
    """Print the diagnosis; return 1 if the cluster does not answer, the object does not exist, or its model failed."""
    parser = argparse.ArgumentParser(
        prog="larder why", description="Explain why an object is not in its desired state, and how to fix it."
    )
    parser.add_argument(
        "subject",
        metavar="KIND/NAME",
        help="what to explain: cmc/x, cbm/x, bm/x, mc/x, mdl/x, tj/x, pod/x, deploy/x, rs/x, sts/x, job/x, isvc/x, "
        "node/x, mcng/x, or any object that has pods; KIND.GROUP/x where several groups have the kind",
    )
    add_cluster_options(parser)
    add_namespace_options(parser)
    parser.add_argument(
        "--larder-namespace", default="larder-system", help="the namespace that Larder runs in (default: %(default)s)"
    )
    options = parser.parse_args(arguments)
    try:
        subject = parse_subject(options.subject)
    except ValueError as error:
        parser.error(str(error))

    async def show(kube: Kube) -> int:
        observer = Observer(kube, options.larder_namespace, lambda: datetime.now(UTC))
        diagnosis = await diagnose(subject.within(kube.namespace), observer, ObjectObserver(kube, observer.namespace))
        print(render(diagnosis))
        return 1 if diagnosis.failed else 0

    return run_on_cluster(options, show)


async def diagnose(subject: Subject, observer: Observer, objects: ObjectObserver) -> Diagnosis:
    """Return the diagnosis of one object. Raises KubeError."""
    cluster = await observer.view(subject.namespace)
    if refused := cluster.hidden.get(_NEEDED.get(subject.kind, "")):
        raise refused
    match subject.kind:
        case _ if subject.served:
            return await _of_any_kind(subject, cluster, objects)
        case "Node":
            return why_node(subject.name, cluster)
        case "ModelCacheNodeGroup":
            return why_group(subject.name, cluster)
        case "Pod":
            pod = await objects.pod(subject.namespace, subject.name)
            return why_pod(pod, cluster, await objects.around(pod)) if pod else _missing(subject)
        case kind if kind in WORKLOADS:
            workload = await objects.workload(kind, subject.namespace, subject.name)
            return why_workload(workload, cluster) if workload else _missing(subject)
        case "ModelCache":
            cache = await observer.model_cache(subject.namespace, subject.name)
            return why_model_cache(cache, cluster) if cache else _missing(subject)
        case "Model":
            model = await observer.model_object(subject.namespace, subject.name)
            return why_model_object(model, cluster) if model else _missing(subject)
        case "TrainingJob":
            return await _of_training_job(subject, cluster, objects)
        case _:
            found = cluster.model(subject.kind, subject.namespace, subject.name)
            return why_model(found, cluster) if found else _missing(subject)


async def _of_training_job(subject: Subject, cluster: ClusterView, objects: ObjectObserver) -> Diagnosis:
    served = (await objects.served()).of(f"{TRAINING_JOB.group}/{TRAINING_JOB.version}", subject.kind)
    found = await objects.tree(served, subject.namespace, subject.name) if served else None
    return why_training_job(found, cluster) if found else _missing(subject)


async def _of_any_kind(subject: Subject, cluster: ClusterView, objects: ObjectObserver) -> Diagnosis:
    """Return the diagnosis of an object of any served kind; several API groups may have this kind and name."""
    kinds = (await objects.served()).named(subject.kind, subject.group)
    if any(kind.is_secret for kind in kinds):
        return not_found(
            f"{subject.kind} {subject.name}",
            "this command reads no Secrets",
            "name the model or the pod that uses the Secret",
        )
    if not kinds:
        return not_found(
            f"{subject.kind} {subject.name}",
            f"the cluster serves no kind {'.'.join(filter(None, (subject.kind, subject.group)))!r}",
            f"write one of {EXAMPLES}, or a kind that `kubectl api-resources` lists",
        )
    trees = [(kind, await objects.tree(kind, subject.namespace, subject.name)) for kind in kinds]
    found = [(kind, tree) for kind, tree in trees if tree is not None]
    if len(found) > 1:
        written = [f"{kind.plural}.{kind.group}/{subject.name}" for kind, _ in found]
        message = f"{len(found)} API groups have an object of this kind and name"
        return not_found(f"{found[0][0].kind} {subject.name}", message, f"write {' or '.join(written)}", "Ambiguous")
    return why_object(found[0][1], cluster) if found else _missing(subject)


def render(diagnosis: Diagnosis) -> str:
    """Return the diagnosis as text: the summary, then one or two lines per finding."""
    summary = printable(f"{diagnosis.title}: {diagnosis.summary}")
    return "\n".join([summary, *(_lines(f) for f in diagnosis.findings)])


def _lines(finding: Finding) -> str:
    line = f"  {finding.severity} {finding.about}: {finding.reason}: {finding.message}"
    return f"{printable(line)}\n      fix: {printable(finding.remedy)}" if finding.remedy else printable(line)


def _missing(subject: Subject) -> Diagnosis:
    place = f" in namespace {subject.namespace}" if subject.namespace else ""
    kind, scope = ".".join(filter(None, (subject.kind.lower(), subject.group))), " --all-namespaces" if place else ""
    remedy = f"`kubectl get {kind}{scope}` lists those that exist"
    return not_found(f"{subject.kind} {subject.name}", f"there is no such object{place}", remedy)
