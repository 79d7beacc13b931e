import pytest

from agent.dra.allow_list import AllowList, check_allowed, check_patterns
from agent.dra.errors import PrepareRefused
from agent.dra.settings import parse_allowed

ALLOWED = AllowList(mounts=("/opt/driver", "/opt/v*"), devices=("/dev/fuse", "/dev/gpu*"), env=("VISIBLE", "GPU_*"))


def _is_allowed(mount: str = "", device: str = "", variable: str = "", allowed: AllowList = ALLOWED) -> bool:
    mounts, devices = ([text] if text else [] for text in (mount, device))
    try:
        check_allowed(allowed, mounts, devices, {variable: "x"} if variable else {}, "main")
    except PrepareRefused:
        return False
    return True


def test_the_refusal_names_everything_that_is_not_allowed() -> None:
    with pytest.raises(PrepareRefused, match=r"mount /etc, device /dev/x, variable A for container main.*dra\.allow"):
        check_allowed(ALLOWED, ["/etc"], ["/dev/x"], {"A": "b"}, "main")


def test_only_listed_mounts_devices_and_variables_are_allowed() -> None:
    for mount in ("/opt/driver", "/opt/driver/lib/x", "/opt/v1", "/opt/v2/lib"):
        assert _is_allowed(mount=mount)
    for mount in ("/opt", "/opt/drivers", "/etc", "/"):
        assert not _is_allowed(mount=mount)
    assert _is_allowed(device="/dev/fuse")
    assert _is_allowed(device="/dev/gpu3")
    assert not _is_allowed(device="/dev/gpu/3")
    assert not _is_allowed(device="/dev/fuse2")
    assert _is_allowed(variable="GPU_IDS")
    assert not _is_allowed(variable="LD_PRELOAD")


def test_a_star_matches_within_one_path_segment() -> None:
    stars = AllowList(devices=("/dev/a*b*c", "/dev/*/x"))
    for device in ("/dev/abc", "/dev/a1b2c", "/dev/abbc", "/dev/any/x"):
        assert _is_allowed(device=device, allowed=stars)
    for device in ("/dev/ac", "/dev/acb", "/dev/a/bc", "/dev/x", "/dev/any/y", "/dev/any/x/y"):
        assert not _is_allowed(device=device, allowed=stars)


def test_nothing_is_allowed_by_default() -> None:
    assert parse_allowed("{}").empty
    nothing = AllowList()
    assert not _is_allowed(mount="/opt", allowed=nothing)
    assert not _is_allowed(device="/dev/fuse", allowed=nothing)
    assert not _is_allowed(variable="A", allowed=nothing)
    assert _is_allowed(allowed=nothing)


@pytest.mark.parametrize(
    "text", ['{"mounts": ["opt"]}', '{"devices": ["/dev/../x"]}', '{"env": ["*"]}', '{"nodes": []}', "x"]
)
def test_an_invalid_allow_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_allowed(text)


def test_characters_other_than_the_star_match_literally() -> None:
    check_patterns(ALLOWED)
    assert not _is_allowed(device="/dev/xfuse", allowed=AllowList(devices=("/dev/.fuse",)))
