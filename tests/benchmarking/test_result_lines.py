"""Results on disk, one per line."""

from pathlib import Path

from benchmarks.report import ResultLines


def test_results_survive_an_interruption(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.jsonl"
    lines = ResultLines(path)
    lines.put("tiny", 0, value={"ms": 1.5})
    lines.put("tiny", 1, value=[1, 2])
    with path.open("a") as raw:
        raw.write('{"key": ["ti')
    again = ResultLines(path)
    assert (again.get("tiny", 0), again.get("tiny", 1), again.get("tiny", 2)) == ({"ms": 1.5}, [1, 2], None)
    again.put("tiny", 0, value=3)
    assert ResultLines(path).get("tiny", 0) == 3
