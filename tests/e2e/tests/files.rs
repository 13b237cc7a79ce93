//! Files that are sent by `sendfile`, from the second time on from where the kernel has them:
//! every byte arrives in its place, whatever happens to the file meanwhile.

use longshore_e2e::servers::PYTHON;
use longshore_e2e::{Proc, Stack, Testbed, eventually, run, scenarios};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Serves one case for each connection, by the name that comes first.
const SERVER: &str = r#"
import os, random, socket, sys, threading
directory = sys.argv[1]
listener = socket.create_server(("0.0.0.0", 9000), backlog=100)

def content(name, size):
    return random.Random(name).randbytes(size)

def make(name, size):
    path = os.path.join(directory, name)
    with open(path, "wb") as f:
        f.write(content(name, size))
    return path

def send(s, fd, at, count):
    while count:
        n = os.sendfile(s.fileno(), fd, at, count)
        assert 0 < n <= count, (n, count)
        at, count = at + n, count - n

def fill(s, fd, size):
    "Sends as much as the stream takes now."
    at = 0
    s.setblocking(False)
    try:
        while at < size:
            at += os.sendfile(s.fileno(), fd, at, size - at)
    except BlockingIOError:
        pass
    s.setblocking(True)
    return at

def known(s, path, size):
    "Has the file sent so often that it is handed over."
    fd = os.open(path, os.O_RDONLY)
    for _ in range(3):
        send(s, fd, 0, size)
    # Nothing is changed before it has arrived.
    assert s.recv(1) == b"k"
    return fd

def whole(s):
    fd = os.open(make("whole", 700_000), os.O_RDONLY)
    for i in range(12):
        s.sendall(b"h" * 240)
        send(s, fd, 0, 700_000)
        s.sendall(b"t" * i)

def parts(s):
    fd = known(s, make("parts", 1 << 20), 1 << 20)
    draw = random.Random(5)
    for _ in range(400):
        at = draw.randrange(1 << 20)
        count = min(draw.choice((1, 5000, 40_000, 70_000, 300_000)), (1 << 20) - at)
        s.sendall(b"x" * draw.randrange(3))
        send(s, fd, at, count)

def truncated(s):
    path = make("truncated", 8 << 20)
    fd = known(s, path, 8 << 20)
    taken = fill(s, fd, 8 << 20)
    os.truncate(path, 100_000)
    tell(taken)

def changed(s):
    path = make("changed", 8 << 20)
    fd = known(s, path, 8 << 20)
    taken = fill(s, fd, 8 << 20)
    with open(path, "r+b") as f:
        f.write(b"\xff" * (8 << 20))
    tell(taken)

def unlinked(s):
    path = make("unlinked", 8 << 20)
    fd = known(s, path, 8 << 20)
    taken = fill(s, fd, 8 << 20)
    os.unlink(path)
    os.close(fd)
    tell(taken)

def holes(s):
    path = make("holes", 100_000)
    os.truncate(path, 900_000)
    fd = known(s, path, 900_000)
    send(s, fd, 50_000, 850_000)

def ends(s):
    fd = known(s, make("ends", 200_000), 200_000)
    assert os.sendfile(s.fileno(), fd, 200_000, 100_000) == 0
    assert os.sendfile(s.fileno(), fd, 1 << 40, 100_000) == 0
    n = os.sendfile(s.fileno(), fd, 100_000, 900_000)
    assert n <= 100_000, n
    send(s, fd, 100_000 + n, 100_000 - n)
    assert s.recv(1) == b"k"
    os.truncate(fd_of("ends"), 60_000)
    assert os.sendfile(s.fileno(), fd, 60_000, 100_000) == 0
    n = os.sendfile(s.fileno(), fd, 0, 200_000)
    assert n <= 60_000, n
    send(s, fd, n, 60_000 - n)
    # What cannot be read is refused, and what is no file.
    reader, writer = os.pipe()
    os.write(writer, b"p" * 50_000)
    refused(s, reader, os.open(fd_of("ends"), os.O_WRONLY), os.open(fd_of("ends"), os.O_PATH))

