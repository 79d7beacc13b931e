"""`python -m rig`: installs the programs that the tests use, and runs some of them by hand."""

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rig import azurite, binaries, build
from rig.fake_nodes import FakeKubelet, NodeSpec
from rig.hub import Hub
from rig.karpenter import files as karpenter_files
from rig.kserve import files as kserve_files
from rig.model import write_model
from rig.node import command as node_command
from rig.operators import jobset, kueue, lws
from shared.errors import LarderError
from shared.kube.transport import connect

_MIB = 1024 * 1024
_BEAT_S = 1.0


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    try:
        code: int = arguments.run(arguments)
    except LarderError as error:
        print(f"{error.reason}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m rig", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    setup = commands.add_parser("setup", help="find, download or compile the programs that the tests use")
    setup.add_argument("--quiet", action="store_true", help="print nothing if all programs are in place")
    setup.set_defaults(run=_setup)
    nodes = commands.add_parser("nodes", help="send heartbeats for Node objects, as kubelets do")
    nodes.add_argument("--kubeconfig", type=Path, required=True)
    nodes.add_argument("--beat", type=float, default=_BEAT_S, metavar="SECONDS")
    nodes.add_argument("node", nargs="+", type=_node, metavar="NAME[,LABEL=VALUE...]")
    nodes.set_defaults(run=_nodes)
    hub = commands.add_parser("hub", help="serve the repositories ROOT/owner/name as a Hugging Face hub")
    hub.add_argument("--port", type=int)
    hub.add_argument("--state", type=Path, required=True, help="directory for copies of the files")
    hub.add_argument("root", type=Path, metavar="ROOT")
    hub.set_defaults(run=_hub)
    model = commands.add_parser("model", help="write a small Llama-style model to a directory")
    model.add_argument("--mib", type=float, default=24.0)
    model.add_argument("--shards", type=int, default=3)
    model.add_argument("--seed", type=int, default=0)
    model.add_argument("folder", type=Path, metavar="DIRECTORY")
    model.set_defaults(run=_model)
    node_command.add_to(commands)
    return parser


def _setup(arguments: argparse.Namespace) -> int:
    build.setup(os.environ, lambda line: print(line, flush=True), binaries.SET_UP)
    azurite.ensure(os.environ, lambda line: print(line, flush=True))
    for files in (kserve_files.FILES, karpenter_files.FILES, lws.FILES, jobset.FILES, kueue.FILES):
        files.ensure(os.environ, lambda line: print(line, flush=True))
    if not arguments.quiet:
        for binary in binaries.SET_UP:
            place = binaries.locate(binary, os.environ)
            ours = place == binaries.cached(binary, binaries.cache_dir(os.environ))
            print(f"{binary.name:24} {binary.version if ours else '(yours)':8} {place}")
    return 0


def _nodes(arguments: argparse.Namespace) -> int:
    asyncio.run(_keep_alive(arguments.kubeconfig, arguments.node, arguments.beat))
    return 0


async def _keep_alive(kubeconfig: Path, specs: Sequence[NodeSpec], beat_s: float) -> None:
    async with connect(kubeconfig, user_agent="rig-nodes") as kube:
        kubelet = FakeKubelet(kube, beat_s)
        for spec in specs:
            await kubelet.add(spec)
            print(f"{spec.name} is alive", flush=True)
        await kubelet.run()


def _hub(arguments: argparse.Namespace) -> int:
    ends = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # before threads start, so that only this thread receives them
    with Hub(arguments.state, port=arguments.port) as hub:
        for folder in sorted(path for path in arguments.root.glob("*/*") if path.is_dir()):
            name = folder.relative_to(arguments.root).as_posix()
            print(f"{name} {hub.push(name, folder)}", flush=True)
        print(f"HF_ENDPOINT={hub.endpoint}", flush=True)
        signal.sigwait(ends)
    return 0


def _model(arguments: argparse.Namespace) -> int:
    size_bytes = int(arguments.mib * _MIB)
    print(write_model(arguments.folder, size_bytes=size_bytes, shards=arguments.shards, seed=arguments.seed))
    return 0


def _node(text: str) -> NodeSpec:
    name, *labels = text.split(",")
    return NodeSpec(name, dict(label.split("=", 1) for label in labels))


if __name__ == "__main__":
    sys.exit(main())
