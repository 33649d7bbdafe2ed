"""The options of a server, checked from Python too."""

from __future__ import annotations

from pathlib import Path

import pytest

from a3gnn.errors import UsageError
from a3gnn.service.settings import ServiceSettings


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"port": -1}, "port must be an integer >= 0, got -1; 0 takes a free port"),
        ({"port": 65_536}, "port must be at most 65535, got 65536; 0 takes a free port"),
        ({"at_once": -1}, "at_once must be an integer >= 0, got -1; 0 runs no jobs"),
        ({"max_queued": 0}, "max_queued must be an integer >= 1, got 0; 100 is the default"),
        ({"max_nodes": 1.5}, "max_nodes must be an integer >= 1, got 1.5; 50,000,000 is the default"),
        ({"max_upload_bytes": 0}, "max_upload_bytes must be an integer >= 1, got 0; 2 GiB is the default"),
    ],
)
def test_a_number_out_of_range_is_refused(tmp_path: Path, options: dict[str, float], message: str) -> None:
    with pytest.raises(UsageError) as error:
        ServiceSettings(folder=tmp_path, **options)
    assert str(error.value) == message
