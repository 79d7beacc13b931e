"""The service behind the agents' API: an agent gets only what its own node's ModelNode lists."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from controller.agentapi.authenticator import AgentIdentity
from controller.placement.demand import Demand
from controller.sources.credentials import Secrets
from controller.sources.manifests import Manifests
from controller.state.cluster_state import ClusterState
from controller.state.keys import ModelKey
from controller.state.live_reader import LiveReader
from shared.api.model_node import PATH, Claim, Entry, EntryState, ModelNode
from shared.api.wire import ClaimCredentials, CredentialsRequest, CredentialsResponse
from shared.errors import AuthDenied, LarderError, NotGranted
from shared.kube.collection import get_object
from shared.kube.transport import Kube

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class AgentService:
    """Returns manifests and credentials to agents."""

    kube: Kube
    cluster: ClusterState
    manifests: Manifests
    secrets: Secrets
    live: LiveReader

    async def manifest(self, agent: AgentIdentity, digest: str) -> bytes:
        """Return the canonical bytes of a manifest. Raises NotGranted, SourceChanged, KubeError."""
        await self._entry(agent, lambda e: e.manifest == digest, f"manifest {digest}")
        return await self.manifests.find(digest)

    async def credentials(self, agent: AgentIdentity, request: CredentialsRequest) -> CredentialsResponse:
        """Return the values of each claim's Secret. Raises NotGranted, AuthDenied, KubeError."""
        key = (request.id, request.revision)
        entry = await self._entry(agent, lambda e: e.key == key and e.state == EntryState.PRESENT, f"model {key[0]}")
        found: list[ClaimCredentials] = []
        denied: LarderError | None = None
        for claim in entry.claims:
            try:
                found.append(await self._credentials_of(claim, entry))
            except (AuthDenied, NotGranted) as error:
                denied = error
        if denied is not None and not found:
            raise denied
        _log.info("credentials_given", node=agent.node, model=entry.id, keys=[sorted(g.values) for g in found])
        return CredentialsResponse(tuple(found))

    async def _credentials_of(self, claim: Claim, entry: Entry) -> ClaimCredentials:
        demand = await self._demand(claim, entry)
        if demand is None:
            raise NotGranted(
                f"{claim.kind} {claim.name} was replaced, or now names another source or one that is not allowed"
            )
        secret = await self.secrets.credentials_of(demand)
        return ClaimCredentials(claim.uid, dict(secret.values), secret.hosts)

    async def _demand(self, claim: Claim, entry: Entry) -> Demand | None:
        """Return what a claim's object requests, read live before concluding that it requests something else."""
        key = ModelKey(claim.kind, claim.namespace, claim.name)
        demand = self.cluster.models.demands.get(key)
        if not _fits(demand, claim, entry):
            demand = await self.live.demand(key)
        return demand if _fits(demand, claim, entry) else None

    async def _entry(self, agent: AgentIdentity, fits: Callable[[Entry], bool], what: str) -> Entry:
        """Return an entry of the node's ModelNode, read live before a request is refused."""
        entry = _find(self.cluster.model_node(agent.node), agent, fits)
        if entry is None:
            entry = _find(await get_object(self.kube, f"{PATH}/{agent.node}", ModelNode), agent, fits)
        if entry is None:
            raise NotGranted(f"the ModelNode of {agent.node} does not list {what}")
        return entry


def _fits(demand: Demand | None, claim: Claim, entry: Entry) -> bool:
    return demand is not None and not demand.refused and demand.uid == claim.uid and entry.uri in ("", demand.uri)


def _find(model_node: ModelNode | None, agent: AgentIdentity, fits: Callable[[Entry], bool]) -> Entry | None:
    if model_node is None or model_node.spec.node_uid != agent.node_uid:
        return None
    return next((e for e in model_node.spec.entries if fits(e)), None)
