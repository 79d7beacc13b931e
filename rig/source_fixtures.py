"""Source fixtures: each stores the files of a model where one kind of source can serve them."""

import base64
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, unquote

from rig.azure import Azure
from rig.gcs import Gcs
from rig.git_server import GitServer
from rig.hub import Hub, RepositoryAccess
from rig.registry import Registry
from rig.s3 import S3
from rig.scripted_http import ScriptedRequest, reply
from shared.sources.credential_keys import GOOGLE_KEY
from shared.sources.memory import MemorySource
from shared.sources.port import ANONYMOUS, Credentials, Source
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri

TOKEN = "the-right-token"  # noqa: S105 - opens nothing but the rig


@dataclass(frozen=True)
class StoredModel:
    """The files stored for one test, and how to access them."""

    uri: str
    files: Mapping[str, bytes]
    good: Credentials
    wrong: Credentials
    open: Callable[[str, Credentials], Source]
    change: Callable[[str, bytes | None], None]


class SourceFixture(Protocol):
    """One kind of source, and the properties of its models.

    Args:
        many: A model may have several files.
        pinned: A revision cannot change.
        guarded: Files can be hidden from clients without credentials.
        vouched: Every file has a digest.
    """

    many: bool
    pinned: bool
    guarded: bool
    vouched: bool

    def store_model(self, files: Mapping[str, bytes], *, private: bool = False) -> StoredModel:
        """Store the files (only the first if `many` is false)."""
        ...


class MemoryFixture:
    """The in-memory twin."""

    many, pinned, guarded, vouched = True, False, True, True

    def store_model(self, files: Mapping[str, bytes], *, private: bool = False) -> StoredModel:
        """Keep the files in a dict."""
        source = MemorySource(files, token=TOKEN if private else "")

        def change(path: str, body: bytes | None) -> None:
            if body is None:
                del source.files[path]
            else:
                source.files[path] = body

        good, wrong = (Credentials({"HF_TOKEN": token}) for token in (TOKEN, "wrong"))
        return StoredModel("hf://test/model", files, good, wrong, lambda _, cred: source.with_credentials(cred), change)


class HubFixture:
    """A repository on the hub of the rig."""

    many, pinned, guarded, vouched = True, True, True, True

    def __init__(self, hub: Hub, tmp_path: Path) -> None:
        self._hub, self._tmp_path = hub, tmp_path

    def store_model(self, files: Mapping[str, bytes], *, private: bool = False) -> StoredModel:
        """Push the files as one commit."""
        repo, folder = f"org/{uuid.uuid4().hex}", self._tmp_path / uuid.uuid4().hex
        for path, body in files.items():
            _write(folder / path, body)
        access = RepositoryAccess(frozenset({TOKEN})) if private else RepositoryAccess()
        self._hub.push(repo, folder, access=access)
        settings = SourceSettings(hf_endpoint=self._hub.endpoint, allow_addresses=("127.0.0.1",))

        def change(path: str, body: bytes | None) -> None:
            (folder / path).unlink()
            if body is not None:
                _write(folder / path, body)
            self._hub.push(repo, folder)

        good, wrong = (Credentials({"HF_TOKEN": token}) for token in (TOKEN, "wrong"))
        return StoredModel(f"hf://{repo}", files, good, wrong, _opener(settings), change)


class S3Fixture:
    """A prefix in a bucket of a real S3 server; it is always private."""

    many, pinned, guarded, vouched = True, False, True, True

    def __init__(self, s3: S3) -> None:
        self._s3 = s3

    def store_model(self, files: Mapping[str, bytes], *, private: bool = False) -> StoredModel:
        """Put the files below a prefix of a new bucket."""
        del private  # every bucket of this server is private
        bucket = f"bucket-{uuid.uuid4().hex}"
        for path, body in files.items():
            self._s3.put(bucket, f"models/m/{path}", body)

        def change(path: str, body: bytes | None) -> None:
            self._s3.path(bucket, f"models/m/{path}").unlink()
            if body is not None:
                self._s3.put(bucket, f"models/m/{path}", body)

        keys = {"AWS_ACCESS_KEY_ID": self._s3.access_key, "AWS_SECRET_ACCESS_KEY": self._s3.secret_key}
        good, wrong = Credentials(keys), Credentials({**keys, "AWS_SECRET_ACCESS_KEY": "wrong"})
        settings = SourceSettings(s3_endpoint=self._s3.endpoint, s3_region=self._s3.region)
        return StoredModel(f"s3://{bucket}/models/m", files, good, wrong, _opener(settings), change)


