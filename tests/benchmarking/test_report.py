"""Documents of several runs as one."""

import pytest

from benchmarks.engine.report import merged, new_report


def of(graph: str, row: str, value: int) -> dict:
    report = new_report({"rounds": 2})
    report["versions"] = {"a3gnn": {"torch": "2"}}
    report["graphs"][graph] = {"nodes": value}
    report["rows"][row] = {graph: {"a3gnn": value}}
    report["limits"] = {"entries": value}
    return report


def test_later_runs_fill_the_gaps_of_the_first() -> None:
    first, second = of("arxiv", "load", 1), of("reddit", "load", 5)
    second["rows"]["load"]["arxiv"] = {"a3gnn": 99}
    second["growth"] = {"graph": "reddit", "by_epoch": [1, 1]}
    whole = merged([first, second, of("arxiv", "train-gin", 3)])
    assert whole["rows"] == {
        "load": {"arxiv": {"a3gnn": 1}, "reddit": {"a3gnn": 5}},
        "train-gin": {"arxiv": {"a3gnn": 3}},
    }
    assert whole["graphs"] == {"arxiv": {"nodes": 1}, "reddit": {"nodes": 5}}
    assert whole["limits"] == {"entries": 5}
    assert whole["growth"]["graph"] == "reddit"
    assert first["rows"] == {"load": {"arxiv": {"a3gnn": 1}}}


@pytest.mark.parametrize("name", ["machine", "effort", "versions"])
def test_runs_that_can_not_be_compared_are_refused(name: str) -> None:
    other = of("arxiv", "load", 1)
    other[name] = {"another": 1}
    with pytest.raises(ValueError, match=f"must have one {name}"):
        merged([of("arxiv", "load", 1), other])
