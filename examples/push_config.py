#!/usr/bin/env python3
"""A client that pushes its configuration (KIP-1324) and stays connected until its input ends.

usage: push_config.py HOST:PORT CLIENT-ID KEY=VALUE …   (KEY*=VALUE: the user has not set it, it is the default)
"""
import socket
import struct
import sys

PUSH_CONFIG, STRING = 95, 2


def compact(text):
    """A compact string: its length plus one as a varint, and its bytes."""
    data, size, out = text.encode(), len(text.encode()) + 1, b""
    while size > 127:
        out, size = out + bytes([size & 127 | 128]), size >> 7
    return out + bytes([size]) + data


def main(address, client_id, *configs):
    host, _, port = address.rpartition(":")
    body = bytes([len(configs) + 1])
    for config in configs:
        key, _, value = config.partition("=")
        body += compact(key.rstrip("*")) + compact(value) + struct.pack(">b?", STRING, key.endswith("*")) + b"\0"
    header = struct.pack(">hhih", PUSH_CONFIG, 0, 1, len(client_id)) + client_id.encode() + b"\0"
    frame = header + body + b"\0"
    with socket.create_connection((host.strip("[]"), int(port))) as conn:
        conn.sendall(struct.pack(">i", len(frame)) + frame)
        answer = b""
        while len(answer) < 15:
            more = conn.recv(4096)
            if not more:
                sys.exit(f"{client_id}: the broker closed the connection: it does not know PushConfig")
            answer += more
        code = struct.unpack(">h", answer[13:15])[0]  # after size, correlation id, tags and throttle time
        print(f"{client_id}: the broker answered {code}", flush=True)
        sys.stdin.read()
        return 0 if code == 0 else 1


if __name__ == "__main__":
    if len(sys.argv) < 4 or len(sys.argv) > 100:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
