"""What a filled form orders."""

import pytest

pytest.importorskip("fastapi", reason="the extra [serve] is not installed")

from a3gnn.service.pages.start import FIELDS, order_of
from a3gnn.service.studies.orders import StudyOrder


def test_an_untouched_form_orders_the_defaults() -> None:
    untouched = {name: field.value for name, field in FIELDS.items() if field.value}
    units = {f"{name}_unit": field.units[0][0] for name, field in FIELDS.items() if field.units}
    order = order_of(untouched | units | {"graph": "3"})
    assert order == StudyOrder(graph=3)


def test_every_number_of_the_form_is_read() -> None:
    numbers = {"layers": "2", "lr_epochs": "7", "accuracy_epochs": "9", "target_accuracy": "0.5", "pair_history": "0"}
    order = order_of({"graph": "3", "fanouts": "4, 4"} | numbers)
    assert {name: str(getattr(order, name)) for name in numbers} == numbers
