"""Why admission refuses, one class a stable reason; the messages say what to do instead.

Refused                         the API server's caller gets the reason and the message
├── ModelNotFound               no base model of that name is visible from the namespace
├── ModelNotReady               it is there, but pods cannot get it (yet)
├── NamespaceNotAllowed         its claim stands in another namespace
├── MountConflict               the pod has something of its own where the model shall be
├── StorePathReserved           a volume of the pod's own reaches into the store of models
├── SourceNotAllowed            a namespace's model names a source that is not among allowedSources
├── InvalidPath                 a mount path that no model may be put at
├── InvalidQuantity             not a number of bytes
├── InvalidSelection            not a choice of a source's files
├── InvalidSelector             no node could ever match, or it is not a selector
├── UnknownGroup                there is no ModelCacheNodeGroup of that name
├── InUse                       pods or caches still need the object
└── AdmissionFailure            the decision itself failed; nothing is known about the object

shared.errors.InvalidURI is raised as it is.
"""

from typing import ClassVar

from shared.errors import LarderError


class AdmissionRefused(LarderError):
    """Admission answers no; `code` is the HTTP status that the API server passes on."""

    code: ClassVar[int] = 403


class ModelNotFound(AdmissionRefused):
    """No base model of that name is visible from the pod's namespace."""


class ModelNotReady(AdmissionRefused):
    """The model is there, but pods cannot get it: disabled, unresolved, failed or going away."""


class NamespaceNotAllowed(AdmissionRefused):
    """The model stands on a claim of another namespace."""


class MountConflict(AdmissionRefused):
    """The pod has a mount, a volume or a selector of its own where the model's shall be."""


class StorePathReserved(AdmissionRefused):
    """A host path of the pod's own reaches into the store of models."""


class SourceNotAllowed(AdmissionRefused):
    """Models of namespaces may not name this source."""


class InvalidPath(AdmissionRefused):
    """No model may be mounted there."""


class InvalidQuantity(AdmissionRefused):
    """Not a number of bytes, or one that makes no sense here."""


class InvalidSelection(AdmissionRefused):
    """Not a choice of a source's files."""


class InvalidSelector(AdmissionRefused):
    """Not a selector of nodes."""


class UnknownGroup(AdmissionRefused):
    """No ModelCacheNodeGroup has that name."""


class InUse(AdmissionRefused):
    """Pods or caches still need the object."""


class AdmissionFailure(AdmissionRefused):
    """The decision failed for a reason of our own."""

    code = 500
