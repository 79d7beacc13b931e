"""The variables that describe the source of a Model to pods."""

from collections.abc import Mapping

import pytest

from controller.admission.injectable_model import injectable_model
from shared.api.model import (
    BucketSource,
    GitLfsSource,
    HuggingFaceSource,
    Model,
    ModelSource,
    ModelSpec,
    OciSource,
    PluginSource,
    StorageSpec,
    UrlSource,
)
from tests.builders.cluster import meta


@pytest.mark.parametrize(
    ("source", "kind", "stated"),
    [
        (ModelSource(hugging_face=HuggingFaceSource(repo_id="org/m")), "huggingface", {"REPO_ID": "org/m"}),
        (ModelSource(url=UrlSource(url="https://h/m")), "url", {"URL": "https://h/m"}),
        (ModelSource(s3=BucketSource(bucket="b", key="secret/key")), "s3", {"BUCKET": "b"}),
        (ModelSource(gitlfs=GitLfsSource(repo_url="https://h/r")), "gitlfs", {"REPO_URL": "https://h/r"}),
        (ModelSource(oci=OciSource(ref="r/m:1")), "oci", {"REF": "r/m:1"}),
        (ModelSource(plugin=PluginSource(uri="registry://m/1")), "registry", {"URI": "registry://m/1"}),
        (ModelSource(), "", {}),
    ],
)
def test_the_variables_of_a_model_state_the_type_and_location_of_its_source(
    source: ModelSource, kind: str, stated: Mapping[str, str]
) -> None:
    spec = ModelSpec(source=source, storage=StorageSpec(storage_class="c", size="1Gi"))
    found = injectable_model(Model(metadata=meta("m", namespace="team"), spec=spec))
    assert (found.source_type, found.source) == (kind, stated)
    assert (found.phase, found.usable) == ("Pending", False), "the Model has no status yet"
