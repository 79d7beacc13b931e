"""Why admission rejects a request, one class per stable reason; each message includes a remedy.

AdmissionRefused                the API server's caller gets the reason and the message
├── ModelNotFound               no model of that name is visible from the namespace, or several are
├── ModelNotReady               the model exists, but pods cannot get it (yet)
├── NamespaceNotAllowed         the model's claim is in another namespace
├── MountConflict               the pod already uses the name or path that the model needs
├── StorePathReserved           one of the pod's own volumes reaches into the model store
├── SourceNotAllowed            a namespaced model names a source that is not in allowedSources
├── InvalidPath                 models may not be mounted at this path
├── InvalidName                 not a valid name, or one that is too long for what is named after it
├── InvalidQuantity             not a number of bytes
├── InvalidSelection            not a valid selection of a source's files
├── InvalidSelector             not a selector, or one that can never match a node
├── InvalidRequest              an annotation of the pod has an invalid value
├── InvalidClaims               a pod or Job asks for claims from templates, but cannot have them
├── NameTooLong                 an object to be created would have too long a name
├── InvalidTemplate             pvSpec or pvcSpec sets what Larder sets itself
├── UnknownGroup                there is no ModelCacheNodeGroup of that name
├── InUse                       pods, InferenceServices or caches still need the object
└── AdmissionFailure            no decision was possible; nothing is known about the object

shared.errors.InvalidURI is raised unchanged.
"""

from typing import ClassVar

from shared.errors import LarderError


class AdmissionRefused(LarderError):
    """Admission rejects the request; `code` is the HTTP status that the API server passes on."""

    code: ClassVar[int] = 403


class ModelNotFound(AdmissionRefused):
    """The name matches no model that is visible from the pod's namespace, or several."""


class ModelNotReady(AdmissionRefused):
    """The model exists, but pods cannot get it: disabled, unresolved, failed or being deleted."""


class NamespaceNotAllowed(AdmissionRefused):
    """The model is on a claim in another namespace."""


class MountConflict(AdmissionRefused):
    """The pod has its own mount, volume or selector where the model's should be."""


class StorePathReserved(AdmissionRefused):
    """One of the pod's own host paths reaches into the model store."""


class SourceNotAllowed(AdmissionRefused):
    """Namespaced models may not name this source."""


class InvalidPath(AdmissionRefused):
    """Models may not be mounted at this path."""


class InvalidName(AdmissionRefused):
    """Not a valid name, or one that is too long for the objects that are named after it."""


class InvalidQuantity(AdmissionRefused):
    """Not a number of bytes, or one that makes no sense here."""


class InvalidSelection(AdmissionRefused):
    """Not a valid selection of a source's files."""


class InvalidSelector(AdmissionRefused):
    """Not a valid node selector."""


class InvalidRequest(AdmissionRefused):
    """An annotation by which a pod requests models has an invalid value."""


class InvalidClaims(AdmissionRefused):
    """A pod or Job asks for claims from templates, but cannot have them."""


class NameTooLong(AdmissionRefused):
    """The name of an object that would be created has too many characters."""


class InvalidTemplate(AdmissionRefused):
    """The template of a volume or claim sets fields that Larder sets itself."""


class UnknownGroup(AdmissionRefused):
    """No ModelCacheNodeGroup has that name."""


class InUse(AdmissionRefused):
    """Pods, InferenceServices or caches still need the object."""


class AdmissionFailure(AdmissionRefused):
    """No decision was possible: an internal error, or the Kubernetes API did not answer."""

    code = 500
