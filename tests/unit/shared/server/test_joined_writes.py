"""Which writes are sent together, and when."""

import asyncio

from shared.server.joined_writes import JoinedWrites


class Recorder(asyncio.Transport):
    """Records the sent pieces, and the end as an empty piece."""

    def __init__(self) -> None:
        super().__init__({"peername": "peer"})
        self.sent: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.sent.append(b"")

    abort = close

    def is_closing(self) -> bool:
        return b"" in self.sent


def joined() -> tuple[JoinedWrites, Recorder]:
    recorder = Recorder()
    return JoinedWrites(recorder, asyncio.get_running_loop()), recorder


async def test_writes_of_one_turn_of_the_loop_are_sent_together() -> None:
    writes, recorder = joined()
    for data in (b"head ", b"", b"body"):
        writes.write(data)
    assert recorder.sent == []
    await asyncio.sleep(0)
    writes.write(b"next")
    await asyncio.sleep(0)
    assert recorder.sent == [b"head body", b"next"]
    assert writes.get_extra_info("peername") == "peer"


async def test_a_large_write_is_sent_at_once_so_that_a_slow_reader_stops_the_writer() -> None:
    writes, recorder = joined()
    piece = b"x" * 40_000
    for _ in range(3):
        writes.write(piece)
    assert recorder.sent == [piece * 2]
    await asyncio.sleep(0)
    assert recorder.sent == [piece * 2, piece]


async def test_closing_sends_pending_writes_and_aborting_drops_them() -> None:
    writes, recorder = joined()
    writes.write(b"bye")
    writes.close()
    await asyncio.sleep(0)
    assert recorder.sent == [b"bye", b""]
    writes, recorder = joined()
    writes.write(b"never")
    writes.abort()
    await asyncio.sleep(0)
    assert recorder.sent == [b""]
