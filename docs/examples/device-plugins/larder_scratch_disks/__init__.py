"""Scratch disks as devices: each directory below SCRATCH_ROOT is a disk that one container gets for itself."""

EXTENDED_RESOURCE = "larder.dev/scratch"  # how pods ask for a number of disks


def disk(name: str) -> str:
    """Return the group resource that stands for a disk: on a node its name, in a request any index."""
    return f"resource/group/scratch/{name}/disk"


def is_disk(resource: str) -> bool:
    """Return whether a resource stands for a disk."""
    return resource.startswith("resource/group/scratch/") and resource.endswith("/disk")
