"""The credentials of the person at the shell, found where the usual programs look for them."""

import configparser
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from shared.sources.credential_keys import AZURE_KEYS, DOCKER_CONFIG_KEYS, GOOGLE_KEY, OCI_OBJECT_KEYS, S3_KEYS
from shared.sources.port import Credentials
from shared.sources.settings import SourceSettings, connection_string, default_hosts

_SECRET_KEYS = (*S3_KEYS.secrets, *AZURE_KEYS.secrets, *OCI_OBJECT_KEYS.secrets)
_LONGEST_FILE_BYTES = 1024 * 1024
_TRUE = {"1", "ON", "YES", "TRUE"}


def credentials_from_environ(environ: Mapping[str, str], settings: SourceSettings) -> Credentials:
    """Return the ambient credentials; each may go to the default hosts of its scheme and nowhere else.

    A variable takes precedence over the file that the same program would read: the token file of `huggingface_hub`, the
    profile of the AWS tools, the docker config. Unreadable files are skipped; no program is run and nobody is prompted.
    """
    values = {key: environ[key] for key in _SECRET_KEYS if environ.get(key)}
    if token := _hub_token(environ):
        values["HF_TOKEN"] = token
    if "AWS_ACCESS_KEY_ID" not in values:
        values |= _aws_profile(environ)
    azure = connection_string(environ)
    for key, name in (("AZURE_STORAGE_KEY", "accountkey"), ("AZURE_STORAGE_SAS_TOKEN", "sharedaccesssignature")):
        if azure.get(name):
            values[key] = azure[name]
    docker = Path(environ["DOCKER_CONFIG"]) if environ.get("DOCKER_CONFIG") else _home(environ) / ".docker"
    values[DOCKER_CONFIG_KEYS[0]] = _text_of(docker / "config.json")
    values[GOOGLE_KEY] = _text_of(Path(environ[GOOGLE_KEY])) if environ.get(GOOGLE_KEY) else ""
    account = environ.get("AZURE_STORAGE_ACCOUNT") or azure.get("accountname", "")
    found = {key: value for key, value in values.items() if value}
    return Credentials(found, tuple(_hosts(settings, account)), ambient=True)


def _hosts(settings: SourceSettings, azure_account: str) -> Iterator[str]:
    for scheme in ("hf", "s3", "gs", "az", "oci"):
        for host in default_hosts(scheme, settings):
            is_any_account = scheme == "az" and host.startswith("*.")
            yield f"{azure_account}{host[1:]}" if azure_account and is_any_account else host


def _hub_token(environ: Mapping[str, str]) -> str:
    """Return the token that `huggingface_hub` would send."""
    if environ.get("HF_HUB_DISABLE_IMPLICIT_TOKEN", "").upper() in _TRUE:
        return ""
    token = environ.get("HF_TOKEN") or environ.get("HUGGING_FACE_HUB_TOKEN") or ""
    cache = Path(environ["XDG_CACHE_HOME"]) if environ.get("XDG_CACHE_HOME") else _home(environ) / ".cache"
    home = Path(environ["HF_HOME"]).expanduser() if environ.get("HF_HOME") else cache / "huggingface"
    path = Path(environ["HF_TOKEN_PATH"]).expanduser() if environ.get("HF_TOKEN_PATH") else home / "token"
    return (token or _text_of(path)).strip()


def _aws_profile(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the keys and the region of the profile from the files of the AWS tools."""
    home, name = _home(environ) / ".aws", environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE") or "default"
    config = _section(environ.get("AWS_CONFIG_FILE") or home / "config", f"profile {name}", name)
    keys = config | _section(environ.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials", name)
    found = {key: keys[key.lower()] for key in S3_KEYS.secrets if keys.get(key.lower())}
    if config.get("region") and not (environ.get("AWS_REGION") or environ.get("AWS_DEFAULT_REGION")):
        found["AWS_REGION"] = config["region"]
    return found


def _section(path: Path | str, *names: str) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, default_section="", strict=False)
    with suppress(configparser.Error):
        parser.read_string(_text_of(Path(path).expanduser()))
    return next((dict(parser[name]) for name in names if parser.has_section(name)), {})


def _home(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("HOME") or "/nonexistent")


def _text_of(path: Path) -> str:
    """Return the text of a file, or "" if it cannot be read."""
    with suppress(OSError, ValueError), path.open("rb") as file:
        return file.read(_LONGEST_FILE_BYTES).decode()
    return ""
