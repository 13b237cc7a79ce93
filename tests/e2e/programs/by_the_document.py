"""A program of an engine that is written from docs/host-adapter-interface.md alone.

It attaches at the socket of its one argument, listens at port 8000, and answers one HTTP request, over
the memory that it shares with the engine: no library of Longshore's is in it. So what a host has to know
is in the document. It prints READY when it listens, and what it was asked.
"""

import array
import mmap
import os
import socket
import struct
import sys
import time

MAGIC = int.from_bytes(b"LONGSHOR", "big")
VERSION = 22
OLDEST = 11
# LENT_CHUNKS, IMMEDIATE_DATA, WORKERS.
FEATURES = 2 | 8 | 32
NONE = 0xFFFFFFFF


def message(kind, *rest):
    """A message of the handshake."""
    spoken = FEATURES << 16 | VERSION << 32 | OLDEST << 48
    words = [MAGIC, kind | spoken, *rest]
    return struct.pack("<8Q", *words, *[0] * (8 - len(words)))


def ask(path, kind, *rest):
    """Sends one over a connection of its own; the connection, the answer, and what came beside it."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    connection.send(message(kind, *rest))
    got, beside, _, _ = connection.recvmsg(64, socket.CMSG_SPACE(4 * 8))
    descriptors = array.array("i")
    for _, _, data in beside:
        descriptors.frombytes(data[: len(data) // 4 * 4])
    answer = struct.unpack("<8Q", got)
    assert answer[0] == MAGIC, answer
    return connection, answer, list(descriptors)


def halves(word):
    return word & NONE, word >> 32


class Memory:
    """The memory of a session, and where its parts lie."""

    def __init__(self, descriptor, welcome):
        channels, waiters = halves(welcome[3])
        self.sockets, snd_chunks = halves(welcome[4])
        rcv_chunks, workers = halves(welcome[5])
        workers = max(workers, 1)
        rings = channels * workers
        self.begins, at = {}, 0
        for part, count, size in [
            ("header", 1, 4096),
            ("channel control", rings, 960),
            ("worker", workers - 1, 256),
            ("waiter", waiters, 64),
            ("socket link", self.sockets, 4),
            ("send chunk link", snd_chunks, 4),
            ("held sockets", channels * self.sockets // 64, 8),
            ("request", rings * 1024, 64),
            ("completion", rings * 1024, 64),
            ("socket block", self.sockets, 256),
            ("send directory entry", self.sockets * 256, 4),
            ("receive directory entry", self.sockets * 256, 4),
            ("send chunk", snd_chunks, 65536),
            ("receive chunk", rcv_chunks, 65536),
        ]:
            self.begins[part] = (at, size)
            at = (at + count * size + 4095) // 4096 * 4096
        assert os.fstat(descriptor).st_size >= at
        self.map = mmap.mmap(descriptor, at)

    def at(self, part, index=0):
        begin, size = self.begins[part]
        return begin + index * size

    def entry(self, part, index, number):
        """Where the entry of a stream's chunk of this number is, in the directory of a socket."""
        return self.at(part, (number // 8 * self.sockets + index) * 8 + number % 8)

    def read(self, at, length):
        return self.map[at : at + length]

    def write(self, at, data):
        self.map[at : at + len(data)] = data

    def get(self, at, form="<I"):
        return struct.unpack_from(form, self.map, at)[0]

    def put(self, at, value, form="<I"):
        struct.pack_into(form, self.map, at, value)

    def pop(self, head, links):
        """Takes what is on top of a stack. Nobody else takes from those of this session meanwhile."""
        top, pops = halves(self.get(head, "<Q"))
        assert top != NONE
        link = self.get(self.at(links, top))
        below = {0: top + 1, NONE: NONE}.get(link, link - 1)
        self.put(head, below | (pops + 1) % 2**32 << 32, "<Q")
        return top


class Channel:
    """The two rings of this process."""

    def __init__(self, memory, number, doorbell):
        self.memory, self.number, self.doorbell = memory, number, doorbell
        self.control = memory.at("channel control", number)
        self.published = self.taken = 0
        # By the socket: what was told first of what it has received.
        self.told = {}

    def request(self, *requests):
        """Publishes requests, of which each is the bytes that mean something."""
        unused = 0
        for request in requests:
            for begin in range(0, len(request), 64):
                piece = request[begin : begin + 64]
                self.memory.write(self.slot("request", self.published), piece)
                self.published += 1
                unused = 8 - (len(piece) + 7) // 8
        self.memory.put(self.control + 64, self.published | unused << 33, "<Q")
        self.memory.put(72 + self.number // 64 * 8, 1 << self.number % 64, "<Q")
        self.memory.put(64, 1)
        os.write(self.doorbell, struct.pack("<Q", 1))

    def slot(self, ring, count):
        return self.memory.at(ring, self.number * 1024 + count % 1024)

    def completion(self):
        """The next one, once it is there: its kind, its socket, and what it says."""
        deadline = time.monotonic() + 20
        while self.memory.get(self.control + 192, "<Q") & NONE == self.taken:
            assert time.monotonic() < deadline, "nothing comes"
            time.sleep(0.001)
        words = struct.unpack("<8Q", self.memory.read(self.slot("completion", self.taken), 64))
        kind, slots, said = words[0] & 0xFF, 1, {}
        if kind == 65:
            said = {"tag": words[0] >> 32, "errno": words[2]}
        elif kind == 70:
            said = {"tag": words[0] >> 32, "errno": words[2] & 0xFFFF}
        elif kind == 66:
            said = {"rcv_edge": words[2]}
        elif kind == 69:
            said = {"rcv_edge": words[0] >> 16}
        elif kind == 68:
            length = words[2] >> 32 & 0x7FF
            slots = (24 + length + 63) // 64
            places = [self.slot("completion", self.taken + i) for i in range(slots)]
            data = b"".join(self.memory.read(place, 64) for place in places)
            said = {"rcv_edge": words[0] >> 16, "data": data[24 : 24 + length]}
        self.taken += slots
        self.memory.put(self.control + 256, self.taken)
        return kind, words[1], said

    def answer(self, name, tag):
        """Waits for the Done of this tag, which is to say that it is done."""
        kind, of, said = self.completion()
        assert kind in (65, 70) and of == name, (kind, of)
        assert said == {"tag": tag, "errno": 0}, said

    def received(self, name):
        """What has come on a socket first, in a descriptor or in its chunk. What is told of another
        meanwhile is kept: a connection may be told of before its record was taken."""
        index, _ = halves(name)
        while name not in self.told:
            kind, of, said = self.completion()
            if kind in (66, 68, 69) and said["rcv_edge"]:
                self.told.setdefault(of, (kind, said))
        kind, said = self.told[name]
        if kind == 68:
            return said["data"]
        chunk = self.memory.get(self.memory.entry("receive directory entry", index, 0))
        return self.memory.read(self.memory.at("receive chunk", chunk), said["rcv_edge"])


def main(path):
    # Both connections stay: the session ends with the one, the process with the other.
    launcher, session, _ = ask(path, 1)
    assert session[1] & 0xFFFF == 2, session
    process, welcome, descriptors = ask(path, 3, *session[2:4])
    assert welcome[1] & 0xFFFF == 4 and len(descriptors) == 2, welcome
    memory = Memory(descriptors[0], welcome)
    assert memory.get(0, "<Q") == MAGIC
    assert (memory.get(8), memory.get(28)) == (VERSION, FEATURES)
    channel = Channel(memory, welcome[2], descriptors[1])

    # Open, Bind and Listen.
    index = memory.pop(384, "socket link")
    block = memory.at("socket block", index)
    generation = memory.get(block) + 1
    memory.put(block + 4, 1)
    memory.put(block, generation)
    listener = index | generation << 32
    channel.request(
        struct.pack("<3Q", 1, listener, 1),
        struct.pack("<5Q", 2 | 7 << 32, listener, 4 | 8000 << 16, 0, 0),
    )
    channel.answer(listener, 7)
    channel.request(struct.pack("<3Q", 3 | 8 << 32, listener, 16))
    channel.answer(listener, 8)
    memory.put(block + 4, 2)
    print("READY", flush=True)

    record = struct.unpack("<8Q", channel.received(listener))
    connection, subscriber = record[0], record[7] >> 32 & 0xFFFF
    if subscriber != channel.number + 1:
        channel.request(struct.pack("<2Q", 9, connection))
    index, generation = halves(connection)
    block = memory.at("socket block", index)
    memory.put(block + 4, 4)
    memory.put(block, generation)
    asked = channel.received(connection)
    print(asked.split(b"\r\n")[0].decode(), flush=True)

    # What is sent lies in a chunk, and crosses with its descriptor, which says also that the connection
    # was accepted, and closes it.
    body = b"as the document says\n"
    head = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body)
    answer = head.encode() + body
    warm, cold = 448, 512
    stack = cold if memory.get(warm) == NONE else warm
    chunk = memory.pop(stack, "send chunk link")
    memory.write(memory.at("send chunk", chunk), answer)
    memory.put(memory.entry("send directory entry", index, 0), chunk)
    push, close = 1, 128
    edges = struct.pack(
        "<3Q",
        17 | (push | close) << 8 | len(answer) << 16,
        connection,
        len(asked) | len(answer) << 48,
    )
    channel.request(edges + answer)
    while memory.get(channel.control + 128) != channel.published:
        time.sleep(0.001)
    launcher.close()
    process.close()


main(sys.argv[1])
