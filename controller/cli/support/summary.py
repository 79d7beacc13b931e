"""The short files of a bundle: versions, effective settings, one line per node. No input or output."""

import io
from collections import Counter
from collections.abc import Iterable

import msgspec
from rich.console import Console

from controller.cli.status.report import ObservedModel, report_of
from controller.cli.status.show import View, Writer
from controller.cli.support.redact import redact, redact_text
from controller.cli.support.trim import belongs_to_larder
from shared.api.kinds import STATUS_KINDS
from shared.json_object import Json

NODE_HEAD = "node\tgeneration\tobserved\tready\tentries\treasons\tused\treserved\tlimit\tdiskFree\tagent"


def versions(server: Json, cli: str, workloads: Iterable[Json], agents: Counter[str]) -> Json:
    """Return the versions in use; the chart's are read from labels, because helm keeps the rest in a Secret."""
    ours = [w for w in workloads if belongs_to_larder(w)]
    return {
        "server": redact(server),
        "cli": cli,
        "agents": dict(sorted(agents.items())),
        "workloads": {w["metadata"]["name"]: _versions_of(w) for w in ours},
        "note": "helm keeps a release's values and revision in a Secret, which is not read; see settings.json",
    }


def _versions_of(workload: Json) -> Json:
    meta = workload["metadata"]
    labels, annotations = meta.get("labels") or {}, meta.get("annotations") or {}
    return {
        "release": annotations.get("meta.helm.sh/release-name", ""),
        "namespace": annotations.get("meta.helm.sh/release-namespace", ""),
        "chart": labels.get("helm.sh/chart", ""),
        "version": labels.get("app.kubernetes.io/version", ""),
        "images": [redact_text(c.get("image", "")) for c in _containers(workload)],
    }


def settings(workloads: Iterable[Json]) -> Json:
    """Return the environment of each of our containers, which reflects the chart's values."""
    return {
        f"{w['metadata']['name']}/{c['name']}": redact(c.get("env") or [], "env")
        for w in workloads
        if belongs_to_larder(w)
        for c in _containers(w)
    }


def _containers(workload: Json) -> list[Json]:
    found: list[Json] = workload.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or []
    return found


def node_line(model_node: Json) -> str:
    """Return one line of tab-separated values; see `NODE_HEAD`."""
    meta, status = model_node["metadata"], model_node.get("status") or {}
    reasons = Counter(e["reason"] for e in status.get("entries") or [] if e.get("reason"))
    cells = (
        meta["name"], meta.get("generation", 0), status.get("observedGeneration", 0), status.get("readyCount", 0),
        len((model_node.get("spec") or {}).get("entries") or []),
        ",".join(f"{reason}:{count}" for reason, count in sorted(reasons.items())) or "-",
        status.get("used", 0), status.get("reserved", 0), (model_node.get("spec") or {}).get("storageLimit", 0),
        status.get("diskFree", 0), status.get("agentVersion", "") or "-",
    )  # fmt: skip
    return "\t".join(str(cell) for cell in cells)


def status_text(declared: Iterable[Json]) -> str:
    """Return the output of `larder status -A -o wide`."""
    definitions = {d.kind: d for d in STATUS_KINDS}
    reports = [
        report_of(definitions[m["kind"]], msgspec.convert(m, ObservedModel))
        for m in declared
        if m["kind"] in definitions
    ]
    output = io.StringIO()
    Writer(Console(file=output, color_system=None, soft_wrap=True), View("wide")).show(reports)
    return redact_text(output.getvalue())
