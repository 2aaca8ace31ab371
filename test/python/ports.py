"""TCP ports for test servers."""

import os
import socket
from itertools import count

# These ports are below the range from which Linux assigns ports to clients: a client could otherwise take the port of a
# server that starts. Each process begins at a different port, because another process may be about to use a free port.
FIRST, AMOUNT = 10_000, 20_000
NEXT = count(os.getpid() * 331)


def free_port() -> int:
    """Return a port on which no process listens, and which this process has not returned before."""
    for number in NEXT:
        with socket.socket() as probe:
            port = FIRST + number % AMOUNT
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise AssertionError
