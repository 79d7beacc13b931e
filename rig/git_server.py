"""Git repositories over HTTP, served by Git's own `git http-backend`, with a Git LFS server beside it."""

import base64
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from rig.scripted_http import ScriptedRequest, reply

_GIT = shutil.which("git") or "git"
_LFS_PATH, _OBJECTS = "/info/lfs/objects/", "/lfs-objects/"
_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"
_LARGE_BYTES = 1024  # files of at least this size are in LFS
_AUTHOR = {
    "GIT_AUTHOR_NAME": "rig",
    "GIT_AUTHOR_EMAIL": "rig@example.org",
    "GIT_COMMITTER_NAME": "rig",
    "GIT_COMMITTER_EMAIL": "rig@example.org",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}


class GitServer:
    """Bare repositories in a directory; `answer` serves them, private ones only to clients with the token."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self._objects = dict[str, bytes]()
        self._tokens = dict[str, str]()
        self.url = ""  # of the server that calls `answer`

    def push(self, repo: str, files: Mapping[str, bytes], *, branch: str = "main", token: str = "") -> str:
        """Commit exactly these files to a branch, those of a KiB and more in LFS, and return the commit."""
        bare, work = self._state / f"{repo}.git", self._state / "work" / repo
        if not bare.exists():
            self._git(self._state, "init", "--quiet", "--bare", "--initial-branch=main", str(bare))
            self._git(self._state, "init", "--quiet", str(work))
        self._tokens[repo] = token
        self._git(work, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
        for old in work.iterdir():
            if old.name != ".git":
                shutil.rmtree(old) if old.is_dir() else old.unlink()
        for path, body in files.items():
            (work / path).parent.mkdir(parents=True, exist_ok=True)
            (work / path).write_bytes(self._stored(body))
        self._git(work, "add", "--all", "--force")
        self._git(work, "commit", "--quiet", "--allow-empty", "--message", "files")
        self._git(work, "push", "--quiet", "--force", str(bare), f"HEAD:refs/heads/{branch}")
        return self._git(work, "rev-parse", "HEAD").decode().strip()

    def git(self, repo: str, *arguments: str) -> bytes:
        """Run a git command in the working directory of a repository."""
        return self._git(self._state / "work" / repo, *arguments)

    def bare(self, repo: str) -> Path:
        """Return the bare repository that is served."""
        return self._state / f"{repo}.git"

    def answer(self, request: ScriptedRequest) -> bytes:
        """Return the response to a request."""
        parts = urlsplit(request.target)
        repo = parts.path.partition(".git/")[0].strip("/")
        if parts.path.startswith(_OBJECTS):
            return self._object(request)
        token = self._tokens.get(repo)
        if token is None:
            return reply(404)
        wanted = base64.b64encode((token if ":" in token else f"oauth2:{token}").encode()).decode()
        if token and request.headers.get("authorization") != f"Basic {wanted}":
            return reply(401, WWW_Authenticate="Basic")
        if _LFS_PATH in parts.path:
            return self._batch(request)
        return self._backend(request, parts.path, parts.query)

    def _stored(self, body: bytes) -> bytes:
        if len(body) < _LARGE_BYTES:
            return body
        oid = hashlib.sha256(body).hexdigest()
        self._objects[oid] = body
        return _POINTER.format(oid=oid, size=len(body)).encode()

    def forget(self, body: bytes) -> None:
        """Delete an LFS object, as if it had never been pushed."""
        del self._objects[hashlib.sha256(body).hexdigest()]

    def _batch(self, request: ScriptedRequest) -> bytes:
        def described(wanted: dict[str, object]) -> dict[str, object]:
            oid = str(wanted["oid"])
            if oid not in self._objects:
                return wanted | {"error": {"code": 404, "message": "Object does not exist"}}
            header = {"X-Object-Key": oid[:8]}
            return wanted | {"actions": {"download": {"href": f"{self.url}{_OBJECTS}{oid}", "header": header}}}

        objects = [described(wanted) for wanted in json.loads(request.body)["objects"]]
        return reply(200, json.dumps({"transfer": "basic", "objects": objects}).encode())

    def _object(self, request: ScriptedRequest) -> bytes:
        oid = request.target.removeprefix(_OBJECTS)
        body = self._objects.get(oid)
        if body is None or request.headers.get("x-object-key") != oid[:8]:
            return reply(403)
        first, _, last = request.headers.get("range", "").removeprefix("bytes=").partition("-")
        if not first:
            return reply(200, body)
        start, end = int(first), min(int(last) + 1 if last else len(body), len(body))
        return reply(206, body[start:end], Content_Range=f"bytes {start}-{end - 1}/{len(body)}")

    def _backend(self, request: ScriptedRequest, path: str, query: str) -> bytes:
        variables = {
            "GIT_PROJECT_ROOT": str(self._state),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("content-type", ""),
            "CONTENT_LENGTH": str(len(request.body)),
            "GIT_PROTOCOL": request.headers.get("git-protocol", ""),
        }
        ran = subprocess.run(
            [_GIT, "http-backend"], input=request.body, stdout=subprocess.PIPE, check=False, env=os.environ | variables
        )
        head, _, body = ran.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        status = int(fields.pop("Status", "200").split()[0])
        return reply(status, body, **{name.replace("-", "_"): value for name, value in fields.items()})

    def _git(self, folder: Path, *arguments: str) -> bytes:
        folder.mkdir(parents=True, exist_ok=True)
        command = [_GIT, "-C", str(folder), *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ | _AUTHOR).stdout
