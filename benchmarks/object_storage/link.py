"""A slow link to a server on this machine: every request waits, and all answers share one bandwidth.

The process in which it runs prints the link's port: ``python -m benchmarks.object_storage.link 9000 0.02 1e8``.
"""

import contextlib
import socket
import sys
import threading
import time

_CHUNK = 256 << 10
_BURST_S = 0.005  # a thread wakes up somewhat late; what the link could have carried meanwhile is not lost


class Bandwidth:
    """What all connections share.

    Args:
        bytes_per_s: Of all of them together.
    """

    def __init__(self, bytes_per_s: float) -> None:
        self._bytes_per_s = bytes_per_s
        self._lock, self._free_at = threading.Lock(), 0.0

    def take(self, num_bytes: int) -> None:
        """Wait until these bytes are through."""
        with self._lock:
            now = time.perf_counter()
            self._free_at = max(self._free_at, now - _BURST_S) + num_bytes / self._bytes_per_s
            wait_s = self._free_at - now
        if wait_s > 0:
            time.sleep(wait_s)


def serve(listener: socket.socket, port: int, latency_s: float, bandwidth: Bandwidth) -> None:
    """Connect each client to the server at a port of this machine, until the listener is shut down."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        server = socket.create_connection(("127.0.0.1", port))
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_requests, args=(client, server, latency_s), daemon=True).start()
        threading.Thread(target=_answers, args=(server, client, bandwidth), daemon=True).start()


def _requests(client: socket.socket, server: socket.socket, latency_s: float) -> None:
    """Pass on what a client sends, each time after the latency; a request without a body comes in one piece."""
    try:
        while data := client.recv(_CHUNK):
            time.sleep(latency_s)
            server.sendall(data)
        server.shutdown(socket.SHUT_WR)
    except OSError:
        _close(client, server)


def _answers(server: socket.socket, client: socket.socket, bandwidth: Bandwidth) -> None:
    """Pass on what the server sends, at the link's speed."""
    buffer = memoryview(bytearray(_CHUNK))
    try:
        while length := server.recv_into(buffer):
            bandwidth.take(length)
            client.sendall(buffer[:length])
    except OSError:
        pass
    _close(client, server)


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


def main() -> None:
    port, latency_s, bytes_per_s = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    print(listener.getsockname()[1], flush=True)
    serve(listener, port, latency_s, Bandwidth(bytes_per_s))


if __name__ == "__main__":
    main()
