"""LeaderWorkerSet, which creates groups of pods of one leader and its workers."""

from rig.binaries import LWS
from rig.module_files import ModuleFiles
from rig.operators.operator import OperatorRelease

FILES = ModuleFiles(LWS, "config", ("crd/bases/*.yaml", "webhook/manifests.yaml"))
RELEASE = OperatorRelease(LWS, FILES, "config.lws.x-k8s.io/v1alpha1", {}, "leaderworkerset.sigs.k8s.io/name")
