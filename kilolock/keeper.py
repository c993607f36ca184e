"""Keeps the state of a scratch workspace: an http backend on 127.0.0.1, in a process of its own.

Terraform's local backend writes the whole state after every resource, which takes minutes where a
state is large; its http backend does so every 20 seconds. This process outlives a kl that is
killed, until the terraform that it left has written its last state.

Run by kilolock/scratch.py as a script, without the rest of Kilolock, for a quick start::

    keeper.py FOLDER     the password on standard input, which stays open as long as kl runs

It prints its port and keeps ``FOLDER/terraform.tfstate``.
"""

from __future__ import annotations

import base64
import os
import socket
import sys
import threading
import time

_HEAD_LIMIT = 65536
_PIECE = 1 << 20
_TIMEOUT_S = 60.0


def main(folder: str) -> int:
    """Serve until kl has closed its end and no terraform is left in the folder."""
    secret = sys.stdin.buffer.readline().strip()
    expected = b"Basic " + base64.b64encode(b"kl:" + secret)
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    threading.Thread(target=_serve, args=(server, folder, expected), daemon=True).start()
    while sys.stdin.buffer.read(_PIECE):
        pass
    while os.path.isdir(folder) and terraform_running(folder):
        time.sleep(0.2)
    return 0


def terraform_running(folder: str) -> int | None:
    """The process id of the terraform that runs in a scratch workspace."""
    try:
        with open(os.path.join(folder, "terraform.pid"), encoding="ascii") as file:
            pid, began = file.read().split(" ")
        os.kill(int(pid), 0)
    except PermissionError:
        pass
    except (OSError, ValueError):
        return None
    # The number may belong to another process by now, and a zombie writes nothing any more.
    return int(pid) if not began or started(int(pid)) == began else None


def started(pid: int) -> str | None:
    """When a process started, in the kernel's own measure; None where there is no such."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else fields[19]


def _serve(server: socket.socket, folder: str, expected: bytes) -> None:
    while True:
        client = server.accept()[0]
        threading.Thread(target=_answer, args=(client, folder, expected), daemon=True).start()


def _answer(client: socket.socket, folder: str, expected: bytes) -> None:
    client.settimeout(_TIMEOUT_S)
    with client:
        try:
            status, body = _handle(client, os.path.join(folder, "terraform.tfstate"), expected)
            head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            client.sendall(head.encode() + body)
        except OSError as ex:
            print(f"keeper: {ex}", file=sys.stderr, flush=True)


def _handle(client: socket.socket, state: str, expected: bytes) -> tuple[str, bytes]:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = client.recv(_PIECE)
        if not piece or len(data) > _HEAD_LIMIT:
            return "400 Bad Request", b""
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    request, *lines = head.split(b"\r\n")
    method = request.split(b" ")[0]
    headers = {n.strip().lower(): v.strip() for n, _, v in (line.partition(b":") for line in lines)}
    if headers.get(b"authorization") != expected:
        return "401 Unauthorized", b""
    left = int(headers.get(b"content-length") or 0) - len(body)
    if method != b"POST":
        # Nobody else is here to be locked out.
        while left > 0 and (piece := client.recv(min(left, _PIECE))):
            left -= len(piece)
        if method in (b"LOCK", b"UNLOCK"):
            return "200 OK", b""
        if method != b"GET":
            return "405 Method Not Allowed", b""
        try:
            with open(state, "rb") as file:
                return "200 OK", file.read()
        except FileNotFoundError:
            return "404 Not Found", b""
    # Whoever reads the file meanwhile sees the old state or the new one, whole.
    new = f"{state}.{threading.get_ident()}"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(body)
        while left > 0:
            piece = client.recv(min(left, _PIECE))
            if not piece:
                os.unlink(new)
                return "400 Bad Request", b""
            file.write(piece)
            left -= len(piece)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, state)
    return "200 OK", b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
