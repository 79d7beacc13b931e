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
    "status": Command("controller.cli.status.command", "models: what is where, how far, and why not", _CONTROLLER),
    "why": Command(
        "controller.cli.why.command",
        "why a model, pod, node or group is stuck, and the way out",
        _CONTROLLER,
    ),
    "support": Command("controller.cli.support.command", "one file for a ticket, without a secret in it", _CONTROLLER),
    "evict": Command(
        "controller.cli.evict.command",
        "what would go from nodes to make room, in which order",
        _CONTROLLER,
    ),
    "fetch": Command(
        "agent.cli.command",
        "fetch a model into a directory, verified, without a cluster",
        _BOTH,
    ),
    "extract": Command("agent.cli.extract", "what a metadata Job runs on a claim", _AGENT),
    "inspect": Command("controller.cli.inspect", "what a model is, by reading parts of its files alone", _CONTROLLER),
    "demo": Command(
        "rig.demo", "the main job on a real control plane on this machine", "a checkout: run `make demo` there"
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; each module has `main(arguments) -> int`."""
    atexit.register(gc.freeze)  # skips the final collection, which takes a tenth of a second
    given = list(sys.argv[1:] if arguments is None else arguments)
    name = given[0] if given else "--help"
    if name in ("-h", "--help", "help"):
        sys.stdout.write(_usage())
        return 0 if given else 2
    if name == "--version":
        sys.stdout.write(f"larder {__version__}\n")
        return 0
    command = COMMANDS.get(name)
    if command is None:
        sys.stderr.write(f"larder: there is no command {name!r}\n{_usage()}")
        return 2
    try:
        module = import_module(command.module)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"larder {name}: {error.name} is not installed; it needs {command.needs}\n")
        return 2
    run: Callable[[Sequence[str]], int] = module.main
    return run(given[1:])


def _usage() -> str:
    width = max(len(name) for name in COMMANDS)
    lines = [f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items()]
    return "\n".join(["usage: larder COMMAND [ARGUMENTS]", "", *lines, "", "`larder COMMAND --help` tells more.", ""])


if __name__ == "__main__":
    sys.exit(main())
