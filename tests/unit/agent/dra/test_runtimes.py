import pytest

from agent.dra.runtimes import cdi_problem, needs_cdi_switched_on


@pytest.mark.parametrize("runtime", ["containerd://1.6.20", "containerd://1.6.20~ds1", "cri-o://1.22.5"])
def test_old_runtimes_ignore_devices(runtime: str) -> None:
    assert runtime in cdi_problem(runtime)


@pytest.mark.parametrize(
    "runtime",
    ["containerd://1.7.24", "containerd://2.2.9", "containerd://v10.0.1", "cri-o://1.30.0", "other://0.1.2", ""],
)
def test_newer_and_unknown_runtimes_are_assumed_to_support_cdi(runtime: str) -> None:
    assert cdi_problem(runtime) == ""


def test_only_containerd_1_7_needs_cdi_switched_on() -> None:
    assert needs_cdi_switched_on("containerd://1.7.24")
    assert not needs_cdi_switched_on("containerd://2.0.0")
    assert not needs_cdi_switched_on("cri-o://1.7.0")
