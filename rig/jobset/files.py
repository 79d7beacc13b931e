"""The CRD and webhook configurations of JobSet."""

from rig.binaries import JOBSET
from rig.module_files import ModuleFiles

FILES = ModuleFiles(
    JOBSET,
    "config/components",
    (
        "crd/bases/jobset.x-k8s.io_jobsets.yaml",
        "webhook/manifests.yaml",
    ),
)
