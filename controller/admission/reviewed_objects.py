"""The fields of reviewed objects that admission reads; everything else is skipped while decoding.

A field that a rule reads must be declared here, or the rule never sees it; a test compares the two.
"""

from typing import Any

from msgspec import UNSET, Struct, UnsetType

_Items = list[dict[str, Any]] | UnsetType | None
_Text = str | UnsetType | None
_Texts = dict[str, str] | UnsetType | None
_Fields = dict[str, Any] | UnsetType | None


class ReviewedMetadata(Struct, rename="camel", frozen=True):
    """The identity of an object."""

    name: _Text = UNSET
    namespace: _Text = UNSET
    labels: _Texts = UNSET
    annotations: _Texts = UNSET
    owner_references: _Items = UNSET
    deletion_timestamp: _Text = UNSET


class ReviewedPodSpec(Struct, rename="camel", frozen=True):
    """Containers, volumes and scheduling; items of lists are kept whole, because a patch replaces whole lists."""

    containers: _Items = UNSET
    init_containers: _Items = UNSET
    ephemeral_containers: _Items = UNSET
    volumes: _Items = UNSET
    node_name: _Text = UNSET
    node_selector: _Texts = UNSET
    affinity: _Fields = UNSET
    scheduling_gates: _Items = UNSET
    scheduler_name: _Text = UNSET


class ReviewedPod(Struct, frozen=True):
    """A pod."""

    metadata: ReviewedMetadata = ReviewedMetadata()
    spec: ReviewedPodSpec = ReviewedPodSpec()


class ReviewedObject(Struct, frozen=True):
    """A model, cache or node group; its whole spec is compared to detect changes."""

    metadata: ReviewedMetadata = ReviewedMetadata()
    spec: _Fields = UNSET
    status: _Fields = UNSET
