"""Which keys are enqueued by a watch without a cache."""

from dataclasses import dataclass, field

from controller.manager.triggers import on_each
from shared.kube.objects import Key, Meta, Object


@dataclass
class Keys:
    added: list[str] = field(default_factory=list)

    def add(self, key: str) -> None:
        self.added.append(key)

    def add_after(self, key: str, delay_s: float) -> None:
        raise AssertionError((key, delay_s))


def named(name: str) -> Object:
    return Object(metadata=Meta(name=name, namespace="team"))


def test_lists_changes_and_deletions_enqueue_keys() -> None:
    watch = on_each(
        "/api/v1/pods",
        Object,
        lambda found: (f"changed {found.metadata.name}",),
        removed=lambda key: (f"deleted {key.name}",),
        label_selector="component=job",
    )
    informer, queue = watch.informer, Keys()
    watch.listen(queue)
    assert informer is not None
    informer.sink.replace([named("a"), named("b")], ())
    informer.sink.upsert(named("a"))
    informer.sink.remove(Key("team", "b"))
    assert queue.added == ["changed a", "changed b", "changed a", "deleted b"]


def test_a_deletion_enqueues_nothing_by_default_and_no_replica_waits_for_the_list() -> None:
    watch = on_each("/api/v1/pods", Object, lambda _: ("never",), label_selector="component=job")
    informer, queue = watch.informer, Keys()
    watch.listen(queue)
    assert informer is not None
    informer.sink.remove(Key("team", "b"))
    assert (queue.added, informer.waited_for, informer.resource) == ([], False, "pods")
