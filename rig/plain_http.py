"""Requests to programs on loopback that speak HTTP without TLS."""

import ssl

import httpx

# Without this context, httpx reads all CA certificates for each request: 30 ms of CPU time.
_WITHOUT_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def get(url: str, timeout_s: float = 60.0) -> httpx.Response:
    """Return the response of a program; raises httpx.HTTPError if there is none."""
    return httpx.get(url, timeout=timeout_s, trust_env=False, verify=_WITHOUT_AUTHORITIES)


def succeeds(url: str, timeout_s: float = 1.0) -> bool:
    """Return whether a program answers with a success status."""
    try:
        return get(url, timeout_s).is_success
    except httpx.HTTPError:
        return False
