"""The images for nodes: the project's, the model server of the examples, and a small one for simple workloads."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rig import progress
from rig.binaries import KUBERNETES_VERSION
from rig.cache import locked
from rig.errors import SetupFailed
from rig.node import programs
from rig.node.buildah import Buildah, Recipe
from rig.node.containerd import SANDBOX_IMAGE

AGENT = "localhost/larder-agent:0.1.0"
CONTROLLER = "localhost/larder-controller:0.1.0"
SCHEDULER = f"registry.k8s.io/kube-scheduler:v{KUBERNETES_VERSION}"  # as the chart names it
BASE = "localhost/larder-base:bookworm"
MODEL_SERVER = "registry.example.com/larder/model-server:0.1.0"  # as the manifests in examples/ name it
_ROOT = Path(__file__).parents[2]
_SERVER = _ROOT / "examples" / "model-server"
_LARGEST_STORE_BYTES = 6 * 2**30
_SUITE = "bookworm"
_SERVER_SUITE = "trixie"  # the first with a PyTorch that current versions of transformers accept
_INCLUDED = {_SUITE: "python3,python3-pip,python3-venv,ca-certificates", _SERVER_SUITE: "ca-certificates"}
_SOURCES = (Path("/etc/apt/sources.list.d/debian.sources"), Path("/etc/apt/sources.list"))
_LEFT_OUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*", "/usr/share/info/*")
_SANDBOX = """\
FROM scratch
COPY busybox /bin/busybox
RUN ["/bin/busybox", "--install", "-s", "/bin"]
RUN mkdir -p -m 1777 /tmp && mkdir -p /etc && echo 'root:x:0:0::/:/bin/sh' >/etc/passwd
CMD ["/bin/sleep", "infinity"]
"""
_SCHEDULER_RECIPE = """\
FROM scratch
COPY kube-scheduler /usr/local/bin/kube-scheduler
ENV PATH=/usr/local/bin
"""
_BASE_RECIPE = """\
FROM scratch
ADD base.tar /
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
"""
_PROGRAMS = {AGENT: "agent", CONTROLLER: "controller"}


@dataclass(frozen=True)
class ImageCost:
    """The cost of an image: the size to pull, and the time to start."""

    tag: str
    compressed_bytes: int
    start_s: float


def ensure_base(cache: Path, notify: progress.Notify, suite: str = _SUITE) -> Path:
    """Return an archive of a small Debian, with Python for the project's images, built once and cached."""
    path = cache / "base" / f"{suite}.tar"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            made = Path(folder) / "base.tar"
            step = progress.Step(f"making the base image {suite}", _mmdebstrap(suite, made), path.parent, os.environ)
            progress.run(step, notify)
            made.rename(path)
    return path


def build_all(cache: Path, notify: progress.Notify, *, with_model_server: bool = False) -> list[Path]:
    """Return the archives that the nodes of a cluster load; only one program on this machine builds at a time."""
    buildah = Buildah(cache)
    with locked(cache, notify):
        archives = [_build_sandbox(buildah), *build_project(buildah, cache, notify).values()]
        if with_model_server:
            archives.append(build_model_server(buildah, cache, notify))
    return archives


def _build_sandbox(buildah: Buildah) -> Path:
    """Return the image for sandboxes and simple workloads, built only from busybox."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(programs.BUSYBOX, Path(folder) / "busybox")
        _build(buildah, SANDBOX_IMAGE, _SANDBOX, Path(folder))
    return buildah.archive(SANDBOX_IMAGE)


def build_scheduler(cache: Path, program: Path, notify: progress.Notify) -> Path:
    """Return the image of kube-scheduler, built only from the program."""
    buildah = Buildah(cache)
    with locked(cache, notify), tempfile.TemporaryDirectory() as folder:
        shutil.copy(program, Path(folder) / "kube-scheduler")
        _build(buildah, SCHEDULER, _SCHEDULER_RECIPE, Path(folder))
        return buildah.archive(SCHEDULER)


def build_derived(cache: Path, tag: str, recipe: str, folder: Path, notify: progress.Notify) -> Path:
    """Return an image built from a folder by a recipe that starts from one of the project's images."""
    buildah = Buildah(cache)
    with locked(cache, notify):
        _build(buildah, tag, recipe, folder)
        return buildah.archive(tag)


