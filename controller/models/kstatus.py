"""The Reconciling and Stalled conditions of kstatus, which exist only while they are True.

Flux, `kubectl wait` and others that follow sigs.k8s.io/cli-utils/pkg/kstatus read an object as InProgress while
Reconciling, as Failed while Stalled, and otherwise as Current once Ready.
"""

from controller.manager.conditions import UPDATING, ConditionUpdate, kstatus_condition
from controller.models.report import Report
from shared.api.model_node import EVICTED

# Reasons that may resolve by themselves.
TRANSIENT = ("RateLimited", "Unreachable", "SourceChanged", "DigestMismatch", "NotGranted", "TooManyResolutions")
_IN_PROGRESS = ("Downloading", "Resolving", *TRANSIENT)
_INTENDED = ("Disabled",)


def model_kstatus(report: Report, *, ready: bool) -> list[ConditionUpdate]:
    """Return the progress conditions of a model; none if it is ready and no newer revision is rolling out."""
    if not ready:
        stalled = (report.overall == "Failed" and report.reason not in TRANSIENT) or report.reason == EVICTED
        ready_condition = ConditionUpdate("Ready", "False", report.reason, report.message)
        return [] if report.reason in _INTENDED else [kstatus_condition(ready_condition, stalled=stalled)]
    updates = (c for c in report.conditions if c.kind == UPDATING and c.status == "True")
    return [kstatus_condition(update, stalled=update.reason not in _IN_PROGRESS) for update in updates]
