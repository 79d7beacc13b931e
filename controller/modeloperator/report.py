"""The status of a Model for what was decided. No input or output, no clock."""

import msgspec

from controller.manager.conditions import UPDATING, ConditionUpdate, progress, with_conditions
from controller.modeloperator.decide import WriteModelStatus
from controller.modeloperator.manifests import claim_name
from shared.api.model import Model, ModelObjectStatus


def status_of(model: Model, write: WriteModelStatus, stamp: str) -> ModelObjectStatus:
    """Return the status."""
    is_ready = write.phase == "Ready"
    ready = ConditionUpdate("Ready", "True" if is_ready else "False", write.reason, write.message)
    conditions = [ready] if is_ready else [ready, progress(ready, stalled=write.is_stalled)]
    if write.update is not None:
        conditions.append(ConditionUpdate(UPDATING, "True", *write.update))
    before = model.status
    kept = [c for c in before.conditions if c.type != UPDATING or write.update is not None]
    return msgspec.structs.replace(
        before,
        **write.fields,
        phase=write.phase,
        pvc_name=claim_name(model.metadata),
        message=write.message,
        observed_generation=model.metadata.generation,
        conditions=with_conditions(kept, conditions, stamp, model.metadata.generation),
    )
