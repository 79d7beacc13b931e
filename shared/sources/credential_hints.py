"""Where the credentials of each source are found: keys of a Secret, and places at the shell."""

from dataclasses import dataclass

from shared.sources.credential_keys import AZURE_LOGIN_KEYS, DOCKER_CONFIG_KEYS, GOOGLE_KEY, OCI_KEYS


@dataclass(frozen=True, slots=True)
class CredentialHint:
    """Hints for messages.

    Args:
        secret: The keys of a Secret, by name.
        own: What a person at the shell should do, worded as the end of a sentence.
    """

    secret: str
    own: str


HUB = CredentialHint(
    "HF_TOKEN", "put a token that may read it into HF_TOKEN, or into the token file of `hf auth login`"
)
S3 = CredentialHint(
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "put a key that may read it into AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (and AWS_SESSION_TOKEN, where it is "
    "temporary), or into the profile AWS_PROFILE of ~/.aws/credentials",
)
GOOGLE = CredentialHint(GOOGLE_KEY, f"let {GOOGLE_KEY} name a file with the key of a service account that may read it")
AZURE = CredentialHint(
    "AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
    "set AZURE_STORAGE_ACCOUNT to that account, with AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or set "
    "AZURE_STORAGE_CONNECTION_STRING, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
)
AZURE_LOGIN = CredentialHint(
    ", ".join(AZURE_LOGIN_KEYS), f"set {', '.join(AZURE_LOGIN_KEYS[:-1])} and {AZURE_LOGIN_KEYS[-1]} right"
)
REGISTRY = CredentialHint(
    DOCKER_CONFIG_KEYS[0],
    "put an account that may pull it into docker's config.json (in DOCKER_CONFIG, else in ~/.docker), as `docker "
    "login` does without a keeper of passwords",
)
OCI_OBJECTS = CredentialHint(", ".join(OCI_KEYS), f"set {', '.join(OCI_KEYS[:-1])} and {OCI_KEYS[-1]}")
HTTPS = CredentialHint(
    "the key token", "commands send no credentials to an https:// URL; fetch the file in the way that its owner names"
)
