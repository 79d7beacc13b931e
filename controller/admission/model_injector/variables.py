"""The environment variables that tell a container about a Model. No input or output."""

import re
from collections.abc import Iterable, Mapping

from controller.admission.errors import InvalidRequest
from controller.admission.injectable_model import InjectableModel
from controller.admission.model_injector.annotations import INJECT, INJECT_ENV
from shared.json_object import Json


def prefix_of(name: str) -> str:
    """Return the start of a Model's variables, for example `MODEL_LLAMA_3_8B`."""
    return f"MODEL_{re.sub('[^A-Z0-9]', '_', name.upper())}"


def variables_of(model: InjectableModel, path: str) -> dict[str, str]:
    """Return the variables of a Model that is mounted at `path`, in order."""
    stated = {
        "NAME": model.name,
        "VERSION": model.version,
        "SOURCE_TYPE": model.source_type,
        **model.source,
        "MOUNT_PATH": path,
    }
    prefix = prefix_of(model.name)
    return {f"{prefix}_{end}": value for end, value in stated.items() if value}


def all_variables(models: Iterable[InjectableModel], paths: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of all Models. Raises InvalidRequest if two Models have a variable of the same name."""
    found, owners = dict[str, str](), dict[str, str]()
    for model in models:
        for variable, value in variables_of(model, paths[model.name]).items():
            if variable in found:
                raise InvalidRequest(
                    f'annotation {INJECT}: models "{owners[variable]}" and "{model.name}" both need the variable '
                    f'{variable}; rename one of them, or set {INJECT_ENV}: "false"'
                )
            found[variable], owners[variable] = value, model.name
    return found


def ensure_variables(container: Json, variables: Mapping[str, str]) -> None:
    """Set variables that the container does not set itself, in front, so that others can refer to them."""
    own: list[Json] = container.get("env") or []
    names = {variable.get("name") for variable in own}
    # Kubernetes expands $(NAME) in values, and reads $$ as $.
    added = [{"name": k, "value": v.replace("$", "$$")} for k, v in variables.items() if k not in names]
    if added:
        container["env"] = [*added, *own]
