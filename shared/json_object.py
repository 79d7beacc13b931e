"""The types of decoded JSON objects, for parts of the Kubernetes API that Larder has no Struct for."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]
ReadOnlyJson = Mapping[str, Any]