class GcsFixture:
    """A prefix in a bucket behind the token gate of the rig."""

    many, pinned, guarded, vouched = True, False, True, True

    def __init__(self, gcs: Gcs) -> None:
        self._gcs = gcs

    def store_model(self, files: Mapping[str, bytes], *, private: bool = False) -> StoredModel:
        """Put the files below a prefix of a new bucket."""
        bucket = f"bucket-{uuid.uuid4().hex}"
        self._gcs.make_bucket(bucket)
        for path, body in files.items():
            self._gcs.put(bucket, f"models/m/{path}", body)
        if private:
            self._gcs.private.add(bucket)

        def change(path: str, body: bytes | None) -> None:
            if body is None:
                self._gcs.remove(bucket, f"models/m/{path}")
            else:
                self._gcs.put(bucket, f"models/m/{path}", body)

        account = self._gcs.account
        good, wrong = (Credentials({GOOGLE_KEY: account.key_file(forged=forged)}) for forged in (False, True))
        return StoredModel(
            f"gs://{bucket}/models/m",
            files,
            good,
            wrong,
            _opener(SourceSettings(gcs_endpoint=self._gcs.endpoint)),
            change,
        )


class AzureFixture:
    """A prefix in a container; it is always private."""

    many, pinned, guarded, vouched = True, False, True, True

    def __init__(self, azure: Azure) -> None:
        self._azure = azure

    def store_model(self, files: Mapping[str, bytes], *, private: bool = False) -> StoredModel:
        """Put the files below a prefix of a new container."""
        del private  # every container of this server is private
        azure, container = self._azure, f"container-{uuid.uuid4().hex}"
        azure.make_container(container)
        for path, body in files.items():
            azure.put(container, f"models/m/{path}", body)

        def change(path: str, body: bytes | None) -> None:
            if body is None:
                azure.remove(container, f"models/m/{path}")
            else:
                azure.put(container, f"models/m/{path}", body)

        wrong = base64.b64encode(b"wrong").decode()
        good, bad = (Credentials({"AZURE_STORAGE_KEY": key}) for key in (azure.key, wrong))
        settings = SourceSettings(azure_endpoint=azure.endpoint)
        return StoredModel(f"az://{azure.account}/{container}/models/m", files, good, bad, _opener(settings), change)


class RegistryFixture:
    """An artifact in a real registry, one layer per file."""

    many, pinned, guarded, vouched = True, True, True, True

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def store_model(self, files: Mapping[str, bytes], *, private: bool = False) -> StoredModel:
        """Push the files to a new repository."""
        registry, repository = self._registry, f"org/{uuid.uuid4().hex}"
        here = dict(files)
        registry.push(repository, "latest", here)
        if private:
            registry.tokens.private.add(repository)

        def change(path: str, body: bytes | None) -> None:
            here.pop(path)
            if body is not None:
                here[path] = body
            registry.push(repository, "latest", here)

        good, wrong = (
            Credentials(
                {".dockerconfigjson": registry.tokens.docker_config(registry.name, password=password)},
                (registry.token_service.url.removeprefix("http://"),),
            )
            for password in ("", "wrong")
        )
        settings = SourceSettings(registries=(registry.endpoint,), allow_addresses=("127.0.0.1",))
        return StoredModel(f"oci://{registry.name}/{repository}", files, good, wrong, _opener(settings), change)


