"""Where a model may be mounted, and what reaches into the store."""

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
    ],
)
def test_a_directory_of_its_own_is_taken(path: str, plain: str) -> None:
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
def test_the_container_s_own_places_are_refused(path: str) -> None:
    with pytest.raises(InvalidPath, match="write a directory of its own such as /opt/ml/model"):
        checked_mount_path(path)


@pytest.mark.parametrize("path", ["/s", "/s/", "/s/x", "/", "/s/../s/x", "//s"])
def test_what_reaches_the_store(path: str) -> None:
    assert reaches(path, "/s")


@pytest.mark.parametrize("path", ["/st", "/t/s", "/s/../t"])
def test_what_does_not(path: str) -> None:
    assert not reaches(path, "/s")


@pytest.mark.parametrize("root", ["", "/", "relative", "/a/", "/a/../b", "//a"])
def test_a_store_root_that_is_no_plain_directory_is_refused(root: str) -> None:
    with pytest.raises(ValueError, match="write for example /var/lib/larder"):
        AdmissionSettings(store_root=root)
