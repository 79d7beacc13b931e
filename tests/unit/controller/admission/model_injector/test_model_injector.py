"""The annotations `models.example.com/...`: the changes of pods, and the refusals."""

import copy

import jsonpatch
import pytest

from controller.admission.errors import AdmissionRefused, InvalidPath, InvalidRequest, ModelNotFound, MountConflict
from controller.admission.injectable_model import InjectableModel
from controller.admission.model_injector.inject_model_claims import inject_model_claims, volume_name
from shared.json_object import Json

LLAMA = InjectableModel(
    "llama-3-8b",
    "Ready",
    "model-llama-3-8b",
    version="3.1",
    source_type="huggingface",
    source={"REPO_ID": "meta-llama/Llama-3.1-8B-Instruct"},
)
MODELS = {
    model.name: model
    for model in (
        LLAMA,
        InjectableModel("a-b", "Ready", "model-a-b", source_type="s3", source={"BUCKET": "weights"}),
        InjectableModel("a.b", "Ready", "model-a.b", source_type="url", source={"URL": "https://example.com/m.gguf"}),
        InjectableModel("bin", "Ready", "model-bin", source_type="url", source={"URL": "https://example.com/$(X)$$"}),
        InjectableModel("a", "Ready", "model-a", source_type="gitlfs", source={"REPO_URL": "https://example.com/a"}),
        InjectableModel("a-repo", "Ready", "model-a-repo", source_type="url", source={"URL": "https://example.com/b"}),
        InjectableModel("deep", "Ready", "model-deep", sub_path="revisions/1"),
        InjectableModel("path", "Ready", "model-path"),
        InjectableModel("new", "", "model-new"),
        InjectableModel("slow", "Downloading", "model-slow", message="1.0 GiB of 20 GiB."),
        InjectableModel("gone", "Ready", "model-gone", deleting=True),
        *(InjectableModel(f"m{i}", "Ready", f"model-m{i}", source_type="url") for i in range(70)),
    )
}


def pod(inject: str = "llama-3-8b", *containers: Json, **annotations: str) -> Json:
    named = {f"models.example.com/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "metadata": {"generateName": "vllm-", "annotations": {"models.example.com/inject": inject} | named},
        "spec": {"containers": list(containers) or [{"name": "vllm", "args": ["--model", "/models/llama-3-8b"]}]},
    }


def injected(before: Json) -> Json:
    untouched = copy.deepcopy(before)
    result = inject_model_claims(before, "default", MODELS)
    assert before == untouched
    after: Json = jsonpatch.apply_patch(before, list(result.patch))
    assert inject_model_claims(after, "default", MODELS).patch == ()
    return after


def refusal(before: Json, kind: type[AdmissionRefused] = AdmissionRefused) -> str:
    with pytest.raises(kind) as caught:
        inject_model_claims(before, "default", MODELS)
    return str(caught.value)


def volumes(after: Json) -> dict[str, Json]:
    return {v["name"]: v["persistentVolumeClaim"] for v in after["spec"]["volumes"]}


def mounts(container: Json) -> dict[str, str]:
    return {m["name"]: m["mountPath"] for m in container.get("volumeMounts", [])}


def variables(container: Json) -> dict[str, str]:
    return {v["name"]: v["value"] for v in container.get("env", [])}


def test_a_pod_without_the_annotation_is_left_unchanged() -> None:
    plain = {"metadata": {"annotations": {"models.example.com/mount-path": "nonsense"}}, "spec": {"containers": []}}
    assert inject_model_claims(plain, "default", MODELS).patch == ()
    assert inject_model_claims({"spec": {}}, "default", MODELS).patch == ()


