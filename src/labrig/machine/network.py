"""Whether a host answers, within a limit of time."""

from __future__ import annotations

import socket
import threading
import urllib.request
from contextlib import suppress
from urllib.parse import urlsplit

PORTS = {"http": 80, "https": 443}


def is_reachable(url: str, timeout_s: float = 3.0) -> bool:
    """Whether the host of an http(s) address, or the proxy before it, opens a connection in time."""
    host, port = first_hop(url)
    answers: list[bool] = []

    def connect() -> None:
        with suppress(OSError), socket.create_connection((host, port), timeout=timeout_s):
            answers.append(True)

    # Looking up a name has no time limit of its own.
    thread = threading.Thread(target=connect, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return bool(answers)


def first_hop(url: str) -> tuple[str, int]:
    """Host and port of the machine that is asked first."""
    address = urlsplit(url)
    proxy = urllib.request.getproxies().get(address.scheme)
    if proxy and not urllib.request.proxy_bypass(address.hostname or ""):
        address = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    return address.hostname or "", address.port or PORTS.get(address.scheme, 443)
