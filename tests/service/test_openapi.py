"""What /openapi.json says of answers, held against the answers."""

import json
from typing import Any

import pytest

from a3gnn.service.client import Client, RemoteStudy
from tests.service.servers import GRAPH, JSON, Answer, Server

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")


@pytest.fixture(scope="module")
def described(idle: Server) -> dict[str, Any]:
    return idle.ask("GET", "/openapi.json").json


def check(described: dict[str, Any], method: str, path: str, answer: Answer) -> None:
    """Holds an answer against its description."""
    said = described["paths"][path][method]["responses"][str(answer.status)]
    schema = said["content"][answer.headers["content-type"]]["schema"]
    assert schema, "it says something"
    whole = {**schema, "components": described["components"]}
    jsonschema.Draft202012Validator(whole).validate(json.loads(answer.content))


def test_answers_are_as_described(idle: Server, described: dict[str, Any], kept: RemoteStudy) -> None:
    graph = idle.ask("POST", "/graphs", {"dataset": GRAPH}, JSON)
    check(described, "post", "/graphs", graph)
    check(described, "get", "/graphs/{graph}", idle.ask("GET", f"/graphs/{graph.json['id']}"))
    for path in ("/graphs", "/studies", "/trainings", "/profiles", "/machines", "/healthz"):
        check(described, "get", path, idle.ask("GET", path))
    study = idle.ask("POST", "/studies", {"graph": graph.json["id"]}, JSON)
    check(described, "post", "/studies", study)
    own = f"/studies/{study.json['id']}"
    check(described, "post", "/studies/{study}/stop", idle.ask("POST", f"{own}/stop"))
    check(described, "post", "/studies/{study}/stop", idle.ask("POST", f"{own}/stop"))  # a problem
    check(described, "post", "/studies/{study}/resume", idle.ask("POST", f"{own}/resume", {}, JSON))
    idle.ask("POST", f"{own}/stop")
    check(described, "post", "/studies/{study}/retry", idle.ask("POST", f"{own}/retry"))
    idle.ask("POST", f"{own}/stop")
    for name in ("", "/trials", "/front", "/tuned.json", "/files", "/views"):
        check(described, "get", f"/studies/{{study}}{name}", idle.ask("GET", f"/studies/{kept.id}{name}"))
    training = idle.ask("POST", f"/studies/{kept.id}/train", {}, JSON)
    check(described, "post", "/studies/{study}/train", training)
    check(described, "get", "/trainings/{training}", idle.ask("GET", f"/trainings/{training.json['id']}"))
    idle.ask("POST", f"/trainings/{training.json['id']}/stop")
    check(described, "post", "/trainings/{training}/resume",
          idle.ask("POST", f"/trainings/{training.json['id']}/resume"))  # fmt: skip
    idle.ask("POST", f"/trainings/{training.json['id']}/stop")
    check(described, "post", "/studies", idle.ask("POST", "/studies", {"graph": 999}, JSON))
    told = idle.ask("POST", "/studies", {"graph": graph.json["id"], "trainer": "client"}, JSON).json["id"]
    asked = idle.ask("POST", f"/studies/{told}/suggestions?wait=0")
    check(described, "post", "/studies/{study}/suggestions", asked)
    for number in (study.json["id"], told):
        idle.ask("POST", f"/studies/{number}/stop")
        Client(idle.url).study(number).delete(forever=True)
    assert idle.ask("DELETE", f"/trainings/{training.json['id']}").status == 204


def test_every_answer_with_json_has_a_schema(described: dict[str, Any]) -> None:
    for path, methods in described["paths"].items():
        for method, route in methods.items():
            for status, answer in route["responses"].items():
                for kind, content in answer.get("content", {}).items():
                    if kind == "application/json" and "/files/{name}" not in path:
                        assert content["schema"], (method, path, status)
