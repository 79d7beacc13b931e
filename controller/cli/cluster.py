"""Options shared by all commands that read a cluster, and their error handling."""

import argparse
import asyncio
import dataclasses
import re
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from shared.exit_codes import INTERRUPTED, failure_line, leave, open_streams
from shared.kube.errors import Refused
from shared.kube.transport import Kube, connect

_NAMESPACE = re.compile(r"[a-z0-9-]{1,63}")
_REMEDIES = {
    401: "; the credentials are invalid or have expired: log in again, or choose another --context",
    403: "; ask for a role that allows it, or name one of your namespaces with -n",
}


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the cluster, as in kubectl."""
    parser.add_argument(
        "--kubeconfig", type=Path, metavar="FILE", help="the kubeconfig (default: the one that kubectl uses)"
    )
    parser.add_argument("--context", metavar="NAME", help="the context of the kubeconfig (default: the current one)")


def add_namespace_options(parser: argparse.ArgumentParser, *, all_namespaces: bool = False) -> None:
    """Add the options that choose the namespace; the command gets it as `kube.namespace`."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "-n", "--namespace", type=_namespace, metavar="NAME", help="the namespace (default: that of the context)"
    )
    if all_namespaces:
        which.add_argument("-A", "--all-namespaces", action="store_true", help="use all namespaces")


def add_output_option(parser: argparse.ArgumentParser, *formats: str) -> None:
    """Add the option that chooses the output format."""
    parser.add_argument(
        "-o", "--output", choices=formats, default=formats[0], help="the output format (default: %(default)s)"
    )


def _namespace(text: str) -> str:
    if not _NAMESPACE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a valid namespace; `kubectl get namespaces` lists them")
    return text


def run_on_cluster(options: argparse.Namespace, act: Callable[[Kube], Awaitable[int]]) -> int:
    """Run a command and return its exit code; a failure prints one line on stderr and returns 1, an interrupt 130."""
    stdout, _ = open_streams()
    try:
        code = asyncio.run(_connected(options, act))
        stdout.flush()  # not at exit, where a failure is a traceback
    except BrokenPipeError:  # the reader has closed the pipe
        return leave(1)
    except OSError as error:
        sys.stderr.write(f"StoreFailure: the output cannot be written: {error.strerror}; write it elsewhere\n")
        return leave(1)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - every failure is reported in one line
        sys.stderr.write(f"{failure_line(error)}{_remedy(error)}\n")
        return 1
    return code


async def _connected(options: argparse.Namespace, act: Callable[[Kube], Awaitable[int]]) -> int:
    async with connect(options.kubeconfig, user_agent="larder-cli", context=options.context) as kube:
        named: str | None = getattr(options, "namespace", None)
        return await act(dataclasses.replace(kube, namespace=named) if named else kube)


def _remedy(error: Exception) -> str:
    return _REMEDIES.get(error.code, "") if isinstance(error, Refused) else ""
