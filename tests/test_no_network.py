"""The guard in conftest.py: no test reaches anybody unasked."""

import socket

import pytest


def attempts(port):
    yield lambda: socket.create_connection(("127.0.0.1", port))
    yield lambda: socket.getaddrinfo("localhost", port)
    for address in (("127.0.0.1", port), ("192.0.2.1", 80)):
        with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
            yield lambda tcp=tcp, address=address: tcp.connect(address)
            yield lambda tcp=tcp, address=address: tcp.connect_ex(address)
            yield lambda udp=udp, address=address: udp.sendto(b"", address)


def test_sockets_are_blocked():
    for attempt in attempts(9):
        with pytest.raises(RuntimeError, match="a test wants to reach"):
            attempt()


@pytest.mark.network
def test_a_marked_test_reaches_this_machine_alone():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname()).close()
    with pytest.raises(RuntimeError, match=r"wants to reach 192\.0\.2\.1"):
        socket.create_connection(("192.0.2.1", 80))
