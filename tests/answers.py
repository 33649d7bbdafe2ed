"""Answers of commands with --json, checked against the schemas that `a3gnn schema` prints."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from a3gnn.cli.answers import answers
from a3gnn.cli.json_schema import schema_of


@cache
def validator(command: str) -> Draft202012Validator:
    """Returns the validator of the answers of `command`, the words after `a3gnn`, or of an `error`."""
    schema = schema_of(answers()[command])
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def checked(command: str, text: str) -> dict[str, Any]:
    """Returns the answer in `text`, which must be one JSON object of the command's schema."""
    found: dict[str, Any] = json.loads(text)
    faults = [f"{one.json_path}: {one.message[:300]}" for one in validator(command).iter_errors(found)]
    assert faults == [], f"a3gnn {command} --json breaks its schema"
    return found


def command_of(words: Sequence[str]) -> str:
    """Returns the command that `words` begin with, as in `answers`."""
    return next(name for name in (" ".join(words[:2]), words[0]) if name in answers())
