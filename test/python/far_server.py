"""A server behind a network that can be cut: a network namespace with a relay to the server's socket."""

import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from inorder.lab.server.cluster import Cluster

PORT = 5432
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: a killed relay resets its connections instead of closing them


class FarServer:
    """A network namespace whose programs reach the server at 127.0.0.1."""

    def __init__(self, process: int, path: str) -> None:
        self.inside = ["nsenter", f"--net=/proc/{process}/ns/net"]
        self.path = path
        self.start()

    def run(self, *command: str) -> None:
        subprocess.run([*self.inside, *command], check=True, capture_output=True)

    def start(self) -> None:
        self.relay = subprocess.Popen([*self.inside, sys.executable, __file__, self.path], stdout=subprocess.PIPE)
        assert self.relay.stdout and self.relay.stdout.readline() == b"listening\n"

    def stop(self) -> None:
        self.relay.kill()
        self.relay.wait()
        if self.relay.stdout:
            self.relay.stdout.close()

    def cut(self) -> None:
        """Silently drop all packets from now on."""
        self.run("tc", "qdisc", "add", "dev", "lo", "root", "blackhole")

    def mend(self) -> None:
        self.run("tc", "qdisc", "del", "dev", "lo", "root")


@contextmanager
def far_server(cluster: Cluster) -> Iterator[FarServer]:
    if os.geteuid() != 0:
        pytest.skip("only root can create a network namespace")
    if missing := [name for name in ("unshare", "nsenter", "ip", "tc") if shutil.which(name) is None]:
        pytest.skip(f"this system has no {missing[0]}")
    command = ["unshare", "--net", "sh", "-c", "ip link set lo up && echo ready && exec cat"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin and holder.stdout
        if holder.stdout.readline() != b"ready\n":
            pytest.skip("this system cannot create a network namespace")
        server = FarServer(holder.pid, f"{cluster.folder / 'run'}/.s.PGSQL.5432")
        try:
            yield server
        finally:
            server.stop()
            holder.stdin.close()


def relay(client: socket.socket, path: str) -> None:
    """Forward data between the client and the server until one of them closes the connection."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    with client, socket.socket(socket.AF_UNIX) as server:
        server.connect(path)
        while True:
            for readable in select.select([client, server], [], [])[0]:
                if not (content := readable.recv(65536)):
                    return
                (server if readable is client else client).sendall(content)


def main() -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", PORT))
        listener.listen()
        print("listening", flush=True)
        while True:
            client, _ = listener.accept()
            threading.Thread(target=relay, args=(client, sys.argv[1]), daemon=True).start()


if __name__ == "__main__":
    main()
