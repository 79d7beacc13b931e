"""One node under test: its Node and ModelNode on a real API server, its hub, its directory, its agent's process."""

import hashlib
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec

from agent.store.partials import SUFFIX, held_ranges
from rig import plain_http
from rig.api import Api
from rig.errors import CallRefused
from rig.hub import Hub
from rig.ports import free_port
from rig.processes import Process, Program, wait_until
from shared.api.model_node import PATH, Entry, EntryStatus, ModelNode, ModelNodeSpec
from shared.manifest import Manifest
from shared.names import READY_PREFIX, SNAPSHOT_PREFIX, ready_label, snapshot_label, snapshot_path
from shared.sources.port import ANONYMOUS
from shared.sources.schemes import open_source
from shared.sources.settings import SourceSettings
from shared.uri.model_uri import parse_uri
from tests.integration.agent.fake_controller import FakeController

SOON_S = 60.0
_ANY_SIZE = 2**62


@dataclass
class Model:
    """A model on the hub: its manifest, its bytes, and the entry that wants it."""

    entry: Entry
    manifest: Manifest
    files: Mapping[str, bytes]


@dataclass
class Bench:
    """Everything around one agent."""

    api: Api
    hub: Hub
    controller: FakeController
    node: str
    kubeconfig: Path
    state: Path
    ca_file: Path
    token_file: Path
    options: tuple[str, ...] = ("--scan-seconds", "0.5", "--node-seconds", "2", "--floor", "0")
    environ: dict[str, str] = field(default_factory=dict)  # beside what every agent gets
    module: str = "agent"  # the program that is started
    in_pod: bool = False  # it has a service account in place of the kubeconfig
    agents: list[Process] = field(default_factory=list)
    port: int = 0

    @property
    def root(self) -> Path:
        """The agent's directory."""
        return self.state / "root"

    @property
    def url(self) -> str:
        """The address of the agent."""
        return f"http://127.0.0.1:{self.port}"

    # The cluster, the hub and the controller.

    def create_node(self) -> str:
        """Create the Node, and return its uid."""
        return str(self.api.create("/api/v1/nodes", {"metadata": {"name": self.node}})["metadata"]["uid"])

    def node_uid(self) -> str:
        """The uid of the present Node."""
        return str(self.api.get(f"/api/v1/nodes/{self.node}")["metadata"]["uid"])

    def labels(self) -> set[str]:
        """Our labels on the Node."""
        found = self.api.get(f"/api/v1/nodes/{self.node}")["metadata"].get("labels", {})
        return {k for k in found if k.startswith((READY_PREFIX, SNAPSHOT_PREFIX))}

    def add_model(self, identity: str, files: Mapping[str, bytes], **fields: object) -> Model:
        """Put a model on the hub and its manifest on the controller; nothing wants it yet."""
        folder = self.state / "pushed" / identity
        for path, body in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(body)
        repo = f"{self.node}/{identity}"
        self.hub.push(repo, folder)
        settings = SourceSettings(hf_endpoint=self.hub.endpoint, allow_addresses=("127.0.0.1",))
        return self.offer(identity, f"hf://{repo}", settings, files, **fields)

    def offer(
        self, identity: str, uri: str, settings: SourceSettings, files: Mapping[str, bytes], **fields: object
    ) -> Model:
        """Put the manifest of a model of any source on the controller; the node should have `files`."""
        source = open_source(parse_uri(uri), ANONYMOUS, settings)
        try:
            manifest = source.resolve()
        finally:
            source.close()
        digest = self.controller.offer(manifest)
        known: dict[str, Any] = {"granted": True, "size": manifest.size_bytes, "uri": manifest.uri}
        entry = Entry(id=identity, revision=manifest.revision, manifest=digest, **(known | fields))
        return Model(entry, manifest, files)

    def want(self, *entries: Entry, node_uid: str | None = None, **spec: Any) -> None:
        """Write the ModelNode's spec, as the controller does."""
        uid = self.node_uid() if node_uid is None else node_uid
        body = msgspec.to_builtins(ModelNodeSpec(node_uid=uid, entries=list(entries), **spec))
        found = self.api.ensure(PATH, self._object({"spec": body}))
        while found is None:
            live = self.api.get(f"{PATH}/{self.node}")
            try:
                found = self.api.call("PUT", f"{PATH}/{self.node}", live | {"spec": body})
            except CallRefused as refused:
                if refused.status != httpx.codes.CONFLICT:  # the agent may have written its status meanwhile
                    raise

    def model_node(self) -> ModelNode:
        """The ModelNode as the API server has it."""
        return msgspec.convert(self.api.get(f"{PATH}/{self.node}"), ModelNode)

    def status(self, entry: Entry) -> EntryStatus | None:
        """Return the reported status of an entry."""
        return next((s for s in self.model_node().status.entries if s.key == entry.key), None)

    def _object(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "apiVersion": "larder.dev/v1alpha1", "kind": "ModelNode", "metadata": {"name": self.node}, **parts
        }  # fmt: skip

    # The agent.

    def start(self, *options: str, ready: bool = True) -> Process:
        """Start an agent for the node."""
        self.port = free_port()
        argv = [sys.executable, "-W", "error", "-m", self.module, "--node-name", self.node, "--root", str(self.root)]
        argv += [] if self.in_pod else ["--kubeconfig", str(self.kubeconfig)]
        argv += ["--listen", f"127.0.0.1:{self.port}"]
        argv += ["--api-url", self.controller.url, "--api-ca", str(self.ca_file), "--token-file", str(self.token_file)]
        env = {"HF_ENDPOINT": self.hub.endpoint, "LARDER_ALLOW_ADDRESSES": "127.0.0.1", **self.environ}
        agent = Process(Program("larder-agent", [*argv, *self.options, *options], env), self.state / "agent.log")
        self.agents.append(agent)
        if ready:
            agent.wait_ready(self.is_ready, SOON_S)
        return agent

    def is_ready(self) -> bool:
        """Return whether the agent reports that it is ready."""
        return self.answers("/readyz") == httpx.codes.OK

    def answers(self, path: str) -> int:
        """Return the status of a response, or 0 without one."""
        try:
            return plain_http.get(f"{self.url}{path}", timeout_s=20).status_code
        except httpx.HTTPError:
            return 0

    def events(self) -> list[dict[str, Any]]:
        """Every whole line that the agents logged."""
        log = self.state / "agent.log"
        lines = log.read_text().splitlines(keepends=True) if log.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("\n")]

    def count(self, event: str) -> int:
        """How often an event was logged."""
        return sum(e.get("event") == event for e in self.events())

    def imported(self) -> set[str]:
        """Every module that the agents loaded, if `environ` has PYTHONPROFILEIMPORTTIME."""
        lines = (self.state / "agent.log").read_text().splitlines()
        return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}

    # Expectations.

    def wait_phase(
        self, model: Model | Entry, phase: str, reason: str | None = None, within_s: float = SOON_S
    ) -> EntryStatus:
        """Wait until the agent reports this phase, and this reason if one is given; return that status.

        A failed entry is tried again after a second or two, so a later read may show another status.
        """
        entry, reached_status = model.entry if isinstance(model, Model) else model, list[EntryStatus]()

        def reached() -> bool:
            found = self.status(entry)
            if found is None or found.phase != phase or reason not in (None, found.reason):
                return False
            reached_status.append(found)
            return True

        try:
            wait_until(reached, within_s, f"{entry.id} {phase}")
        except Exception as error:
            error.add_note(f"{self.status(entry)}\n{(self.state / 'agent.log').read_text()[-4000:]}")
            raise
        return reached_status[0]

    def wait_for(self, condition: Callable[[], bool], what: str, within_s: float = SOON_S) -> None:
        """Return when the condition holds."""
        try:
            wait_until(condition, within_s, what)
        except Exception as error:
            error.add_note((self.state / "agent.log").read_text()[-4000:])
            raise

    def snapshot(self, model: Model) -> Path:
        """Return the path of the model's snapshot, which may not exist yet."""
        return self.root / snapshot_path(*model.entry.key)

    def is_complete(self, model: Model) -> bool:
        """Return whether the snapshot has every file, byte for byte."""
        return all(_digest(self.snapshot(model) / p) == hashlib.sha256(b).digest() for p, b in model.files.items())

    def has_labels(self, model: Model) -> bool:
        """Return whether the Node has both labels."""
        return self.expected_labels(model) <= self.labels()

    @staticmethod
    def expected_labels(model: Model) -> set[str]:
        """The labels of a model that is Ready."""
        return {ready_label(model.entry.id), snapshot_label(*model.entry.key)}

    def unfinished_bytes(self) -> int:
        """Return how much of the largest unfinished file the next agent would find."""
        top = self.root / "partial"
        keys = [part.stem for part in top.glob(f"*{SUFFIX}")]
        return max((held_ranges(top, key, _ANY_SIZE, digest=True).size_bytes for key in keys), default=0)

    def damage(self, model: Model, path: str) -> Path:
        """Return a file of the snapshot after making it and its directory writable, as root could."""
        file = self.snapshot(model) / path
        file.parent.chmod(0o755)
        file.chmod(0o644)
        return file

    def drop_blobs(self) -> None:
        """Remove all blobs but keep the snapshots. Call it before damage, or the agent repairs that from the blobs."""
        for blob in (self.root / "blobs" / "sha256").iterdir():
            blob.unlink()

    def close(self) -> None:
        """Stop the agents and delete the objects."""
        for agent in self.agents:
            agent.kill()
        self.api.delete(f"{PATH}/{self.node}")
        self.api.delete(f"/api/v1/nodes/{self.node}")


def _digest(path: Path) -> bytes:
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except OSError:
        return b""
