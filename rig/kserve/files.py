"""The CRDs and configuration of KServe."""

from rig.binaries import KSERVE
from rig.module_files import ModuleFiles

FILES = ModuleFiles(
    KSERVE,
    "config",
    (
        "crd/full/serving.kserve.io_*.yaml",
        "crd/full/clusterstoragecontainer/serving.kserve.io_*.yaml",
        "crd/full/llmisvc/serving.kserve.io_llminferenceservices.yaml",
        "configmap/inferenceservice.yaml",
        "runtimes/kserve-sklearnserver.yaml",
        "storagecontainers/default.yaml",
        "webhook/manifests.yaml",
    ),
)
