"""A trial's learning curve, from real trainings whose mini-batches are counted."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from a3gnn.config import TrainConfig
from a3gnn.graphs.graph import Graph
from a3gnn.hardware import Hardware
from a3gnn.learning_curve import FOLLOWING, NO_CURVE, CurveEnd, LearningCurve, Pace
from a3gnn.profiling.request import CurvePlan, CurveRules, TrialPlan, TrialRequest
from a3gnn.profiling.trial import EVALUATIONS, learn
from a3gnn.setting import Setting
from a3gnn.task import Task
from a3gnn.training.step import Step
from a3gnn.training.trainer import Trainer, TrainerOptions

TASK = Task(hidden_channels=16, fanouts=(5, 5))
CONFIG = TrainConfig(batch_size=16)
#: A mini-batch a second, at once.
PACE = Pace(0.0, 1.0)
LONG, SHORT = CurvePlan(100.0), CurvePlan(40.0)
#: Mini-batches that a rehearsal trains for so many evaluations.
REHEARSED = (0, 2, 4, 6, 12)


class CountingTrainer(Trainer):
    """Counts what it trains on and evaluates, and may fail at a mini-batch."""

    trained = validated = tested = 0
    fails_at: int | None = None

    def steps(self, epoch: int, start: int = 0) -> Generator[Step, None, None]:
        for step in super().steps(epoch, start):
            self.trained += 1
            if self.trained == self.fails_at:
                raise KeyboardInterrupt
            yield step

    def validate(self) -> float:
        self.validated += 1
        return super().validate()

    def test(self) -> float:
        self.tested += 1
        return super().test()


class Learnt:
    """What a trial learns, and what that took."""

    def __init__(self, fields: dict[str, object], trainer: CountingTrainer) -> None:
        assert isinstance(fields["curve"], dict)
        self.fields, self.curve = fields, LearningCurve.from_dict(fields["curve"])
        self.trained, self.validated, self.tested = trainer.trained, trainer.validated, trainer.tested


Run = Callable[..., Learnt]


@pytest.fixture
def run(tiny_folder_graph: Graph, this_machine: Hardware, tmp_path: Path) -> Run:
    """Learns as a plan says, with what is known; the state is kept in `tmp_path`."""

    def learning(
        plan: CurvePlan,
        known: LearningCurve | None = None,
        state: str = "state.pt",
        fails_at: int | None = None,
        limit: int | None = None,
        **changes: object,
    ) -> Learnt:
        setting = Setting(TASK, tiny_folder_graph.characteristics(), this_machine)
        place = str(tmp_path / state) if state else ""
        config = CONFIG.replace(**changes).canonical()
        request = TrialRequest(config, setting, "", TrialPlan(curve=plan, host_limit_bytes=limit), known, place)
        with CountingTrainer(tiny_folder_graph, config, TASK, TrainerOptions(scratch=tmp_path)) as trainer:
            trainer.fails_at = fails_at
            return Learnt(learn(trainer, CurveRules(plan, PACE, trainer.batches_per_epoch), request), trainer)

    return learning


def test_a_curve_is_extended_and_never_trained_again(run: Run) -> None:
    once = run(LONG, state="")
    assert once.trained == once.curve.trained > 60
    assert once.validated == len(once.curve.batches) >= 10
    assert once.fields["curve_first"] == once.curve.batches[0]
    assert once.fields["test_accuracy"] is None
    short = run(SHORT)
    assert short.trained == short.curve.trained <= 40
    longer = run(LONG, short.curve, parallel_mode="mode2", num_workers=2, feature_tier="disk")
    assert longer.curve == once.curve
    assert longer.trained == once.trained - short.trained
    assert longer.validated == once.validated - short.validated


def test_a_curve_that_is_known_is_rehearsed_for_its_memory(run: Run) -> None:
    known = run(LONG, state="").curve
    again = run(SHORT, known)
    assert again.curve == dataclasses.replace(known, ended=CurveEnd.BUDGET)
    assert (again.trained, again.validated) == (REHEARSED[EVALUATIONS], EVALUATIONS)
    slower = run(dataclasses.replace(LONG, least_throughput=1e9), known)
    assert slower.curve == dataclasses.replace(known, ended=CurveEnd.SLOWER)
    assert (slower.trained, slower.validated) == (REHEARSED[EVALUATIONS], EVALUATIONS)
    assert slower.fields["rehearsal_seconds"] > 0
    unknown = run(dataclasses.replace(LONG, least_throughput=1e9))
    assert unknown.curve == dataclasses.replace(NO_CURVE, ended=CurveEnd.SLOWER)
    assert unknown.fields["curve_first"] == known.batches[0]


def test_under_a_limit_test_nodes_are_evaluated_once_for_their_memory(run: Run) -> None:
    for plan in (SHORT, dataclasses.replace(SHORT, tests=True)):
        new = run(plan, state="", limit=1 << 50)
        assert (new.tested, new.fields["test_accuracy"] is not None) == (1, plan.tests)
        again = run(plan, new.curve, state="", limit=1 << 50)
        assert (again.tested, again.fields.get("test_accuracy")) == (1, None)
    assert run(SHORT, state="").tested == 0, "without a limit it does not matter"


def test_a_curve_with_few_new_points_is_rehearsed_for_the_rest(run: Run) -> None:
    known = run(LONG).curve
    extended = run(CurvePlan(known.batches[-1] + 12.0), known)
    new = len(extended.curve.batches) - len(known.batches)
    assert 0 < new < EVALUATIONS
    assert extended.validated == EVALUATIONS
    assert extended.trained == extended.curve.trained - known.trained + REHEARSED[EVALUATIONS - new]
    assert run(CurvePlan(10 * LONG.most_seconds), known).fields["rehearsal_seconds"] == 0


def test_a_state_that_has_come_further_than_is_known_is_believed(run: Run) -> None:
    once = run(LONG)
    again = run(SHORT)
    assert again.curve == once.curve
    assert (again.trained, again.validated) == (REHEARSED[EVALUATIONS], EVALUATIONS)


def test_a_target_ends_the_training(run: Run) -> None:
    known = run(LONG, state="").curve
    target = known.val_accuracy[3]
    reached = run(dataclasses.replace(LONG, target=target))
    count = known.first_reaching(target)
    kept = known.batches[known.batches.index(count) + FOLLOWING]  # so many points must keep it
    assert (reached.curve.trained, reached.curve.ended) == (kept, CurveEnd.TARGET)
    assert reached.trained == kept


@pytest.mark.parametrize("damage", ["missing", "cut short", "of another key"])
def test_without_its_state_a_curve_is_trained_from_its_start(run: Run, tmp_path: Path, damage: str) -> None:
    once = run(LONG, state="")
    short = run(SHORT)
    state = tmp_path / "state.pt"
    if damage == "missing":
        state.unlink()
    elif damage == "cut short":
        state.write_bytes(state.read_bytes()[:-100])
    else:
        run(SHORT, state="state.pt", batch_size=32)
    longer = run(LONG, short.curve)
    assert longer.curve == once.curve
    assert longer.trained == once.trained
    assert longer.validated == once.validated - short.validated


def test_what_is_killed_in_the_middle_goes_on_soundly(run: Run) -> None:
    once = run(LONG, state="")
    short = run(SHORT)
    with pytest.raises(KeyboardInterrupt):
        run(LONG, short.curve, fails_at=17)
    assert run(LONG, short.curve).curve == once.curve


def test_a_whole_training_begins_anew_and_is_tested_once(run: Run, tmp_path: Path) -> None:
    short = run(SHORT)
    before = (tmp_path / "state.pt").read_bytes()
    known = run(LONG, state="").curve
    whole = run(dataclasses.replace(SHORT, whole=True, tests=True), known)
    assert whole.curve == short.curve
    assert (whole.trained, whole.validated) == (short.trained, short.validated)
    assert isinstance(whole.fields["test_accuracy"], float)
    assert 0 <= whole.fields["test_accuracy"] <= 1
    assert (tmp_path / "state.pt").read_bytes() == before
