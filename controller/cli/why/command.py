"""`larder why`: what keeps one thing from where it should be."""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from controller.cli.why.findings import Answer, Finding, stop
from controller.cli.why.groups import why_group
from controller.cli.why.models import why_model
from controller.cli.why.nodes import why_node
from controller.cli.why.observe import Observer
from controller.cli.why.pods import why_pod
from controller.cli.why.subject import Subject, parse_subject
from shared.errors import LarderError
from shared.kube.transport import connect


def main(arguments: Sequence[str]) -> int:
    """Print the answer; 1 where the cluster does not answer or the object is not there."""
    parser = argparse.ArgumentParser(prog="larder why", description="Why something is stuck, and the way out.")
    parser.add_argument("subject", metavar="KIND/NAME", help="cmc/x, cbm/x, bm/x, mcng/x, pod/x, node/x")
    parser.add_argument("--kubeconfig", type=Path, help="default: as kubectl's")
    parser.add_argument("-n", "--namespace", default="default", help="of a pod or BaseModel (%(default)s)")
    parser.add_argument("--larder-namespace", default="larder-system", help="where Larder runs (%(default)s)")
    given = parser.parse_args(arguments)
    try:
        subject = parse_subject(given.subject, given.namespace)
    except ValueError as error:
        parser.error(str(error))
    try:
        answer = asyncio.run(_answer(subject, given.kubeconfig, given.larder_namespace))
    except LarderError as error:
        sys.stderr.write(f"{error.reason}: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    print(shown(answer))
    return 1 if [f.reason for f in answer.findings] == ["NotFound"] else 0


async def _answer(subject: Subject, kubeconfig: Path | None, namespace: str) -> Answer:
    async with connect(kubeconfig, user_agent="larder-cli") as kube:
        observer = Observer(kube, namespace, lambda: datetime.now(UTC))
        return await answer_of(subject, observer)


async def answer_of(subject: Subject, observer: Observer) -> Answer:
    """Return the answer for one object. Raises KubeError."""
    seen = await observer.look()
    match subject.kind:
        case "Node":
            return why_node(subject.name, seen)
        case "ModelCacheNodeGroup":
            return why_group(subject.name, seen)
        case "Pod":
            pod = await observer.pod(subject.namespace, subject.name)
            return why_pod(pod, seen) if pod else _missing(subject)
        case _:
            found = seen.model(subject.kind, subject.namespace, subject.name)
            return why_model(found, seen) if found else _missing(subject)


def shown(answer: Answer) -> str:
    """Return the answer as it is printed: the verdict, then a line or two for each finding."""
    return "\n".join([f"{answer.title}: {answer.verdict}", *(_lines(f) for f in answer.findings)])


def _lines(finding: Finding) -> str:
    line = f"  {finding.weight} {finding.about}: {finding.reason}: {finding.words}"
    return f"{line}\n      do: {finding.do}" if finding.do else line


def _missing(subject: Subject) -> Answer:
    place = f" in namespace {subject.namespace}" if subject.namespace else ""
    title = f"{subject.kind} {subject.name}"
    return Answer(title, (stop(title, "NotFound", f"there is no such object{place}", "see `larder status`"),))
