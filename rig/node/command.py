"""`python -m rig node`: prepares this machine for real nodes, builds the images, or runs a cluster."""

import argparse
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

from rig.binaries import NODE, cache_dir, locate
from rig.errors import SetupFailed
from rig.node import images, prepare, programs
from rig.node.buildah import Buildah
from rig.node.cluster import NodeCluster
from rig.node.installation import Installation
from rig.node.sources import sources_on

REQUIRED = "LARDER_E2E"  # set to "required", it makes missing real nodes an error
_MB = 1_000_000


def add_to(commands: Any) -> None:  # noqa: ANN401 - the type of subparsers is private in argparse
    """Add the command and its subcommands."""
    node = commands.add_parser(
        "node", help="run real nodes with kubelet, containerd and pods (needs root)", description=__doc__
    )
    below = node.add_subparsers(required=True, metavar="COMMAND")
    setup = below.add_parser("setup", help="install Debian packages, compile the programs, build the base image")
    setup.add_argument(
        "--if-possible",
        action="store_true",
        help=f"do not fail if this machine cannot run nodes, unless {REQUIRED}=required is set",
    )
    setup.set_defaults(run=_setup)
    build = below.add_parser("images", help="build the images; print their size and how long they take to start")
    build.set_defaults(run=_images)
    up = below.add_parser("up", help="run a cluster with Larder until Ctrl-C")
    up.add_argument("--nodes", type=int, default=1)
    up.set_defaults(run=_up)


def _say(line: str) -> None:
    print(line, flush=True)


def _setup(arguments: argparse.Namespace) -> int:
    may_go_on = arguments.if_possible and os.environ.get(REQUIRED) != "required"
    if may_go_on and (found := prepare.obstacles()):
        _say(f"no real nodes on this machine, tests/e2e WILL BE SKIPPED: {'; '.join(found)}")
        return 0
    try:
        prepare.setup(os.environ, _say)
    except SetupFailed as error:
        if not may_go_on:
            raise
        _say(f"no real nodes on this machine, tests/e2e WILL BE SKIPPED: {error}")
        return 0
    for binary in NODE:
        _say(f"{binary.name:24} {binary.version:8} {locate(binary, os.environ)}")
    return 0


def _images(_: argparse.Namespace) -> int:
    if os.geteuid() != 0 or programs.missing():
        raise SetupFailed(
            f"buildah needs root here, and packages ({', '.join(programs.missing()) or 'all installed'}); "
            "run as root: python -m rig node setup"
        )
    cache = cache_dir(os.environ)
    buildah = Buildah(cache)
    images.build_project(buildah, cache, _say)
    for tag in (images.AGENT, images.CONTROLLER):
        cost = images.measure(buildah, tag)
        _say(f"{cost.tag:40} {cost.compressed_bytes / _MB:6.0f} MB compressed, starts in {cost.start_s:.1f} s")
    return 0


def _up(arguments: argparse.Namespace) -> int:
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before threads start, so that only this thread receives them
    tools, cache = prepare.setup(os.environ, _say), cache_dir(os.environ)
    archives = images.build_all(cache, _say)
    with tempfile.TemporaryDirectory(prefix="larder-node-") as folder:
        state = Path(folder)
        with NodeCluster(tools, state, cache) as cluster, sources_on(cluster, state) as (hub, s3):
            for archive in archives:
                cluster.load_image(archive)
            for number in range(arguments.nodes):
                cluster.add_node(f"node-{number + 1}")
            site = Installation(cluster=cluster, hub=hub, s3=s3, folder=state / "models")
            site.install()
            _say(f"KUBECONFIG={cluster.kubeconfig} {tools.plane.kubectl} get nodes")
            _say(f"model to try: {site.push()}; press Ctrl-C to stop the cluster")
            signal.sigwait(ends)
    return 0
