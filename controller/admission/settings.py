"""What admission must be told."""

import posixpath
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """`store_root`: the store's directory on every node; `model_cache_enabled`: the chart's `modelCache.enabled`."""

    store_root: str = "/var/lib/larder"
    model_cache_enabled: bool = True

    def __post_init__(self) -> None:
        root = self.store_root
        if not root.startswith("/") or root == "/" or root != posixpath.normpath(root) or root.startswith("//"):
            raise ValueError(
                f"store_root {root!r} is not a plain absolute directory; write for example /var/lib/larder"
            )
