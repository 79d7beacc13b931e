"""Authentication at a container registry: with a password, or with a token from the registry's token service."""

import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar
from urllib.parse import urlencode, urlsplit

from shared.errors import AuthDenied, LarderError
from shared.http.client import HttpClient, Request, Response
from shared.http.origins import Origin, origin_of, public
from shared.sources.credential_hints import REGISTRY
from shared.sources.failures import RequestSubject, denied, failure_of
from shared.sources.host_grants import HostGrant, host_matches
from shared.sources.port import Credentials
from shared.sources.registry.challenges import Challenge, parse_challenge
from shared.sources.registry.docker_config import Account, account_for
from shared.sources.tokens import Token, bearer, read_token, request_token
from shared.uri.artifact import ArtifactUri

T = TypeVar("T")
_LONGEST_ANSWER_BYTES = 64 * 1024
# Registries whose operators document a token service on another host.
_TOKEN_HOSTS = {"registry-1.docker.io": ("auth.docker.io",), "registry.gitlab.com": ("gitlab.com",)}


class Challenged(AuthDenied):
    """The registry answered 401; never leaves this module's `RegistryAuth.run`."""

    def __init__(self, challenge: Challenge, denial: AuthDenied) -> None:
        super().__init__(str(denial))
        self.challenge, self.denial = challenge, denial


class RegistryAuth:
    """Permission to pull from one repository. Thread-safe; a token is kept until the registry refuses it.

    The docker config binds each account to its registry. The account is sent to a token service only if that service
    is at the registry's own host and port, is a known one of that registry, or is named by the credentials. Another
    token service gets the account that the docker config has for it, if any. A user's ambient credentials cannot name
    hosts, so for them any port of the registry's host will do.
    """

    def __init__(
        self, uri: ArtifactUri, origin: Origin, repository: str, credentials: Credentials, client: HttpClient
    ) -> None:
        self._uri, self._origin, self._repository = uri, origin, repository
        self._credentials, self._client = credentials, client
        self._headers: dict[str, str] = {}
        self._withheld_from: Origin | None = None
        self._lock = threading.Lock()

    def run(self, act: Callable[[dict[str, str]], T]) -> T:
        """Call `act` with the authentication headers, and once more with new ones if the registry asks for others."""
        used = self._headers
        try:
            return act(used)
        except Challenged as challenged:
            fresh = self._authenticate(challenged, used)
        try:
            return act(fresh)
        except Challenged as challenged:
            raise self._denied(challenged.denial) from None

    def failure_of(self, response: Response, what: str) -> LarderError:
        """Return the error for an unsuccessful reply, to be raised inside `run`."""
        subject = RequestSubject(what, REGISTRY, self._grant.as_seen_by(origin_of(response.url)))
        error = failure_of(response.status, response.headers, subject, time.time())
        is_challenge = response.status == HTTPStatus.UNAUTHORIZED and origin_of(response.url) == self._origin
        if not is_challenge or not isinstance(error, AuthDenied):
            return error
        return Challenged(parse_challenge(response.headers.get("WWW-Authenticate", "")), error)

    @property
    def _account(self) -> Account:
        return account_for(self._uri.registry, self._credentials.values)

    @property
    def _grant(self) -> HostGrant:
        return self._grant_for(self._origin, self._account)

    def _grant_for(self, origin: Origin, account: Account) -> HostGrant:
        values = {"account": "sent"} if account else {}
        return HostGrant(origin.host, values, ambient=self._credentials.ambient, place=origin.netloc)

    def _denied(self, denial: AuthDenied) -> AuthDenied:
        if self._withheld_from is None:
            return denial
        place = self._withheld_from.netloc
        grant = HostGrant(self._withheld_from.host, withheld=True, ambient=self._credentials.ambient, place=place)
        subject = RequestSubject(f"a token for {self._uri}", REGISTRY, grant)
        error = denied(subject, "it is the registry's token service")
        return error if grant.ambient else AuthDenied(f"{error}, or add an entry for {place} to auths")

    def _authenticate(self, challenged: Challenged, used: dict[str, str]) -> dict[str, str]:
        """Return headers other than the refused ones. Raises AuthDenied if there are none."""
        with self._lock:
            if self._headers is not used:
                return self._headers  # another thread has already replaced them
            account = self._account
            match challenged.challenge.scheme:
                case "basic" if account.basic and account.basic != used:
                    self._headers = account.basic
                case "bearer":
                    self._headers = bearer(self._request_token(challenged.challenge, account).value)
                case _:
                    raise challenged.denial
            return self._headers

    def _request_token(self, challenge: Challenge, account: Account) -> Token:
        realm = origin_of(challenge.realm)
        if realm.scheme not in ("https", self._origin.scheme):
            raise AuthDenied(
                f"the token service of {self._origin.host} is {public(challenge.realm)}, which is plain http and is "
                "not used; ask the operator of the registry to correct its realm"
            )
        if account and not self._may_send_account(realm):
            account = account_for(realm.netloc, self._credentials.values)
            self._withheld_from = None if account else realm
        scope = {"service": challenge.service, "scope": f"repository:{self._repository}:pull"}
        subject = RequestSubject(f"a token for {self._uri}", REGISTRY, self._grant_for(realm, account))
        if account.identity_token:
            form = {"grant_type": "refresh_token", "client_id": "larder", "refresh_token": account.identity_token}
            return request_token(self._client, challenge.realm, form | scope, subject, time.time())
        return self._request_token_by_get(challenge.realm, scope, account, subject)

    def _may_send_account(self, realm: Origin) -> bool:
        if realm == self._origin or (self._credentials.ambient and realm.host == self._origin.host):
            return True
        named = (*_TOKEN_HOSTS.get(self._origin.netloc, ()), *self._credentials.hosts)
        return host_matches(realm.host, named, realm.port)

    def _request_token_by_get(
        self, realm: str, scope: dict[str, str], account: Account, subject: RequestSubject
    ) -> Token:
        joint = "&" if urlsplit(realm).query else "?"
        response = self._client.send(Request(f"{realm}{joint}{urlencode(scope)}", secrets=account.basic))
        if response.status != HTTPStatus.OK:
            response.read_small()
            response.close()
            raise self._with_withheld_advice(failure_of(response.status, response.headers, subject, time.time()))
        return read_token(response.read_all(_LONGEST_ANSWER_BYTES), realm)

    def _with_withheld_advice(self, error: LarderError) -> LarderError:
        return self._denied(error) if isinstance(error, AuthDenied) else error
