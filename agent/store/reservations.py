"""Reserved bytes by key, and whether more can be reserved: plain arithmetic."""

from dataclasses import dataclass

from shared.quantity import format_bytes


@dataclass(frozen=True, slots=True)
class StoreCapacity:
    """Space available for reservations, in bytes: in use, limit (0: none), free on the disk, and to be kept free."""

    used: int
    limit: int
    disk_free: int
    floor: int


def available_bytes(reserved: int, capacity: StoreCapacity) -> int:
    """Return how many bytes fit beside those reserved by others; negative if space is already overcommitted."""
    on_disk = capacity.disk_free - reserved - capacity.floor
    return min(capacity.limit - capacity.used - reserved, on_disk) if capacity.limit else on_disk


def shortage(need: int, reserved: int, capacity: StoreCapacity) -> int:
    """Return how many bytes must be freed before `need` bytes fit; 0 if they fit, or never can."""
    if need <= 0 or (capacity.limit and need > capacity.limit):
        return 0
    return max(0, need - available_bytes(reserved, capacity))


def why_refused(need: int, reserved: int, capacity: StoreCapacity) -> str:
    """Return why `need` bytes do not fit beside those reserved by others, with all numbers; empty if they do.

    With a limit of 100 bytes, 40 of them used and 30 reserved by others, 30 bytes fit, unless less is free on the disk.
    """
    have = available_bytes(reserved, capacity)
    if need <= 0 or need <= have:
        return ""
    fits_limit = not capacity.limit or need <= capacity.limit - capacity.used - reserved
    limit = f"limit {_exact(capacity.limit)}, used {_exact(capacity.used)}" if capacity.limit else "no limit"
    numbers = (
        f"need {_exact(need)}, have {_exact(max(0, have))} "
        f"({limit}, reserved for others {_exact(reserved)}, disk free {_exact(capacity.disk_free)}, "
        f"to keep free {_exact(capacity.floor)})"
    )
    return f"{numbers}; {_remedy(need, capacity, fits_limit=fits_limit)}"


def _remedy(need: int, capacity: StoreCapacity, *, fits_limit: bool) -> str:
    if capacity.limit and need > capacity.limit:
        return "it can never fit under this limit; raise storageLimit"
    if not fits_limit:
        return "remove a model or raise storageLimit, and the download starts"
    return "free space on the node's disk or remove a model, and the download starts"


def _exact(size_bytes: int) -> str:
    return f"{size_bytes} bytes" if size_bytes < 1024 else f"{size_bytes} bytes = {format_bytes(size_bytes)}"  # noqa: PLR2004 - from here on the rounded form helps


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a reservation, in bytes: the store's limit (0: none), and how much of the disk stays free."""

    limit: int = 0
    floor: int = 0


_NO_BOUNDS = Bounds()


class Ledger:
    """The open reservations by key; each shrinks as its bytes arrive on the disk. Not thread-safe."""

    def __init__(self) -> None:
        self._open: dict[str, int] = {}
        self._bounds: dict[str, Bounds] = {}

    def reserve(self, key: str, size_bytes: int, bounds: Bounds = _NO_BOUNDS) -> None:
        """Reserve bytes for a key, replacing its previous reservation."""
        self._open[key], self._bounds[key] = max(0, size_bytes), bounds

    def bounds(self, key: str) -> Bounds | None:
        """Return the bounds of the key's reservation; None for an unknown key."""
        return self._bounds.get(key)

    def count_arrived(self, key: str, size_bytes: int) -> None:
        """Subtract bytes that are on the disk now from the reservation; a negative number adds them back."""
        if key in self._open:
            self._open[key] = max(0, self._open[key] - size_bytes)

    def release(self, key: str) -> None:
        """Drop the key's reservation."""
        self._open.pop(key, None)
        self._bounds.pop(key, None)

    def reserved_for(self, key: str) -> int:
        """Return the key's reservation; 0 for an unknown key."""
        return self._open.get(key, 0)

    def reserved(self, excluding: str = "") -> int:
        """Return the sum of all reservations except one."""
        return sum(size for key, size in self._open.items() if key != excluding)
