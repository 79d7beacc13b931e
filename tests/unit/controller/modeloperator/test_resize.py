import pytest

import tests.builders.models_on_claims as build
from controller.modeloperator.resize import resize_of


@pytest.mark.parametrize(
    ("requested", "capacity", "reason", "size", "says"),
    [
        ("20Gi", "20Gi", "", "", ""),
        ("20480Mi", "21Gi", "", "", ""),
        ("10Gi", "10Gi", "Growing", "20Gi", "grows from 10Gi to 20Gi"),
        ("20Gi", "10Gi", "Growing", "", "its volume still has 10Gi"),
        ("40Gi", "40Gi", "CannotShrink", "", "asks for 40Gi, and claims cannot shrink to 20Gi"),
    ],
)
def test_a_claim_is_compared_with_the_size_of_its_model(
    requested: str, capacity: str, reason: str, size: str, says: str
) -> None:
    found = resize_of(build.view(claim=build.claim(size=requested, capacity=capacity)))
    assert ((found.reason, found.size) if found is not None else ("", "")) == (reason, size)
    assert found is None or says in found.message


def test_an_unbound_claim_is_not_resized_and_a_refused_resize_is_reported() -> None:
    assert resize_of(build.view(claim=build.claim("Pending", size="10Gi"))) is None
    refused = resize_of(build.view(claim=build.claim(size="10Gi"), growth_refused="the class does not support resize"))
    assert refused is not None
    assert refused.reason == "ClaimNotGrown"
    assert "from 10Gi to 20Gi: the class does not support resize; Larder retries" in refused.message
