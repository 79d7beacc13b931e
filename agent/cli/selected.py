"""A source of which some files alone are fetched."""

from dataclasses import dataclass, field

from shared.api.meta import LeftOut
from shared.manifest import File, Manifest
from shared.selection.choice import Selection
from shared.selection.select import select_files
from shared.sources.port import Body, Source


@dataclass(slots=True)
class SelectedSource:
    """A source whose list has the selected files; `left_out` tells of the others once it was resolved."""

    source: Source
    selection: Selection
    left_out: LeftOut = field(default=LeftOut(), init=False)

    def resolve(self) -> Manifest:
        """As in the port; SourceNotFound where no file is left."""
        manifest, self.left_out = select_files(self.source.resolve(), self.selection)
        return manifest

    def open(self, file: File, offset: int = 0, length: int | None = None) -> Body:
        """As in the port."""
        return self.source.open(file, offset, length)

    def close(self) -> None:
        """As in the port."""
        self.source.close()
