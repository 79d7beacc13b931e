"""An agent that pauses during a removal, before the second blob, until a pipe is opened.

LARDER_TEST_PIPE is the path of that named pipe. The agent itself is unchanged: the interpreter reports each change
to a name before it is made.
"""

import os
import sys
from itertools import count
from pathlib import Path

from agent.__main__ import main

_BLOBS = "/blobs/sha256/"


def hold_ahead_of_the_second_blob(pipe: Path) -> None:
    """Make the second removal of a blob wait until another process opens the pipe for writing."""
    removals = count(1)

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.remove" and _BLOBS in str(arguments[0]) and next(removals) == 2:
            pipe.read_bytes()

    sys.addaudithook(hook)


if __name__ == "__main__":
    hold_ahead_of_the_second_blob(Path(os.environ["LARDER_TEST_PIPE"]))
    sys.exit(main())
