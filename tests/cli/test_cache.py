"""`a3gnn cache`: what it shows, what it removes, and what it leaves alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from a3gnn.cli.main import app
from a3gnn.errors import A3GNNError
from a3gnn.evaluation.inference import Inference, Scratch
from a3gnn.graphs.graph import Graph
from a3gnn.graphs.halves import halves_beside
from a3gnn.graphs.partition import partition, restrict_to_parts
from a3gnn.storage.atomic import replacing
from a3gnn.storage.cache_content import remove_abandoned
from a3gnn.storage.stamp import STAMP
from a3gnn_surrogate.surrogate import Surrogate

SPEC = "synthetic:nodes=120,degree=5,features=4,classes=3"
DAY = 86_400
_KERNELS = f"sampling_{'0f' * 20}"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder with a graph with what is beside it, one of a file, a probe, a surrogate and a download."""
    root = tmp_path / "cache"
    monkeypatch.setenv("A3GNN_CACHE", str(root))
    targets, one = np.arange(6), Graph.load(SPEC).on_disk()
    restrict_to_parts(one, partition(one, 2, partitioner="random"))
    assert halves_beside(one, one.features, "features") is not one.features
    Inference(one, one.val_ids, 2, aggregator="mean", scratch=Scratch(tmp_path))
    masks = {f"{name}_mask": targets == i for i, name in enumerate(("train", "val", "test"))}
    edges = np.stack([targets, (targets + 1) % 6])
    np.savez(tmp_path / "ring.npz", edge_index=edges, x=np.eye(6, dtype=np.float32), y=targets % 2, **masks)
    Graph.load(tmp_path / "ring.npz").on_disk()
    del one
    (root / "hardware").mkdir()
    (root / "hardware" / "0f-v1.json").write_text(json.dumps({"cpu": "a processor"}))
    Surrogate().fit([]).save(root / "surrogates" / ("5" * 32))
    (root / "kernels" / _KERNELS).mkdir(parents=True)
    (root / "kernels" / _KERNELS / "kernels.pick-1.py311.nbi").write_bytes(b"index")
    (root / "downloads" / "pyg" / "Planetoid").mkdir(parents=True)
    (root / "downloads" / "pyg" / "Planetoid" / "raw.txt").write_text("papers")
    return root


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["cache", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def graphs(root: Path) -> dict[str, Path]:
    metas = (root / "graphs").glob("*/meta.json")
    return {json.loads(meta.read_text())["name"]: meta.parent for meta in metas}


def age(path: Path, days: float) -> None:
    at = time.time() - days * DAY
    for file in [path, *path.rglob("*")]:
        os.utime(file, (at, at))


def test_info_lists_everything_with_its_size_and_its_use(root: Path) -> None:
    found = json.loads(run("info", "--json"))
    assert found["folder"] == str(root)
    entries = {(entry["kind"], entry["name"]): entry for entry in found["entries"]}
    assert {("graph", SPEC), ("graph", "ring"), ("probe", "a processor"), ("download", "pyg:Planetoid")} < set(entries)
    assert {("surrogate", "fitted to 0 measurements"), ("kernels", _KERNELS)} < set(entries)
    assert found["total_bytes"] == sum(entry["num_bytes"] for entry in found["entries"])
    on_disk = sum(512 * path.stat().st_blocks for path in [graphs(root)[SPEC], *graphs(root)[SPEC].rglob("*")])
    assert entries["graph", SPEC]["num_bytes"] == on_disk > 0
    assert entries["graph", SPEC]["keep"] == ""
    assert (graphs(root)[SPEC] / "derived" / "table-mean" / "meta.json").is_file()
    lines = run("info").splitlines()
    assert lines[0].startswith(f"{root}: ")
    assert sum(not line.startswith(" ") for line in lines) == 1 + len(found["entries"])


def test_clean_removes_what_a3gnn_made_and_nothing_else(root: Path) -> None:
    (root / "thesis.tex").write_text("years of work")
    (root / "graphs" / "mine").mkdir()
    (root / "graphs" / "mine" / "notes.txt").write_text("mine")
    (root / "hardware" / "mine.json").write_text('{"theirs": 1}')
    (root / "graphs" / ("a" * 32)).symlink_to(root / "graphs" / "mine")
    diary = graphs(root)[SPEC] / "diary.txt"
    diary.write_text("dear diary")
    run("clean")
    kept = files(root)
    assert {"thesis.tex", "graphs/mine/notes.txt", "hardware/mine.json"} < set(kept)
    assert "downloads/pyg/Planetoid/raw.txt" in kept
    assert diary.exists()
    assert (diary.parent / "indices.npy").exists()
    assert not [name for name in kept if name.startswith(("sources/", "hardware/0f"))]
    assert {Path(name).parts[1] for name in kept if name.startswith("graphs/")} == {"mine", diary.parent.name}


def test_clean_says_what_it_removes_and_a_dry_run_removes_nothing(root: Path) -> None:
    before = files(root)
    planned = json.loads(run("clean", "--dry-run", "--json"))
    assert planned["dry_run"]
    assert files(root) == before
    lines = run("clean", "--dry-run").splitlines()
    assert lines[-1].endswith(f"would be freed, {len(planned['removed'])} items of {len(planned['removed']) + 1} items")
    done = json.loads(run("clean", "--json"))
    assert [entry["path"] for entry in done["removed"]] == [entry["path"] for entry in planned["removed"]]
    assert done["freed_bytes"] == planned["freed_bytes"] > 0
    assert files(root) == ["downloads/pyg/Planetoid/raw.txt"]


def test_downloads_go_when_they_are_asked_for(root: Path) -> None:
    run("clean", "--downloads")
    assert files(root) == []


def test_only_what_was_not_used_lately_goes(root: Path, tmp_path: Path) -> None:
    for name in ("ring", SPEC):
        age(graphs(root)[name], 40)
    assert Graph.load(tmp_path / "ring.npz").folder is not None  # which is a use
    run("clean", "--older-than", "30d")
    assert list(graphs(root)) == ["ring"]
    assert Graph.load(tmp_path / "ring.npz").folder == graphs(root)["ring"]
    age(graphs(root)["ring"], 40)
    run("clean", "--older-than", "30d")
    assert list(graphs(root)) == []
    assert files(root / "sources") == []
    assert Graph.load(tmp_path / "ring.npz").folder is None


@pytest.fixture
def start() -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """Starts code that prints a line once it is where it should be, and ends it after the test."""
    started: list[subprocess.Popen[str]] = []

    def start(code: str) -> subprocess.Popen[str]:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_graph_that_a_process_has_open_is_kept(root: Path, start: Callable[[str], subprocess.Popen[str]]) -> None:
    folder = graphs(root)[SPEC]
    process = start(
        "import time; from a3gnn.graphs.graph import Graph\n"
        f"graph = Graph.load({str(folder)!r}); print('ready', flush=True); time.sleep(60)"
    )
    (entry,) = [entry for entry in json.loads(run("info", "--json"))["entries"] if entry["name"] == SPEC]
    assert entry["keep"] == "in use"
    run("clean")
    assert list(graphs(root)) == [SPEC]
    process.kill()
    process.wait()
    run("clean")
    assert list(graphs(root)) == []


def test_kernels_that_a_process_uses_are_kept(root: Path, start: Callable[[str], subprocess.Popen[str]]) -> None:
    folder = root / "kernels" / f"a3gnn-{'0f' * 16}"
    process = start(
        "import time; from pathlib import Path; from a3gnn.storage.kernel_folder import hold\n"
        f"hold(Path({str(folder)!r})); print('ready', flush=True); time.sleep(60)"
    )
    (entry,) = [entry for entry in json.loads(run("info", "--json"))["entries"] if entry["name"] == folder.name]
    assert (entry["kind"], entry["keep"]) == ("kernels", "in use")
    run("clean")
    assert list((root / "kernels").iterdir()) == [folder]
    process.kill()
    process.wait()
    run("clean")
    assert list((root / "kernels").iterdir()) == []


def test_drafts_of_killed_processes_go_and_those_of_others_stay(
    root: Path, start: Callable[[str], subprocess.Popen[str]]
) -> None:
    process = start(
        "import time; from pathlib import Path; from a3gnn.storage.atomic import replacing\n"
        f"with replacing(Path({str(root)!r}) / 'graphs' / {'b' * 32!r}) as draft:\n"
        "    draft.mkdir(); (draft / 'x.npy').write_bytes(bytes(5000)); print('ready', flush=True); time.sleep(60)"
    )
    with replacing(root / "hardware" / "probe.json") as draft:
        draft.write_text("{}")
        run("clean", "--older-than", "1d")
        assert len(list((root / "graphs").glob(".b*"))) == 1
        assert draft.exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    run("clean", "--older-than", "1d")
    assert list((root / "graphs").glob(".b*")) == []
    assert len(graphs(root)) == 2


def test_only_drafts_of_the_file_itself_are_removed(tmp_path: Path) -> None:
    for name in (".x.npy.abcdefgh/x.npy", ".x.npy.original/notes.txt", ".x.npy.npy.abcdefgh/x.npy.npy"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("mine")
    remove_abandoned(tmp_path / "x.npy")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".x.npy.npy.abcdefgh", ".x.npy.original"]


def test_a_map_of_what_is_removed_stays_valid(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Graph.load(graphs(root)[SPEC])
    expected = opened.content_fingerprint()
    monkeypatch.setattr("a3gnn.storage.cache_content._mapped_files", lambda: b"")
    run("clean")
    assert list(graphs(root)) == []
    assert opened.content_fingerprint() == expected


def test_a_folder_that_is_not_there_holds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A3GNN_CACHE", str(tmp_path / "nowhere"))
    assert run("info") == f"{tmp_path / 'nowhere'}: 0 B in 0 items\n"
    assert run("clean") == "0 B freed, 0 items of 0 items\n"
    assert not (tmp_path / "nowhere").exists()


def test_damaged_entries_are_listed_and_removed(root: Path) -> None:
    (graphs(root)["ring"] / "meta.json").write_text("{")
    (root / "verified").mkdir()
    (root / "verified" / f"{'c' * 32}.json").write_text("")
    for note in (root / "sources").iterdir():
        note.write_bytes(b"\xff")
    assert "damaged" in run("info")
    run("clean")
    assert files(root) == ["downloads/pyg/Planetoid/raw.txt"]


def test_what_can_not_be_removed_is_said(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(A3GNNError, match=r"not removed: .*0f-v1\.json \(Permission denied\)"):
        run("clean")
    assert list(graphs(root)) == []


@pytest.mark.parametrize("duration", ["30", "long", "-1d"])
def test_a_wrong_duration_is_a_usage_error(duration: str) -> None:
    result = CliRunner().invoke(app, ["cache", "clean", "--older-than", duration])
    assert result.exit_code == 2
    assert "a duration is numbers with units" in result.output


def test_opening_a_graph_is_noted_once_an_hour(root: Path) -> None:
    stamp = graphs(root)[SPEC] / STAMP
    age(stamp, 1 / 48)
    half_an_hour_ago = stamp.stat().st_mtime
    Graph.load(stamp.parent)
    assert stamp.stat().st_mtime == half_an_hour_ago
    age(stamp, 1 / 12)
    Graph.load(stamp.parent)
    assert stamp.stat().st_mtime > half_an_hour_ago
