"""Which paths a model may be mounted at, and which host paths reach the store."""

import pytest

from controller.admission.errors import InvalidPath
from controller.admission.paths import checked_mount_path, reaches
from controller.admission.settings import AdmissionSettings


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/opt/ml/model", "/opt/ml/model"),
        ("/raid/models/meta/llama-3-3-70b-instruct/", "/raid/models/meta/llama-3-3-70b-instruct"),
        ("/models", "/models"),
        ("/usr/local/models", "/usr/local/models"),
        ("/var/lib/models", "/var/lib/models"),
        ("/mnt/data/models/meta/llama-3.1-8b", "/mnt/data/models/meta/llama-3.1-8b"),
        ("/home/user/models", "/home/user/models"),
        ("/raid/models/nvidia/llama-nemotron", "/raid/models/nvidia/llama-nemotron"),
        ("/models/lib", "/models/lib"),
        ("/workspace/Models/x", "/workspace/Models/x"),
        ("/data/python-weights", "/data/python-weights"),
        ("/library", "/library"),
    ],
)
def test_a_separate_directory_is_accepted_as_a_mount_path(path: str, plain: str) -> None:
    assert checked_mount_path(path) == plain


@pytest.mark.parametrize(
    "path",
    [
        *(
            "",
            "/",
            "//",
            "relative",
            "models/x",
            "/a/../etc",
            "/a/./b",
            "/a//b",
            "/..",
            "/a:b",
            "/a\nb",
            "/" + "x" * 2000,
        ),
        *("/etc", "/etc/", "/etc/model", "/proc/1", "/sys", "/dev/x", "/var/run/secrets/x", "/run/x", "/usr/bin"),
        *("/usr", "/var", "/bin", "/lib/x", "/opt", "/home", "/root"),
    ],
)
def test_system_directories_of_the_container_are_refused(path: str) -> None:
    with pytest.raises(InvalidPath, match="use a separate directory such as /opt/ml/model"):
        checked_mount_path(path)


@pytest.mark.parametrize(
    "path",
    [
        *("/usr/local/lib/python3.11/site-packages", "/usr/local/lib/models", "/opt/venv/models", "/opt/conda/x"),
        *("/root/.ssh", "/home/u/.ssh", "/home/models/.config", "/opt/app/node_modules/x", "/data/dist-packages"),
        *("/var/spool/cron", "/var/lib/mysql", "/usr/share/perl5", "/usr/src/app", "/root/x", "/home/u", "/workspace"),
        *("/usr/local", "/app", "/app/models", "/code/x", "/opt/python3.12", "/srv/ssh", "/opt/Lib64/x", "/mnt/.git"),
        *("/opt/jdk-21", "/usr/local/cuda-12.4/models", "/opt/nvidia/x", "/data/cron.d", "/opt/miniconda3"),
    ],
)
def test_directories_that_programs_load_code_from_are_refused(path: str) -> None:
    """Otherwise, the author of a model could run code in the pods of others."""
    with pytest.raises(InvalidPath, match="use a separate directory such as /opt/ml/model"):
        checked_mount_path(path)


@pytest.mark.parametrize(
    "path", ["/s", "/s/", "/s/x", "/", "/s/../s/x", "//s", "/proc", "/proc/1/root/s", "//proc/./self/cwd", "/dev/fd/3"]
)
def test_mounts_at_above_or_below_the_store_reach_it(path: str) -> None:
    assert reaches(path, "/s")


@pytest.mark.parametrize("path", ["/st", "/t/s", "/s/../t", "/proc/sys", "/procs/1", "/t/proc/1"])
def test_mounts_beside_the_store_do_not_reach_it(path: str) -> None:
    assert not reaches(path, "/s")


@pytest.mark.parametrize("root", ["", "/", "relative", "/a/", "/a/../b", "//a"])
def test_a_store_root_that_is_not_a_plain_directory_is_refused(root: str) -> None:
    with pytest.raises(ValueError, match="use, for example, /var/lib/larder"):
        AdmissionSettings(store_root=root)
