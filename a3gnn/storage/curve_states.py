"""The states that extend learning curves: one file each in the cache folder, which together take a bounded size."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

#: What all states together may take. Guess: some hundred of common models, which have up to a few megabytes each.
MOST_BYTES = 1 << 30


def curve_state(root: Path, *training: object) -> Path:
    """Returns where the state of a learning curve lies in the cache folder `root`, whether it is there or not.

    Args:
        root: The cache folder.
        training: What decides the curve bit for bit, as JSON types.
    """
    name = hashlib.blake2b(json.dumps(training).encode(), digest_size=16).hexdigest()
    return root / "curves" / f"{name}.pt"


def drop_oldest(root: Path, most_bytes: int = MOST_BYTES) -> None:
    """Removes the states that were written longest ago until the others take `most_bytes` or less.

    A curve without its state is trained again from its start where it is to be extended.
    """
    found = []
    for path in (root / "curves").glob("*.pt"):
        with suppress(OSError):  # another process removed it
            stat = path.stat()
            found.append((stat.st_mtime, stat.st_size, path))
    taken = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if taken <= most_bytes:
            return
        path.unlink(missing_ok=True)
        taken -= size
