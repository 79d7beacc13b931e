"""How far an object is, in the two conditions that kstatus knows: they stand there only while they are True.

Flux, `kubectl wait` and others that follow sigs.k8s.io/cli-utils/pkg/kstatus read of an object: InProgress while
Reconciling, Failed while Stalled, else Current once Ready.
"""

from controller.manager.conditions import UPDATING, ConditionUpdate, progress
from controller.models.report import Report
from shared.api.model_node import EVICTED

# Time may heal these.
PATIENT = ("RateLimited", "Unreachable", "SourceChanged", "DigestMismatch", "NotGranted", "TooManyResolutions")
_ON_ITS_WAY = ("Downloading", "Resolving", *PATIENT)
_AS_ASKED = ("Disabled",)


def model_progress(report: Report, *, ready: bool) -> list[ConditionUpdate]:
    """Return how far a model on nodes is; nothing where it is ready, with no newer revision on its way."""
    if not ready:
        stuck = (report.overall == "Failed" and report.reason not in PATIENT) or report.reason == EVICTED
        about = ConditionUpdate("Ready", "False", report.reason, report.message)
        return [] if report.reason in _AS_ASKED else [progress(about, stuck=stuck)]
    updates = (told for told in report.conditions if told.kind == UPDATING and told.status == "True")
    return [progress(told, stuck=told.reason not in _ON_ITS_WAY) for told in updates]
