"""Messages for incomplete responses: which server, why and what to do, without the wording of libraries."""

import os
import ssl

import aiohttp

_ADVICE = "check that it is running and reachable from this machine"
_CA_ADVICE = "configure the CA that signed it"


def no_response_message(error: Exception, server: str) -> str:
    """Return the message for a request to `server` that failed with `error`."""
    why, advice = _why(error)
    return f"{server} does not answer: {why}; {advice}"


def _why(error: Exception) -> tuple[str, str]:
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"its certificate is not trusted ({_certificate_problem(error.certificate_error)})", _CA_ADVICE
        case aiohttp.ClientSSLError() | ssl.SSLError():
            return "TLS failed, so it may not be an https port", "check its address"
        case aiohttp.ClientConnectorDNSError():
            return f"the host name {error.host} cannot be resolved", "check its address and DNS"
        case aiohttp.ClientHttpProxyError():
            return f"the proxy refused the request (status {error.status})", "check HTTPS_PROXY and NO_PROXY"
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy {error.host}:{error.port} cannot be reached", "check HTTPS_PROXY and NO_PROXY"
        case aiohttp.InvalidURL():
            return "the address is not a URL", "correct it"
        case TimeoutError():
            return "the request timed out", _ADVICE
        case OSError(errno=int() as number) if number > 0:  # the messages of the libraries name their functions
            return os.strerror(number).lower(), _ADVICE
        case aiohttp.ClientConnectorError():
            return "it cannot be reached", _ADVICE
        case _:
            return "the connection was closed before the response was complete", _ADVICE


def _certificate_problem(error: Exception) -> str:
    return getattr(error, "verify_message", "") or "it is not valid for the host name"
