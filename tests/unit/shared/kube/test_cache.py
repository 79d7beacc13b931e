from hypothesis import given, settings
from hypothesis import strategies as st

from shared.kube.cache import Cache
from shared.kube.objects import Key, Meta, Object

Change = tuple[Object | None, Object | None]


def thing(name: str, version: str = "1", uid: str = "u") -> Object:
    return Object(metadata=Meta(name=name, uid=uid, resource_version=version))


def watched() -> tuple[Cache[Object], list[Change]]:
    changes: list[Change] = []
    return Cache(lambda before, after: changes.append((before, after))), changes


def test_reports_each_difference_once() -> None:
    cache, changes = watched()
    first, second = thing("a"), thing("a", "2")
    cache.upsert(first)
    cache.upsert(first)
    cache.upsert(second)
    cache.remove(second.key)
    cache.remove(second.key)
    assert changes == [(None, first), (first, second), (second, None)]


def test_another_uid_is_a_deletion_and_a_creation() -> None:
    cache, changes = watched()
    old, new = thing("a", "1", "old"), thing("a", "2", "new")
    cache.upsert(old)
    cache.upsert(new)
    assert changes == [(None, old), (old, None), (None, new)]


def test_replace_reports_the_deletions_that_went_unseen() -> None:
    cache, changes = watched()
    kept, gone = thing("kept"), thing("gone")
    cache.replace([kept, gone])
    changes.clear()
    cache.replace([kept])
    assert changes == [(gone, None)]
    assert cache.get(gone.key) is None


def test_an_unreadable_object_keeps_its_last_state() -> None:
    cache, changes = watched()
    cache.replace([thing("a"), thing("b")])
    changes.clear()
    cache.replace([thing("a")], [Key("", "b"), Key("", "never seen")])
    assert not changes
    assert cache.get(Key("", "b")) == thing("b")
    assert len(cache) == 2


def test_objects_can_be_removed_during_iteration() -> None:
    cache, _ = watched()
    cache.replace([thing("a"), thing("b")])
    for obj in cache:
        cache.remove(obj.key)
    assert len(cache) == 0


objects = st.builds(thing, st.sampled_from("abcd"), st.sampled_from("12"), st.sampled_from("xy"))
lists = st.lists(objects, unique_by=lambda obj: obj.key)


@settings(deadline=None)  # a busy machine is not a failure
@given(st.lists(st.one_of(objects, objects.map(lambda obj: obj.key), lists), max_size=30))
def test_a_listener_that_replays_the_changes_holds_the_same_state(steps: list[Object | Key | list[Object]]) -> None:
    replayed: dict[Key, Object] = {}

    def replay(before: Object | None, after: Object | None) -> None:
        known = before or after
        assert known is not None
        assert replayed.get(known.key) == before
        if after:
            assert not before or before.metadata.uid == after.metadata.uid
            replayed[after.key] = after
        else:
            del replayed[known.key]

    cache: Cache[Object] = Cache(replay)
    for step in steps:
        match step:
            case Object():
                cache.upsert(step)
            case Key():
                cache.remove(step)
            case _:
                cache.replace(step)
                assert {obj.key for obj in cache} == {obj.key for obj in step}
        assert replayed == {obj.key: obj for obj in cache}
