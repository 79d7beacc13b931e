import pytest

from rig.running import Running


class _Part(Running):
    def __init__(self, *, breaks: bool = False) -> None:
        self.breaks = breaks
        self.seen: list[str] = []

    def start(self) -> None:
        self.seen.append("start")
        if self.breaks:
            raise KeyError

    def stop(self) -> None:
        self.seen.append("stop")


def test_a_part_runs_for_the_duration_of_the_with_block() -> None:
    with _Part() as part:
        assert part.seen == ["start"]
    assert part.seen == ["start", "stop"]


def test_a_partial_start_is_stopped() -> None:
    part = _Part(breaks=True)
    with pytest.raises(KeyError), part:
        pytest.fail("the block was entered")
    assert part.seen == ["start", "stop"]


def test_a_part_is_stopped_when_the_with_block_raises() -> None:
    part = _Part()
    with pytest.raises(KeyError), part:
        raise KeyError
    assert part.seen == ["start", "stop"]
