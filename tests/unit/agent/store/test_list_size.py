"""The memory that a list of files takes."""

from agent.store.download_plan import DownloadPlan
from agent.store.list_size import ListSize, list_size
from shared.manifest import File, Manifest


def test_an_empty_list_takes_nothing() -> None:
    assert list_size([]) == ListSize()


def test_long_names_and_names_beyond_latin_take_more() -> None:
    plain, long, wide = (list_size([path]).memory_bytes for path in ("a" * 10, "a" * 900, "a" * 899 + "\N{ROCKET}"))
    assert long == plain + 890
    assert wide > plain + 4 * 890


def test_every_directory_counts_once() -> None:
    flat, nested = list_size(["a-b-c-1", "a-b-c-2"]), list_size(["a/b/c/1", "a/b/c/2"])
    assert nested.files == flat.files == 2
    assert nested.memory_bytes == flat.memory_bytes + 3 * (
        list_size(["a/b"]).memory_bytes - list_size(["a-b"]).memory_bytes
    )


def test_what_the_publisher_stated_counts() -> None:
    def size(digest: str, etag: str) -> int:
        return DownloadPlan(Manifest("hf://o/m", "r1", (File("a", 1, digest, etag),))).list_size.memory_bytes

    assert size("sha256:" + "0" * 64, "") > size("", "") + 64
    assert size("", "e" * 1000) > size("", "") + 990
