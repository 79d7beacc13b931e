"""Settings of the controller, from LARDER_* in the environment or from arguments."""

from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from controller.placement.allowed_sources import PUBLIC_SOURCES, AllowedSources, parse_allowed
from controller.placement.pod_placement import Placement
from controller.replica_claims.workload_kinds import WorkloadKind, WorkloadKinds
from shared.log import LogLevel
from shared.quantity import parse_quantity
from shared.selection.choice import Duplicates, Selection, make_selection, split_patterns


class ControllerSettings(BaseSettings):
    """Every setting, with the chart's defaults."""

    model_config = SettingsConfigDict(
        env_prefix="LARDER_", frozen=True, cli_kebab_case=True, cli_prog_name="larder-controller"
    )

    namespace: str = "larder-system"
    identity: str = ""  # of this replica; defaults to the host name and a random suffix
    kubeconfig: Path | None = None
    store_root: str = "/var/lib/larder"
    default_storage_limit: int = 100 * 2**30  # bytes, on nodes that belong to no group
    default_bandwidth_limit: int = 0  # bytes per second; 0 is no limit
    agent_image: str = "larder-agent"  # image of metadata and download Jobs
    agent_image_pull_policy: str = "IfNotPresent"
    claims_tolerations: list[dict[str, Any]] = []  # of the same Jobs, as JSON
    claims_image_pull_secrets: list[dict[str, str]] = []  # of the same Jobs, in their namespace, as JSON
    claims_require_namespace_label: bool = False  # of ClusterBaseModels' claims: larder.dev/allow-cluster-models
    inference_services: bool = False  # whether to reconcile InferenceServices, if Larder owns the kind
    training_jobs: bool = False  # whether to reconcile TrainingJobs
    dra: bool = False  # whether ResourceClaims may hold models as devices; such models are in use
    dra_plugins: bool = False  # whether the DRA driver adds devices of plugins to those claims
    models: bool = False  # whether to reconcile Models
    model_caches: bool = True  # whether to reconcile ModelCaches
    model_cache_csi_drivers: list[str] = []  # that the pvSpec of a ModelCache may name, as JSON
    sources_ca_config_map: str = ""  # of a ModelCache's namespace: the CA certificates of the sources
    sources_ca_key: str = "ca-bundle.crt"
    agent_service_account: str = "larder-agent"
    token_audience: str = "larder"  # noqa: S105 - the name of an audience
    listen: str = "0.0.0.0:8443"  # admission and the agents' API, over TLS
    listen_health: str = "0.0.0.0:8080"  # health and metrics
    advertise: str = ""  # HOST:PORT at which other replicas reach this one's API
    certificate: Path | None = None
    private_key: Path | None = None
    ca: Path | None = None
    admission_keys: Path | None = None  # the path segments that the API server may use, one per line
    admission_client_ca: Path | None = None  # reviews require a client certificate from this CA
    admission_client_names: str = ""  # common or DNS names of that certificate, comma-separated; any if empty
    tls_name: str = ""  # a DNS name in every replica's certificate, checked when one calls another
    model_cache_enabled: bool = True  # whether KServe's pods get ClusterModelCaches and ModelCaches
    allowed_sources: str = ",".join(PUBLIC_SOURCES.patterns)  # for namespaced models: parse_allowed
    allow_patterns: str = ""  # default file patterns, for models that set none themselves: split_patterns
    ignore_patterns: str = ""
    allow_pickle: bool = True  # if false, no model may contain a pickle
    duplicate_weights: Duplicates = "keep"  # default for models that do not set it
    lease_seconds: float = 15
    drain_seconds: float = 30
    finalizer_seconds: float = 600
    eviction_idle_seconds: float = 3600  # idle time before a model of equal priority may evict it
    agent_lost_seconds: float = 120
    stalled_seconds: float = 600
    grant_seconds: float = Field(default=6 * 3600, gt=0)  # how long a node downloads before others get a turn
    drift_check_seconds: float = Field(default=6 * 3600, ge=0)  # interval of drift checks; 0 is never
    models_per_node: int = Field(default=1000, ge=10, le=1900)  # entries per ModelNode, shared fairly among namespaces
    resolutions_per_minute: int = Field(default=120, ge=0)  # per namespace; 0 is no limit
    manifest_bytes_per_namespace: int = 64 * 2**20  # stored lists of files per namespace; 0 is no limit
    manifest_grace_seconds: float = Field(default=60, gt=0)  # how long an unreferenced list is kept
    volumes_qps: float = Field(default=5, gt=0)  # claims created per second, each with its volume if Larder makes one
    volumes_burst: int = Field(default=10, ge=1)  # this many at once after a pause
    volumes_max_attempts: int = Field(default=10, ge=1)  # failures in a row before a request goes to the tail
    volumes_turns: Literal["namespaces", "arrival"] = "namespaces"  # whether namespaces take turns, or order of arrival
    claim_template_workloads: list[dict[str, str]] = []  # whose pods may have claims from an annotation, as JSON
    mount: Literal["claim", "hostPath"] = "claim"  # how pods mount models, unless annotated
    placement: Placement = "required"  # how pods with models are placed, unless annotated
    scheduler: bool = False  # whether to serve the extender of larder-scheduler
    workers: int = 8
    log_level: LogLevel = "info"

    @property
    def allowed(self) -> AllowedSources:
        """The sources that namespaced models may name."""
        return parse_allowed(self.allowed_sources)

    @property
    def workloads(self) -> WorkloadKinds:
        """The kinds of workloads whose pods may have claims from an annotation."""
        kinds = (WorkloadKind(w["apiVersion"], w["kind"], w["resource"]) for w in self.claim_template_workloads)
        return WorkloadKinds(tuple(kinds))

    @property
    def client_names(self) -> frozenset[str]:
        """The names that the API server's client certificate may carry; any if empty."""
        return frozenset(name for part in self.admission_client_names.split(",") if (name := part.strip()))

    @property
    def files(self) -> Selection:
        """The default selection, for models that do not select files themselves."""
        return make_selection(
            split_patterns(self.allow_patterns),
            split_patterns(self.ignore_patterns),
            self.duplicate_weights,
            pickle=self.allow_pickle,
        )

    @model_validator(mode="after")
    def _has_few_patterns(self) -> "ControllerSettings":
        _ = self.files
        return self

    @field_validator("claim_template_workloads")
    @classmethod
    def _are_workloads(cls, value: list[dict[str, str]]) -> list[dict[str, str]]:
        if any(workload.keys() != {"apiVersion", "kind", "resource"} for workload in value):
            raise ValueError("each workload has apiVersion, kind and resource")
        return value

    @field_validator("allowed_sources")
    @classmethod
    def _is_list_of_patterns(cls, value: str) -> str:
        parse_allowed(value)
        return value

    @field_validator("default_storage_limit", "default_bandwidth_limit", "manifest_bytes_per_namespace", mode="before")
    @classmethod
    def _as_bytes(cls, value: int | str) -> int:
        return parse_quantity(value)
