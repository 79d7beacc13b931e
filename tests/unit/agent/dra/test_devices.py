from agent.dra.devices import DiskSnapshot, device_json, devices_of, fetch_json
from shared.api.model_node import Entry, EntryState
from shared.dra import attribute_text, device_name

MODEL = DiskSnapshot("Qwen_qwen", "abc", "/store/models/q/abc", 68, architecture="Qwen2", parameters=7)


def _devices(model: DiskSnapshot, state: str = EntryState.PRESENT) -> list[tuple[str, str]]:
    entry = Entry(id=model.id, revision=model.revision, state=state)
    return [(device.model.id, device.taint) for device in devices_of([model], {entry.key: entry})]


def test_an_intact_snapshot_of_an_entry_is_a_device() -> None:
    assert _devices(MODEL) == [("Qwen_qwen", "")]


def test_a_snapshot_without_an_entry_is_not_a_device() -> None:
    assert devices_of([MODEL], {}) == ()


def test_a_leaving_or_damaged_model_has_a_taint_that_repels_new_pods() -> None:
    damaged = DiskSnapshot("m", "r", "/m", damaged=("a",))
    for state in (EntryState.DRAINING, EntryState.ABSENT, "StateOfALaterVersion"):
        assert _devices(MODEL, state) == [("Qwen_qwen", "larder.dev/leaving")]
    assert _devices(damaged) == [("m", "larder.dev/damaged")]


def test_a_device_has_the_attributes_that_selectors_need() -> None:
    entry = Entry(id=MODEL.id, revision=MODEL.revision)
    body = device_json(devices_of([MODEL], {entry.key: entry})[0])
    attributes = body["attributes"]
    assert attributes["model"] == {"string": "Qwen_qwen"}
    assert attributes["namespace"] == {"string": "Qwen"}
    assert attributes["sizeBytes"] == {"int": 68}
    assert attributes["parameters"] == {"int": 7}
    assert attributes["cached"] == {"bool": True}
    assert "taints" not in body


def test_the_fallback_device_has_the_same_attributes_as_a_model() -> None:
    entry = Entry(id=MODEL.id, revision=MODEL.revision)
    device = device_json(devices_of([MODEL], {entry.key: entry})[0])
    kinds = {name: value.keys() for name, value in device["attributes"].items()}
    assert {name: value.keys() for name, value in fetch_json()["attributes"].items()} == kinds


def test_device_names_and_attribute_values_are_shortened_and_stay_unique() -> None:
    long = "a" * 300
    names = {device_name(f"{long}{end}", "r") for end in "bc"} | {device_name("é_Ü.x", "r"), device_name("___", "r")}
    assert len(names) == 4
    assert all(len(name) <= 63 and name.strip("-") == name and name.replace("-", "").isalnum() for name in names)
    assert len({attribute_text(f"{long}{end}") for end in "bc"}) == 2
    assert all(len(attribute_text(text).encode()) <= 64 for text in (long, "é" * 40, "x" * 64, "x" * 65))
    assert attribute_text("x" * 64) == "x" * 64
