"""What an agent may have: only what its own node's ModelNode lists."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import structlog

from controller.api.authenticate import Agent
from controller.credentials import Secrets
from controller.keys import ModelKey
from controller.manifests import Manifests
from controller.world import World
from shared.api.model_node import PATH, Claim, Entry, EntryState, ModelNode
from shared.api.wire import Credentials, CredentialsRequest, Grant
from shared.errors import AuthDenied, NotGranted, SourceNotFound
from shared.kube.errors import NotFound
from shared.kube.transport import Kube

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Desk:
    """Hands out manifests and credentials."""

    kube: Kube
    world: World
    manifests: Manifests
    secrets: Secrets

    async def manifest(self, agent: Agent, digest: str) -> bytes:
        """Return the canonical bytes of a manifest; raises NotGranted, SourceNotFound, KubeError."""
        await self._entry(agent, lambda e: e.manifest == digest, f"manifest {digest}")
        try:
            return await self.manifests.find(digest)
        except NotFound as error:
            raise SourceNotFound(
                f"manifest {digest} is gone from the release namespace; declare the model again"
            ) from error

    async def credentials(self, agent: Agent, request: CredentialsRequest) -> Credentials:
        """Return the values of each claim's Secret; raises NotGranted, AuthDenied, KubeError."""
        key = (request.id, request.revision)
        entry = await self._entry(agent, lambda e: e.key == key and e.state == EntryState.PRESENT, f"model {key[0]}")
        grants, denied = [], None
        for claim in entry.claims:
            try:
                grants.append(await self._grant(claim, entry))
            except AuthDenied as error:
                denied = error
        if denied is not None and not grants:
            raise denied
        _log.info("credentials_given", node=agent.node, model=entry.id, keys=[sorted(g.values) for g in grants])
        return Credentials(tuple(grants))

    async def _grant(self, claim: Claim, entry: Entry) -> Grant:
        demand = self.world.demands.get(ModelKey(claim.kind, claim.namespace, claim.name))
        if demand is None or demand.uid != claim.uid or not demand.secret:
            return Grant(claim.uid)
        if entry.uri and demand.uri != entry.uri:
            raise AuthDenied(f"{claim.kind} {claim.name} names another source by now")
        found = await self.secrets.credentials_of(demand)
        return Grant(claim.uid, dict(found.values), found.hosts)

    async def _entry(self, agent: Agent, fits: Callable[[Entry], bool], what: str) -> Entry:
        """Return an entry of the node's ModelNode, read live before the answer is a refusal."""
        entry = _find(self.world.model_node(agent.node), agent, fits)
        if entry is None:
            entry = _find(await self._live(agent), agent, fits)
        if entry is None:
            raise NotGranted(f"the ModelNode of {agent.node} does not list {what}")
        return entry

    async def _live(self, agent: Agent) -> ModelNode | None:
        try:
            return msgspec.json.decode(await self.kube.request("GET", f"{PATH}/{agent.node}"), type=ModelNode)
        except NotFound:
            return None


def _find(model_node: ModelNode | None, agent: Agent, fits: Callable[[Entry], bool]) -> Entry | None:
    if model_node is None or model_node.spec.node_uid != agent.node_uid:
        return None
    return next((e for e in model_node.spec.entries if fits(e)), None)
