"""`larder status`: reads what the user may see and prints it once, or on every change."""

import argparse
import functools
import shutil
import sys
from collections.abc import Sequence

from rich.console import Console

from controller.cli.cluster import add_cluster_options, add_namespace_options, add_output_option, run_on_cluster
from controller.cli.status.observe import VisibleModels, check_node, read_models
from controller.cli.status.report import ModelReport, on_node, report_of, unlisted
from controller.cli.status.show import FORMATS, View, Writer
from controller.cli.status.watch import follow
from shared.exit_codes import printable
from shared.kube.transport import Kube


def main(arguments: Sequence[str]) -> int:
    """Show the models once, or until interrupted; return 1 if nothing could be read."""
    parser = argparse.ArgumentParser(
        prog="larder status", description="Show where each model is, its progress, and what blocks it."
    )
    parser.add_argument("--node", metavar="NAME", help="show only the models on this node, each with its state there")
    parser.add_argument("-w", "--watch", action="store_true", help="keep running, and print a line for each change")
    add_output_option(parser, *FORMATS)
    add_namespace_options(parser, all_namespaces=True)
    add_cluster_options(parser)
    options = parser.parse_args(arguments)
    return run_on_cluster(options, functools.partial(_show, options))


async def _show(options: argparse.Namespace, kube: Kube) -> int:
    if options.node:
        await check_node(kube, options.node)
    visible = await read_models(kube, everywhere=options.all_namespaces)
    reports = reports_of(visible)
    for note in (*visible.notes, *(unlisted(reports, options.node) if options.node else ())):
        sys.stderr.write(f"Note: {printable(note)}\n")
    width = shutil.get_terminal_size(fallback=(0, 0)).columns
    where = "any namespace" if options.all_namespaces else f"namespace {kube.namespace}"
    view = View(options.output, width, node=options.node or "", where=where, grows=options.watch)
    writer = Writer(Console(highlight=False, markup=False, soft_wrap=True, emoji=False), view)
    if not options.watch:
        writer.show(on_node(reports, options.node) if options.node else reports)
        return 0
    await follow(kube, visible, writer, options.node or "")
    return 0


def reports_of(visible: VisibleModels) -> list[ModelReport]:
    """Return the reports of all models, sorted by kind, namespace and name."""
    reports = [report_of(listing.definition, model) for listing in visible.listings for model in listing.models]
    return sorted(reports, key=lambda r: (r.resource.partition("/")[0], r.namespace, r.name))
