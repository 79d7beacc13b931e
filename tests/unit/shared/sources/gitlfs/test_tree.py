"""Trees of hostile repositories."""

import pytest

from shared.errors import TooManyFiles, UnsafePath
from shared.manifest import File, build_manifest
from shared.sources.gitlfs.pack import BadPack, GitObject
from shared.sources.gitlfs.tree import list_files

OID = "ab" * 32
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize 12345\n".encode()


class Repository:
    def __init__(self) -> None:
        self.objects = dict[str, GitObject]()

    def add(self, kind: bytes, content: bytes) -> str:
        made = GitObject(kind, content)
        self.objects[made.id] = made
        return made.id

    def tree(self, *entries: tuple[bytes, bytes, str]) -> str:
        rows = (mode + b" " + name + b"\0" + bytes.fromhex(found) for mode, name, found in entries)
        return self.add(b"tree", b"".join(rows))

    def files(self, tree: str) -> list[File]:
        commit = self.add(b"commit", f"tree {tree}\nauthor x\n".encode())
        return list_files(self.objects, commit, "the repository")


@pytest.fixture
def repo() -> Repository:
    return Repository()


def test_pointers_are_files_in_lfs_and_submodules_are_left_out(repo: Repository) -> None:
    plain, large = repo.add(b"blob", b"{}"), repo.add(b"blob", POINTER)
    inner = repo.tree((b"100755", b"w.bin", large))
    root = repo.tree((b"100644", b"a.json", plain), (b"40000", b"d", inner), (b"160000", b"other", "00" * 20))
    assert repo.files(root) == [File("a.json", 2, f"git-sha1:{plain}"), File("d/w.bin", 12345, f"sha256:{OID}")]


def test_a_pointer_with_anything_else_in_it_is_a_plain_file(repo: Repository) -> None:
    found = repo.add(b"blob", POINTER + b"more\n")
    assert repo.files(repo.tree((b"100644", b"a", found)))[0].digest == f"git-sha1:{found}"


@pytest.mark.parametrize("mode", [b"120000", b"777"])
def test_links_are_refused(repo: Repository, mode: bytes) -> None:
    with pytest.raises(UnsafePath):
        repo.files(repo.tree((mode, b"a", repo.add(b"blob", b"/etc/passwd"))))


@pytest.mark.parametrize("name", [b"..", b".", b"a/b", b"", b"\xff", b".completed"])
def test_names_that_leave_their_directory_are_refused(repo: Repository, name: bytes) -> None:
    tree = repo.tree((b"100644", name, repo.add(b"blob", b"x")))
    with pytest.raises(UnsafePath):
        build_manifest("uri", "revision", repo.files(tree))


def test_a_tree_that_multiplies_by_repetition_is_refused(repo: Repository) -> None:
    tree = repo.tree((b"100644", b"a", repo.add(b"blob", b"x")))
    for _ in range(12):
        tree = repo.tree(*((b"40000", b"%d" % number, tree) for number in range(12)))
    with pytest.raises(TooManyFiles):
        repo.files(tree)


def test_long_paths_of_a_small_repository_are_bounded(repo: Repository) -> None:
    tree = repo.tree(*((b"100644", b"%d" % number, repo.add(b"blob", b"x")) for number in range(100)))
    for _ in range(15):
        tree = repo.tree((b"40000", b"d" * 200, tree))
    tree = repo.tree(*((b"40000", b"%d" % number, tree) for number in range(100)))
    with pytest.raises(TooManyFiles, match="characters"):
        repo.files(tree)


def test_deeply_nested_empty_directories_are_refused(repo: Repository) -> None:
    tree = repo.tree()
    for _ in range(5000):
        tree = repo.tree((b"40000", b"d", tree))
    with pytest.raises(UnsafePath):
        repo.files(tree)


def test_a_missing_or_malformed_tree_object_raises_bad_pack(repo: Repository) -> None:
    with pytest.raises(BadPack):
        repo.files(repo.tree((b"40000", b"d", "ab" * 20)))
    with pytest.raises(BadPack):
        repo.files(repo.add(b"tree", b"100644 a"))
