"""Where in a pod a model may be, and which host paths reach into the store."""

import posixpath

from controller.admission.errors import InvalidPath

DEFAULT_MODEL_PATH = "/opt/ml/model"
KSERVE_MODEL_PATH = "/mnt/models"

_LONGEST = 1024
# The container's own: a model there, or below, would hide what the runtime, kubelet or the image need.
_FORBIDDEN_TREES = (
    *("/proc", "/sys", "/dev", "/etc", "/boot", "/run", "/var/run"),
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib64", "/usr/libexec"),
)
# Shared with others: a model may be below, never in place of them.
_FORBIDDEN = (
    "/",
    "/usr",
    "/usr/local",
    "/usr/share",
    "/var",
    "/var/lib",
    "/opt",
    "/mnt",
    "/home",
    "/root",
    "/tmp",  # noqa: S108 - a name in the container that is refused
    "/srv",
)


def checked_mount_path(path: str) -> str:
    """Return the path as pods shall mount it, or raise InvalidPath."""
    plain = path.rstrip("/") or "/"
    parts = plain.split("/")[1:]
    if (
        not path.startswith("/")
        or len(path) > _LONGEST
        or any(part in ("", ".", "..") for part in parts if plain != "/")
    ):
        raise InvalidPath(f"{path!r} is not an absolute path without empty parts, . or ..; {_ADVICE}")
    if ":" in plain or any(ord(c) < ord(" ") for c in plain):
        raise InvalidPath(f"{path!r} has a colon or a control character, which no mount path may have; {_ADVICE}")
    if plain in _FORBIDDEN or any(is_within(plain, tree) for tree in _FORBIDDEN_TREES):
        raise InvalidPath(f"{path!r} belongs to the container's own system; {_ADVICE}")
    return plain


_ADVICE = f"write a directory of its own such as {DEFAULT_MODEL_PATH} (the default) or /models/llama"


def is_within(path: str, tree: str) -> bool:
    """Return whether a normal path is the tree's root or below it."""
    return path == tree or path.startswith(tree.rstrip("/") + "/")


def reaches(host_path: str, store_root: str) -> bool:
    """Return whether a host path is the store, in it, or a directory that holds it."""
    plain = "/" + posixpath.normpath(host_path).lstrip("/")
    return is_within(plain, store_root) or is_within(store_root, plain)
