"""`Sessions`: what browsers carry in place of the token; `WrongTokens`: a bound on wrong tokens."""

from __future__ import annotations

import hashlib
import math
import secrets
import threading
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address

import sqlalchemy as sa

from a3gnn.profiling.store.database import writing
from a3gnn.service.jobs.database import SESSIONS

#: Seconds after which a browser must log in again: the day that docs/howto/service.md promises.
SESSION_S = 86_400
#: Wrong tokens in `_WINDOW_S` seconds from one address, and from all, as docs/howto/service.md has them: a person
#: mistypes a few, and a token of 16 characters outlasts them by ages.
_MOST_WRONG, _MOST_OF_ALL, _WINDOW_S = 10, 100, 60.0
#: Seconds between two checks of tokens from one address after that, as docs/howto/service.md has them, and most seconds
#: that a check waits: then ten wait. For as long, a session is not looked up again, after which its end at another
#: server counts.
_TURN_S, _MOST_TURN_S = 0.5, 5.0


class Sessions:
    """The sessions of browsers, in the service's database, which holds only hashes of them.

    A session ends with the token that began it.

    Args:
        engine: The service's database.
        token: The server's token; None if it has none.
    """

    def __init__(self, engine: sa.Engine, token: str | None) -> None:
        self._engine, self._token = engine, token or ""
        self._mutex = threading.Lock()
        self._fresh: dict[str, float] = {}

    def begin(self) -> str:
        """Returns the secret of a new session; removes sessions that are over."""
        secret, now = secrets.token_urlsafe(32), time.time()
        with writing(self._engine).begin() as connection:
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.expires < now))
            connection.execute(sa.insert(SESSIONS).values(id=self._hash(secret), expires=now + SESSION_S))
        return secret

    def end(self, secret: str) -> None:
        """Ends a session, if there is one with this secret."""
        with writing(self._engine).begin() as connection:
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.id == self._hash(secret)))
        with self._mutex:
            self._fresh.pop(self._hash(secret), None)

    def is_fresh(self, secret: str) -> bool:
        """Returns whether the session was looked up just now; needs no database."""
        with self._mutex:
            return self._fresh.get(self._hash(secret), 0.0) > time.monotonic()

    def holds(self, secret: str) -> bool:
        """Returns whether there is a session with this secret."""
        own = self._hash(secret)
        query = sa.select(SESSIONS.c.expires).where(SESSIONS.c.id == own)
        with self._engine.connect() as connection:
            expires = connection.execute(query).scalar()
        left = 0.0 if expires is None else expires - time.time()
        with self._mutex:
            now = time.monotonic()
            self._fresh = {name: until for name, until in self._fresh.items() if until > now}
            if left > 0:
                self._fresh[own] = now + min(left, _MOST_TURN_S)
        return left > 0

    def _hash(self, secret: str) -> str:
        return hashlib.sha256(f"{secret}\n{self._token}".encode("utf-8", "replace")).hexdigest()


class WrongTokens:
    """Counts wrong tokens of the last minute, by address. The same wrong token of a program counts once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._due: dict[str, float] = {}
        self._wrong: list[tuple[float, str, str]] = []

    def wait_s(self, address: str) -> int:
        """Returns after how many seconds tokens from `address` are checked at once again; 0 if they are now."""
        now, place = self._clock(), network_of(address)
        self._wrong = [one for one in self._wrong if one[0] > now - _WINDOW_S]
        own = [time_s for time_s, where, _ in self._wrong if where == place]
        everybody = [time_s for time_s, _, _ in self._wrong]
        waits = [
            found[-most] + _WINDOW_S - now
            for found, most in ((own, _MOST_WRONG), (everybody, _MOST_OF_ALL))
            if len(found) >= most
        ]
        return math.ceil(max(waits, default=0.0))

    def turn_s(self, address: str) -> float | None:
        """Returns after how many seconds a token from `address` may be checked, once `wait_s` is not 0.

        Returns None if too many wait already.
        """
        now, place = self._clock(), network_of(address)
        self._due = {name: due for name, due in self._due.items() if due > now}
        turn_s = self._due.get(place, now) - now
        if turn_s > _MOST_TURN_S:
            return None
        self._due[place] = now + turn_s + _TURN_S
        return turn_s

    def add(self, address: str, token: str = "") -> None:
        """Records a wrong token from `address`. With `token`, it counts only if it is another one than before."""
        digest = hashlib.sha256(token.encode("utf-8", "replace")).hexdigest() if token else secrets.token_hex(8)
        place = network_of(address)
        if all(one[1:] != (place, digest) for one in self._wrong):
            self._wrong.append((self._clock(), place, digest))


def network_of(address: str) -> str:
    """Returns the address, or the /64 network of an IPv6 address, all of which one host may have."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    return found.exploded[:19] if isinstance(found, IPv6Address) else address