def test_a_pod_with_one_model_matches_the_specification() -> None:
    after = injected(pod())
    assert after["spec"] == {
        "containers": [
            {
                "name": "vllm",
                "args": ["--model", "/models/llama-3-8b"],
                "env": [
                    {"name": "MODEL_LLAMA_3_8B_NAME", "value": "llama-3-8b"},
                    {"name": "MODEL_LLAMA_3_8B_VERSION", "value": "3.1"},
                    {"name": "MODEL_LLAMA_3_8B_SOURCE_TYPE", "value": "huggingface"},
                    {"name": "MODEL_LLAMA_3_8B_REPO_ID", "value": "meta-llama/Llama-3.1-8B-Instruct"},
                    {"name": "MODEL_LLAMA_3_8B_MOUNT_PATH", "value": "/models/llama-3-8b"},
                ],
                "volumeMounts": [{"name": "model-llama-3-8b", "mountPath": "/models/llama-3-8b", "readOnly": True}],
            }
        ],
        "volumes": [
            {
                "name": "model-llama-3-8b",
                "persistentVolumeClaim": {"claimName": "model-llama-3-8b", "readOnly": True},
            }
        ],
    }
    assert after["metadata"]["labels"] == {"models.example.com/injected": "true"}


def test_each_of_several_models_is_mounted_below_the_base_path() -> None:
    after = injected(pod(" llama-3-8b , a-b,, llama-3-8b"))
    assert list(volumes(after)) == ["model-llama-3-8b", "model-a-b"]
    [container] = after["spec"]["containers"]
    assert mounts(container) == {"model-llama-3-8b": "/models/llama-3-8b", "model-a-b": "/models/a-b"}
    assert variables(container)["MODEL_A_B_BUCKET"] == "weights"
    assert variables(container)["MODEL_A_B_SOURCE_TYPE"] == "s3"
    assert "MODEL_A_B_VERSION" not in variables(container)


@pytest.mark.parametrize(("inject", "path"), [("a-b", "/data/model"), ("a-b,bin", "/data/model/a-b")])
def test_the_mount_path_is_that_of_a_single_model_or_the_base_of_several(inject: str, path: str) -> None:
    [container] = injected(pod(inject, mount_path="/data/model/"))["spec"]["containers"]
    assert mounts(container)["model-a-b"] == path
    assert variables(container)["MODEL_A_B_MOUNT_PATH"] == path


def test_a_writable_model_is_writable_in_both_volume_and_mount() -> None:
    after = injected(pod("a-b", read_only="false"))
    assert volumes(after) == {"model-a-b": {"claimName": "model-a-b"}}
    assert after["spec"]["containers"][0]["volumeMounts"] == [{"name": "model-a-b", "mountPath": "/models/a-b"}]


def test_variables_can_be_left_out() -> None:
    [container] = injected(pod(inject_env="false"))["spec"]["containers"]
    assert "env" not in container
    assert mounts(container)


def test_only_the_first_container_gets_the_model_unless_another_is_named() -> None:
    containers = {"name": "main"}, {"name": "second"}
    assert [bool(mounts(c)) for c in injected(pod("a", *containers))["spec"]["containers"]] == [True, False]
    named = injected(pod("a", *containers, container="second"))["spec"]["containers"]
    assert [bool(mounts(c)) for c in named] == [False, True]
    both = injected(pod("a", *containers, container="second, main"))["spec"]["containers"]
    assert all(mounts(c) and variables(c) for c in both)


def test_a_sidecar_of_a_mesh_is_not_the_first_container() -> None:
    after = injected(pod("a", {"name": "istio-proxy"}, {"name": "main"}))
    assert [bool(mounts(c)) for c in after["spec"]["containers"]] == [False, True]


def test_an_init_container_gets_the_model_only_if_it_is_named() -> None:
    before = pod("a") | {}
    before["spec"]["initContainers"] = [{"name": "warm-up"}]
    assert not mounts(injected(before)["spec"]["initContainers"][0])
    before["metadata"]["annotations"]["models.example.com/container"] = "warm-up"
    after = injected(before)
    assert mounts(after["spec"]["initContainers"][0])
    assert not mounts(after["spec"]["containers"][0])


