"""What to do about each reason, in one line; the troubleshooting page has the details."""

REMEDIES = {
    "AddressRefused": "an administrator opens the address with sources.allowAddresses, or name a public host",
    "AuthDenied": "put a token that may read it into a Secret labelled larder.dev/credentials=true, and name that",
    "ClaimInUse": "nothing: it is read when the claim is free; or write the model's metadata into its spec",
    "DeadlineExceeded": "see why the volume is slow; the message says whether pods wait for it",
    "DigestMismatch": "nothing: it is fetched again; if it stays, look for a proxy or mirror that changes bytes",
    "Disabled": "set spec.disabled to false",
    "Evicted": "raise storageLimit, remove a model, or raise the priority of this one or pin it (larder.dev/pin)",
    "FilesDamaged": "nothing: they are fetched again; find out who writes to the store",
    "ImageNotPulled": "create the Secret that claims.imagePullSecrets names in the namespace, or use a mirror",
    "InsufficientStorage": "remove a model, raise storageLimit of the node's groups, or free space on its disk",
    "InvalidURI": "write a URI of a form that Larder serves",
    "InternalError": "report it with the line of the agent's log that has internal_error",
    "NameConflict": "rename this object, or delete what the message names",
    "NamespaceNotAllowed": "have the namespace labelled larder.dev/allow-cluster-models=true, or use a BaseModel there",
    "NoNodes": "label a node, or change the selector or the group",
    "NodesNotReady": "look at the nodes",
    "NotGranted": "nothing, if it passes within a minute; restart the agent's pod if its token is of an earlier node; "
    "else see the agent's service account",
    "OnClaim": "nothing: pods in the claim's namespace mount the claim",
    "OutOfMemory": "write the model's metadata into its spec",
    "OutdatedDefinition": "upgrade the chart larder-crds, then the rest goes on by itself",
    "PVCDeleting": "wait until the claim is gone and make it anew",
    "PVCLost": "bring the volume back, or make the claim anew",
    "PVCNotBound": "see kubectl describe pvc for what the claim waits for",
    "PVCNotFound": "create the claim, or correct storageUri",
    "PVCNotMountable": "put the model on a claim with a file system",
    "PathNotFound": "correct the sub-path of storageUri, or copy the model to the claim",
    "PickleRefused": "leave the file out by ignorePatterns, take weights in safetensors, or allow pickles",
    "RateLimited": "nothing; or a token of an account with a higher limit, or maxConcurrentNodes on the group",
    "RevisionNotFound": "write a branch, tag or commit that the repository has",
    "SourceChanged": "nothing: the source is resolved again",
    "SourceNotAllowed": "name an allowed source, have it added to allowedSources, or declare a ClusterBaseModel",
    "SourceNotFound": "correct the URI, or name a Secret that may read it",
    "StoreFailure": "look at the node's disk and its kernel log",
    "TooManyFiles": "name a part of the source, a prefix further down",
    "TooManyManifests": "delete models of the namespace that nobody needs, or raise manifestBytesPerNamespace",
    "TooManyModels": "delete models that the node need not have, narrow their selectors, or raise modelsPerNode",
    "TooManyResolutions": "nothing; or find out who changes models of the namespace all the time",
    "UnknownState": "upgrade the agent",
    "Unreadable": "let others read the files: chmod -R o+rX on the claim",
    "Unreachable": "check DNS, firewall and certificates from where it says so",
    "UnsafePath": "rename the file at the source",
}


def remedy(reason: str) -> str:
    """Return what to do, or an empty string if the message is all there is."""
    return REMEDIES.get(reason, "")
