"""The head of a study's page: its name, state, progress, last line, buttons and trainings, as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from a3gnn.service.jobs.home import JobFolder
from a3gnn.service.jobs.job import Job
from a3gnn.service.pages.frame import for_people, render
from a3gnn.service.studies import study_files
from a3gnn.units import count, format_duration, parse_budget

#: Phases of a tune in words: of the files of a study, and of the head's status.
_PHASES = {"baseline": "baseline", "search": "exploring", "verify": "verifying"}
_STATUSES = {"baseline": "measuring the baseline"}
_FILES = {"tuned.json": "the choice", "tuned.csv": "the front", "tuned.html": "this page"}


def study_head(
    study: Job, folder: JobFolder, trainings: Sequence[Job], wrong: str = "", ahead: int = 0
) -> dict[str, Any]:
    """Returns the head as JSON types.

    Args:
        study: The study.
        folder: Its folder.
        trainings: The trainings with its choice.
        wrong: Error text of the last action; "" if there is none.
        ahead: Number of jobs that begin before a study in the queue.

    Returns:
        name, state, status, time, line (texts); phases (all names) and phase (the present one's, or ""); progress (a
        share of the budget, or None); active (whether the page may still change); has_begun (whether it has views);
        trials (their number); events (the id of the last event); and the HTML of alert, actions and trainings.
    """
    state, has_chosen = str(study.to_dict()["status"]), (folder.run / "tuned.json").exists()
    trials = study_files.trials(folder)
    failed = sum("failure" in trial["measurement"] for trial in trials)
    progress, time = used_budget(study, folder)
    line = str(study_files.summary(folder)["line"])
    first = "compiling" if line.startswith("compiling") else "preparing"
    phase = "" if study.status != "running" else _PHASES.get(study_files.phase(folder, study.started or 0.0), first)
    said = wrong or for_people(str((study.error or {}).get("detail", "")))
    return {
        "name": f"{study.name} (study {study.id})",
        "state": state,
        "status": _status(state, phase, len(trials)),
        "phase": phase,
        "phases": [first, *_PHASES.values()],
        "time": time,
        "progress": progress,
        "line": _waits(study, ahead) if study.status == "queued" else line,
        "active": study.active or any(training.active for training in trainings),
        "running": study.active,
        "has_begun": study_files.has_begun(folder),
        "trials": len(trials),
        "events": folder.events.size,
        "alert": render("alert.html", said=said),
        "actions": render(
            "actions.html",
            active=study.active,
            has_chosen=has_chosen,
            failures=count(failed, "failed trial") if failed else "",
            files=_FILES if has_chosen else {},
            path=f"/studies/{study.id}",
        ),
        "trainings": render("trainings.html", trainings=[_training(one) for one in trainings]),
    }


def budget_of(study: Job) -> float:
    """Returns the budget in trials, an int, or in seconds, a float."""
    budget = study.arguments["budget"]
    return budget if isinstance(budget, int) else parse_budget(str(budget))


def _status(state: str, phase: str, trials: int) -> str:
    parts = [_STATUSES.get(phase, phase)] if phase else []
    parts += [count(trials, "trial")] if trials else []
    return f"{state}: {', '.join(parts)}" if parts else state


def _waits(study: Job, ahead: int) -> str:
    """Returns what a study in the queue waits for."""
    then = f"after {count(ahead, 'other job')}" if ahead else "next"
    return f"Study {study.id} is queued and begins {then}."


def _training(training: Job) -> dict[str, Any]:
    shown, error = training.to_dict(), (training.error or {}).get("detail")
    said = shown.get("line", "") if error is None else for_people(str(error))
    return {"id": training.id, "status": shown["status"], "said": said}


def used_budget(study: Job, folder: JobFolder) -> tuple[float | None, str]:
    """Returns the used share of the budget of a study that runs (None for others), and that in words, for the list."""
    budget, (counted, elapsed_s) = budget_of(study), study_files.used(folder, study)
    if elapsed_s is None:
        return None, ""
    taken = format_duration(elapsed_s)
    if isinstance(budget, int):
        share, words = counted / budget, f"{min(counted, budget)} of {count(budget, 'trial')}, {taken} taken"
    else:
        share, words = elapsed_s / budget, f"{taken} of {format_duration(budget)} taken"
    return (round(min(share, 1.0), 4) if study.status == "running" else None), words
