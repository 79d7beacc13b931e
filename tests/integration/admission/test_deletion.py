"""Deletion of models in use through the real API server."""

from collections.abc import Iterator

import pytest

from rig.admission import AdmissionSite
from rig.errors import CallRefused

BASE = "/apis/ome.io/v1beta1/clusterbasemodels"


@pytest.fixture
def model(site: AdmissionSite) -> Iterator[str]:
    """A model that an InferenceService names and no pod uses."""
    spec = {"storage": {"storageUri": "hf://meta/llama"}}
    site.api.create(BASE, {"apiVersion": "ome.io/v1beta1", "kind": "ClusterBaseModel", "metadata": {"name": "served"},
                           "spec": spec})  # fmt: skip
    site.catalog.services = {"ClusterBaseModel//served": ["team/svc"]}
    yield "served"
    site.catalog.services = {}
    if site.api.answers(f"{BASE}/served"):
        site.api.patch(f"{BASE}/served", {"metadata": {"finalizers": None}})
        site.api.delete(f"{BASE}/served")


def test_a_model_that_a_service_names_is_not_deleted(model: str, site: AdmissionSite) -> None:
    answer = site.kubectl("delete", "clusterbasemodel", model)
    assert answer.returncode != 0
    phrase = (
        "ClusterBaseModel served is used by 1 InferenceService: team/svc; delete those first, or wait until they end"
    )
    assert phrase in answer.stderr
    assert "InUse" in answer.stderr
    site.catalog.services = {}
    assert site.api.delete(f"{BASE}/{model}")
    assert not site.api.answers(f"{BASE}/{model}")


def test_a_model_in_use_is_not_deleted_with_its_collection(model: str, site: AdmissionSite) -> None:
    with pytest.raises(CallRefused, match="ClusterBaseModel served is used by 1 InferenceService: team/svc"):
        site.api.delete(f"{BASE}?fieldSelector=metadata.name={model}")
    assert site.api.answers(f"{BASE}/{model}")


def test_a_model_that_is_being_deleted_can_be_changed_and_deleted_without_a_review(
    model: str, site: AdmissionSite
) -> None:
    site.api.patch(f"{BASE}/{model}", {"metadata": {"finalizers": ["test.larder.dev/f"]}})
    services, site.catalog.services = site.catalog.services, {}
    site.api.delete(f"{BASE}/{model}")
    site.catalog.services = services
    assert site.kubectl("delete", "--wait=false", "clusterbasemodel", model).returncode == 0
    wrong = {"spec": {"storage": {"storageUri": "nothing"}}}
    site.api.patch(f"{BASE}/{model}", wrong | {"metadata": {"finalizers": None}})
    assert not site.api.answers(f"{BASE}/{model}")
