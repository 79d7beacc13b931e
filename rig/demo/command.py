"""Runs the demo: starts the components in a separate process, shows each step, then stops or keeps them."""

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from rig import build
from rig.binaries import find
from rig.demo import story
from rig.demo.holder import READY
from rig.processes import Process, Program, wait_until
from shared.errors import LarderError

_READY_S = 90.0
_GRACE_S = 20.0


def main(arguments: Sequence[str]) -> int:
    """Run the demo; returns 0 if every step worked."""
    parser = argparse.ArgumentParser(prog="larder demo", description=__doc__)
    parser.add_argument("--keep", action="store_true", help="leave the demo running and print its KUBECONFIG")
    parser.add_argument("--stop", metavar="PID", type=int, help="stop a demo that was left running")
    options = parser.parse_args(arguments)
    if options.stop:
        return _stop(options.stop)
    console = Console(highlight=False, soft_wrap=True)
    try:
        build.setup(os.environ, console.print)
        return _run(console, keep=options.keep)
    except LarderError as error:
        sys.stderr.write(f"{error.reason}: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        return 130


def _run(console: Console, *, keep: bool) -> int:
    began = time.monotonic()
    state = Path(tempfile.mkdtemp(prefix="larder-demo-"))
    holder = Process(
        Program("demo", [sys.executable, "-m", "rig.demo.holder", str(state)], outlive=keep), state / "demo.log"
    )
    kept = False
    try:
        console.print("[bold]1. A cluster[/bold]: etcd, API server, controller manager, scheduler; an S3 server; a hub")
        holder.wait_ready((state / READY).exists, _READY_S)
        facts = json.loads((state / READY).read_text())
        story.show(console, Path(facts["kubeconfig"]))
        kept = keep
        console.print(f"\nDone in {time.monotonic() - began:.0f} s.")
        _say_next(console, facts, state, keep=keep)
    finally:
        if not kept:
            holder.stop(_GRACE_S)
            shutil.rmtree(state, onerror=_make_removable)
    return 0


def _say_next(console: Console, facts: dict[str, str], state: Path, *, keep: bool) -> None:
    if not keep:
        console.print("To explore it with kubectl and `larder status --watch`, run [bold]make demo KEEP=1[/bold].")
        return
    console.print(f"The demo is still running; its files and logs are in {state}. Try:")
    console.print(f"  export KUBECONFIG={facts['kubeconfig']}")
    console.print(f"  export PATH={Path(sys.executable).parent}:{find(os.environ).kubectl.parent}:$PATH")
    console.print("  larder status --watch")
    console.print("  kubectl get larder,modelnodes -o wide")
    console.print("  kubectl label node gpu-b nvidia.com/gpu.product-      [dim]# gpu-b loses its files[/dim]")
    console.print("  kubectl delete clustermodelcache llama-3-tiny         [dim]# refused while the pod uses it[/dim]")
    console.print(f"  larder demo --stop {facts['pid']}")


def _stop(pid: int) -> int:
    command = Path(f"/proc/{pid}/cmdline")
    if not command.exists() or b"rig.demo.holder" not in command.read_bytes():
        sys.stderr.write(
            f"NotFound: process {pid} is not a demo; `larder demo --keep` prints the process ID of the demo that "
            "it leaves running\n"
        )
        return 1
    state = Path(command.read_bytes().split(b"\0")[-2].decode())
    os.kill(pid, signal.SIGTERM)
    try:
        wait_until(lambda: not command.exists(), _GRACE_S, f"process {pid} to end; its log is {state / 'demo.log'}")
    except LarderError as error:
        sys.stderr.write(f"{error.reason}: {error}\n")
        return 1
    shutil.rmtree(state, onerror=_make_removable)
    return 0


def _make_removable(remove: object, path: str, _: object) -> None:
    """Make a read-only snapshot directory removable; the demo owns it."""
    parent = Path(path).parent
    parent.chmod(0o700)
    Path(path).chmod(0o700)
    if callable(remove):
        remove(path)
