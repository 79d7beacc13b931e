from agent.dra.cdi_edits import PluginEdits, cdi_file, prepared_devices
from agent.dra.devices import DiskSnapshot
from shared.dra import AllocatedDevice

MODEL = DiskSnapshot("qwen", "r", "/store/models/qwen/r")


def _allocated(request: str, device: str = MODEL.device) -> AllocatedDevice:
    return AllocatedDevice(request=request, driver="model.larder.dev", pool="n", device=device)


def test_a_model_is_mounted_read_only() -> None:
    """Pitfall 10: mounts below it, which would be writable, stay out."""
    (prepared,) = prepared_devices("u1", [_allocated("model")], {MODEL.device: MODEL}, {})
    body = cdi_file([prepared])
    assert (body["cdiVersion"], body["kind"], prepared.cdi_id) == ("0.5.0", "larder.dev/model", "larder.dev/model=u1-0")
    (device,) = body["devices"]
    assert device["name"] == "u1-0"
    target = f"/models/{MODEL.device}"
    assert device["containerEdits"] == {
        "env": [
            f"MODEL_PATH={target}", f"MODEL_PATH_MODEL={target}", "MODEL_ID=qwen", "MODEL_ID_MODEL=qwen",
            "MODEL_CACHED=true", "MODEL_CACHED_MODEL=true",
        ],
        "mounts": [{"hostPath": MODEL.path, "containerPath": target, "options": ["ro", "bind", "nosuid", "nodev"]}],
    }  # fmt: skip


def test_variables_are_named_after_requests_and_numbered_within_one() -> None:
    results = [_allocated("my-model/cached"), _allocated("my-model"), _allocated("draft")]
    prepared = prepared_devices("u1", results, {MODEL.device: MODEL}, {})
    assert [each.suffix for each in prepared] == ["MY_MODEL", "MY_MODEL_2", "DRAFT"]
    assert len({each.cdi_name for each in prepared}) == 3


def test_the_number_of_a_device_never_makes_it_the_name_of_another_request() -> None:
    for requests, suffixes in (
        (["a", "a", "a-2"], ["A", "A_3", "A_2"]),
        (["a-2", "a", "a", "a"], ["A_2", "A", "A_3", "A_4"]),
        (["a", "a", "a-2", "a-2", "a-2-2"], ["A", "A_3", "A_2", "A_2_3", "A_2_2"]),
        (["a-b", "a--b"], ["A_B", "A_B_2"]),
    ):
        prepared = prepared_devices("u1", [_allocated(request) for request in requests], {}, {})
        assert [each.suffix for each in prepared] == suffixes


def test_edits_of_plugins_are_added_to_the_model_and_never_replace_it() -> None:
    target = f"/models/{MODEL.device}"
    added = PluginEdits({target: "/etc", "/opt/x": "/opt/x"}, ("/dev/fuse",), {"A": "b", "MODEL_PATH": "/evil"})
    (prepared,) = prepared_devices("u1", [_allocated("model")], {MODEL.device: MODEL}, {0: added})
    edits = cdi_file([prepared])["devices"][0]["containerEdits"]
    assert {mount["containerPath"]: mount["hostPath"] for mount in edits["mounts"]} == {
        target: MODEL.path, "/opt/x": "/opt/x",
    }  # fmt: skip
    assert all(mount["options"][0] == "ro" for mount in edits["mounts"])
    assert edits["deviceNodes"] == [{"path": "/dev/fuse"}]
    assert "A=b" in edits["env"]
    assert f"MODEL_PATH={target}" in edits["env"]
    assert "MODEL_PATH=/evil" not in edits["env"]
