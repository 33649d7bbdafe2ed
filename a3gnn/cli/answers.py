"""The types of the answers that commands print with --json, by command: the source of `a3gnn schema` and of its page.

Answers are made by `to_dict` of the named classes. A typed dict here is the answer of a command that adds to them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Never, NotRequired, TypedDict

from a3gnn.characteristics import GraphCharacteristics
from a3gnn.cli.json_schema import Changed
from a3gnn.config import TrainConfig
from a3gnn.errors import Problem
from a3gnn.graphs.verify import Finding
from a3gnn.hardware import Hardware, MachineProfile
from a3gnn.hitgnn.algorithms.predict import AlgorithmEstimate
from a3gnn.hitgnn.hls.check import Check
from a3gnn.hitgnn.hls.simulation import CycleComparison
from a3gnn.hitgnn.platforms.explore import AtBeta, AtDevices
from a3gnn.hitgnn.platforms.performance import Conditions
from a3gnn.limits import Limits
from a3gnn.measurement import Failure, Metrics
from a3gnn.metric import Metric
from a3gnn.objectives import Priority
from a3gnn.profiling.cluster.connection import MachineKind
from a3gnn.profiling.store.check import Fault
from a3gnn.profiling.store.provenance import Holding
from a3gnn.report.front import Front
from a3gnn.report.rows import FrontRow
from a3gnn.storage.cache_content import Entry
from a3gnn.training.result import TrainResult
from a3gnn.tuning.auto import AutoState
from a3gnn.tuning.beliefs.recommendation import CorpusCount, Forecast, Interval
from a3gnn.tuning.outcome.optuna_export import Exported
from a3gnn.tuning.outcome.result import SearchSummary
from a3gnn.tuning.outcome.status import TuneStatus
from a3gnn.tuning.study.choice import NoGain
from a3gnn.tuning.study.comparison import Comparison
from a3gnn_surrogate.evaluate import ModelCard

#: An object whose fields another page of the docs describes.
Fields = dict[str, Any]


class TuneAnswer(TypedDict):
    """The result of a tune."""

    config: Annotated[TrainConfig, "The chosen configuration."]
    predicted: Annotated[dict[str, Interval], "Mean, low and high of each metric before the choice was measured."]
    measured: Annotated[Metrics | None, "The choice in the verification."]
    default: Annotated[Metrics | Failure | None, "The baseline in the verification."]
    target_accuracy: Annotated[float | None, "Validation quality, in [0, 1], whose seconds count."]
    seconds_to_accuracy: Annotated[
        dict[str, float] | None, "Seconds of training to the target: median, low, high; null if it was not reached."
    ]
    against_default: Annotated[
        Comparison | None, "The choice compared with the baseline; null if the baseline is the choice."
    ]
    no_gain: Annotated[
        Annotated[NoGain, Changed(against=Never, against_default=Comparison)] | None,
        "The best other configuration, if the baseline was chosen because no gain was measurable.",
    ]
    left_out: Annotated[list[str], "Steps that the budget was too small for."]
    heuristics: NotRequired[Annotated[Fields, "Qualities of predictions without a network, by name."]]
    metric: Annotated[Metric, "The metric of all qualities."]
    front: Annotated[list[FrontRow], "The configurations of the front."]
    search: Annotated[SearchSummary, "Statistics of the search."]
    probes: Annotated[int, "Number of trials after the baseline."]
    seconds: Annotated[float, "Seconds of the tune, interrupted runs included."]
    folder: Annotated[str, "The folder with tuned.json, which a3gnn train takes."]


class TunedKinds(TypedDict):
    """The results of tunes on several kinds of machines (--machines)."""

    machines: Annotated[
        list[Fields], "The kinds, the best first: name, folder, and the tune as in compare, or the error."
    ]
    no_best: Annotated[str, 'Why no kind is the best; "" if the first one is.']


class TunesStatus(TypedDict):
    """The tunes in a folder such as runs, or the DIR of --machines."""

    tunes: Annotated[list[TuneStatus], "The status of each, by the names of their folders."]


class RecommendAnswer(TypedDict):
    """A recommended configuration, predicted and not measured."""

    config: Annotated[TrainConfig, "The configuration with the best prediction."]
    measured: Annotated[None, "Null, because nothing was measured."]
    predicted: Annotated[Forecast, "Its predictions; `keeps` has the probability that each limit holds."]
    default: Annotated[Forecast, "Predictions for the baseline."]
    priority: Annotated[Priority, "The weights of the request."]
    limits: Annotated[Limits, Changed(max_accuracy_drop=float), "The limits of the request."]
    graph: Annotated[str, "The graph's name."]
    corpus: Annotated[CorpusCount, "The measurements behind the predictions."]
    unknown: Annotated[list[str], "What the predictions can't know, a sentence each."]
    folder: Annotated[str | None, "The folder with tuned.json; null without --out."]


class OverDefault(TypedDict):
    """Ratios of a pick and the baseline, larger than 1 if the pick is better; null if unknown."""

    throughput: Fields | None
    time: Fields | None


class PickAnswer(TypedDict):
    """A pick from the measurements of a tune."""

    config: Annotated[TrainConfig, "The picked configuration."]
    priority: Annotated[Priority, "The weights of the request."]
    limits: Annotated[Limits, "The limits of the request."]
    target_accuracy: Annotated[float | None, "Validation quality, in [0, 1], whose seconds count."]
    is_choice: Annotated[bool, "Whether it is the tune's own choice."]
    in_play_off: Annotated[bool, "Whether the verification measured it."]
    picked: Annotated[FrontRow, "Its measurements."]
    default: Annotated[FrontRow | None, "The baseline's measurements."]
    over_default: Annotated[OverDefault, "Ratios to the baseline."]
    doubts: Annotated[list[str], "Reasons to doubt it, a sentence each."]
    folder: Annotated[str, "The folder of the tune."]
    file: Annotated[str, "The written file, which a3gnn train --config takes."]


class Package(TypedDict):
    """A Python package."""

    name: Annotated[str, "Its name."]
    version: Annotated[str | None, "Its version; null if it is not installed."]
    purpose: Annotated[str, "Its use in a3gnn."]
    required: Annotated[bool, "Whether a3gnn always needs it."]
    install: Annotated[str, "The command that installs it."]


class Device(TypedDict):
    """A GPU."""

    name: str
    memory_bytes: int


class Probe(TypedDict):
    """Measurements of the machine, made by --probe."""

    fingerprint: Annotated[str, "Fingerprint of the machine."]
    kept_at: Annotated[str, "The file with the measurements."]
    limits: Annotated[MachineProfile, "The measured speeds."]


class Fit(TypedDict):
    """A configuration of the graph, and the memory that it is predicted to need."""

    name: Annotated[
        Literal["baseline", "fastest", "smallest"],
        "baseline, fastest (by the default priority), or smallest (least memory).",
    ]
    config: Annotated[TrainConfig, "The configuration."]
    peak: Annotated[Interval, "Predicted peak of the limited memory, in bytes, with a 90% interval."]
    limit_bytes: Annotated[int, "The smallest --memory-limit that the whole interval keeps."]


class TypedGraph(TypedDict):
    """A graph of several types or with times."""

    node_types: Annotated[dict[str, Fields], "Nodes, features and times of each type."]
    relations: Annotated[dict[str, Fields], "Edges, mean in-degree, features and times of each relation."]
    notes: Annotated[list[str], "Remarks on the graph as it was read."]


#: A graph of one type, or with a target: its characteristics, and the columns of its edges' values.
OneGraph = Annotated[
    GraphCharacteristics,
    Changed(notes=list[str], edge_attr=NotRequired[int], edge_weight=NotRequired[int]),
]


class Preflight(TypedDict):
    """What a graph needs, without a trial."""

    dataset: Annotated[str, "The graph, as given."]
    readable: Annotated[bool, "Whether it can be read."]
    about: Annotated[OneGraph | TypedGraph | None, "Its characteristics; null if it can't be read."]
    memory: Annotated[Literal["host", "device"], "The limited memory: device with a GPU, else host."]
    fits: Annotated[list[Fit], "The configurations and the memory that they need."]
    problem: Annotated[Problem | None, "Why it can't be read, or why nothing is predicted; null otherwise."]


class DoctorAnswer(TypedDict):
    """This machine, its packages, and the preflight of a graph."""

    a3gnn: Annotated[str, "The version."]
    python: Annotated[str, "The version of Python."]
    system: Annotated[str, "The operating system."]
    unsupported: Annotated[str, 'Why a3gnn does not run here; "" if it does.']
    cpu: Annotated[str, "The processor's name."]
    cores: Annotated[int, "Cores that this process may use."]
    instruction_sets: Annotated[list[str], "Instruction sets of the processor."]
    cache_bytes: Annotated[list[int], "Sizes of its caches, the fastest first."]
    host_memory_bytes: Annotated[int, "Memory that this process may use."]
    devices: Annotated[list[Device], "The GPUs."]
    packages: Annotated[list[Package], "The packages."]
    probe: Annotated[Probe | None, "The machine's speeds, with --probe."]
    graph: Annotated[Preflight | None, "The preflight of --dataset."]


class PredictAnswer(TypedDict):
    """Written predictions."""

    file: Annotated[str, "The .npy file."]
    target: Annotated[Literal["classes", "labels", "values", "links"], "Kind of the model's labels."]
    shape: Annotated[list[int], "The array's shape."]


class FileAnswer(TypedDict):
    """A written file."""

    file: str


class FolderAnswer(TypedDict):
    """A written folder."""

    folder: str


class VerifyAnswer(TypedDict):
    """The files of a converted graph."""

    folder: str
    files: list[Finding]


class PulledAnswer(TypedDict):
    """A copied study."""

    folder: Annotated[str, "Its folder on this machine."]
    trials: Annotated[int, "Number of its trials."]


class ProfileAnswer(TypedDict):
    """Measured configurations."""

    store: Annotated[str, "The store with the measurements."]
    configurations: Annotated[int, "Number of configurations."]
    measured: Annotated[int, "Number that were measured now."]
    skipped: Annotated[int, "Number that were stored before."]
    failed: Annotated[dict[str, int], "Number of failures of each kind."]


class ProfilesAnswer(TypedDict):
    """Stored measurements."""

    sources: Annotated[
        dict[str, list[Annotated[Holding, Changed(hardware=str)]]],
        "The measurements of each source, by graph, model and machine (a fingerprint).",
    ]
    machines: Annotated[
        dict[str, Annotated[Hardware, Changed(profile=Never, limits=MachineProfile, fingerprint=str)]],
        "The machines, by fingerprint.",
    ]


class CheckedAnswer(TypedDict):
    """Checked rows."""

    rows: Annotated[dict[str, int], "Number of rows of each place."]
    faults: Annotated[dict[str, list[Fault]], "The faults of each place."]


class ExportedRows(TypedDict):
    """Exported rows."""

    file: str
    rows: int


class ImportedRows(TypedDict):
    """Imported rows."""

    store: Annotated[str, "The store that they were added to."]
    added: Annotated[int, "Number of rows that it did not have."]
    rows: Annotated[int, "Number of rows of the file."]


class CacheAnswer(TypedDict):
    """The cache folder."""

    folder: str
    total_bytes: int
    entries: list[Entry]


class CleanedAnswer(TypedDict):
    """Removed items of the cache folder; the items to remove with --dry-run."""

    removed: list[Entry]
    freed_bytes: int
    dry_run: bool


class Part(TypedDict):
    """A part of a graph."""

    nodes: int
    edges: int
    cut_edges: int
    bytes: int


class PartsAnswer(TypedDict):
    """Parts of a graph, in order."""

    folder: str
    parts: list[Part]


class MachinesAnswer(TypedDict):
    """Machines of a cluster."""

    kinds: Annotated[list[Annotated[MachineKind, Changed(name=str)]], "The machines by kind."]
    studies: Annotated[dict[str, int], "Number of running studies of each node."]


class ExploreAnswer(TypedDict):
    """Explored accelerator designs (docs/research/accelerators.md)."""

    platform: Annotated[Fields, "The platform."]
    conditions: Annotated[Conditions, "The conditions of an iteration."]
    ceiling: Annotated[float, "Share of each resource that a design may take."]
    design: Annotated[dict[str, int] | None, "n and m of the chosen design of an FPGA."]
    nvtps: Annotated[float, "Vertices traversed per second, mean over workloads."]
    nvtps_per_gb_per_s: Annotated[float, "`nvtps` over the bandwidth of all memory."]
    resources: NotRequired[Annotated[str, "Source of the fitted resources of an FPGA."]]
    dies: Annotated[list[Fields], "All designs of each kind of die."]
    workloads: Annotated[list[Fields], "Predictions per workload."]
    betas: Annotated[list[AtBeta], "The influence of the share of local rows."]
    scaling: Annotated[list[AtDevices], "The influence of the number of devices."]
    seconds: Annotated[float, "Seconds of the exploration."]
    algorithms: NotRequired[Annotated[list[AlgorithmEstimate], "Predictions per algorithm, with --algorithms."]]


class GeneratedAnswer(TypedDict):
    """A generated accelerator."""

    folder: Annotated[str, "Its folder."]
    files: Annotated[list[str], "Its files."]
    checks: Annotated[
        list[
            Annotated[
                Check,
                Changed(
                    passed=bool,
                    forward=float | None,
                    backward=float | None,
                    cycles=list[Annotated[CycleComparison, Changed(modelled=float)]],
                ),
            ]
        ],
        "The results of --check.",
    ]


def answers() -> Mapping[str, Any]:
    """Returns the type of each command's answer, by the words after `a3gnn`; `error` is the type of an error."""
    auto = Annotated[AutoState, Changed(total_s=float)]
    return {
        "tune": TuneAnswer | TunedKinds,
        "recommend": RecommendAnswer,
        "train": Annotated[TrainResult, Changed(folder=Path, auto=NotRequired[auto])],
        "report": FileAnswer,
        "status": TuneStatus | TunesStatus,
        "stop": TuneStatus | TunesStatus,
        "front": Front,
        "pick": PickAnswer,
        **({"compare": _compare()} if importlib.util.find_spec("fastapi") else {}),
        "pull": PulledAnswer,
        "predict": PredictAnswer,
        "export": Exported,
        "graph convert": FolderAnswer,
        "graph info": OneGraph | TypedGraph,
        "graph verify": VerifyAnswer,
        "profile": ProfileAnswer,
        "profiles list": ProfilesAnswer,
        "profiles check": CheckedAnswer,
        "profiles export": ExportedRows,
        "profiles import": ImportedRows,
        "surrogate card": ModelCard,
        "cache info": CacheAnswer,
        "cache clean": CleanedAnswer,
        "doctor": DoctorAnswer,
        "parts make": PartsAnswer,
        "machines": MachinesAnswer,
        "explore": ExploreAnswer,
        "accelerator generate": GeneratedAnswer,
        "error": Problem,
    }


def _compare() -> Any:
    """Returns the type of `compare`: the service's answer without the numbers and names of its studies."""
    from a3gnn.service.http.answers import CompareAnswer, ComparedStudy

    tunes = list[Annotated[ComparedStudy, Changed(study=Never, name=Never)]]
    return Annotated[CompareAnswer, Changed(tunes=tunes)]
