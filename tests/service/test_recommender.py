"""The process that predicts, and which of its answers are kept."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from a3gnn.service.http.problems import ProblemDetails
from a3gnn.service.jobs.home import Places
from a3gnn.service.studies.recommender import Recommender
from a3gnn.task import Task


@pytest.fixture
def recommender(tmp_path: Path) -> Iterator[Recommender]:
    found = Recommender(str(tmp_path / "store.sqlite"), Places((tmp_path,)))
    yield found
    found.close()


def test_what_may_pass_is_asked_again_and_what_stays_is_not(recommender: Recommender, tmp_path: Path) -> None:
    store, arguments = tmp_path / "store.sqlite", {"task": Task().to_dict()}

    def problem() -> ProblemDetails:
        with pytest.raises(ProblemDetails) as found:
            recommender.ask("people.npz", arguments, "none")
        return found.value

    absent = problem()
    store.write_bytes(b"no database, but there")
    damaged = problem()
    assert (absent.kind, damaged.kind) == ("store", "store")
    assert absent.detail != damaged.detail
    assert str(tmp_path) not in damaged.detail
    wrong = arguments | {"priority": "nonsense"}
    with pytest.raises(ProblemDetails, match="nonsense"):
        recommender.ask("people.npz", wrong, "none")
    recommender.close()
    with pytest.raises(ProblemDetails, match="nonsense"):
        recommender.ask("people.npz", wrong, "none")
    assert recommender._process is None  # nothing was asked of one
