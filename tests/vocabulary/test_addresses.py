"""Tokens: guessable ones and ones that no request can carry are refused before a server begins."""

import pytest

from a3gnn.addresses import check_address
from a3gnn.errors import UsageError


@pytest.mark.parametrize("token", ["~" * 16, "!" * 1000, "sixteen-letters-", None])
def test_tokens_that_work(token: str | None) -> None:
    check_address("127.0.0.1", token, "VARIABLE")


@pytest.mark.parametrize(
    "token", ["sixteen letters!", "sixteen-letters-\n", "sechzehn-Zeichen-\u00e4", "a" * 1001, "\x7f" * 16]
)
def test_tokens_that_no_request_can_carry(token: str) -> None:
    with pytest.raises(UsageError, match=r"--token \(or VARIABLE\) must have at most .* printable ASCII") as error:
        check_address("127.0.0.1", token, "VARIABLE")
    assert token not in str(error.value)


def test_a_token_that_can_be_guessed() -> None:
    with pytest.raises(UsageError, match="16 characters or more, got 15"):
        check_address("0.0.0.0", "a" * 15, "VARIABLE")
