from typing import Any

import pytest

from rig.larder.cluster_driver import is_ready
from shared.json_object import Json


def _model(kind: str, status: dict[str, Any]) -> Json:
    return {"kind": kind, "metadata": {"generation": 2}, "status": status}


@pytest.mark.parametrize(("kind", "word"), [("ClusterBaseModel", "state"), ("ClusterModelCache", "storageStatus")])
def test_readiness_is_read_from_the_status_field_of_the_kind(kind: str, word: str) -> None:
    assert is_ready(_model(kind, {word: "Ready", "observedGeneration": 2}))
    assert not is_ready(_model(kind, {word: "Failed", "observedGeneration": 2}))
    assert not is_ready(_model(kind, {"other": "Ready", "observedGeneration": 2}))


def test_a_model_that_is_being_updated_is_not_ready() -> None:
    status = {"state": "Ready", "observedGeneration": 2}
    for word, ready in (("True", False), ("False", True)):
        reported = status | {"conditions": [{"type": "Updating", "status": word}]}
        assert is_ready(_model("ClusterBaseModel", reported)) is ready


@pytest.mark.parametrize("reported", [{}, {"state": "Ready"}, {"state": "Ready", "observedGeneration": 1}])
def test_a_status_of_an_earlier_generation_is_not_ready(reported: dict[str, Any]) -> None:
    assert not is_ready(_model("ClusterBaseModel", reported))