def refused(s, *fds):
    for fd in fds:
        try:
            os.sendfile(s.fileno(), fd, 0, 50_000)
            raise SystemExit("it cannot be read")
        except OSError:
            pass

def anothers(s):
    "The kernel does not tell everybody what of a file is in its memory: not this user."
    path = make("anothers", 200_000)
    fd, *others = (os.open(path, how) for how in (os.O_RDONLY, os.O_WRONLY, os.O_PATH))
    os.seteuid(65534)
    for _ in range(4):
        send(s, fd, 0, 200_000)
        refused(s, *others)
    os.seteuid(0)

def fd_of(name):
    return os.path.join(directory, name)

def replaced(s):
    fd = known(s, make("replaced", 300_000), 300_000)
    os.rename(make("new", 300_000), fd_of("replaced"))
    send(s, fd, 0, 300_000)
    fd = os.open(fd_of("replaced"), os.O_RDONLY)
    for _ in range(3):
        send(s, fd, 0, 300_000)

def processes(s):
    "Each of several processes sends a part and ends at once."
    fd = known(s, make("processes", 1_000_000), 1_000_000)
    for part in range(10):
        child = os.fork()
        if child == 0:
            send(s, fd, part * 100_000, 100_000)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0

def tell(taken):
    told, _ = listener.accept()
    told.sendall(str(taken).encode())
    told.close()

while True:
    s, _ = listener.accept()
    name = s.recv(100).decode()
    if not name:
        continue
    globals()[name](s)
    s.shutdown(socket.SHUT_WR)
    s.recv(1)
    s.close()
"#;

/// Asks for a case and checks what comes.
const CLIENT: &str = r#"
import random, socket, sys, time
address, name = (sys.argv[1], 9000), sys.argv[2]

def content(name, size):
    return random.Random(name).randbytes(size)

s = socket.create_connection(address)
s.sendall(name.encode())

def all_of_it():
    got = bytearray()
    while piece := s.recv(1 << 18):
        got += piece
    return bytes(got)

def read(count):
    got = bytearray()
    while len(got) < count:
        piece = s.recv(min(1 << 18, count - len(got)))
        assert piece, (len(got), count)
        got += piece
    return bytes(got)

def known(file):
    check(read(3 * len(file)), file * 3)
    s.sendall(b"k")

def taken():
    told = socket.create_connection(address)
    return int(told.recv(100))

def check(got, expected):
    assert len(got) == len(expected), (len(got), len(expected))
    if got != expected:
        first = next(i for i in range(len(got)) if got[i] != expected[i])
        sys.exit(f"byte {first} of {len(got)} is another")

def one_of(got, *each):
    for i in range(0, len(got), 4096):
        piece = got[i:i + 4096]
        if all(piece != e[i:i + len(piece)] for e in each):
            for j, b in enumerate(piece):
                assert any(b == e[i + j] for e in each), i + j

if name == "whole":
    file = content(name, 700_000)
    expected = b"".join(b"h" * 240 + file + b"t" * i for i in range(12))
    check(all_of_it(), expected)
elif name == "parts":
    file, draw = content(name, 1 << 20), random.Random(5)
    known(file)
    expected = []
    for _ in range(400):
        at = draw.randrange(1 << 20)
        count = min(draw.choice((1, 5000, 40_000, 70_000, 300_000)), (1 << 20) - at)
        expected += [b"x" * draw.randrange(3), file[at:at + count]]
    check(all_of_it(), b"".join(expected))
elif name in ("truncated", "changed", "unlinked"):
    file = content(name, 8 << 20)
    known(file)
    # Nothing is read until the file is no longer what it was.
    count = taken()
    assert count > 100_000
    got = all_of_it()
    assert len(got) == count, (len(got), count)
    other = {"truncated": bytes(count), "changed": b"\xff" * count, "unlinked": file}[name]
    one_of(got, file, other)
elif name == "holes":
    file = content(name, 100_000) + bytes(800_000)
    known(file)
    check(all_of_it(), file[50_000:])
