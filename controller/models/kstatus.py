"""The Reconciling and Stalled conditions of kstatus, which exist only while they are True.

Flux, `kubectl wait` and others that follow sigs.k8s.io/cli-utils/pkg/kstatus read an object as InProgress while
Reconciling, as Failed while Stalled, and otherwise as Current once Ready.
"""

from controller.manager.conditions import UPDATING, ConditionUpdate, progress
from controller.models.report import Report
from shared.api.model_node import EVICTED

# Reasons that may resolve by themselves.
PATIENT = ("RateLimited", "Unreachable", "SourceChanged", "DigestMismatch", "NotGranted", "TooManyResolutions")
_ON_ITS_WAY = ("Downloading", "Resolving", *PATIENT)
_AS_ASKED = ("Disabled",)


def model_progress(report: Report, *, ready: bool) -> list[ConditionUpdate]:
    """Return the progress conditions of a model; none if it is ready and no newer revision is rolling out."""
    if not ready:
        stuck = (report.overall == "Failed" and report.reason not in PATIENT) or report.reason == EVICTED
        about = ConditionUpdate("Ready", "False", report.reason, report.message)
        return [] if report.reason in _AS_ASKED else [progress(about, stuck=stuck)]
    updates = (told for told in report.conditions if told.kind == UPDATING and told.status == "True")
    return [progress(told, stuck=told.reason not in _ON_ITS_WAY) for told in updates]
