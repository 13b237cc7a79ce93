"""Puts a network between both ends of every connection of a Python program.

The suite of CPython knows loopback alone, and has both ends in one process. Here its
sockets are bound to the engine's own address instead, and connect to one (FAR) that the
kernel between translates to it: so each segment goes out of the engine's TAP and comes in
again. What a program asks its sockets for is translated back, so that it sees loopback.
"""

import socket
import _socket

NEAR = {socket.AF_INET: "10.78.0.2", socket.AF_INET6: "fd78::2"}
FAR = {socket.AF_INET: "10.99.0.2", socket.AF_INET6: "fd99::2"}
LOOPBACK = {socket.AF_INET: "127.0.0.1", socket.AF_INET6: "::1"}
NAMES = {"127.0.0.1", "localhost", "::1", "127.0.0.2"}


# What Longshore does not speak stays with the kernel, and so on loopback.
SPOKEN = {0, socket.IPPROTO_TCP, socket.IPPROTO_UDP}


def outward(sock, address, to):
    """An address that a program has given, with loopback replaced by that of `to`."""
    if sock.family not in to or sock.proto not in SPOKEN:
        return address
    if not isinstance(address, tuple) or not address:
        return address
    host = address[0]
    if host in (b"localhost", b"127.0.0.1"):
        host = host.decode()
    return (to[sock.family], *address[1:]) if host in NAMES else address


def inward(family, address):
    """An address that a program is given, with loopback in the place of ours."""
    if family not in LOOPBACK or not isinstance(address, tuple) or not address:
        return address
    ours = address[0] in (NEAR[family], FAR[family])
    return (LOOPBACK[family], *address[1:]) if ours else address


def install():
    """Replaces the calls of `socket.socket` that take or give addresses."""
    plain = _socket.socket

    class Methods:
        def bind(self, address):
            return plain.bind(self, outward(self, address, NEAR))

        def connect(self, address):
            return plain.connect(self, outward(self, address, FAR))

        def connect_ex(self, address):
            return plain.connect_ex(self, outward(self, address, FAR))

        def sendto(self, data, *rest):
            if not rest:
                return plain.sendto(self, data)
            *flags, address = rest
            return plain.sendto(self, data, *flags, outward(self, address, FAR))

        def sendmsg(self, *arguments):
            head, address = arguments[:3], arguments[3:]
            return plain.sendmsg(self, *head, *(outward(self, a, FAR) for a in address))

        def getsockname(self):
            return inward(self.family, plain.getsockname(self))

        def getpeername(self):
            return inward(self.family, plain.getpeername(self))

        def _accept(self):
            fd, address = plain._accept(self)
            return fd, inward(self.family, address)

        def recvfrom(self, *arguments):
            data, address = plain.recvfrom(self, *arguments)
            return data, inward(self.family, address)

        def recvfrom_into(self, *arguments, **named):
            count, address = plain.recvfrom_into(self, *arguments, **named)
            return count, inward(self.family, address)

        def recvmsg(self, *arguments):
            *head, address = plain.recvmsg(self, *arguments)
            return (*head, inward(self.family, address))

        def recvmsg_into(self, *arguments):
            *head, address = plain.recvmsg_into(self, *arguments)
            return (*head, inward(self.family, address))

    for name, method in vars(Methods).items():
        if callable(method):
            setattr(socket.socket, name, method)
