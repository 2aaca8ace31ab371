"""Ports of TCP for the servers of tests."""

import os
import socket
from itertools import count

# Below the ports that Linux gives to clients, which may take one while its server starts. Processes begin at different
# places: a port that is free may be meant for the server of another one.
FIRST, AMOUNT = 10_000, 20_000
NEXT = count(os.getpid() * 331)


def free_port() -> int:
    """A port that nobody listens on, and that no other server of this process was given."""
    for number in NEXT:
        with socket.socket() as probe:
            port = FIRST + number % AMOUNT
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError
