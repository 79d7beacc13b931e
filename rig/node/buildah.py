"""Builds images with buildah: in a private store, without pulling, each call in a temporary mount namespace."""

import json
import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rig.errors import SetupFailed
from rig.node import programs
from rig.node.namespaces import command

_CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
_PASSED = ("PIP_", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE")
_TAIL_LINES = 40


@dataclass(frozen=True)
class Recipe:
    """The inputs of an image."""

    tag: str
    dockerfile: Path
    context: Path
    arguments: Mapping[str, str] = field(default_factory=dict)


class Buildah:
    """An image store below the cache; unchanged steps of a recipe are not run again."""

    def __init__(self, cache: Path) -> None:
        self._root, self._archives = cache / "buildah", cache / "images"

    def build(self, recipe: Recipe) -> None:
        """Build an image; its steps inherit our proxy and pip settings. Raises SetupFailed with the end of the log."""
        argv = ["bud", "--isolation=chroot", "--pull-never", "--layers", f"--tag={recipe.tag}"]
        argv += [f"--file={recipe.dockerfile}", f"--volume={_CERTIFICATES}:{_CERTIFICATES}:ro"]
        argv += [f"--env={name}={value}" for name, value in sorted(os.environ.items()) if name.startswith(_PASSED)]
        argv += [f"--build-arg={name}={value}" for name, value in recipe.arguments.items()]
        self._run([*argv, str(recipe.context)])

    def has(self, tag: str) -> bool:
        """Return whether an image with this tag exists."""
        return bool(self._run(["images", "--quiet", "--filter", f"reference={tag}"]).strip())

    def prune(self, above_bytes: int) -> None:
        """Drop the cached steps of earlier builds if the store is larger; the next build runs all its steps."""
        if int(command(["/usr/bin/du", "--summarize", "--bytes", str(self._root)]).split()[0]) > above_bytes:
            self._run(["rmi", "--prune"])

    def archived(self, tag: str, key: str) -> Path:
        """Return the path of an image's archive with this key; it may not exist."""
        return self._archives / f"{_stem(tag)}-{key}.tar"

    def archive(self, tag: str, key: str = "") -> Path:
        """Return the image as a file that containerd can import; the key in its name is by default its digest."""
        digest = str(json.loads(self._run(["inspect", "--type=image", tag]))["FromImageID"])
        path = self.archived(tag, key or digest[:16])
        if not path.exists():
            self._archives.mkdir(parents=True, exist_ok=True)
            for old in self._archives.glob(f"{_stem(tag)}-*"):
                old.unlink()
            partial = path.with_suffix(".partial")
            self._run(["push", "--quiet", tag, f"docker-archive:{partial}:{tag}"])
            partial.rename(path)
        return path

    def compressed_bytes(self, tag: str, folder: Path) -> int:
        """Return the size in a registry, which is what a node pulls."""
        self._run(["push", "--quiet", "--compression-format=gzip", tag, f"oci:{folder}:latest"])
        return sum(blob.stat().st_size for blob in (folder / "blobs" / "sha256").iterdir())

    def run_s(self, tag: str, argv: Sequence[str]) -> float:
        """Run a program in the image and return how many seconds it took."""
        name = self._run(["from", "--pull-never", tag]).strip()
        try:
            started = time.monotonic()
            self._run(["run", "--isolation=chroot", name, "--", *argv])
            return time.monotonic() - started
        finally:
            self._run(["rm", name])

    def _run(self, arguments: Sequence[str]) -> str:
        argv = [programs.UNSHARE, "--mount", "--propagation=private", programs.BUILDAH]
        argv += [f"--root={self._root}", f"--runroot={self._root}-run", "--storage-driver=overlay", *arguments]
        ran = subprocess.run(argv, capture_output=True, text=True, check=False)
        if ran.returncode:
            output = "\n".join((ran.stdout + ran.stderr).splitlines()[-_TAIL_LINES:])
            raise SetupFailed(f"buildah {' '.join(arguments)} ended with exit code {ran.returncode}:\n{output}")
        return ran.stdout


def _stem(tag: str) -> str:
    return tag.replace("/", "_").replace(":", "_")
