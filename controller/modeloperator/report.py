"""Builds the status of a Model. No input or output, no clock."""

import msgspec

from controller.manager.conditions import UPDATING, ConditionUpdate, kstatus_condition, with_conditions
from controller.modeloperator.actions import WriteModelStatus
from controller.modeloperator.objects import claim_name
from shared.api.meta import condition_of
from shared.api.model import Model, ModelObjectStatus

RESIZING = "Resizing"


def status_of(model: Model, write: WriteModelStatus, stamp: str) -> ModelObjectStatus:
    """Return the status."""
    is_ready = write.phase == "Ready"
    ready = ConditionUpdate("Ready", "True" if is_ready else "False", write.reason, write.message)
    conditions = [ready] if is_ready else [ready, kstatus_condition(ready, stalled=write.is_stalled)]
    before = model.status
    for kind, problem, done in (
        (UPDATING, write.update, ("UpToDate", "pods get the source and version of the spec")),
        (RESIZING, write.resizing, ("Resized", "the claim has the size of spec.storage.size")),
    ):
        if problem is not None:
            conditions.append(ConditionUpdate(kind, "True", *problem))
        elif condition_of(before.conditions, kind) is not None:
            conditions.append(ConditionUpdate(kind, "False", *done))
    return msgspec.structs.replace(
        before,
        **write.fields,
        phase=write.phase,
        pvc_name=claim_name(model.metadata),
        message=write.message,
        observed_generation=model.metadata.generation,
        conditions=with_conditions(before.conditions, conditions, stamp, model.metadata.generation),
    )
