"""The faults of a request's fields in a3gnn's own words: the field, the rule, the value and the remedy."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from a3gnn.service.studies.orders import UNIONS, StudyOrder

#: Most faults of a request named in the answer. Guess.
_NAMED = 5
#: The parts of a value's union that pydantic adds to the place of a fault.
_ALTERNATIVES = ("int", "float", "bool", "constrained-str", "constrained-int", "none")
#: The rule for each of pydantic's types of faults, with the names of its limits.
_OBJECT, _WHOLE, _NUMBER = "must be a JSON object", "must be an integer", "must be a number"
_RULES = {
    "missing": "must be given",
    "extra_forbidden": "is no field of this request",
    "json_invalid": "must be JSON: {error}",
    "model_attributes_type": _OBJECT,
    "model_type": _OBJECT,
    "dict_type": _OBJECT,
    "list_type": "must be a list",
    "string_type": "must be text",
    "string_unicode": "must be text",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "int_parsing_size": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "none_required": "must be null",
    "greater_than_equal": "must be at least {ge:,}",
    "less_than_equal": "must be at most {le:,}",
    "greater_than": "must be above {gt:,}",
    "less_than": "must be below {lt:,}",
    "string_too_long": "must have at most {max_length:,} characters",
    "string_too_short": "must have at least {min_length:,} characters",
    "string_pattern_mismatch": "must be one line without control characters",
    "too_long": "must have at most {max_length:,} values",
    "too_short": "must have at least {min_length:,} values",
    "literal_error": "must be {expected}",
}
_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = _REPR.maxlong = 80
_REPR.maxdict = _REPR.maxlist = 4
_REPR.maxlevel = 3


def named_faults(faults: Sequence[Mapping[str, Any]]) -> tuple[str, list[dict[str, str]]]:
    """Returns one line with the first faults, and these as objects: `where`, `rule`, `got` and `remedy`.

    Args:
        faults: As pydantic lists them. A value that fits none of several types has a fault for each.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for fault in faults:
        place = "the body" if fault["type"] == "json_invalid" else _place(fault["loc"])
        groups.setdefault(place, []).append(fault)
    named = [_described(place, found) for place, found in list(groups.items())[:_NAMED]]
    line = "; ".join(map(_line, named))
    more = len(groups) - len(named)
    return f"{line}{f'; and {more} more' if more else ''}", named


def _line(fault: Mapping[str, str]) -> str:
    where = f"{fault['where']} " if fault["rule"].startswith(("must ", "is ")) else ""
    got = f", got {fault['got']}" if fault["got"] else ""
    return f"{where}{fault['rule']}{got}{fault['remedy'] and '; '}{fault['remedy']}"


def _described(place: str, faults: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    first, field = faults[0], place.partition(".")[0]
    rules = list(dict.fromkeys(_rule(fault) for fault in faults))
    rule = rules[0] if len(rules) == 1 else UNIONS.get(field) or " or ".join(rules)
    got = "" if first["type"] in ("missing", "json_invalid") else _REPR.repr(first.get("input"))
    return {"where": place, "rule": rule, "got": got, "remedy": _remedy(first["type"], field)}


def _remedy(kind: str, field: str) -> str:
    if kind != "extra_forbidden":
        return ""
    near = difflib.get_close_matches(field, StudyOrder.model_fields, 1)
    return f"did you mean {near[0]!r}?" if near else "leave it out"


def _place(parts: Sequence[int | str]) -> str:
    """Returns the place of a fault below the body or the query, without the types of a union."""
    named = [str(part) for part in parts if part not in ("body", "query", "path", "header")]
    kept = [part for i, part in enumerate(named) if i == 0 or not _is_alternative(part)]
    return ".".join(kept) or "the body"


def _is_alternative(part: str) -> bool:
    return part in _ALTERNATIVES or part.startswith(("constrained-", "list[", "dict[", "function-", "[key]"))


def _rule(fault: Mapping[str, Any]) -> str:
    """Returns the rule that a value breaks, as words that follow the field's name."""
    context = fault.get("ctx", {})
    if fault["type"] == "value_error" and "error" in context:
        return str(context["error"])
    try:
        whole = {
            name: int(one) if isinstance(one, float) and one.is_integer() else one for name, one in context.items()
        }
        return _RULES[fault["type"]].format(**whole)
    except KeyError:
        return f"is not valid ({fault['msg'][:1].lower()}{fault['msg'][1:]})"
