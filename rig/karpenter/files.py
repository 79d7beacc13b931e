"""The CRDs of Karpenter and of its provider."""

from rig.binaries import KARPENTER
from rig.module_files import ModuleFiles

FILES = ModuleFiles(
    KARPENTER,
    ".",
    (
        "pkg/apis/crds/karpenter.sh_*.yaml",
        "kwok/apis/crds/karpenter.kwok.sh_*.yaml",
    ),
)
