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
    """The result of a tune.

    Attributes:
        config: The chosen configuration.
        predicted: Mean, low and high of each metric before the choice was measured.
        measured: The choice in the verification.
        default: The baseline in the verification.
        target_accuracy: Validation quality, in [0, 1], whose seconds count.
        seconds_to_accuracy: Seconds of training to the target: median, low, high; null if it was not reached.
        against_default: The choice compared with the baseline; null if the baseline is the choice.
        no_gain: The best other configuration, if the baseline was chosen because no gain was measurable.
        left_out: Steps that the budget was too small for.
        heuristics: Qualities of predictions without a network, by name.
        metric: The metric of all qualities.
        front: The configurations of the front.
        search: Statistics of the search.
        probes: Number of trials after the baseline.
        seconds: Seconds of the tune, interrupted runs included.
        folder: The folder with tuned.json, which a3gnn train takes.
    """

    config: TrainConfig
    predicted: dict[str, Interval]
    measured: Metrics | None
    default: Metrics | Failure | None
    target_accuracy: float | None
    seconds_to_accuracy: dict[str, float] | None
    against_default: Comparison | None
    no_gain: Annotated[NoGain, Changed(against=Never, against_default=Comparison)] | None
    left_out: list[str]
    heuristics: NotRequired[Fields]
    metric: Metric
    front: list[FrontRow]
    search: SearchSummary
    probes: int
    seconds: float
    folder: str


class TunedKinds(TypedDict):
    """The results of tunes on several kinds of machines (--machines).

    Attributes:
        machines: The kinds, the best first: name, folder, and the tune as in compare, or the error.
        no_best: Why no kind is the best; "" if the first one is.
    """

    machines: list[Fields]
    no_best: str


class TunesStatus(TypedDict):
    """The tunes in a folder such as runs, or the DIR of --machines.

    Attributes:
        tunes: The status of each, by the names of their folders.
    """

    tunes: list[TuneStatus]


class RecommendAnswer(TypedDict):
    """A recommended configuration, predicted and not measured.

    Attributes:
        config: The configuration with the best prediction.
        measured: Null, because nothing was measured.
        predicted: Its predictions; `keeps` has the probability that each limit holds.
        default: Predictions for the baseline.
        priority: The weights of the request.
        limits: The limits of the request.
        graph: The graph's name.
        corpus: The measurements behind the predictions.
        unknown: What the predictions can't know, a sentence each.
        folder: The folder with tuned.json; null without --out.
    """

    config: TrainConfig
    measured: None
    predicted: Forecast
    default: Forecast
    priority: Priority
    limits: Annotated[Limits, Changed(max_accuracy_drop=float)]
    graph: str
    corpus: CorpusCount
    unknown: list[str]
    folder: str | None


class OverDefault(TypedDict):
    """Ratios of a pick and the baseline, larger than 1 if the pick is better; null if unknown."""

    throughput: Fields | None
    time: Fields | None


class PickAnswer(TypedDict):
    """A pick from the measurements of a tune.

    Attributes:
        config: The picked configuration.
        priority: The weights of the request.
        limits: The limits of the request.
        target_accuracy: Validation quality, in [0, 1], whose seconds count.
        is_choice: Whether it is the tune's own choice.
        in_play_off: Whether the verification measured it.
        picked: Its measurements.
        default: The baseline's measurements.
        over_default: Ratios to the baseline.
        doubts: Reasons to doubt it, a sentence each.
        folder: The folder of the tune.
        file: The written file, which a3gnn train --config takes.
    """

    config: TrainConfig
    priority: Priority
    limits: Limits
    target_accuracy: float | None
    is_choice: bool
    in_play_off: bool
    picked: FrontRow
    default: FrontRow | None
    over_default: OverDefault
    doubts: list[str]
    folder: str
    file: str


class Package(TypedDict):
    """A Python package.

    Attributes:
        name: Its name.
        version: Its version; null if it is not installed.
        purpose: Its use in a3gnn.
        required: Whether a3gnn always needs it.
        install: The command that installs it.
    """

    name: str
    version: str | None
    purpose: str
    required: bool
    install: str


class Device(TypedDict):
    """A GPU."""

    name: str
    memory_bytes: int


class Probe(TypedDict):
    """Measurements of the machine, made by --probe.

    Attributes:
        fingerprint: Fingerprint of the machine.
        kept_at: The file with the measurements.
        limits: The measured speeds.
    """

    fingerprint: str
    kept_at: str
    limits: MachineProfile


class Fit(TypedDict):
    """A configuration of the graph, and the memory that it is predicted to need.

    Attributes:
        name: baseline, fastest (by the default priority), or smallest (least memory).
        config: The configuration.
        peak: Predicted peak of the limited memory, in bytes, with a 90% interval.
        limit_bytes: The smallest --memory-limit that the whole interval keeps.
    """

    name: Literal["baseline", "fastest", "smallest"]
    config: TrainConfig
    peak: Interval
    limit_bytes: int


class TypedGraph(TypedDict):
    """A graph of several types or with times.

    Attributes:
        node_types: Nodes, features and times of each type.
        relations: Edges, mean in-degree, features and times of each relation.
        notes: Remarks on the graph as it was read.
    """

    node_types: dict[str, Fields]
    relations: dict[str, Fields]
    notes: list[str]


