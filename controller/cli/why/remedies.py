"""The remedy for each reason, in one line; the troubleshooting page has the details."""

from collections.abc import Mapping

REMEDIES = {
    "AddressRefused": "ask an administrator to add the address to sources.allowAddresses, or use a public host",
    "AuthDenied": "put a token with read access into a Secret labelled larder.dev/credentials=true, and name it",
    "BackoffLimitExceeded": "check the logs of the pods, then recreate the job, perhaps with a higher backoffLimit",
    "ClaimInUse": "none needed: a Job reads the metadata once the claim is free; or write it into the spec",
    "DeadlineExceeded": "find out why the volume is slow; the message says whether pods wait for it",
    "DigestMismatch": "none needed: the file is downloaded again; if this persists, check proxies and mirrors",
    "Disabled": "set spec.disabled to false",
    "Evicted": "raise storageLimit, remove a model, raise the priority of this one, or pin it (larder.dev/pin)",
    "FilesDamaged": "none needed: the files are downloaded again; find out what writes to the store",
    "FilesInUse": "none needed: the files are replaced once no pod on the node uses them",
    "ImageNotPulled": "create the Secret that claims.imagePullSecrets names in the namespace, or use a mirror",
    "InsufficientStorage": "remove a model, raise storageLimit of the node's groups, or free space on its disk",
    "InvalidSettings": "correct the variable that the message names, or the chart value that sets it",
    "InvalidURI": "write a URI in one of the supported forms",
    "InternalError": "report it, with the line of the agent's log that contains internal_error",
    "LabelsRefused": "let the agents change these labels: see the admission policies, webhooks and roles for them",
    "NameConflict": "recreate this object under another name, or delete what the message names",
    "NamespaceNotAllowed": "label the namespace larder.dev/allow-cluster-models=true, or use a BaseModel there",
    "NoNodes": "label a node, or change the selector or the group",
    "NodesNotReady": "check the nodes",
    "NotGranted": "wait a minute; then restart the agent's pod in case its token belongs to an earlier node, "
    "and check the agent's service account",
    "OnClaim": "none needed: pods in the claim's namespace mount the claim",
    "OutOfMemory": "write the model's metadata into its spec",
    "OutdatedDefinition": "upgrade the chart larder-crds; the rest resumes on its own",
    "NameTooLong": "recreate it under a shorter name",
    "PVCDeleting": "wait until the claim is gone, then recreate it",
    "PVCLost": "restore the volume, or recreate the claim",
    "PVCNotBound": "run kubectl describe pvc to see what the claim waits for",
    "PVCNotFound": "create the claim, or correct storageUri",
    "PVCNotMountable": "put the model on a claim with a file system",
    "PathNotFound": "correct the sub-path of storageUri, or copy the model to the claim",
    "PickleRefused": "exclude the file with ignorePatterns, use safetensors weights, or allow pickles",
    "PodFailed": "check the logs of that pod, then recreate the job",
    "RateLimited": "none needed: it is retried; a token with a higher limit or maxConcurrentNodes on the group helps",
    "Refused": "remove the cause that the message names, such as a quota; Larder retries within two minutes",
    "RevisionNotFound": "name a branch, tag or commit that exists in the repository",
    "SourceChanged": "none needed: the source is resolved again",
    "SourceNotAllowed": "use an allowed source, have this one added to allowedSources, or use a ClusterBaseModel",
    "SourceNotFound": "correct the URI, or name a Secret with access to it",
    "StoreFailure": "check the node's disk and its kernel log",
    "TooManyFiles": "name a part of the source, such as a longer prefix",
    "TooManyFilesOnNode": "remove models with many files from the node, or raise agent.resources.limits.memory",
    "TooManyManifests": "delete models that the namespace does not need, or raise manifestBytesPerNamespace",
    "TooManyModels": "delete models, narrow their selectors, or raise modelsPerNode",
    "TooManyResolutions": "none needed: it is retried; find out what keeps changing models in the namespace",
    "UnknownState": "upgrade the agent",
    "Unreadable": "make the files readable: chmod -R o+rX on the claim",
    "Unreachable": "check DNS, firewalls and certificates on the host that reports it",
    "UnsafePath": "rename the file at the source",
}


def remedy(reason: str, special: Mapping[str, str] = {}) -> str:
    """Return the remedy; empty if the message already says everything. `special` has those of one kind of object."""
    return special.get(reason) or REMEDIES.get(reason, "")
