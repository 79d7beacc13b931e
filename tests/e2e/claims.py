"""Claims on directories of this machine, which its nodes see as theirs."""

import json
from pathlib import Path

from rig.node.installation import Installation
from shared.json_object import Json

CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8, "vocab_size": 16,
          "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16,
          "max_position_embeddings": 128}  # fmt: skip


def bind_claim(site: Installation, namespace: str, folder: Path, mode: str = "ReadWriteMany") -> str:
    """Bind a new claim to a directory and return its name."""
    folder.mkdir(mode=0o755)
    size, name = {"storage": "1Gi"}, site.name("claim")
    access: Json = {"accessModes": [mode], "storageClassName": ""}
    volume = {"capacity": size, "hostPath": {"path": str(folder)}, "claimRef": {"namespace": namespace, "name": name}}
    site.api.create("/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": access | volume})
    claim = access | {"volumeName": name, "resources": {"requests": size}}
    path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
    site.api.create(path, {"metadata": {"name": name}, "spec": claim})
    return name


def write_llama(folder: Path) -> None:
    """Write a model to `models/llama`."""
    model = folder / "models" / "llama"
    model.mkdir(parents=True)
    (model / "config.json").write_text(json.dumps(CONFIG))