def test_other_labels_variables_and_volumes_are_kept() -> None:
    before = pod("a", {"name": "main", "env": [{"name": "MODEL_A_NAME", "value": "mine"}, {"name": "X", "value": "1"}]})
    before["metadata"]["labels"] = {"app": "x"}
    before["spec"]["volumes"] = [{"name": "tmp", "emptyDir": {}}]
    after = injected(before)
    assert after["metadata"]["labels"]["app"] == "x"
    assert after["spec"]["volumes"][0] == {"name": "tmp", "emptyDir": {}}
    found = after["spec"]["containers"][0]["env"]
    assert [v["value"] for v in found if v["name"] == "MODEL_A_NAME"] == ["mine"]
    assert found[-1] == {"name": "X", "value": "1"}  # so that the pod's own variables can refer to ours


def test_dollar_signs_in_a_variable_are_escaped() -> None:
    [container] = injected(pod("bin"))["spec"]["containers"]
    assert variables(container)["MODEL_BIN_URL"] == "https://example.com/$$(X)$$$$"


def test_files_below_the_root_of_the_claim_are_mounted_by_their_directory() -> None:
    [container] = injected(pod("deep"))["spec"]["containers"]
    [mount] = container["volumeMounts"]
    assert mount == {"name": "model-deep", "mountPath": "/models/deep", "readOnly": True, "subPath": "revisions/1"}


def test_a_model_with_a_dot_in_its_name_gets_a_valid_volume_of_its_own() -> None:
    assert volume_name("llama-3.1-8b").startswith("model-llama-3-1-8b-")
    assert volume_name("llama-3.1-8b") != volume_name("llama-3-1-8b") == "model-llama-3-1-8b"
    assert len(volume_name("x" * 250)) == 63
    after = injected(pod("a.b"))
    assert [v["claimName"] for v in volumes(after).values()] == ["model-a.b"]
    assert variables(after["spec"]["containers"][0])["MODEL_A_B_MOUNT_PATH"] == "/models/a.b"


def test_twenty_models_fit_in_one_pod() -> None:
    after = injected(pod(",".join(f"m{i}" for i in range(20))))
    [container] = after["spec"]["containers"]
    assert len(volumes(after)) == len(mounts(container)) == 20
    assert len(variables(container)) == 60


def test_a_model_that_does_not_exist_is_refused_by_name() -> None:
    assert refusal(pod("nowhere"), ModelNotFound).startswith(
        'model "nowhere" not found: namespace default has no Model of that name'
    )
    assert refusal(pod("a,../etc"), ModelNotFound).startswith('model "../etc" not found: ')


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("new", 'model "new" is not ready (phase: Pending); `kubectl get mdl new -n default`'),
        ("slow", 'model "slow" is not ready (phase: Downloading): 1.0 GiB of 20 GiB; `kubectl get mdl slow'),
        ("gone", 'model "gone" is not ready (phase: Ready): it is being deleted'),
    ],
)
def test_a_model_that_is_not_ready_is_refused_with_its_phase(name: str, message: str) -> None:
    assert refusal(pod(f"a,{name}")).startswith(message)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("inject", " , "),
        ("inject", ""),
        ("read_only", "yes"),
        ("read_only", ""),
        ("inject_env", "1"),
        ("container", ""),
    ],
)
def test_an_invalid_value_is_refused_with_its_annotation(key: str, value: str) -> None:
    before = pod("a", **({} if key == "inject" else {key: value}))
    name = f"models.example.com/{key.replace('_', '-')}"
    before["metadata"]["annotations"][name] = value
    assert f"annotation {name} " in refusal(before, InvalidRequest)


def test_a_container_that_does_not_exist_is_refused_with_those_that_do() -> None:
    message = refusal(pod("a", {"name": "main"}, container="vllm"), MountConflict)
    assert "'vllm'" in message
    assert message.endswith("it has main")


