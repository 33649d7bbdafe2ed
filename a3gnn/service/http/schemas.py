"""The answers of the API, as /openapi.json describes them. A test holds the server's answers against them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

#: An object that another page of the docs describes.
Fields = dict[str, Any]


class GraphAnswer(BaseModel):
    """A registered graph."""

    id: int
    name: str
    origin: Literal["path", "upload", "synthetic"]
    source: str = Field(description="The dataset, as the user named it.")
    fingerprint: str = Field(description="Fingerprint of its content.")
    created: float = Field(description="Time of registration, in seconds since 1970.")
    about: Fields = Field(description="Its characteristics, and notes on what was changed as it was read.")


class GraphsAnswer(BaseModel):
    """Graphs, newest first."""

    graphs: list[GraphAnswer]


class _JobAnswer(BaseModel):
    id: int
    name: str
    graph: int = Field(description="The number of its graph.")
    arguments: Fields = Field(description="Its options.")
    status: Literal["queued", "running", "stopping", "finished", "stopped", "failed"]
    created: float = Field(description="Time of the request, in seconds since 1970.")
    started: float | None = Field(description="Time when it last began.")
    ended: float | None = Field(description="Time when it last ended.")
    deleted: float | None = Field(None, description="Time when it went to the trash.")
    error: Fields | None = Field(description="The problem that made it fail, as in RFC 9457.")
    line: str = Field("", description="The last line of output.")


class StudyAnswer(_JobAnswer):
    """A study."""

    kind: Literal["study"]
    study: None
    trials: int = Field(0, description="Trials so far.")
    chosen: str = Field("", description="The choice in words, once there is one.")
    against_default: Fields | None = Field(None, description="The choice compared with the baseline, as in tuned.json.")
    no_gain: Fields | None = Field(
        None, description="The best other configuration, if nothing gains over the baseline."
    )


class StudiesAnswer(BaseModel):
    """Studies, newest first."""

    studies: list[StudyAnswer]


class ComparedStudy(BaseModel):
    """A study of a comparison."""

    study: int = Field(description="The number of the study.")
    name: str
    letter: str = Field(description="Its name in the sentences of `caveats`.")
    folder: str
    finished: bool
    graph: str = Field(description="The name of its graph.")
    graph_fingerprint: str
    machine: str = Field(description="Fingerprint of the machine.")
    trained: str = Field(description="The task in words.")
    metric: str
    priority: str
    memory_limit: int | str | None
    host_memory_limit: int | None
    max_accuracy_drop: float
    target: float | None = Field(description="The validation quality to reach.")
    budget: float = Field(description="Trials, or seconds.")
    trials: int = Field(description="Trials after the baseline.")
    seconds: float
    version: str
    config: Fields | None = Field(description="The choice, or the best measured so far.")
    default: Fields | None = Field(description="Figures of the baseline.")
    choice: Fields | None = Field(description="Figures of `config`.")
    over_default: Fields | None = Field(
        description="The choice over the baseline: ratios with the ranges of their medians."
    )
    no_gain: Fields | None = Field(description="The best other configuration, if nothing gains over the baseline.")
    differs: bool | None = Field(description="Whether the choice is measurably better; null before the verification.")


class CompareAnswer(BaseModel):
    """Studies side by side, in the order of the request."""

    tunes: list[ComparedStudy]
    knobs: dict[str, list[Any]] = Field(description="The knobs that differ, each with its value per study.")
    caveats: list[str] = Field(description="What does not compare, a sentence each.")


class TrainingAnswer(_JobAnswer):
    """A training."""

    kind: Literal["training"]
    study: int = Field(description="The number of the study whose choice it trains.")


class TrainingsAnswer(BaseModel):
    """Trainings, newest first."""

    trainings: list[TrainingAnswer]


class TrialAnswer(BaseModel):
    """A trial as measured."""

    number: int
    reason: str = Field(description="Why it ran: default, best, front or smallest.")
    predicted: Fields = Field(description="Mean, low and high of each metric, predicted before it ran.")
    measurement: Fields = Field(description="Configuration, setting, and either metrics or a failure.")
    drift: float = Field(description="The machine's speed over its speed in the baseline's trial.")


class TrialsAnswer(BaseModel):
    """Trials of a study."""

    trials: list[TrialAnswer]
    total: int = Field(description="Number of trials that match, whatever the limit.")


class SuggestionAnswer(BaseModel):
    """A trial that waits for figures."""

    number: int
    config: Fields
    plan: Fields
    task: Fields


class SuggestedAnswer(BaseModel):
    """The next trial of a study whose trials the client runs."""

    suggestion: SuggestionAnswer | None = Field(description="null if none waits for figures.")
    status: str = Field(description="The study's status.")


class CompletedAnswer(BaseModel):
    """The trial whose figures were taken."""

    number: int


class FilesAnswer(BaseModel):
    """The files of a study."""

    files: dict[str, int] = Field(description="Bytes of each file.")


class ProfilesAnswer(BaseModel):
    """The stored measurements."""

    profiles: list[Fields] = Field(description="Counts by graph, model and machine.")
    rows: int


class AddedAnswer(BaseModel):
    """The measurements that were added."""

    added: int = Field(description="Rows that the store did not have.")
    rows: int = Field(description="Rows of the request.")


class MachinesAnswer(BaseModel):
    """Machines with measurements."""

    machines: list[Fields]


class HealthAnswer(BaseModel):
    """The server's health."""

    status: Literal["ok"]
    version: str
