"""Which listeners a change of a claim, a volume or a pod signals."""

import msgspec
import pytest

from controller.placement.volume_names import CLAIMS_ANNOTATION, VOLUME_LABEL, volume_names
from controller.state.pods.model_volumes import ModelVolumes
from shared.api.core import (
    ClaimRef,
    ClaimSpec,
    HostPath,
    MountedClaim,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodSpec,
    Volume,
    VolumeSpec,
)
from shared.kube.objects import Key, Meta

ROOT = "/var/lib/larder"
LLAMA = Key("team", "llama")


class Woken:
    """The volumes, and the claims that they signalled."""

    def __init__(self) -> None:
        self.volumes = ModelVolumes()
        self.any, self.ours = list[Key](), list[Key]()
        self.volumes.claim_changed.listen(lambda claim: self.any.append(claim.key))
        self.volumes.changed.listen(self.ours.append)


@pytest.fixture
def woken() -> Woken:
    return Woken()


def claim(name: str = "llama", version: str = "1", *, ours: bool = True) -> PersistentVolumeClaim:
    labels = {VOLUME_LABEL: "true"} if ours else {}
    meta = Meta(name=name, namespace="team", uid="c1", resource_version=version, labels=labels)
    return PersistentVolumeClaim(metadata=meta, spec=ClaimSpec(volume_name=f"{name}-team" if ours else ""))


def volume(path: str = f"{ROOT}/models/llama/r", name: str = "llama-team") -> PersistentVolume:
    spec = VolumeSpec(
        claim_ref=ClaimRef(namespace="team", name="llama"), local=HostPath(path=path), mount_options=["ro"]
    )
    return PersistentVolume(metadata=Meta(name=name, uid=name, resource_version="1"), spec=spec)


def pod(snapshot: str = "llama@r", phase: str = "Pending") -> Pod:
    volumes = [Volume(persistent_volume_claim=MountedClaim(claim_name="llama"))]
    meta = Meta(name="p", namespace="team", uid="p", annotations={CLAIMS_ANNOTATION: f"llama={snapshot}"})
    made = Pod(metadata=meta, spec=PodSpec(volumes=volumes))
    return msgspec.structs.replace(made, status=msgspec.structs.replace(made.status, phase=phase))


def test_a_foreign_claim_wakes_only_listeners_to_every_claim(woken: Woken) -> None:
    woken.volumes.claims.upsert(claim("data", ours=False))
    woken.volumes.claims.remove(Key("team", "data"))
    assert (woken.any, woken.ours) == ([Key("team", "data")] * 2, [])
    assert woken.volumes.known_claims() == set()


def test_our_own_claim_wakes_both_listeners_also_on_deletion(woken: Woken) -> None:
    woken.volumes.claims.upsert(claim())
    woken.volumes.claims.remove(LLAMA)
    assert woken.any == woken.ours == [LLAMA] * 2


def test_a_foreign_claim_that_a_pod_names_wakes_its_model(woken: Woken) -> None:
    woken.volumes.on_pod_change(None, pod())
    woken.volumes.claims.upsert(claim(ours=False))
    assert woken.ours == [LLAMA] * 2


def test_a_pod_wakes_its_claim_only_when_what_it_names_changes(woken: Woken) -> None:
    woken.volumes.on_pod_change(None, pod())
    woken.volumes.on_pod_change(pod(), pod(phase="Running"))
    assert woken.ours == [LLAMA]
    woken.volumes.on_pod_change(pod(), pod("llama@r2"))
    woken.volumes.on_pod_change(pod("llama@r2"), pod("llama@r2", phase="Succeeded"))
    assert woken.ours == [LLAMA] * 3
    assert woken.volumes.pods_of(LLAMA) == []


def test_a_foreign_volume_is_not_taken_for_a_models_volume(woken: Woken) -> None:
    woken.volumes.volumes.upsert(volume("/etc"))
    woken.volumes.volumes.upsert(volume(name="theirs"))
    assert (woken.ours, woken.volumes.volume_of(LLAMA)) == ([], None)


def test_a_volume_of_an_earlier_store_root_is_still_the_models(woken: Woken) -> None:
    woken.volumes.volumes.upsert(volume("/mnt/former/models/llama/r"))
    assert woken.volumes.volume_of(LLAMA) == volume("/mnt/former/models/llama/r")


def test_the_path_is_that_of_the_volume_named_by_the_claim(woken: Woken) -> None:
    plain, hashed = volume_names("team", "llama")
    woken.volumes.volumes.upsert(volume(f"{ROOT}/models/llama/r2", hashed))
    woken.volumes.volumes.upsert(volume(name=plain))
    woken.volumes.claims.upsert(claim())
    assert woken.volumes.paths_of("team", ["llama"]) == [f"{ROOT}/models/llama/r"]
