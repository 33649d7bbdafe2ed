"""Checks of the address and the token of a server that other machines may reach; addresses without passwords."""

from __future__ import annotations

import re

from a3gnn.errors import UsageError

#: Names of this machine by which no other machine can reach it.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
#: Addresses that stand for all addresses of a machine.
ANY_ADDRESS = frozenset({"0.0.0.0", "::"})
#: A token of fewer characters can be guessed: 16 of 64 letters are 96 bits, and OWASP asks for 64 in a session's id.
_TOKEN_CHARACTERS = 16
#: A longer header does not fit in nginx's client_header_buffer_size, and some proxies refuse it.
_MOST_TOKEN_CHARACTERS = 1000


def check_address(host: str, token: str | None, variable: str) -> None:
    """Checks that a server requires a token if other machines can reach it.

    Args:
        host: The address of `--host`.
        token: The token that requests must carry, or None.
        variable: The environment variable that can hold the token.

    Raises:
        UsageError: The token is missing, can be guessed, or does not fit in a request.
    """
    if host not in LOOPBACK and token is None:
        raise UsageError(
            f"--host {host} lets other machines connect, which needs a --token (or {variable}) in their requests; "
            "without --host, only this machine can connect"
        )
    if token is not None and len(token) < _TOKEN_CHARACTERS:
        raise UsageError(
            f"--token must have {_TOKEN_CHARACTERS} characters or more, got {len(token)}; python -c "
            "'import secrets; print(secrets.token_urlsafe())' makes one"
        )
    if token is not None:
        check_token(token, f"--token (or {variable})")


def check_token(token: str, name: str) -> None:
    """Checks that a request can carry `token` in a header; the error calls it `name`.

    Raises:
        UsageError: The token is too long, or has characters that a header can't carry.
    """
    if len(token) > _MOST_TOKEN_CHARACTERS or not all("!" <= character <= "~" for character in token):
        raise UsageError(
            f"{name} must have at most {_MOST_TOKEN_CHARACTERS:,} printable ASCII characters and no blanks, got "
            f"{len(token):,} characters that a request can't carry"
        )


def cannot_listen(host: str, port: int, error: Exception) -> UsageError:
    """Returns the error of a server that can't listen at the address because of `error`."""
    reason = getattr(error, "strerror", None) or str(error)
    return UsageError(f"can't listen at --host {host} --port {port}: {reason}; --port 0 takes a free one")


def shown(host: str, port: int) -> str:
    """Returns the address as in a URL, with IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def without_password(text: str) -> str:
    """Returns `text` with *** in the place of the passwords of URLs and of connection options in it."""
    text = re.sub(r"(://[^\s:/@]*:)[^\s]*(@)", r"\1***\2", text)
    return re.sub(r"(?i)(password\s*=\s*)('[^']*'|[^\s&'\"]+)", r"\1***", text)
