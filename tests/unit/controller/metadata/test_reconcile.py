"""What a reconcile does if the API server refuses to fill a spec."""

from contextlib import suppress
from datetime import timedelta
from typing import Any, cast

import msgspec

from controller.manager.event_recorder import EventRecorder
from controller.metadata.reader import MetadataReader
from controller.metadata.reconcile import MetadataReconciler
from controller.metadata.stored_reading import as_stored
from controller.models.act import ModelActor
from controller.state.keys import ModelKey
from controller.state.live_reader import object_path
from shared.api.base_model import BaseModelStatus
from shared.api.meta import ReadMetadata
from shared.kube.errors import NotFound
from shared.kube.transport import Kube
from shared.metadata.model_metadata import Metadata
from shared.metadata.reading.attempts import READER, identity_of
from shared.sources.settings import SourceSettings
from tests.builders.api_server import Objects
from tests.builders.cluster import DIGEST, base_model, fresh_cluster
from tests.builders.metadata import NOW

KEY = ModelKey("BaseModel", "team", "m")
PATH = object_path(KEY)


async def test_a_refused_spec_is_filled_later_because_a_policy_may_be_gone(kube: Kube, objects: Objects) -> None:
    found = ReadMetadata(identity=identity_of(DIGEST, "", str(READER)), values=as_stored(Metadata(model_type="qwen2")))
    status = BaseModelStatus(
        source="hf://org/m@main",
        manifest_digest=DIGEST,
        resolved_revision="r1",
        serving_revision="r1",
        metadata=found,
    )
    cluster, none, now = fresh_cluster(), cast("Any", None), NOW
    cluster.base_models.upsert(msgspec.structs.replace(base_model("team", "m"), status=status))
    actor = ModelActor(kube, cluster.ownership, EventRecorder(kube, lambda: NOW), lambda: NOW)
    reader = MetadataReader(none, none, SourceSettings(), none, none)
    reconciler = MetadataReconciler(cluster, reader, actor, lambda: now)
    objects.refused[PATH] = 403
    for minutes, attempts in ((0, 1), (1, 1), (11, 2)):
        now = NOW + timedelta(minutes=minutes)
        with suppress(NotFound):  # the server has no model whose status could be written
            await reconciler.reconcile(KEY)
        assert objects.asked.count(f"GET {PATH}") == attempts
