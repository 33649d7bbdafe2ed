"""Processes that tests start measure little; tunes in the tests' own process have the whole plan."""

from __future__ import annotations

import json
import subprocess
import sys

from a3gnn.figures import LEAST_PAIRS
from a3gnn.launch import QUICK
from a3gnn.profiling.request import TrialPlan
from a3gnn.profiling.timing import MOST_REPEATS
from a3gnn.tuning.run.blocks import MOST_BLOCKS, SEEDS
from a3gnn.tuning.study.study import COUNTED_S

PLAN = """
import json
from a3gnn.figures import LEAST_PAIRS
from a3gnn.profiling.request import TrialPlan
from a3gnn.profiling.timing import MOST_REPEATS
from a3gnn.tuning.run.blocks import MOST_BLOCKS, SEEDS
from a3gnn.tuning.study.study import COUNTED_S
trial = [TrialPlan().windows, TrialPlan().timed_seconds, MOST_REPEATS]
print(json.dumps([*trial, LEAST_PAIRS, SEEDS, MOST_BLOCKS, COUNTED_S]))
"""


def test_processes_that_tests_start_measure_little() -> None:
    ran = subprocess.run([sys.executable, "-c", PLAN], capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(ran.stdout) == [1, 0.1, 0, 1, 1, 1, 6.0]


def test_this_process_has_the_whole_plan() -> None:
    plan = TrialPlan()
    assert not QUICK
    assert (plan.windows, plan.timed_seconds, MOST_REPEATS) == (3, 2.0, 3)
    assert (LEAST_PAIRS, SEEDS, MOST_BLOCKS, COUNTED_S) == (5, 3, 15, 480.0)
