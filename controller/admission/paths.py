"""Where a pod may mount a model, and which host paths reach into the store."""

import posixpath
import re

from controller.admission.errors import InvalidPath

DEFAULT_MODEL_PATH = "/opt/ml/model"
KSERVE_MODEL_PATH = "/mnt/models"

_LONGEST = 1024
_SHOWN = 100  # characters of a path that is too long
_PROCESSES = re.compile(r"/proc(/([0-9]+|self|thread-self)(/.*)?)?|/dev/fd(/.*)?", re.ASCII | re.DOTALL)
# System directories of the container: a model there or below would hide what the runtime, kubelet or image needs.
_FORBIDDEN_TREES = (
    *("/proc", "/sys", "/dev", "/etc", "/boot", "/run", "/var/run", "/bin", "/sbin", "/lib", "/lib32", "/lib64"),
    *("/nix", "/snap", "/app", "/code", "/src"),  # where images keep their programs
)
# Shared with programs: a model may only be below these, and only if part of the path identifies it as a model.
_SHARED_TREES = (
    *("/usr", "/var", "/home", "/root", "/workspace", "/sgl-workspace", "/vllm-workspace"),
    *("/opt/nvidia", "/opt/tritonserver", "/opt/app-root"),
)
_FORBIDDEN = (
    *("/", "/opt", "/mnt", "/srv"),
    "/tmp",  # noqa: S108 - a refused path inside the container
)
# Directories from which interpreters, shells, loaders and daemons load code or settings, anywhere in a path.
_TRUSTED_PARTS = re.compile(
    r"\.(?!cache$).*|s?bin|lib(32|64|x32|exec)?|etc|include|(site|dist)-packages|node_modules|gems|venv|virtualenv"
    r"|(python|pypy|perl|ruby|lua|php|java|jdk|jre|jvm|dotnet|cuda|(ana|mini)?conda|(mini|mamba)forge)[0-9.-]*"
    r"|micromamba|cron.*|spool|systemd|(init|conf|profile)\.d|ssh",
    re.ASCII | re.IGNORECASE,
)


def checked_mount_path(path: str) -> str:
    """Return the mount path that pods should use. Raises InvalidPath."""
    plain = path.rstrip("/") or "/"
    parts = plain.split("/")[1:]
    if len(path) > _LONGEST:
        raise InvalidPath(f"'{path[:_SHOWN]}...' has more than {_LONGEST} characters; {_ADVICE}")
    if not path.startswith("/") or any(part in ("", ".", "..") for part in parts if plain != "/"):
        raise InvalidPath(f"{path!r} is not an absolute path without empty parts, . or ..; {_ADVICE}")
    if ":" in plain or any(ord(c) < ord(" ") for c in plain):
        raise InvalidPath(f"{path!r} contains a colon or a control character, which mount paths must not; {_ADVICE}")
    if plain in _FORBIDDEN or any(is_within(plain, tree) for tree in _FORBIDDEN_TREES):
        raise InvalidPath(f"{path!r} is a system directory of the container; {_ADVICE}")
    if trusted := next((part for part in _parts_to_check(parts) if _TRUSTED_PARTS.fullmatch(part)), ""):
        raise InvalidPath(f"{path!r} is where programs look for code or settings ({trusted}); {_ADVICE}")
    if any(is_within(plain, tree) for tree in _SHARED_TREES) and not any("model" in part.lower() for part in parts):
        raise InvalidPath(f"{path!r} is in a directory for programs, and no part of it contains 'model'; {_ADVICE}")
    return plain


def _parts_to_check(parts: list[str]) -> list[str]:
    """Return the parts above a models directory, and hidden ones below it; others there name models and vendors."""
    first = next((i for i, part in enumerate(parts) if "model" in part.lower()), len(parts))
    hidden = [part for part in parts[first:] if part.startswith(".")]
    return parts[2 if parts[:2] == ["var", "lib"] else 0 : first] + hidden


_ADVICE = f"use a separate directory such as {DEFAULT_MODEL_PATH} (the default) or /models/llama"


def is_within(path: str, tree: str) -> bool:
    """Return whether a normalised path is the tree's root or below it."""
    return path == tree or path.startswith(tree.rstrip("/") + "/")


def reaches(host_path: str, store_root: str) -> bool:
    """Return whether a host path is the store, inside it, or leads to it from above or via a process's root."""
    plain = "/" + posixpath.normpath(host_path).lstrip("/")
    return is_within(plain, store_root) or is_within(store_root, plain) or bool(_PROCESSES.fullmatch(plain))
