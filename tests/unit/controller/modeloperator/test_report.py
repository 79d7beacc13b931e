import msgspec

import tests.builders.models_on_claims as build
from controller.modeloperator.actions import WriteModelStatus
from controller.modeloperator.report import status_of
from shared.api.meta import condition_of
from shared.api.model import ModelObjectStatus


def states(status: ModelObjectStatus) -> dict[str, tuple[str, str]]:
    found = ((kind, condition_of(status.conditions, kind)) for kind in ("Ready", "Updating", "Resizing"))
    return {kind: (condition.status, condition.reason) for kind, condition in found if condition is not None}


def test_conditions_of_an_update_and_of_a_claim_that_grows_clear() -> None:
    model = build.model()
    write = WriteModelStatus("Ready", "Ready", "", update=("Downloading", "x"), resizing=("Growing", "y"))
    during = status_of(model, write, build.STAMP)
    assert states(during) == {
        "Ready": ("True", "Ready"),
        "Updating": ("True", "Downloading"),
        "Resizing": ("True", "Growing"),
    }
    over = WriteModelStatus("Ready", "Ready", "")
    after = status_of(msgspec.structs.replace(model, status=during), over, build.STAMP)
    assert states(after) == {
        "Ready": ("True", "Ready"),
        "Updating": ("False", "UpToDate"),
        "Resizing": ("False", "Resized"),
    }
    assert set(states(status_of(model, over, build.STAMP))) == {"Ready"}
