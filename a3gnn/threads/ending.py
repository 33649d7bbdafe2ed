"""How a command ends, where threads may have been left that never come back."""

from __future__ import annotations

import os
import sys
import threading
from typing import NoReturn

#: What the names of the threads begin with that work for trainers (`a3gnn.training.hybrid.trainers`).
TRAINERS = "a3gnn-trainer"


def end(code: int) -> NoReturn:
    """Ends the process with `code`; at once where a trainer's thread is left, as Python would wait for what it holds.

    Raises:
        SystemExit: No such thread is left.
    """
    if any(thread.name.startswith(TRAINERS) for thread in threading.enumerate()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