@pytest.mark.parametrize(
    ("inject", "path"),
    [("a", "/etc"), ("a", "models/a"), ("a", ""), ("a", "/"), ("a,bin", "/"), ("a,bin", ""), ("a", "/models/../etc")],
)
def test_a_system_or_invalid_path_is_refused(inject: str, path: str) -> None:
    assert "annotation models.example.com/mount-path: " in refusal(pod(inject, mount_path=path), InvalidPath)


@pytest.mark.parametrize("path", ["/models/a", "/models/a/", "/models/a/adapters"])
def test_a_path_that_is_in_use_is_refused_with_both_volumes(path: str) -> None:
    message = refusal(pod("a", {"name": "x", "volumeMounts": [{"name": "data", "mountPath": path}]}), MountConflict)
    assert "'data'" in message
    assert 'model "a" is mounted read-only (/models/a)' in message


def test_a_path_in_a_read_only_mount_is_refused() -> None:
    mounted = {"name": "larder-0123456789", "mountPath": "/models", "readOnly": True}
    message = refusal(pod("a", {"name": "x", "volumeMounts": [mounted]}), MountConflict)
    assert "'larder-0123456789' read-only at /models" in message
    assert 'model "a" cannot be mounted below it at /models/a' in message
    assert mounts(
        injected(pod("a", {"name": "x", "volumeMounts": [mounted | {"readOnly": False}]}))["spec"]["containers"][0]
    )


@pytest.mark.parametrize(
    "volume", [{"emptyDir": {}}, {"persistentVolumeClaim": {"claimName": "model-a"}}, {"hostPath": {"path": "/"}}]
)
def test_a_volume_name_that_is_in_use_is_refused(volume: Json) -> None:
    before = pod("a")
    before["spec"]["volumes"] = [{"name": "model-a"} | volume]
    message = refusal(before, MountConflict)
    assert 'a volume "model-a"' in message
    assert 'model "a"' in message


@pytest.mark.parametrize(("inject", "variable"), [("a-b,a.b", "MODEL_A_B_NAME"), ("a,a-repo", "MODEL_A_REPO_URL")])
def test_models_with_colliding_variables_are_refused_unless_variables_are_disabled(inject: str, variable: str) -> None:
    message = refusal(pod(inject), InvalidRequest)
    first, second = inject.split(",")
    assert f'models "{first}" and "{second}" both need the variable {variable}' in message
    assert len(volumes(injected(pod(inject, inject_env="false")))) == 2


@pytest.mark.parametrize(("named", "inject"), [("llama", "a"), ("cbm/llama, name", "path")])
def test_a_variable_that_another_annotation_needs_is_refused(named: str, inject: str) -> None:
    before = pod(inject)
    before["metadata"]["annotations"]["larder.dev/model"] = named
    if inject == "a":
        before["metadata"]["annotations"]["larder.dev/env"] = "MODEL_A_NAME"
    message = refusal(before, InvalidRequest)
    assert "annotations models.example.com/inject and larder.dev/model" in message
    before["metadata"]["annotations"]["models.example.com/inject-env"] = "false"
    injected(before)


def test_the_number_of_models_and_the_length_of_messages_are_bounded() -> None:
    assert "names 70 Models; a pod may have at most 64" in refusal(pod(",".join(f"m{i}" for i in range(70))))
    assert len(refusal(pod("x" * 200_000))) < 1000
    assert len(refusal(pod("a", read_only="x" * 200_000))) < 1000
    assert len(refusal(pod("a", mount_path="/" + "x" * 200_000))) < 1000


def test_a_misspelt_annotation_is_warned_about() -> None:
    [warning] = inject_model_claims(pod("a", readonly="false"), "default", MODELS).warnings
    assert warning.startswith("annotation models.example.com/readonly is unknown and ignored")
