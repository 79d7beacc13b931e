"""JobSet, which creates the Jobs of JobSets, and creates all of them again when one fails."""

from rig.binaries import JOBSET
from rig.module_files import ModuleFiles
from rig.operators.operator import OperatorRelease

FILES = ModuleFiles(JOBSET, "config/components", ("crd/bases/*.yaml", "webhook/manifests.yaml"))
RELEASE = OperatorRelease(JOBSET, FILES, "config.jobset.x-k8s.io/v1alpha1", {}, "jobset.sigs.k8s.io/jobset-name")