elif name == "ends":
    file = content(name, 200_000)
    known(file)
    check(read(100_000), file[100_000:])
    s.sendall(b"k")
    check(all_of_it(), file[:60_000])
elif name == "anothers":
    check(all_of_it(), content(name, 200_000) * 4)
elif name == "replaced":
    old, new = content(name, 300_000), content("new", 300_000)
    known(old)
    check(all_of_it(), old + new * 3)
elif name == "processes":
    file = content(name, 1_000_000)
    known(file)
    check(all_of_it(), file)
else:
    sys.exit("no such case")
"#;

fn start(bed: &Testbed) -> (Proc, PathBuf) {
    let (host, peer) = (bed.host(0), bed.peer());
    let script = bed.file("server.py", SERVER);
    let files = bed.directory("files");
    let server = host.cmd(PYTHON).arg(script).arg(&files).spawn();
    peer.wait_for(host.at(9000));
    (server, files)
}

fn ask(bed: &Testbed, case: &str) {
    let client = bed.peer().cmd(PYTHON).args(["-c", CLIENT]);
    let client = client.args([&bed.host(0).ip().to_string(), case]);
    client.timeout(Duration::from_secs(100)).check();
}

scenarios! {
    /// Ranges of all lengths, between other bytes, at the end of a file and over holes.
    fn ranges_arrive_in_their_places(bed) within 300 {
        let (mut server, _) = start(bed);
        for case in ["whole", "parts", "holes", "ends", "anothers", "replaced", "whole"] {
            ask(bed, case);
        }
        server.assert_running();
    }

    /// As many bytes arrive as were sent, each as it was or as it is now.
    fn files_that_change_under_way(bed) within 300 {
        let (mut server, _) = start(bed);
        for case in ["truncated", "changed", "unlinked", "truncated", "whole"] {
            ask(bed, case);
        }
        server.assert_running();
    }

    /// What a process has sent arrives after its end.
    fn processes_that_send_and_end(bed) within 300 {
        let (mut server, _) = start(bed);
        ask(bed, "processes");
        ask(bed, "processes");
        server.assert_running();
    }
}

/// Whether any process has a file mapped: the program does not.
fn is_mapped(file: &Path) -> bool {
    let file = file.to_str().expect("a path in ASCII");
    let processes = std::fs::read_dir("/proc").expect("processes");
    processes.flatten().any(|process| {
        // Those that are no processes, or gone, have none.
        let maps = std::fs::read_to_string(process.path().join("maps")).unwrap_or_default();
        maps.lines().any(|line| line.contains(file))
    })
}

/// To the kernel at the other end of its device the engine sends segments that are longer than an
/// IP packet can be, of a file and of what lies around it.
#[test]
fn segments_to_the_kernel_itself_are_longer_than_packets() {
    run(Stack::Longshore, Duration::from_secs(300), |bed| {
        let (mut server, _) = start(bed);
        for case in ["whole", "unlinked"] {
            ask(bed, case);
        }
        let count = |stat: serde_json::Value| stat["tcp"]["longer_segments_out"].as_u64();
        let longer: u64 = bed.host(0).stat().into_iter().filter_map(count).sum();
        assert!(longer > 0);
        server.assert_running();
    });
}

/// The engine has a file that is sent more than once, and lets go of it when it is not sent
/// any more: it could not be unmounted, nor would a removed one give its room back.
#[test]
fn files_are_handed_over_and_let_go_of() {
    run(Stack::Longshore, Duration::from_secs(300), |bed| {
        let (mut server, files) = start(bed);
        let held = ["whole", "unlinked"].map(|name| files.join(name));
        ask(bed, "whole");
        assert!(is_mapped(&held[0]));
        ask(bed, "unlinked");
        eventually("the engine lets go of the files", || {
            (!held.iter().any(|file| is_mapped(file))).then_some(())
        });
        ask(bed, "whole");
        assert!(is_mapped(&held[0]));
        server.assert_running();
    });
}
