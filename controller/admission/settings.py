"""Settings of admission."""

import posixpath
from dataclasses import dataclass
from typing import Literal, TypeAlias

from controller.placement.allowed import PUBLIC_SOURCES, AllowedSources

Mount: TypeAlias = Literal["claim", "hostPath"]


@dataclass(frozen=True, slots=True)
class AdmissionSettings:
    """Settings from the chart.

    `store_root`: the store's directory on every node; `model_cache_enabled`: the chart's `modelCache.enabled`;
    `allowed`: the sources that namespaced models may name; `mount`: how pods reach models, unless they say.
    """

    store_root: str = "/var/lib/larder"
    model_cache_enabled: bool = True
    allowed: AllowedSources = PUBLIC_SOURCES
    mount: Mount = "claim"

    def __post_init__(self) -> None:
        root = self.store_root
        if not root.startswith("/") or root == "/" or root != posixpath.normpath(root) or root.startswith("//"):
            raise ValueError(f"store_root {root!r} is not a plain absolute path; use, for example, /var/lib/larder")
