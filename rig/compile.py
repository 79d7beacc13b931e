"""Compiles programs from Go modules: one generated go.mod per project, one `go build` for all its programs."""

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rig import progress
from rig.binaries import HELM, KSERVE, KUBERNETES, Binary
from rig.errors import SetupFailed

_VERSION_PACKAGE = "k8s.io/component-base/version"
_HELM_VERSION = "helm.sh/helm/v4/internal/version.version"
_GO_LINE = "1.26.0"
_PINNING = (*KUBERNETES, KSERVE)  # their go.mod has replace directives, which Go honours only in the main module

# The start of each package path that is the path of its module.
_MODULES = (
    "go.etcd.io/etcd/server/v3",
    "github.com/containerd/containerd/v2",
    "github.com/coredns/coredns",
    "github.com/distribution/distribution/v3",
    "github.com/fsouza/fake-gcs-server",
    "github.com/kserve/kserve",
    "github.com/rancher/local-path-provisioner",
    "github.com/versity/versitygw",
    "helm.sh/helm/v4",
    "k8s.io/kubernetes",
    "sigs.k8s.io/jobset",
    "sigs.k8s.io/karpenter",
    "sigs.k8s.io/kueue",
    "sigs.k8s.io/lws",
)


@dataclass(frozen=True)
class Toolchain:
    """The Go program and the environment of builds."""

    go: Path
    env: Mapping[str, str]


@dataclass(frozen=True)
class Module:
    """A downloaded module: its go.mod, and the folder with its files."""

    go_mod: Path
    folder: Path


def module_of(binary: Binary) -> str:
    """Return the Go module of the package of a program."""
    return next(module for module in _MODULES if binary.package.startswith(module))


def compile_programs(wanted: Sequence[Binary], work: Path, tools: Toolchain, notify: progress.Notify) -> list[Path]:
    """Compile programs of one module below `work` and return their files, in the given order."""
    module, version = module_of(wanted[0]), f"v{wanted[0].version}"
    names = ", ".join(binary.name for binary in wanted)
    work.mkdir()
    requirements = ""
    if pinning := wanted[0].pinned_by or (f"{module}@{version}" if wanted[0] in _PINNING else ""):
        requirements = download_module(pinning, names, work, tools, notify).go_mod.read_text()
    (work / "go.mod").write_text(go_mod(module, version, requirements))
    total = _count_packages(wanted, names, work, tools, notify)
    out = work / "out"
    out.mkdir()
    # a single program is named here, because Go would call etcd `server` after its directory
    target = str(out / wanted[0].name) if len(wanted) == 1 else f"{out}/"
    argv = [str(tools.go), "build", "-v", "-mod=mod", "-buildvcs=false", "-ldflags", link_flags(wanted[0])]
    argv += tags(wanted[0])
    argv += ["-o", target, *(binary.package for binary in wanted)]
    step = progress.Step(f"compiling {names} {version}", argv, work, tools.env, _compiled(total))
    progress.run(step, notify)
    built = [out / binary.name for binary in wanted]
    if absent := [path.name for path in built if not path.exists()]:
        raise SetupFailed(f"the build of {names} did not produce {', '.join(absent)} in {out}")
    return built


def go_mod(module: str, version: str, requirements: str) -> str:
    """Return a go.mod that requires one module; `requirements` is the go.mod whose replace directives it needs.

    Kubernetes requires its staging modules as v0.0.0, which exists only in its repository; each is published as v0.x.y.
    """
    published = "v0." + version.split(".", 1)[1]
    split_lines = [line.split("//")[0].split() for line in requirements.splitlines()]
    staged = [w[0] for w in split_lines if len(w) > 1 and w[0].startswith("k8s.io/") and w[1] == "v0.0.0"]
    lines = ["module larder.dev/rig", "", f"go {_GO_LINE}", "", f"require {module} {version}"]
    lines += [f"replace {name} => {name} {published}" for name in staged]
    lines += [f"replace {' '.join(pinned)}" for pinned in map(_replacement, split_lines) if pinned]
    return "\n".join(lines) + "\n"


def _replacement(fields: Sequence[str]) -> Sequence[str]:
    """Return `A => B version` for a line that replaces a module by a published one; empty for any other line."""
    rest = fields[1:] if fields[:1] == ["replace"] else fields
    return rest if "=>" in rest and rest[-1].startswith("v") else []


def link_flags(binary: Binary) -> str:
    """Return the linker flags: no symbols, and the version of Helm or Kubernetes, without which clients refuse it."""
    if binary == HELM:
        return f"-s -w -X {_HELM_VERSION}=v{binary.version}"
    if binary not in KUBERNETES:
        return "-s -w"
    major, minor, _ = binary.version.split(".")
    stamps = {"gitVersion": f"v{binary.version}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s -w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in stamps.items())])


def tags(binary: Binary) -> list[str]:
    """Return the arguments for the build tags of a program."""
    return ["-tags", binary.tags] if binary.tags else []


def download_module(module: str, names: str, work: Path, tools: Toolchain, notify: progress.Notify) -> Module:
    """Download a module (`path@version`) and return its location; `work` must exist, `names` is for messages."""
    answer = work / "module.json"
    with answer.open("w") as out:
        notify(f"downloading {module} ({names}) ...")
        asked = subprocess.run(
            [tools.go, "mod", "download", "-json", module], cwd=work, env=tools.env, text=True,
            stdout=out, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
    text = answer.read_text()
    if asked.returncode:
        output = f"{asked.stderr}{text}"
        raise SetupFailed(f"{module} could not be downloaded:\n{output}\nWhat to do: {progress.way_out(output)}")
    found = json.loads(text)
    return Module(Path(found["GoMod"]), Path(found["Dir"]))


def _count_packages(wanted: Sequence[Binary], names: str, work: Path, tools: Toolchain, notify: progress.Notify) -> int:
    """Download the modules of the programs and return the number of packages to compile, at most."""
    argv = [str(tools.go), "list", "-mod=mod", "-deps", "-f", "package {{.ImportPath}}", *tags(wanted[0])]
    argv += [binary.package for binary in wanted]
    step = progress.Step(f"fetching the modules of {names}", argv, work, tools.env, counted_prefix="package ")
    return progress.run(step, notify)


def _compiled(total: int) -> Callable[[int, str], str]:
    return lambda count, last: f"{count} of at most {total} packages compiled, now {last}"
