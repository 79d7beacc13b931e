"""The servers of a bench and the files that they serve, each file stored once."""

import os
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

from rig.binaries import Binaries
from rig.hub import Hub
from rig.node import programs
from rig.node.namespaces import within_network
from rig.ports import LOOPBACK, free_port
from rig.running import Running
from rig.s3 import S3
from tests.bench.transfer.loads import OWNER, Load, write_files
from tests.bench.transfer.nginx import Front, Nginx

_LONGEST_LIST = 100_000


class Site(Running):
    """Hub and static server, and the S3 server where `binaries` are given; use as a context manager.

    `network` is the namespace to serve in, at the address `host`.
    """

    def __init__(
        self,
        state: Path,
        loads: Sequence[Load],
        nginx: Path,
        binaries: Binaries | None = None,
        *,
        host: str = LOOPBACK,
        network: Path | None = None,
        connection_rate: int = 0,
    ) -> None:
        self.state, self.loads, self.host = state, {load.name: load for load in loads}, host
        self._port, self._store_port = free_port(), free_port()
        self._nginx, self._network, self._connection_rate = nginx, network, connection_rate
        with within_network(network) if network else nullcontext():
            self._hub = Hub(state / "hub", host=host, store_url=f"http://{host}:{self._store_port}")
        self._hub.page_size = _LONGEST_LIST  # links to further pages would bypass the server in front of the hub
        self.s3 = S3(binaries, state / "s3") if binaries else None
        self._closing = ExitStack()

    @property
    def url(self) -> str:
        """The address of the static server, which is the HF_ENDPOINT too."""
        return f"http://{self.host}:{self._port}"

    def folder(self, load: Load) -> Path:
        """Return the directory of a load's files, for contenders that copy."""
        return self.state / "files" / load.name

    def start(self) -> None:
        """Write and publish the files, and start all servers."""
        self._closing.enter_context(self._hub)
        if self.s3:
            self._closing.enter_context(self.s3)
        for load in self.loads.values():
            write_files(load, self.folder(load))
            commit = self._hub.push(f"{OWNER}/{load.name}", self.folder(load))
            self._put(load)
            self._store_once(load, commit)
        self._closing.enter_context(Nginx(self._nginx, self._front(), self.state / "nginx", self._enter()))

    def stop(self) -> None:
        """Stop all servers."""
        self._closing.close()

    def s3_environ(self) -> dict[str, str]:
        """Return the environment variables with which S3 clients find server and keys."""
        if self.s3 is None:
            return {}
        return {
            "AWS_ENDPOINT_URL": self.s3.endpoint,
            "AWS_ACCESS_KEY_ID": self.s3.access_key,
            "AWS_SECRET_ACCESS_KEY": self.s3.secret_key,
            "AWS_REGION": self.s3.region,
            "AWS_DEFAULT_REGION": self.s3.region,
        }

    def _enter(self) -> list[str]:
        return enter_command(self._network) if self._network else []

    def _front(self) -> Front:
        small = self._hub.repositories.get(f"{OWNER}/small")
        commit = small.branches["main"] if small else ""
        return Front(
            host=self.host,
            port=self._port,
            store_port=self._store_port,
            hub=self._hub.endpoint,
            files=self.state / "files",
            contents=self.state / "hub" / "contents",
            small=f"{OWNER}/small",
            commit=commit,
            oids={path: entry.oid for path, entry in small.commits[commit].items()} if small else {},
            connection_rate=self._connection_rate,
        )

    def _put(self, load: Load) -> None:
        if self.s3 is None:
            return
        self.s3.path(OWNER).mkdir(exist_ok=True)
        client = self.s3.client()
        for path in load.paths:
            with (self.folder(load) / path).open("rb") as body:
                client.put_object(Bucket=OWNER, Key=f"{load.name}/{path}", Body=body)
        client.close()

    def _store_once(self, load: Load, commit: str) -> None:
        """Replace copies by links, so that all contenders read the same pages of the page cache."""
        repository = self._hub.repositories.get(f"{OWNER}/{load.name}")
        assert repository is not None  # just pushed
        for path, entry in repository.commits[commit].items():
            places = [entry.content, *([self.s3.path(OWNER, f"{load.name}/{path}")] if self.s3 else [])]
            for place in places:
                fresh = place.with_name(f"{place.name}.link")
                os.link(self.folder(load) / path, fresh)
                fresh.rename(place)


def enter_command(network: Path) -> list[str]:
    """Return the start of a command line that runs a program in a network; the program keeps its process id."""
    return [programs.NSENTER, f"--net={network}", "--"]
