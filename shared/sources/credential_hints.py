"""Hints for messages: where each source finds its credentials, in a Secret and at the shell."""

from dataclasses import dataclass

from shared.sources.credential_keys import AZURE_LOGIN_KEYS, DOCKER_CONFIG_KEYS, GOOGLE_KEY, OCI_KEYS


@dataclass(frozen=True, slots=True)
class CredentialHint:
    """Hints for messages.

    Args:
        secret: The keys of a Secret, by name.
        ambient: What a user at the shell should do, worded as the end of a sentence.
    """

    secret: str
    ambient: str


HUB = CredentialHint("HF_TOKEN", "set HF_TOKEN to a token that may read it, or log in with `hf auth login`")
S3 = CredentialHint(
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN for temporary credentials) to a key that "
    "may read it, or put it into the profile AWS_PROFILE of ~/.aws/credentials",
)
GOOGLE = CredentialHint(GOOGLE_KEY, f"set {GOOGLE_KEY} to a file with the key of a service account that may read it")
AZURE = CredentialHint(
    "AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
    "set AZURE_STORAGE_ACCOUNT to that account, with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or set "
    "AZURE_STORAGE_CONNECTION_STRING, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
)
AZURE_LOGIN = CredentialHint(
    ", ".join(AZURE_LOGIN_KEYS), f"correct {', '.join(AZURE_LOGIN_KEYS[:-1])} and {AZURE_LOGIN_KEYS[-1]}"
)
REGISTRY = CredentialHint(
    DOCKER_CONFIG_KEYS[0],
    "add an account that may pull it to docker's config.json (in DOCKER_CONFIG, else in ~/.docker), as `docker "
    "login` does without a credential helper",
)
OCI_OBJECTS = CredentialHint(", ".join(OCI_KEYS), f"set {', '.join(OCI_KEYS[:-1])} and {OCI_KEYS[-1]}")
GIT = CredentialHint(
    "the key token, or username and password",
    "commands send no credentials to a Git server; clone the repository, and name its directory",
)
HTTPS = CredentialHint(
    "the key token", "commands send no credentials to an https:// URL; get the file from its owner in another way"
)