def build_project(buildah: Buildah, cache: Path, notify: progress.Notify) -> dict[str, Path]:
    """Build the project images from their Dockerfiles and return them by tag, for `containerd.load`."""
    base = _build_base(buildah, cache, notify, _SUITE)
    for tag, program in _PROGRAMS.items():
        notify(f"building {tag} ...")
        buildah.build(Recipe(tag, _ROOT / f"Dockerfile.{program}", _ROOT, {"BASE": base, "REVISION": _revision()}))
    buildah.prune(_LARGEST_STORE_BYTES)
    return {tag: buildah.archive(tag) for tag in _PROGRAMS}


def build_model_server(buildah: Buildah, cache: Path, notify: progress.Notify) -> Path:
    """Return the image of examples/model-server, built again only when that folder changes."""
    content = b"\0".join(path.read_bytes() for path in sorted(_SERVER.iterdir()) if path.is_file())
    key = hashlib.sha256(content).hexdigest()[:16]
    if not buildah.archived(MODEL_SERVER, key).exists():
        base = _build_base(buildah, cache, notify, _SERVER_SUITE)
        notify(f"building {MODEL_SERVER}, which takes about three minutes ...")
        buildah.build(Recipe(MODEL_SERVER, _SERVER / "Dockerfile", _SERVER, {"BASE": base}))
        buildah.archive(MODEL_SERVER, key)
    return buildah.archived(MODEL_SERVER, key)


def measure(buildah: Buildah, tag: str) -> ImageCost:
    """Return the cost of an image; the time to start is that of Python importing the whole program."""
    with tempfile.TemporaryDirectory() as folder:
        size = buildah.compressed_bytes(tag, Path(folder) / "oci")
    imports = f"import {_PROGRAMS[tag]}.__main__"
    return ImageCost(tag, size, buildah.run_s(tag, ["/opt/venv/bin/python", "-c", imports]))


def _build_base(buildah: Buildah, cache: Path, notify: progress.Notify, suite: str) -> str:
    """Return the tag of a base image, after building it if it is missing."""
    tag = BASE.replace(_SUITE, suite)
    if not buildah.has(tag):
        base = ensure_base(cache, notify, suite)
        with tempfile.TemporaryDirectory(dir=cache) as folder:
            os.link(base, Path(folder) / "base.tar")
            _build(buildah, tag, _BASE_RECIPE, Path(folder))
    return tag


def _build(buildah: Buildah, tag: str, recipe: str, folder: Path) -> None:
    dockerfile = folder / "Dockerfile"
    dockerfile.write_text(recipe)
    buildah.build(Recipe(tag, dockerfile, folder))


def _mmdebstrap(suite: str, target: Path) -> list[str]:
    options = ["--variant=minbase", f"--include={_INCLUDED[suite]}", '--aptopt=Acquire::Languages "none"']
    options += [f"--dpkgopt=path-exclude={path}" for path in _LEFT_OUT]
    sources = next((path for path in _SOURCES if path.exists() and path.stat().st_size), None)
    if sources is None:
        raise SetupFailed(f"none of {', '.join(map(str, _SOURCES))} names a Debian archive")
    of_suite = target.parent / sources.name
    of_suite.write_text(sources.read_text().replace(_SUITE, suite))
    private = [programs.UNSHARE, "--mount", "--propagation=private"]
    return [*private, programs.MMDEBSTRAP, *options, suite, str(target), str(of_suite)]


def _revision() -> str:
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"],  # noqa: S607 - the user's own git
        cwd=_ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return asked.stdout.strip() or "unknown"