#: A graph of one type, or with a target: its characteristics, and the columns of its edges' values.
OneGraph = Annotated[
    GraphCharacteristics,
    Changed(notes=list[str], edge_attr=NotRequired[int], edge_weight=NotRequired[int]),
]


class Preflight(TypedDict):
    """What a graph needs, without a trial.

    Attributes:
        dataset: The graph, as given.
        readable: Whether it can be read.
        about: Its characteristics; null if it can't be read.
        memory: The limited memory: device with a GPU, else host.
        fits: The configurations and the memory that they need.
        problem: Why it can't be read, or why nothing is predicted; null otherwise.
    """

    dataset: str
    readable: bool
    about: OneGraph | TypedGraph | None
    memory: Literal["host", "device"]
    fits: list[Fit]
    problem: Problem | None


class DoctorAnswer(TypedDict):
    """This machine, its packages, and the preflight of a graph.

    Attributes:
        a3gnn: The version.
        python: The version of Python.
        system: The operating system.
        unsupported: Why a3gnn does not run here; "" if it does.
        cpu: The processor's name.
        cores: Cores that this process may use.
        instruction_sets: Instruction sets of the processor.
        cache_bytes: Sizes of its caches, the fastest first.
        host_memory_bytes: Memory that this process may use.
        devices: The GPUs.
        packages: The packages.
        probe: The machine's speeds, with --probe.
        graph: The preflight of --dataset.
    """

    a3gnn: str
    python: str
    system: str
    unsupported: str
    cpu: str
    cores: int
    instruction_sets: list[str]
    cache_bytes: list[int]
    host_memory_bytes: int
    devices: list[Device]
    packages: list[Package]
    probe: Probe | None
    graph: Preflight | None


class PredictAnswer(TypedDict):
    """Written predictions.

    Attributes:
        file: The .npy file.
        target: Kind of the model's labels.
        shape: The array's shape.
    """

    file: str
    target: Literal["classes", "labels", "values", "links"]
    shape: list[int]


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
    """A copied study.

    Attributes:
        folder: Its folder on this machine.
        trials: Number of its trials.
    """

    folder: str
    trials: int


class ProfileAnswer(TypedDict):
    """Measured configurations.

    Attributes:
        store: The store with the measurements.
        configurations: Number of configurations.
        measured: Number that were measured now.
        skipped: Number that were stored before.
        failed: Number of failures of each kind.
    """

    store: str
    configurations: int
    measured: int
    skipped: int
    failed: dict[str, int]


class ProfilesAnswer(TypedDict):
    """Stored measurements.

    Attributes:
        sources: The measurements of each source, by graph, model and machine (a fingerprint).
        machines: The machines, by fingerprint.
    """

    sources: dict[str, list[Annotated[Holding, Changed(hardware=str)]]]
    machines: dict[str, Annotated[Hardware, Changed(profile=Never, limits=MachineProfile, fingerprint=str)]]


class CheckedAnswer(TypedDict):
    """Checked rows.

    Attributes:
        rows: Number of rows of each place.
        faults: The faults of each place.
    """

    rows: dict[str, int]
    faults: dict[str, list[Fault]]


class ExportedRows(TypedDict):
    """Exported rows."""

    file: str
    rows: int


class ImportedRows(TypedDict):
    """Imported rows.

    Attributes:
        store: The store that they were added to.
        added: Number of rows that it did not have.
        rows: Number of rows of the file.
    """

    store: str
    added: int
    rows: int


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
    """Machines of a cluster.

    Attributes:
        kinds: The machines by kind.
        studies: Number of running studies of each node.
    """

    kinds: list[Annotated[MachineKind, Changed(name=str)]]
    studies: dict[str, int]


class ExploreAnswer(TypedDict):
    """Explored accelerator designs (docs/research/accelerators.md).

    Attributes:
        platform: The platform.
        conditions: The conditions of an iteration.
        ceiling: Share of each resource that a design may take.
        design: n and m of the chosen design of an FPGA.
        nvtps: Vertices traversed per second, mean over workloads.
        nvtps_per_gb_per_s: `nvtps` over the bandwidth of all memory.
        resources: Source of the fitted resources of an FPGA.
        dies: All designs of each kind of die.
        workloads: Predictions per workload.
        betas: The influence of the share of local rows.
        scaling: The influence of the number of devices.
        seconds: Seconds of the exploration.
        algorithms: Predictions per algorithm, with --algorithms.
    """

    platform: Fields
    conditions: Conditions
    ceiling: float
    design: dict[str, int] | None
    nvtps: float
    nvtps_per_gb_per_s: float
    resources: NotRequired[str]
    dies: list[Fields]
    workloads: list[Fields]
    betas: list[AtBeta]
    scaling: list[AtDevices]
    seconds: float
    algorithms: NotRequired[list[AlgorithmEstimate]]


class GeneratedAnswer(TypedDict):
    """A generated accelerator.

    Attributes:
        folder: Its folder.
        files: Its files.
        checks: The results of --check.
    """

    folder: str
    files: list[str]
    checks: list[
        Annotated[
            Check,
            Changed(
                passed=bool,
                forward=float | None,
                backward=float | None,
                cycles=list[Annotated[CycleComparison, Changed(modelled=float)]],
            ),
        ]
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
