"""Accounts are correct in whatever order nodes and pods are seen."""

import msgspec

from controller.extender.accounts import DeviceAccounts
from controller.extender.controller import DeviceInformers
from controller.extender.device_objects import DevicePod
from controller.extender.requested_devices import allocated_devices
from shared.devices.info import PodInfo
from tests.builders.devices import CARD, bound_pod, card, device_node, device_pod


def accounts_with(*names: str) -> DeviceAccounts:
    accounts = DeviceAccounts()
    for name in names:
        accounts.node_changed(None, device_node(name, {card("a"): 1}))
    return accounts


def users(accounts: DeviceAccounts, name: str) -> set[str]:
    account = accounts.node(name)
    assert account is not None
    return set(account.pods)


def got(pod: DevicePod) -> PodInfo:
    info = allocated_devices(pod)
    assert info is not None
    return info


def test_pods_that_are_seen_before_their_node_count() -> None:
    accounts = DeviceAccounts()
    accounts.pod_changed(None, bound_pod("p", "n", "a"))
    accounts.node_changed(None, device_node("n", {card("a"): 1}))
    assert users(accounts, "n") == {"uid-p"}


def test_devices_are_free_again_when_a_pod_ends_or_is_deleted() -> None:
    accounts, pod = accounts_with("n"), bound_pod("p", "n", "a")
    for gone in (None, bound_pod("p", "n", "a", "Succeeded"), bound_pod("p", "n", "a", "Failed")):
        accounts.pod_changed(None, pod)
        assert users(accounts, "n") == {"uid-p"}
        accounts.pod_changed(pod, gone)
        assert users(accounts, "n") == set()


def test_a_pod_that_is_being_bound_counts_until_it_is_seen_or_given_up() -> None:
    accounts, waiting, pod = accounts_with("n", "m"), device_pod("p", {CARD: 1}), bound_pod("p", "n", "a")
    accounts.assume("uid-p", "n", got(pod))
    accounts.pod_changed(None, waiting)
    assert users(accounts, "n") == {"uid-p"}
    accounts.pod_changed(waiting, pod)
    accounts.forget_assumed("uid-p")
    assert users(accounts, "n") == {"uid-p"}
    accounts.assume("uid-q", "n", got(pod))
    accounts.forget_assumed("uid-q")
    assert users(accounts, "n") == {"uid-p"}


def test_a_pod_that_was_bound_elsewhere_or_deleted_is_no_longer_assumed() -> None:
    accounts, waiting = accounts_with("n", "m"), device_pod("p", {CARD: 1})
    accounts.assume("uid-p", "n", got(bound_pod("p", "n", "a")))
    accounts.pod_changed(waiting, bound_pod("p", "m", "a"))
    assert (users(accounts, "n"), users(accounts, "m")) == (set(), {"uid-p"})
    accounts.assume("uid-q", "n", got(bound_pod("q", "n", "a")))
    accounts.pod_changed(device_pod("q", {CARD: 1}), None)
    assert users(accounts, "n") == set()


def test_a_pod_that_came_and_went_while_the_watch_was_out_is_no_longer_assumed() -> None:
    accounts = accounts_with("n", "m")
    informers = DeviceInformers(accounts)
    waiting = device_pod("q", {CARD: 1})
    accounts.assume("uid-p", "n", got(bound_pod("p", "n", "a")))  # bound after a live read
    accounts.assume("uid-q", "m", got(bound_pod("q", "m", "a")))
    informers.pods.replace([waiting])
    assert users(accounts, "n") == set()
    assert users(accounts, "m") == {"uid-q"}, "its binding is in flight"


def test_a_pod_whose_allocation_cannot_be_read_is_no_longer_assumed() -> None:
    accounts, waiting = accounts_with("n"), device_pod("p", {CARD: 1})
    accounts.assume("uid-p", "n", got(bound_pod("p", "n", "a")))
    bound = device_pod("p", annotation='{"nodename": 5}', nodeName="n")
    accounts.pod_changed(waiting, bound)
    accounts.pod_changed(bound, None)
    assert users(accounts, "n") == set()


def test_a_pod_that_is_known_to_be_on_a_node_is_not_assumed_elsewhere() -> None:
    accounts, pod = accounts_with("n", "m"), bound_pod("p", "n", "a")
    accounts.pod_changed(None, pod)
    for node in ("n", "m"):
        accounts.assume("uid-p", node, got(bound_pod("p", node, "b")))
        accounts.forget_assumed("uid-p")
        account = accounts.node("n")
        assert account is not None
        assert account.pods == {"uid-p": got(pod)}
        assert users(accounts, "m") == set()
    accounts.pod_changed(pod, None)
    assert users(accounts, "n") == set()


def test_a_malformed_annotation_affects_only_its_own_node() -> None:
    accounts = DeviceAccounts()
    accounts.node_changed(None, device_node("bad", annotation='{"allocatable": {"resource/group/gpu/a/cards": -1}}'))
    accounts.node_changed(None, device_node("good", {card("a"): 1}))
    bad, good = accounts.node("bad"), accounts.node("good")
    assert bad is not None
    assert good is not None
    assert bad.advertised.allocatable == {}
    assert "allocatable['resource/group/gpu/a/cards'] is -1" in bad.problem
    assert good.advertised.allocatable == {card("a"): 1}
    assert good.advertised.kube_alloc == {"cpu": 4}


def test_changes_name_each_node_once_and_only_where_devices_changed() -> None:
    accounts = accounts_with("n", "m")
    assert accounts.changes().keys() == {"n", "m"}
    before = device_node("n", {card("a"): 1})
    accounts.node_changed(before, msgspec.structs.replace(before, metadata=before.metadata))
    assert accounts.changes() == {}
    accounts.pod_changed(None, bound_pod("p", "n", "a"))
    accounts.node_changed(device_node("m"), None)
    changed = accounts.changes()
    assert changed.keys() == {"n", "m"}
    assert changed["m"] is None
    accounts.mark_all_changed()
    assert accounts.changes().keys() == {"n"}
