"""`larder why`: what keeps one object from its desired state."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime

from controller.cli.cluster import add_cluster_options, add_namespace_options, run_on_cluster
from controller.cli.why.findings import Diagnosis, Finding, not_found
from controller.cli.why.groups import why_group
from controller.cli.why.models import why_model
from controller.cli.why.nodes import why_node
from controller.cli.why.observe import Observer
from controller.cli.why.pods import why_pod
from controller.cli.why.subject import WORKLOADS, Subject, parse_subject
from controller.cli.why.workloads import why_workload
from shared.exit_codes import printable
from shared.kube.transport import Kube

_NEEDED = {
    "BaseModel": "basemodels",
    "ClusterBaseModel": "clusterbasemodels",
    "ClusterModelCache": "clustermodelcaches",
    "ModelCacheNodeGroup": "modelcachenodegroups",
    "Node": "nodes",
}  # without these nothing can be said about the kind


def main(arguments: Sequence[str]) -> int:
    """Print the answer; return 1 if the cluster does not answer, the object does not exist, or its model failed."""
    parser = argparse.ArgumentParser(prog="larder why", description="Why something is stuck, and the way out.")
    parser.add_argument(
        "subject", metavar="KIND/NAME", help="cmc/x, cbm/x, bm/x, pod/x, deploy/x, rs/x, sts/x, job/x, node/x, mcng/x"
    )
    add_cluster_options(parser)
    add_namespace_options(parser)
    parser.add_argument("--larder-namespace", default="larder-system", help="where Larder runs (%(default)s)")
    given = parser.parse_args(arguments)
    try:
        subject = parse_subject(given.subject)
    except ValueError as error:
        parser.error(str(error))

    async def tell(kube: Kube) -> int:
        observer = Observer(kube, given.larder_namespace, lambda: datetime.now(UTC))
        answer = await answer_of(subject.within(kube.namespace), observer)
        print(shown(answer))
        return 1 if answer.failed else 0

    return run_on_cluster(given, tell)


async def answer_of(subject: Subject, observer: Observer) -> Diagnosis:
    """Return the diagnosis of one object. Raises KubeError."""
    seen = await observer.look(subject.namespace)
    if refused := seen.hidden.get(_NEEDED.get(subject.kind, "")):
        raise refused
    match subject.kind:
        case "Node":
            return why_node(subject.name, seen)
        case "ModelCacheNodeGroup":
            return why_group(subject.name, seen)
        case "Pod":
            pod = await observer.pod(subject.namespace, subject.name)
            return why_pod(pod, seen) if pod else _missing(subject)
        case kind if kind in WORKLOADS:
            workload = await observer.workload(kind, subject.namespace, subject.name)
            return why_workload(workload, seen) if workload else _missing(subject)
        case _:
            found = seen.model(subject.kind, subject.namespace, subject.name)
            return why_model(found, seen) if found else _missing(subject)


def shown(answer: Diagnosis) -> str:
    """Return the printed answer: the verdict, then one or two lines per finding."""
    return "\n".join([f"{answer.title}: {answer.verdict}", *(_lines(f) for f in answer.findings)])


def _lines(finding: Finding) -> str:
    line = f"  {finding.weight} {finding.about}: {finding.reason}: {finding.words}"
    return f"{printable(line)}\n      do: {printable(finding.do)}" if finding.do else printable(line)


def _missing(subject: Subject) -> Diagnosis:
    place = f" in namespace {subject.namespace}" if subject.namespace else ""
    title = f"{subject.kind} {subject.name}"
    return not_found(title, f"there is no such object{place}", "see `larder status`")
