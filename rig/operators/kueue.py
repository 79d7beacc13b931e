"""Kueue, which admits Jobs and pods to the quota of a queue and assigns them a resource flavor."""

from rig.binaries import KUEUE
from rig.module_files import ModuleFiles
from rig.operators.operator import OperatorRelease

NAMESPACE = "kueue-system"
FILES = ModuleFiles(KUEUE, "config/components", ("crd/bases/*.yaml", "webhook/manifests.yaml"))
RELEASE = OperatorRelease(
    KUEUE,
    FILES,
    "config.kueue.x-k8s.io/v1beta2",
    {
        "namespace": NAMESPACE,
        "integrations": {"frameworks": ["batch/job", "pod"]},
        "featureGates": {"VisibilityOnDemand": False},  # a server of its own, with yet another certificate
    },
    "kueue.x-k8s.io/queue-name",
    converts=frozenset(("ClusterQueue", "Cohort", "LocalQueue", "MultiKueueCluster", "Workload")),
    etc="kueue/metrics/certs",
)
