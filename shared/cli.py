"""`larder`, also installed as `kubectl larder`: finds a command and the package that implements it."""

import atexit
import gc
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import NamedTuple

from shared import __version__


class Command(NamedTuple):
    """A command: its module, its summary, and what must be installed for it."""

    module: str
    summary: str
    needs: str


_AGENT, _CONTROLLER, _BOTH = (f"kube-larder[{extras}]" for extras in ("agent", "controller", "agent,controller"))
# By name, not by import: controller and agent never import each other, and an image has only one of them.
COMMANDS = {
    "status": Command(
        "controller.cli.status.command", "show where each model is, its progress, and what blocks it", _CONTROLLER
    ),
    "why": Command(
        "controller.cli.why.command",
        "explain why a model, pod, workload, node or group is stuck, and how to fix it",
        _CONTROLLER,
    ),
    "support": Command(
        "controller.cli.support.command", "collect one file for a support ticket, without secrets", _CONTROLLER
    ),
    "evict": Command(
        "controller.cli.evict.command",
        "preview which models nodes would evict to make room, and in which order",
        _CONTROLLER,
    ),
    "gc": Command(
        "controller.cli.gc.command", "show or delete claims that Larder created and whose owner is gone", _CONTROLLER
    ),
    "fetch": Command(
        "agent.cli.fetch_command",
        "download and verify a model into a directory, without a cluster",
        _BOTH,
    ),
    "extract": Command("agent.cli.extract_metadata", "read metadata on a claim; run by metadata Jobs", _AGENT),
    "fill": Command("agent.cli.fill", "put a model on a claim; run by download Jobs", _AGENT),
    "dra": Command("agent.dra.command", "let pods claim the models of a node as devices; run by the chart", _AGENT),
    "inspect": Command("controller.cli.inspect", "describe a model by reading only parts of its files", _CONTROLLER),
    "demo": Command(
        "rig.demo", "run Larder against a real control plane on this machine", "a checkout: run `make demo` there"
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; each module has `main(arguments) -> int`."""
    atexit.register(gc.freeze)  # skips the final collection, which takes a tenth of a second
    argv = list(sys.argv[1:] if arguments is None else arguments)
    name = argv[0] if argv else "--help"
    if name in ("-h", "--help", "help"):
        sys.stdout.write(_usage())
        return 0 if argv else 2
    if name == "--version":
        sys.stdout.write(f"larder {__version__}\n")
        return 0
    command = COMMANDS.get(name)
    if command is None:
        sys.stderr.write(f"larder: unknown command {name!r}\n{_usage()}")
        return 2
    try:
        module = import_module(command.module)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"larder {name}: {error.name} is not installed; this command needs {command.needs}\n")
        return 2
    run: Callable[[Sequence[str]], int] = module.main
    return run(argv[1:])


def _usage() -> str:
    width = max(len(name) for name in COMMANDS)
    lines = [f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(["usage: larder COMMAND [ARGUMENTS]", "", *lines, "", "`larder COMMAND --help` shows more.", ""])


if __name__ == "__main__":
    sys.exit(main())
