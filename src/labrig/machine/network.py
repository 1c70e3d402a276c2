"""Whether a host answers within a limit of time, and the networks of this one."""

from __future__ import annotations

import fcntl
import os
import platform
import socket
import struct
import threading
import urllib.request
from contextlib import suppress
from urllib.parse import urlsplit

from ..errors import LabError

INTERNET = "https://pypi.org"  # who reaches it reaches the internet
PORTS = {"http": 80, "https": 443}
SIOCGIFADDR = 0x8915  # netdevice(7): the IPv4 address of an interface
GLOO_INTERFACE = "GLOO_SOCKET_IFNAME"


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


def choose_interface() -> str | None:
    """Sets GLOO_SOCKET_IFNAME where the name of this host leads to itself alone; returns what it chose.

    Gloo listens at the address of the host's name. Debian's installer maps the name to 127.0.1.1, which no
    other host reaches.
    """
    try:
        address = socket.gethostbyname(platform.node())
    except OSError:
        address = ""
    if GLOO_INTERFACE in os.environ or not address.startswith("127."):
        return None
    addresses = {name: own_address(name) for _, name in socket.if_nameindex()}
    interfaces = [name for name, own in addresses.items() if own and not own.startswith("127.")]
    if len(interfaces) != 1:
        raise LabError(
            f"the name of this host, {platform.node()}, leads to {address}, which no other host reaches, and "
            f"the host has {len(interfaces)} networks: {', '.join(interfaces) or '-'}. Say which one the "
            f"hosts share: {GLOO_INTERFACE}=NAME, for a cluster in site.env"
        )
    os.environ[GLOO_INTERFACE] = interfaces[0]
    return interfaces[0]


def own_address(interface: str) -> str:
    """The IPv4 address of a network interface; "" where it has none."""
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            answer = fcntl.ioctl(any_socket.fileno(), SIOCGIFADDR, request)
        except OSError:
            return ""
    return socket.inet_ntoa(answer[20:24])
