"""The memory contract of `Loader(memory_limit=...)` on random cases, each in its own process.

    python -m benchmarks.memory_contract --cases 1000 --out FILE.jsonl
    python -m benchmarks.memory_contract --show FILE.jsonl

A case is a graph, one of PyG's models, fanouts, a batch size, and a limit at .3 to 1.5 of the memory that the
mini-batches take without one. It runs twice, free and limited, with the same mini-batches. Another process samples the
memory that the system can't reclaim (docs/design/measurement.md) at 100 Hz. The loop computes in float64, so that
gradients can be compared; Adam runs with a learning rate of 0, so that all mini-batches can. A limit below the smallest
possible one must be refused before the first step, and the limit that the error names must do.

The table counts processes that died, peaks above the limit, and refusals; it has the largest difference of gradients
over their largest entry, and the ratio of processor seconds per mini-batch, where the limit leaves room and at about
half of it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain, islice, repeat
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
import torch_geometric.nn
from torch.nn import functional
from torch_geometric.data import Data

from a3gnn.errors import MemoryLimitError
from a3gnn.loader.loader import Loader
from a3gnn.process.heap import trim_heap
from a3gnn.process.memory import process_memory
from a3gnn.process.memory_guard import MemoryGuard, host_bytes

Model = Literal["SAGE", "GCN", "GAT", "GIN"]
MODELS: tuple[Model, ...] = ("SAGE", "GCN", "GAT", "GIN")
# Seconds between samples from outside.
_PERIOD_S = 0.01
# Mini-batches of a run; the first ones, in which the loader learns, don't count for the seconds.
_BATCHES, _LEARNING = 14, 8
# Seconds after which a process counts as dead.
_TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Case:
    """A random case; `share` is the limit as a share of the memory of free mini-batches."""

    nodes: int
    degree: int
    features: int
    model: Model
    hidden: int
    fanouts: tuple[int, ...]
    batch_size: int
    known: bool
    share: float
    seed: int

    @classmethod
    def random(cls, seed: int) -> Case:
        """Returns the case of `seed`."""
        rng = np.random.default_rng(seed)
        hops = int(rng.choice([1, 2, 2, 2, 3]))
        return cls(
            nodes=int(10 ** rng.uniform(3.3, 4.7)),
            degree=int(rng.integers(3, 30)),
            features=int(rng.choice([16, 50, 128, 300])),
            model=MODELS[seed % len(MODELS)],
            hidden=int(rng.choice([32, 64, 128, 256])),
            fanouts=tuple(int(rng.integers(2, 16 if hops < 3 else 8)) for _ in range(hops)),
            batch_size=int(rng.choice([64, 256, 512, 1024])),
            known=bool(rng.integers(2)),
            share=float(rng.uniform(0.3, 1.5)),
            seed=seed,
        )


def child(
    case: Case, above: int | None, limit: int | None, folder: Path, tell: Callable[[dict[str, Any]], None]
) -> None:
    """Runs the loop of `case`, and tells its limit as it begins, and at the end what it took.

    Args:
        case: The case.
        above: Limit of the bytes above the memory before the first mini-batch; None is no limit.
        limit: The limit itself, in place of `above`.
        folder: Receives the gradients of each mini-batch.
        tell: Takes the figures.
    """
    torch.manual_seed(case.seed)
    data, model = _data(case), _model(case)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    made: dict[str, Any] = {
        "num_neighbors": list(case.fanouts),
        "batch_size": case.batch_size,
        "shuffle": True,
        "seed": case.seed,
    }
    plain = Loader(data, **made)
    next(iter(plain))
    trim_heap()
    idle = host_bytes()
    if limit is None and above is not None:
        limit = idle + above
    found: dict[str, Any] = {"idle": idle, "limit": limit, "outcome": "done"}
    found |= {"seconds": [], "cpu_seconds": [], "shares": []}
    try:
        extra = {} if limit is None else {"memory_limit": limit, "model": model if case.known else None}
        loader = Loader(data, **made, **extra)
        del plain
        tell({"begin": limit})
        with MemoryGuard() as guard:
            guard.recent_bytes()
            begin, worked = time.perf_counter(), time.process_time()
            epochs = chain.from_iterable(repeat(loader))
            for number, batch in enumerate(islice(epochs, _BATCHES)):
                optimizer.zero_grad()
                count = 0
                for share in batch.shares() if limit is not None else [batch]:
                    out = model(share.x.double(), share.edge_index)[: share.batch_size]
                    loss = functional.cross_entropy(out, share.y[: share.batch_size])
                    (loss * share.seed_share if limit is not None else loss).backward()
                    count += 1
                optimizer.step()
                found["seconds"].append(time.perf_counter() - begin)
                found["cpu_seconds"].append(time.process_time() - worked)
                found["shares"].append(count)
                np.save(folder / f"{number}.npy", np.concatenate([w.grad.numpy().ravel() for w in model.parameters()]))
                begin, worked = time.perf_counter(), time.process_time()
            found["peak"] = guard.recent_bytes()
    except MemoryLimitError as error:
        found |= {"outcome": "died" if found["seconds"] else "refused", "detail": str(error)}
        found["least"] = getattr(getattr(locals().get("loader"), "limited", None), "least_bytes", None)
    tell(found)


def _data(case: Case) -> Any:
    rng = np.random.default_rng(case.seed)
    edges = case.nodes * case.degree
    # Sources follow a power law, as in real graphs, so that neighborhoods overlap.
    sources = (case.nodes * rng.random(edges) ** 2).astype(np.int64)
    targets = rng.integers(0, case.nodes, edges)
    return Data(
        x=torch.from_numpy(rng.standard_normal((case.nodes, case.features), dtype=np.float32)),
        edge_index=torch.from_numpy(np.stack([sources, targets])),
        y=torch.from_numpy(rng.integers(0, 16, case.nodes)),
    )


def _model(case: Case) -> Any:
    kind = {"SAGE": "GraphSAGE"}.get(case.model, case.model)
    more = {"heads": 4} if case.model == "GAT" else {}
    made = getattr(torch_geometric.nn, kind)
    return made(case.features, case.hidden, num_layers=len(case.fanouts), out_channels=16, **more).double()


def run(case: Case, above: int | None, limit: int | None, folder: Path) -> dict[str, Any]:
    """Returns what a process for `case` tells, and its peak as sampled from outside while the loop ran."""
    folder.mkdir(parents=True, exist_ok=True)
    context = multiprocessing.get_context("fork")  # all imports are done, and torch has not started a thread
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_told, args=(case, above, limit, folder, sender))
    process.start()
    sender.close()
    messages: list[dict[str, Any]] = []
    sampled, ended = 0, time.monotonic() + _TIMEOUT_S
    while time.monotonic() < ended:
        try:
            while receiver.poll():
                messages.append(receiver.recv())
        except EOFError:
            break
        if messages and "outcome" not in messages[-1]:
            sampled = max(sampled, process_memory(process.pid or 0).anonymous_bytes)
        time.sleep(_PERIOD_S)
    process.kill()
    process.join()
    last = messages[-1] if messages else {}
    died = {} if "outcome" in last else {"outcome": "died", "detail": f"exit code {process.exitcode}"}
    return last | died | {"sampled": sampled}


def _told(case: Case, above: int | None, limit: int | None, folder: Path, sender: Connection) -> None:
    warnings.simplefilter("ignore")  # of peaks above the limit, which are counted
    child(case, above, limit, folder, sender.send)


def measure(case: Case) -> dict[str, Any]:
    """Returns the figures of a case, free and limited."""
    with tempfile.TemporaryDirectory() as name:
        free = run(case, None, None, Path(name) / "free")
        if free["outcome"] != "done":
            return {"case": asdict(case), "free": free}
        above = round(case.share * (free["peak"] - free["idle"]))
        limited = run(case, above, None, Path(name) / "limited")
        row = {"case": asdict(case), "free": free, "limited": limited}
        if limited["outcome"] == "refused" and limited.get("least"):
            limited = row["again"] = run(case, None, limited["least"], Path(name) / "limited")
        row["error"] = _difference(Path(name))
    return row


def _difference(folder: Path) -> float | None:
    """Returns the largest difference of gradients of the two runs, as a share of the largest entry."""
    errors = []
    for path in (folder / "limited").glob("*.npy"):
        uncut, cut = np.load(folder / "free" / path.name), np.load(path)
        errors.append(float(np.abs(uncut - cut).max() / np.abs(uncut).max()))
    return max(errors, default=None)


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yields the lines of the table."""
    rows = [row for row in rows if "limited" in row]
    runs = [row.get("again", row["limited"]) for row in rows]
    done = [(row, one) for row, one in zip(rows, runs, strict=True) if one["outcome"] == "done"]
    over = [max(0, one["sampled"] - one["limit"]) / one["limit"] for _, one in done]
    over_mark = [max(0, one["peak"] - one["limit"]) / one["limit"] for _, one in done]
    yield f"cases {len(rows)}"
    yield f"died {sum(one['outcome'] == 'died' for one in runs)}"
    yield f"refused before the first step {sum(row['limited']['outcome'] == 'refused' for row in rows)}"
    again = [row["again"]["outcome"] == "refused" for row in rows if "again" in row]
    yield f"run again at the limit that the error named {len(again)}, refused there {sum(again)}"
    yield f"above the limit, at 100 Hz {sum(one > 0 for one in over)}, by at most {max(over, default=0):.2%}"
    yield f"above the limit, by the kernel's mark {sum(one > 0 for one in over_mark)}, by at most {max(over_mark):.2%}"
    errors = [row["error"] for row, _ in done if row["error"] is not None]
    yield f"largest difference of gradients {max(errors, default=0):.1e}"
    for name, low, high in (("fits (1.05 to 1.5)", 1.05, 1.5), (".45 to .55", 0.45, 0.55), (".3 to .45", 0.3, 0.45)):
        of = [(row, one) for row, one in done if low <= row["case"]["share"] <= high and "again" not in row]
        ratios = [_seconds(one) / _seconds(row["free"]) for row, one in of if len(one["seconds"]) > _LEARNING]
        shares = [float(np.mean(one["shares"][_LEARNING:])) for _, one in of if len(one["seconds"]) > _LEARNING]
        if ratios:
            low_, middle, high_ = np.quantile(ratios, [0.25, 0.5, 0.75])
            yield (
                f"limit {name}: {len(ratios)} cases, processor seconds {middle:.2f} times the free ones "
                f"(quartiles {low_:.2f}, {high_:.2f}), {np.mean(shares):.1f} shares"
            )


def _seconds(run: dict[str, Any]) -> float:
    """Returns the median of a mini-batch's seconds on all cores, which other work on the machine changes little."""
    return float(np.median(run["cpu_seconds"][_LEARNING:]))


def main() -> None:
    """Runs the cases, or shows stored ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first case's seed")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="starts no case after this time")
    parser.add_argument("--out", type=Path, help="appends a line of JSON per case; cases in it are not run again")
    parser.add_argument("--show", type=Path, help="prints the table of a file")
    options = parser.parse_args()
    stored = options.show or options.out
    rows: list[dict[str, Any]] = []
    if stored is not None and (options.show or stored.exists()):
        rows = [json.loads(line) for line in stored.read_text(encoding="utf-8").splitlines()]
    if not options.show:
        begin, known = time.monotonic(), {row["case"]["seed"] for row in rows}
        for seed in range(options.first, options.first + options.cases):
            if time.monotonic() - begin > 60 * options.minutes:
                break
            if seed in known:
                continue
            rows.append(measure(Case.random(seed)))
            if options.out:
                with options.out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(rows[-1]) + "\n")
    print(*summary(rows), sep="\n")


if __name__ == "__main__":
    main()
