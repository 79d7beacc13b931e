"""The driver against a real API server and scheduler, and a kubelet that speaks gRPC."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from agent.dra.slices import slice_name
from rig import plain_http
from rig.ports import free_port
from shared.api.model_node import PATH, Entry, EntryState
from shared.dra import FETCH_DEVICE, SLICES, attribute_text, device_name
from tests.builders.disks import tmpfs
from tests.integration.dra.bench import FILES, DraBench
from tests.readers.metrics import scrape

TINY = "model == 'tiny'"


def _in_state(entry: Entry, state: EntryState) -> Entry:
    return Entry(id=entry.id, revision=entry.revision, manifest=entry.manifest, state=state)


@pytest.fixture
def entry(bench: DraBench) -> Entry:
    """The model tiny, published."""
    entry = bench.hold("tiny")
    bench.want(entry)
    bench.start_registered()
    bench.wait_devices(entry)
    return entry


def test_a_pod_that_claims_a_model_gets_it_read_only(bench: DraBench, entry: Entry) -> None:
    claim = bench.claim(TINY)
    bench.pod(claim)
    assert bench.prepared(claim) == [f"larder.dev/model={claim['metadata']['uid']}-0"]
    (edits,) = bench.edits(claim)
    target = f"/models/{device_name(*entry.key)}"
    assert edits["mounts"] == [{
        "hostPath": str(bench.store.layout.snapshot(*entry.key)), "containerPath": target,
        "options": ["ro", "bind", "nosuid", "nodev"],
    }]  # fmt: skip
    assert {f"MODEL_PATH={target}", "MODEL_ID=tiny", "MODEL_CACHED=true"} <= set(edits["env"])


def test_a_device_has_attributes_that_describe_its_model(bench: DraBench, entry: Entry) -> None:
    (device,) = bench.devices().values()
    attributes = {name: next(iter(value.values())) for name, value in device["attributes"].items()}
    assert device["allowMultipleAllocations"]
    assert attributes["model"] == "tiny"
    assert attributes["revision"] == attribute_text(entry.revision)
    assert attributes["sizeBytes"] == sum(map(len, FILES.values()))
    assert attributes["architecture"] == "LlamaForCausalLM"
    assert attributes["cached"]


@pytest.mark.usefixtures("entry")
def test_pods_share_a_model_and_concurrent_calls_prepare_the_same_claim(bench: DraBench) -> None:
    """Pitfall 1: a claim is prepared once per node, and pods that share it cause concurrent calls."""
    claim, other = bench.claim(TINY), bench.claim(TINY)
    for _ in range(2):
        bench.pod(claim)
    bench.pod(other)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: bench.prepared(claim), range(8)))
    assert len({tuple(answer) for answer in answers}) == 1
    bench.prepared(other)
    bench.kubelet.unprepare(other)
    assert bench.cdi_path(claim).exists()
    assert not bench.cdi_path(other).exists()


def test_nothing_is_published_before_kubelet_knows_the_driver(bench: DraBench) -> None:
    """Pitfall 3: a pod scheduled earlier would fail, because kubelet does not know the driver yet."""
    entry = bench.hold("tiny")
    bench.want(entry)
    bench.start()
    bench.until(bench.kubelet.registration.exists, "the driver's socket")
    assert bench.slices() == []
    bench.kubelet.register()
    bench.wait_devices(entry)


def test_the_first_slices_list_the_models_present_when_kubelet_registers_the_driver(bench: DraBench) -> None:
    """Registration can take long. A pod whose device has lost its model waits until somebody deletes the pod."""
    entry = bench.hold("tiny")
    bench.want(entry)
    bench.start()
    bench.until(bench.kubelet.registration.exists, "the driver's socket")
    bench.want()
    bench.kubelet.register()
    bench.until(lambda: bool(bench.slices()), "the slices")
    (first,) = bench.slices()
    assert (first["spec"]["pool"]["generation"], bench.devices()) == (1, {})


def test_slices_that_kubelet_deletes_are_published_again(bench: DraBench, entry: Entry) -> None:
    """Pitfall 3: kubelet deletes the slices when it starts."""
    (before,) = bench.slices()
    bench.wipe()
    bench.wait_devices(entry)
    (after,) = bench.slices()
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert after["spec"]["pool"]["generation"] > before["spec"]["pool"]["generation"]


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("kill", [True, False])
def test_prepared_claims_outlive_the_driver_and_its_restart_rewrites_missing_files(
    bench: DraBench, *, kill: bool
) -> None:
    """Pitfall 4: kubelet prepares a claim only for a new sandbox, even if its file disappears."""
    claim = bench.claim(TINY)
    bench.pod(claim)
    bench.prepared(claim)
    before = bench.cdi_path(claim).read_bytes()
    (driver,) = bench.drivers
    driver.kill() if kill else driver.stop()
    assert bench.cdi_path(claim).read_bytes() == before
    bench.cdi_path(claim).unlink()
    bench.start()
    bench.until(bench.cdi_path(claim).exists, "the file of the claim")
    assert bench.cdi_path(claim).read_bytes() == before


def test_a_full_disk_below_kubelets_directory_stops_no_claim(bench: DraBench) -> None:
    """The sockets need no space there, and the CDI files are elsewhere."""
    entry = bench.hold("tiny")
    bench.want(entry)
    with tmpfs(bench.kubelet.folder / "plugins", "64k") as disk:
        (disk / "filler").write_bytes(b"x" * (64 << 10))
        driver = bench.start_registered()
        bench.wait_devices(entry)
        claim = bench.claim(TINY)
        bench.pod(claim)
        bench.prepared(claim)
        log = bench.folder / "dra-0.log"
        bench.until(lambda: "status_not_written" in log.read_text(), "the reason in the log")
        assert bench.status() == "", "`ready` cannot be written"
        (disk / "filler").unlink()
        bench.until(lambda: bench.status() == "ready", "the status to be written")
        assert log.read_text().count("status_not_written") == 1
        assert bench.kubelet.unprepare(claim)[claim["metadata"]["uid"]].error == ""
        assert driver.exit_code is None
        driver.stop()  # its sockets keep the disk busy


@pytest.mark.usefixtures("entry")
def test_a_driver_that_stops_does_not_remove_the_sockets_of_another(bench: DraBench) -> None:
    """If the pod of a driver is deleted by force, both run for a while."""
    (first,) = bench.drivers
    before = bench.kubelet.registration.stat().st_ino
    bench.port = free_port()
    second = bench.start()
    bench.until(lambda: bench.kubelet.registration.stat().st_ino != before, "the second driver's socket")
    bench.kubelet.register()
    first.stop()
    claim = bench.claim(TINY)
    bench.pod(claim)
    bench.kubelet.register()
    bench.prepared(claim)
    second.stop()
    assert not bench.kubelet.registration.exists()


@pytest.mark.usefixtures("entry")
@pytest.mark.parametrize("replaced", [False, True])
def test_a_driver_without_its_socket_ends(bench: DraBench, *, replaced: bool) -> None:
    """Without the socket, no claim can be prepared; a restart opens it again."""
    (driver,) = bench.drivers
    bench.kubelet.registration.unlink()
    if replaced:
        bench.kubelet.registration.touch()
    bench.until(lambda: driver.exit_code == 1, "the driver to give up")
    assert "was removed or replaced" in (bench.folder / "dra-0.log").read_text()
    bench.start_registered()
    bench.until(lambda: bench.status() == "ready", "its successor")


def test_a_node_that_is_created_again_owns_its_slices_at_once(bench: DraBench, entry: Entry) -> None:
    """The ModelNode of the former Node may exist for a while, and slices of that Node are garbage."""
    bench.api.delete(f"/api/v1/nodes/{bench.node}")
    uid = bench.api.create("/api/v1/nodes", {"metadata": {"name": bench.node}})["metadata"]["uid"]
    bench.wipe()  # as the garbage collector does

    def owners() -> set[str]:
        return {each["metadata"]["ownerReferences"][0]["uid"] for each in bench.slices()}

    bench.until(lambda: owners() == {uid}, "slices of the new Node")
    before = {each["metadata"]["uid"] for each in bench.slices()}
    bench.api.patch(f"{PATH}/{bench.node}", {"spec": {"nodeUID": uid}})
    bench.wait_devices(entry)
    assert {each["metadata"]["uid"] for each in bench.slices()} == before, "never deleted"


def test_a_node_that_is_created_again_gets_its_devices_back(bench: DraBench, entry: Entry) -> None:
    claim = bench.claim(TINY)
    bench.pod(claim)
    for path in (f"/api/v1/nodes/{bench.node}", f"{PATH}/{bench.node}"):
        bench.api.delete(path)
    bench.until(lambda: not bench.devices(), "the devices to go")
    bench.create_node()
    bench.want(entry)
    bench.wait_devices(entry)
    (owner,) = bench.slices()[0]["metadata"]["ownerReferences"]
    assert owner["uid"] == bench.api.get(f"/api/v1/nodes/{bench.node}")["metadata"]["uid"]
    bench.prepared(claim)


@pytest.mark.usefixtures("entry")
def test_a_deleted_cdi_file_is_written_again(bench: DraBench) -> None:
    claim = bench.claim(TINY)
    bench.pod(claim)
    bench.prepared(claim)
    bench.cdi_path(claim).unlink()
    bench.until(bench.cdi_path(claim).exists, "the file of the claim")


def test_files_left_by_a_crash_are_removed_and_those_of_other_drivers_kept(bench: DraBench) -> None:
    """Pitfall 4: files of deleted claims and partly written files."""
    bench.cdi.mkdir()
    left = [bench.cdi / "model.larder.dev-0a1b-2c3d.json", bench.cdi / "model.larder.dev-0a1b.17.tmp"]
    foreign = bench.cdi / "gpu.example.org-0a1b.json"
    for path in (*left, foreign):
        path.write_text("{")
    bench.start_registered()
    bench.until(lambda: not any(path.exists() for path in left), "the leftovers to go")
    assert foreign.exists()


@pytest.mark.usefixtures("entry")
def test_unprepare_succeeds_for_unknown_and_repeated_claims(bench: DraBench) -> None:
    """Pitfall 5: kubelet also unprepares after a failed prepare, and claims that the driver never saw."""
    claim = bench.claim(TINY)
    bench.pod(claim)
    bench.prepared(claim)
    unknown = {"metadata": {"namespace": "nowhere", "name": "c", "uid": "1b-2c"}}
    assert "no longer exists" in bench.refused(unknown)
    for _ in range(2):
        answers = bench.kubelet.unprepare(claim, unknown)
        assert {uid: answer.error for uid, answer in answers.items()} == {claim["metadata"]["uid"]: "", "1b-2c": ""}
    assert not bench.cdi_path(claim).exists()


@pytest.mark.usefixtures("entry")
def test_a_claim_that_fails_does_not_fail_others(bench: DraBench) -> None:
    claim = bench.claim(TINY)
    bench.pod(claim)
    unknown = {"metadata": {"namespace": bench.namespace, "name": "c", "uid": "1b-2c"}}
    answers = bench.kubelet.prepare(claim, unknown)
    assert answers[claim["metadata"]["uid"]].error == ""
    assert "no longer exists" in answers["1b-2c"].error


def test_metrics_count_prepared_claims_published_devices_and_answers(bench: DraBench, entry: Entry) -> None:
    claim, unknown = bench.claim(TINY), {"metadata": {"namespace": bench.namespace, "name": "c", "uid": "1b-2c"}}
    bench.pod(claim)
    bench.until(lambda: bench.status() == "ready", "the driver to learn that its slices were accepted")
    assert plain_http.get(f"{bench.url}/readyz", timeout_s=30).text == "ready\n"
    assert plain_http.get(f"{bench.url}/healthz", timeout_s=30).text == "ok\n"
    bench.prepared(claim)
    bench.kubelet.prepare(unknown)
    shown = scrape(bench.url)
    assert shown["larder_dra_claims_prepared"] == 1
    assert shown['larder_dra_devices_published{state="available"}'] == 1
    answers = 'larder_dra_claim_duration_seconds_count{{outcome="{}",verb="{}"}}'
    assert [shown[answers.format(o, "prepare")] for o in ("answered", "refused", "failed")] == [1, 1, 0]
    assert shown['larder_dra_claim_duration_seconds_sum{outcome="answered",verb="prepare"}'] > 0
    bench.kubelet.unprepare(claim)
    bench.want(_in_state(entry, EntryState.DRAINING))
    bench.until(
        lambda: scrape(bench.url)['larder_dra_devices_published{state="leaving"}'] == 1, "the state of the device"
    )
    shown = scrape(bench.url)
    assert (shown["larder_dra_claims_prepared"], shown[answers.format("answered", "unprepare")]) == (0, 1)


@pytest.mark.usefixtures("entry")
def test_the_status_says_why_nothing_can_be_published(bench: DraBench) -> None:
    bench.until(lambda: bench.status() == "ready", "the status")
    name = slice_name(bench.node, 0)
    foreign = {"metadata": {"name": name}, "spec": {
        "driver": "gpu.example.org", "nodeName": "elsewhere", "devices": [],
        "pool": {"name": "elsewhere", "generation": 1, "resourceSliceCount": 1},
    }}  # fmt: skip
    (driver,) = bench.drivers
    os.kill(driver.pid, signal.SIGSTOP)  # otherwise it writes its slice again first
    bench.wipe()
    bench.api.create(SLICES, foreign)
    os.kill(driver.pid, signal.SIGCONT)
    try:
        bench.until(lambda: "already exists" in bench.status(), "the reason")
        assert plain_http.get(f"{bench.url}/readyz", timeout_s=30).status_code == 503
    finally:
        bench.api.delete(f"{SLICES}/{name}")
    bench.until(lambda: bench.status() == "ready", "the recovery")


def test_a_refused_registration_is_reported(bench: DraBench) -> None:
    bench.start()
    bench.until(lambda: "waiting until kubelet" in bench.status(), "what the driver waits for")
    for _ in range(2):
        bench.kubelet.refuse("no such version")
    bench.until(lambda: "no such version" in bench.status(), "the reason")
    bench.until(lambda: _refusals(bench) == 1, "the Event")
    bench.kubelet.register()
    bench.wait_devices()
    bench.until(lambda: bench.status() == "ready", "the recovery")
    bench.kubelet.refuse("no such version any more")
    bench.until(lambda: "any more" in bench.status(), "the reason")
    bench.until(lambda: _refusals(bench) == 2, "one Event for each reason, however often kubelet tries")


def _refusals(bench: DraBench) -> int:
    return sum("no such version" in message for message in bench.events())


def test_a_driver_whose_address_is_taken_exits(bench: DraBench) -> None:
    bench.start_registered()
    bench.wait_devices()
    second = bench.start()  # on the address of the first
    bench.until(lambda: second.exit_code == 1, "the second driver to give up")
    assert "cannot listen" in (bench.folder / "dra-1.log").read_text()


def test_the_health_of_each_device_is_streamed_to_kubelet(bench: DraBench, entry: Entry) -> None:
    """Pitfall 6: without the stream, kubelet logs an error every 5 s."""
    device = device_name(*entry.key)
    first = next(bench.kubelet.health())
    assert first == {FETCH_DEVICE: "", device: ""}
    bench.want(_in_state(entry, EntryState.DRAINING))
    bench.until(lambda: "removed" in next(bench.kubelet.health())[device], "the device to be unhealthy")


def test_two_models_in_one_container_get_separate_variables(bench: DraBench) -> None:
    """Pitfall 7: of two devices that set one variable, the last wins."""
    draft, target = bench.hold("draft"), bench.hold("target")
    bench.want(draft, target)
    bench.start_registered()
    bench.wait_devices(draft, target)
    claim = bench.create_claim({
        "requests": [
            {"name": name, "exactly": {"deviceClassName": bench.ensure_class(), "selectors": [
                {"cel": {"expression": f"device.attributes['model.larder.dev'].model == '{name}'"}}]}}
            for name in ("draft", "target")
        ]
    })  # fmt: skip
    bench.pod(claim)
    bench.prepared(claim)
    seen = [variable for edits in bench.edits(claim) for variable in edits["env"]]
    assert f"MODEL_PATH_DRAFT=/models/{device_name(*draft.key)}" in seen
    assert f"MODEL_PATH_TARGET=/models/{device_name(*target.key)}" in seen


def test_a_model_with_a_long_id_is_claimed_by_its_hash(bench: DraBench) -> None:
    """Pitfall 8: an attribute holds at most 64 bytes, and the name of a device 63."""
    entry = bench.hold("m" * 200)
    bench.want(entry)
    bench.start_registered()
    bench.wait_devices(entry)
    (device,) = bench.devices().values()
    claim = bench.claim(f"modelHash == '{device['attributes']['modelHash']['string']}'")
    bench.pod(claim)
    bench.prepared(claim)
    assert f"MODEL_ID={entry.id}" in bench.edits(claim)[0]["env"]


def test_a_model_being_removed_gets_no_new_pods(bench: DraBench, entry: Entry) -> None:
    """Pitfall 11: nothing in Kubernetes protects the directory."""
    claim = bench.claim(TINY)
    bench.pod(claim)
    bench.want(_in_state(entry, EntryState.DRAINING))
    bench.until(lambda: all(each.get("taints") for each in bench.devices().values()), "the taint")
    (device,) = bench.devices().values()
    assert [(each["key"], each["effect"]) for each in device["taints"]] == [("larder.dev/leaving", "NoSchedule")]
    bench.prepared(claim)  # it came before, and its allocation keeps the files
    bench.want(_in_state(entry, EntryState.ABSENT))
    bench.until(lambda: "is being removed" in _prepare_error(bench, claim), "the refusal")
    bench.store.snapshots.remove(*entry.key)
    bench.want()
    bench.wait_devices()
    assert "no longer on node" in bench.refused(claim)


def _prepare_error(bench: DraBench, claim: dict[str, dict[str, str]]) -> str:
    return str(bench.kubelet.prepare(claim)[claim["metadata"]["uid"]].error)


def test_a_namespaced_model_is_prepared_only_for_claims_of_its_namespace(bench: DraBench) -> None:
    """The scheduler ignores namespaces; without the policy on claims it would allocate the device to any of them."""
    entry = bench.hold(f"{bench.namespace}_private")
    bench.want(entry)
    bench.start_registered()
    bench.wait_devices(entry)
    other = f"{bench.namespace}-other"
    bench.api.create("/api/v1/namespaces", {"metadata": {"name": other}})
    account = f"/api/v1/namespaces/{other}/serviceaccounts/default"
    bench.until(lambda: bench.api.answers(account), "the account of pods")
    expression = f"namespace == '{bench.namespace}'"
    own, foreign = bench.claim(expression), bench.claim(expression, namespace=other)
    bench.pod(own)
    bench.pod(foreign)
    bench.prepared(own)
    assert f"belongs to namespace {bench.namespace}" in bench.refused(foreign)
    assert not bench.cdi_path(foreign).exists()


def test_a_damaged_model_waits_for_its_repair(bench: DraBench, entry: Entry) -> None:
    claim = bench.claim(TINY)
    bench.pod(claim)
    damaged = bench.store.layout.snapshot(*entry.key) / "config.json"
    damaged.chmod(0o644)
    damaged.write_text("{}")
    assert "being repaired" in bench.refused(claim)
    bench.until(lambda: all(each.get("taints") for each in bench.devices().values()), "the taint")


def test_the_fallback_adds_no_model_and_sets_model_cached_to_false(bench: DraBench) -> None:
    bench.start_registered()
    bench.wait_devices()
    claim = bench.create_claim({"requests": [{"name": "model", "firstAvailable": [
        {"name": name, "deviceClassName": bench.ensure_class(), "selectors": [
            {"cel": {"expression": f"device.attributes['model.larder.dev'].{condition}"}}]}
        for name, condition in (("cached", TINY), ("fetch", "cached == false"))
    ]}]})  # fmt: skip
    bench.pod(claim)
    (device,) = bench.kubelet.prepare(claim)[claim["metadata"]["uid"]].devices
    assert list(device.request_names) == ["model"], "containers name the request, not its alternative"
    (edits,) = bench.edits(claim)
    assert edits == {"env": ["MODEL_CACHED=false", "MODEL_CACHED_MODEL=false"]}


@pytest.mark.usefixtures("entry")
def test_a_claim_that_was_replaced_is_not_prepared(bench: DraBench) -> None:
    claim = bench.claim(TINY)
    bench.pod(claim)
    stale = {"metadata": claim["metadata"] | {"uid": "1b-2c"}}
    assert "was replaced" in bench.refused(stale)


def test_nothing_is_published_if_the_runtime_ignores_cdi(bare: DraBench) -> None:
    """Pitfall of containerd 1.6: the container starts without the model, and no error is reported."""
    bare.create_node("containerd://1.6.20")
    entry = bare.hold("tiny")
    bare.want(entry)
    driver = bare.start()
    bare.until(lambda: "ignores CDI" in bare.status(), "the reason")
    bare.until(lambda: any("ignores CDI" in message for message in bare.events()), "the Event")
    assert not bare.kubelet.registration.exists()
    assert bare.slices() == []
    assert driver.exit_code is None


def test_many_models_are_published_in_several_slices_of_one_generation(bench: DraBench) -> None:
    """Pitfall 8: the API server refuses more than 128 devices in a slice, or 64 if one has a taint."""
    entries = [bench.hold(f"m{i}", {"config.json": b"{}"}) for i in range(70)]
    bench.want(*entries[:-1], _in_state(entries[-1], EntryState.DRAINING))
    bench.start_registered()
    bench.wait_devices(*entries)
    pools = [each["spec"]["pool"] for each in bench.slices()]
    assert [pool["resourceSliceCount"] for pool in pools] == [2, 2]
    assert len({pool["generation"] for pool in pools}) == 1
    bench.want(*entries[:10])
    bench.wait_devices(*entries[:10])
    bench.until(lambda: [each["spec"]["pool"]["resourceSliceCount"] for each in bench.slices()] == [1], "one slice")
    assert bench.slices()[0]["spec"]["pool"]["generation"] > pools[0]["generation"]


@pytest.mark.usefixtures("entry")
def test_device_requests_in_a_users_annotation_add_nothing_to_the_container(bench: DraBench) -> None:
    """Pitfall 2: any user can write the annotation; the default allow-list permits nothing but the model."""
    claim = bench.claim(TINY)
    text = (
        f'{{"nodename": "{bench.node}", "runningcontainer": {{"main": {{"requests": {{"example/x": 1}}, '
        f'"allocatefrom": {{"example/x": "/dev/fuse"}}}}}}}}'
    )
    bench.pod(claim, annotations={"KubeDevice/DeviceInfo": text})
    bench.prepared(claim)
    (edits,) = bench.edits(claim)
    assert "deviceNodes" not in edits
    assert all(variable.startswith("MODEL_") for variable in edits["env"])
