"""What to do about each reason, in a line; the page on troubleshooting has the whole of it."""

WAYS_OUT = {
    "AddressRefused": "an administrator opens the address with sources.allowAddresses, or name a public host",
    "AuthDenied": "put a token that may read it into a Secret labelled larder.dev/credentials=true, and name that",
    "DigestMismatch": "nothing: it is fetched again; if it stays, look for a proxy or mirror that changes bytes",
    "Disabled": "set spec.disabled to false",
    "FilesDamaged": "nothing: they are fetched again; find out who writes to the store",
    "InsufficientStorage": "remove a model, raise storageLimit of the node's groups, or free space on its disk",
    "InvalidURI": "write a URI of a form that Larder serves",
    "NameConflict": "rename this object, or delete the older one",
    "NoNodes": "label a node, or change the selector or the group",
    "NodesNotReady": "look at the nodes",
    "NotGranted": "nothing, if it passes within a minute; else see the agent's service account and token",
    "OnClaim": "nothing: pods in the claim's namespace mount the claim",
    "RateLimited": "nothing; or a token of an account with a higher limit, or maxConcurrentNodes on the group",
    "RevisionNotFound": "write a branch, tag or commit that the repository has",
    "SourceChanged": "nothing: the source is resolved again",
    "SourceNotAllowed": "name an allowed source, have it added to allowedSources, or declare a ClusterBaseModel",
    "SourceNotFound": "correct the URI, or name a Secret that may read it",
    "StoreFailure": "look at the node's disk and its kernel log",
    "TooManyFiles": "name a part of the source, a prefix further down",
    "UnknownState": "upgrade the agent",
    "Unreachable": "check DNS, firewall and certificates from where it says so",
    "UnsafePath": "rename the file at the source",
}

PATIENT = ("RateLimited", "Unreachable", "SourceChanged", "DigestMismatch", "NotGranted")  # time may heal these


def way_out(reason: str) -> str:
    """Return what to do; empty where the message has to do."""
    return WAYS_OUT.get(reason, "")
