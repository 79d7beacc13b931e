"""URIs of Git repositories."""

import re
from dataclasses import dataclass

from shared.errors import InvalidURI

_HOST = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?(:[1-9][0-9]{0,4})?", re.IGNORECASE)
_PART = re.compile(r"[\w.~+-]{1,255}", re.ASCII)
_REVISION = re.compile(r"[\w./+-]{1,200}", re.ASCII)
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class GitUri:
    """A repository at a branch, tag or commit; `place` is its URL without the scheme."""

    place: str
    revision: str = "main"

    @property
    def url(self) -> str:
        """The URL of the repository, as for `git clone`."""
        return f"https://{self.place}"

    def __str__(self) -> str:
        return f"git+https://{self.place}?ref={self.revision}"


def parse_git(rest: str) -> GitUri:
    """Parse what follows `git+https://`; `@REVISION` is accepted in place of `?ref=REVISION`. Raises InvalidURI."""
    place, _, query = rest.partition("?")
    host, _, path = place.rstrip("/").partition("/")
    name, _, revision = query.partition("=")
    if not query and "@" in path:
        path, _, revision = path.partition("@")
        query, name = f"ref={revision}", "ref"
    port = host.rpartition(":")[2] if ":" in host else "443"
    parts = path.split("/")
    path_is_valid = all(_PART.fullmatch(part) and part not in (".", "..") for part in parts)
    query_is_valid = not query or (name == "ref" and is_git_revision(revision))
    if not _HOST.fullmatch(host) or int(port) > _LARGEST_PORT or not path_is_valid or not query_is_valid:
        shown = rest.rpartition("@")[2].partition("?")[0]  # without the user, which may be a token
        raise InvalidURI(
            f"git+https://{shown} does not name a repository and a revision; write git+https://HOST[:PORT]/PATH or "
            "git+https://HOST[:PORT]/PATH?ref=REVISION, without a user"
        )
    return GitUri(f"{host.lower()}/{path}", revision or "main")


def is_git_revision(text: str) -> bool:
    """Return whether a text can be the name of a branch or tag, or a commit."""
    return bool(_REVISION.fullmatch(text)) and ".." not in text and not text.startswith(("/", "-"))