class LocalFixture:
    """A directory on this machine; everybody may read it."""

    many, pinned, guarded, vouched = True, False, False, False

    def __init__(self, root: Path) -> None:
        self._root = root

    def store_model(self, files: Mapping[str, bytes], *, private: bool = False) -> StoredModel:
        """Write the files below a new directory; only file permissions protect it."""
        del private
        folder = self._root / uuid.uuid4().hex
        for path, body in files.items():
            _write(folder / path, body)

        def change(path: str, body: bytes | None) -> None:
            (folder / path).unlink()
            if body is not None:
                _write(folder / path, body)

        settings = SourceSettings(local_roots=(str(self._root),))
        return StoredModel(f"local://{folder}", files, ANONYMOUS, ANONYMOUS, _opener(settings), change)


class HttpsFixture:
    """One file on an ordinary web server."""

    many, pinned, guarded, vouched = False, False, True, False

    def __init__(self, ca_bundle: Path, url: str, served: "FileServer") -> None:
        self._ca_bundle, self._url, self._served = ca_bundle, url, served

    def store_model(self, files: Mapping[str, bytes], *, private: bool = False) -> StoredModel:
        """Serve the first file."""
        (path, body), *_ = files.items()
        self._served.files, self._served.token = {f"/d/{path}": body}, TOKEN if private else ""
        settings = SourceSettings(allow_addresses=("127.0.0.1/32",), ca_bundle=str(self._ca_bundle))

        def change(path: str, body: bytes | None) -> None:
            self._served.files = {} if body is None else {f"/d/{path}": body}

        place = self._url.removeprefix("https://")
        good, wrong = (Credentials({"token": token}, (place,)) for token in (TOKEN, "wrong"))
        uri = f"{self._url}/d/{quote(path)}"
        return StoredModel(uri, {path: body}, good, wrong, _opener(settings), change)


class GitFixture:
    """A repository behind Git's own HTTP server, with files of a KiB and more in LFS."""

    many, pinned, guarded, vouched = True, True, True, True

    def __init__(self, ca_bundle: Path, server: GitServer) -> None:
        self._ca_bundle, self._server = ca_bundle, server

    def store_model(self, files: Mapping[str, bytes], *, private: bool = False) -> StoredModel:
        """Push the files as one commit."""
        repo, stored = f"org/{uuid.uuid4().hex}", dict(files)
        self._server.push(repo, stored, token=TOKEN if private else "")
        settings = SourceSettings(allow_addresses=("127.0.0.1/32",), ca_bundle=str(self._ca_bundle))

        def change(path: str, body: bytes | None) -> None:
            del stored[path]
            if body is not None:
                stored[path] = body
            self._server.push(repo, stored)

        place = self._server.url.removeprefix("https://")
        good, wrong = (Credentials({"token": token}, (place,)) for token in (TOKEN, "wrong"))
        return StoredModel(f"git+https://{place}/{repo}.git", files, good, wrong, _opener(settings), change)


class FileServer:
    """Serves files like an ordinary web server: HEAD, ranges, entity tags, If-Match, a bearer token."""

    def __init__(self) -> None:
        self.files: Mapping[str, bytes] = {}
        self.token = ""

    def answer(self, asked: ScriptedRequest) -> bytes:
        """Answer one request."""
        body = self.files.get(unquote(asked.target))
        if self.token and asked.headers.get("authorization") != f"Bearer {self.token}":
            return reply(401)
        if body is None:
            return reply(404)
        etag = f'"{len(body)}-{hash(body)}"'
        if asked.headers.get("if-match", etag) != etag:
            return reply(412)
        if asked.method == "HEAD":
            return reply(200, ETag=etag, Content_Length=str(len(body)))
        if not (wanted := re.fullmatch(r"bytes=(\d+)-(\d+)", asked.headers.get("range", ""))):
            return reply(200, body, ETag=etag)
        first, last = int(wanted[1]), min(int(wanted[2]), len(body) - 1)
        return reply(206, body[first : last + 1], ETag=etag, Content_Range=f"bytes {first}-{last}/{len(body)}")


def _opener(settings: SourceSettings) -> Callable[[str, Credentials], Source]:
    return lambda uri, credentials: open_source(parse_uri(uri), credentials, settings)


def _write(path: Path, body: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(body)
