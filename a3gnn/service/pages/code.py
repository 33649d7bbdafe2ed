"""Commands, Python and curl that do what a page shows, ready to copy."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from a3gnn.checks import Size
from a3gnn.config import KNOBS
from a3gnn.search import entry_text
from a3gnn.service.graphs.shelf import NUMBERED, KnownGraph
from a3gnn.service.jobs.job import Job
from a3gnn.service.studies.orders import StudyOrder
from a3gnn.task import NUMBER_OPTIONS, Task

_JSON = "-H 'Content-Type: application/json'"
_SIZES = {knob.name for knob in KNOBS if isinstance(knob.domain, Size)}
#: Fields of a request whose names differ from those of the task.
_TASK_FIELDS = {
    **{field: name for name, field in NUMBER_OPTIONS.items()},
    **{name: name for name in ("model", "norm", "residual", "lr_schedule", "lr_epochs", "loss", "class_weights")},
    **{name: name for name in ("decoder", "negatives", "own_links", "pair_history")},
}


class Snippet(NamedTuple):
    """Text to copy."""

    language: str  # the heading
    text: str  # lines to copy


def study_code(study: Job, graph: KnownGraph, url: str, has_token: bool) -> list[Snippet]:
    """Returns how to get a study's results, and how to start it again.

    Args:
        study: The study.
        graph: Its graph.
        url: The server's address, as the browser knows it.
        has_token: Whether the server has a token, which is read from A3GNN_TOKEN.
    """
    number, asked = study.id, asked_of(study)
    folder, address = f"runs/study-{number}", f"{url}/studies/{number}"
    has_chosen = "chosen" in study.summary
    command = [f"a3gnn pull {url} {number} {folder}", f"a3gnn front {folder}"]
    command += [f"a3gnn train {folder}"] if has_chosen else []
    searched = [entry_text(name, entry) for name, entry in asked.get("search", {}).items()]
    if not study.is_told and None not in (*asked.get("fix", {}).values(), *searched):  # no option can say that
        command += ["# the same study again", _tune(asked, graph, url)]
    python = [
        *_client(url, has_token),
        f"study = client.study({number})",
        "tuned = study.tuned()" if has_chosen else "tuned = study.wait()",
        f'study.save("{folder}")',
        "# the same study again",
        _call("client.start", [str(graph.id)], asked),
    ]
    curl = [
        f"{_curl(has_token)} {address}",
        f"{_curl(has_token)} {'-OJ ' if has_chosen else '-N '}{address}/{'tuned.json' if has_chosen else 'events'}",
        "# the same study again",
        f"{_curl(has_token)} {url}/studies {_JSON} -d {shlex.quote(json.dumps({'graph': graph.id, **asked}))}",
    ]
    return _snippets(command, python, curl)


def training_code(training: Job, url: str, has_token: bool) -> list[Snippet]:
    """Returns how to get a training's model, and how to start it again."""
    address, options = f"{url}/trainings/{training.id}", dict(training.arguments)
    study = f"{url}/studies/{training.study}"
    given = {name: value for name, value in options.items() if value is not False}
    words = [f"--{name.replace('_', '-')}{'' if value is True else f' {value}'}" for name, value in given.items()]
    folder = f"runs/study-{training.study}"
    command = [
        f"{_curl(has_token)} -OJ {address}/model.pt",
        f"a3gnn predict training-{training.id}-model.pt --dataset graph.npz --out predictions.npy",
        "# the same training on this machine",
        f"a3gnn pull {url} {training.study} {folder}",
        " ".join(["a3gnn train", folder, *words]),
    ]
    python = [
        *_client(url, has_token),
        f"client.training({training.id})",
        "# the same training again",
        _call(f"client.study({training.study}).train", [], given),
    ]
    curl = [
        f"{_curl(has_token)} {address}",
        f"{_curl(has_token)} -OJ {address}/result.json",
        f"{_curl(has_token)} -OJ {address}/metrics.jsonl",
        "# the same training again",
        f"{_curl(has_token)} {study}/train {_JSON} -d {shlex.quote(json.dumps(given))}",
    ]
    return _snippets(command, python, curl)


def asked_of(study: Job) -> dict[str, Any]:
    """Returns the fields of `POST /studies` that a study was asked with, without the graph and without defaults."""
    arguments = {name: value for name, value in study.arguments.items() if name in StudyOrder.model_fields}
    task = Task.from_dict(study.arguments["task"])
    arguments |= {field: getattr(task, name) for name, field in _TASK_FIELDS.items()}
    if task.fanouts != Task().fanouts:
        arguments["fanouts"] = list(task.fanouts)
    fields = {name: field.default for name, field in StudyOrder.model_fields.items()}
    return {"name": study.name} | {name: value for name, value in arguments.items() if value != fields[name]}


def _tune(asked: Mapping[str, Any], graph: KnownGraph, url: str) -> str:
    """Returns the command line of a study."""
    dataset = f"{NUMBERED}{graph.id}" if graph.origin == "upload" else graph.source
    words = ["a3gnn", "tune", "--server", url, "--dataset", dataset]
    for name, value in asked.items():
        if name == "name":
            continue
        flag = f"--{name.replace('_', '-')}"
        if name in ("fix", "ranges"):
            words += _knobs(name, value)
        elif name == "search":
            words += [word for one in value for word in ("--search", str(entry_text(one, value[one])))]
        elif value is True:
            words.append(flag)
        elif name == "residual":
            words.append(f"--{value}-residual")
        else:
            words += [flag, ",".join(map(str, value)) if isinstance(value, list) else _size(name, value)]
    return shlex.join(words)


def _knobs(name: str, values: Mapping[str, Any]) -> Iterable[str]:
    for knob, value in values.items():
        if name == "fix":
            yield from ("--fix", f"{knob}={_size(knob, value)}")
        else:
            yield from ("--range", f"{knob}={':'.join(_size(knob, end) for end in value)}")


def _size(name: str, value: Any) -> str:
    """Returns a value as an option takes it: bytes need a unit."""
    is_bytes = name in _SIZES or name.endswith("memory_limit")
    return f"{value}B" if is_bytes and isinstance(value, int) and value else str(value)


def _client(url: str, has_token: bool) -> list[str]:
    token = ', os.environ["A3GNN_TOKEN"]' if has_token else ""
    return [f"import {'os, ' if has_token else ''}a3gnn", f'client = a3gnn.Client("{url}"{token})']


def _call(function: str, words: list[str], named: Mapping[str, Any]) -> str:
    return f"{function}({', '.join([*words, *(f'{name}={value!r}' for name, value in named.items())])})"


def _curl(has_token: bool) -> str:
    return 'curl -H "Authorization: Bearer $A3GNN_TOKEN"' if has_token else "curl"


def _snippets(command: list[str], python: list[str], curl: list[str]) -> list[Snippet]:
    texts = {"Command line": command, "Python": python, "curl": curl}
    return [Snippet(language, "\n".join(lines)) for language, lines in texts.items()]
