"""Ask and tell: studies whose trials the user's own trainer runs."""

from __future__ import annotations

import time
from typing import Annotated

from anyio import sleep, to_thread
from fastapi import APIRouter, Query, Response

from a3gnn.notify import LOOK_S
from a3gnn.service.http.answers import PROBLEMS, Asked, CompletedAnswer, Number, SuggestedAnswer, answers, json_answer
from a3gnn.service.http.problems import conflict
from a3gnn.service.jobs.home import JobFolder
from a3gnn.service.jobs.job import Job
from a3gnn.service.service import Service
from a3gnn.service.studies.orders import TellOrder
from a3gnn.service.studies.told_trials import Suggestions

router = APIRouter(tags=["ask and tell"], responses=PROBLEMS)


@router.post("/studies/{study}/suggestions", summary="Get the next suggested trial", responses=answers(SuggestedAnswer))
async def ask(service: Asked, study: Number, wait: Annotated[float, Query(ge=0, le=60)] = 10) -> Response:
    """Returns the trial that waits for figures, after at most `wait` seconds; null if there is none by then."""
    end = time.monotonic() + wait
    while True:
        job, folder = await to_thread.run_sync(_told_study, service, study)
        found = Suggestions(folder.asked).open() if job.status == "running" else None
        if found is not None or not job.active or time.monotonic() >= end:
            return json_answer({"suggestion": found, "status": job.to_dict()["status"]})
        await sleep(LOOK_S)


@router.post(
    "/studies/{study}/trials/{trial}/complete",
    summary="Report the figures of a suggested trial",
    responses=answers(CompletedAnswer),
)
def tell(service: Asked, study: Number, trial: Number, order: TellOrder) -> Response:
    """Takes the figures of a trial, or its failure. The next suggestion follows."""
    job, folder = _told_study(service, study)
    if job.status != "running":
        raise conflict(f"study {study} is {job.status}, so it takes no figures")
    Suggestions(folder.asked).tell(trial, order.model_dump(mode="json"))
    return json_answer({"number": trial})


def _told_study(service: Service, study: int) -> tuple[Job, JobFolder]:
    job, folder = service.job("study", study)
    if not job.is_told:
        raise conflict(
            f'study {study} runs its own trials, so it suggests none; start a study with "trainer": "client"'
        )
    Suggestions(folder.asked).note_client()
    return job, folder
