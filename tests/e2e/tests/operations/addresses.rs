//! The addresses of an engine: wildcards beside the kernel's, exposed ports, unusual links.

use super::{says, scenario};
use longshore_e2e::eventually;
use rustix::process::Signal;

/// What is bound to the wildcard is on the kernel too, unless the configuration of the engine
/// or, before it, the launcher says that it is not to be.
#[test]
fn wildcards_beside_the_kernel() {
    const LISTENS: &str = "import socket, time\n\
        s = socket.create_server(('', 7001))\nu = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        u.bind(('', 7001))\nprint('up', flush=True)\ntime.sleep(600)";
    scenario(|bed| {
        let (host, peer) = (bed.host(0), bed.peer());
        let engine = host.engine("");
        let beside = |configured: Option<bool>, said: Option<&str>, more: usize| {
            let mut run = peer.longshore().args(["run", "--engine"]);
            run = run.arg(engine.socket());
            if let Some(said) = said {
                run = run.args(["--kernel-too", said]);
            }
            let program = run.args(["--", "python3", "-c", LISTENS]).spawn();
            eventually("the program listens", || {
                program.stdout().contains("up").then_some(())
            });
            peer.wait_for(host.at(7001));
            let sockets = |kind: &str| {
                let said = peer.cmd("ss").args(["-Hln", kind, "sport = 7001"]).check();
                said.lines().count()
            };
            let found = (sockets("-t"), sockets("-u"));
            assert_eq!(found, (more, more), "{configured:?} {said:?}");
            let _ = program.terminate();
        };
        beside(None, None, 1);
        beside(None, Some("yes"), 1);
        beside(None, Some("no"), 0);
        let text = std::fs::read_to_string(engine.config()).expect("the configuration");
        let other = format!("kernel_too = false\n{text}");
        std::fs::write(engine.config(), other).expect("write");
        engine.signal(Signal::HUP);
        says(&engine, "kernel_too is false now, and was true");
        beside(Some(false), None, 0);
        beside(Some(false), Some("yes"), 1);
    });
}

/// What `--expose` relays: ranges, datagrams, and the client's address.
#[test]
fn exposed_ports() {
    const PROGRAM: &str = "import selectors, socket\n\
        sel = selectors.DefaultSelector()\n\
        for port in (80, 81):\n\
        \x20   s = socket.create_server(('', port)); sel.register(s, selectors.EVENT_READ, port)\n\
        u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.bind(('', 53))\n\
        sel.register(u, selectors.EVENT_READ, 53)\n\
        print('up', flush=True)\n\
        while True:\n\
        \x20   for key, _ in sel.select():\n\
        \x20       if key.data == 53:\n\
        \x20           data, who = u.recvfrom(65536); u.sendto(data[::-1], who)\n\
        \x20       else:\n\
        \x20           c, _ = key.fileobj.accept()\n\
        \x20           with c, c.makefile('rb') as f:\n\
        \x20               head = f.readline()\n\
        \x20               if head.startswith(b'PROXY'): head += f.readline()\n\
        \x20               c.sendall(b'%d ' % key.data + head)";
    const CLIENT: &str = "import socket\n\
        def ask(port, host='127.0.0.1'):\n\
        \x20   s = socket.create_connection((host, port), 60)\n\
        \x20   s.sendall(b'hello\\n')\n\
        \x20   return s.getsockname()[1], s.makefile('rb').read().decode()\n\
        for port in (9000, 9001): print(ask(port)[1].strip())\n\
        own, said = ask(9080)\n\
        assert said == '80 PROXY TCP4 127.0.0.1 127.0.0.1 %d 9080\\r\\nhello\\n' % own, said\n\
        own, said = ask(9080, '::1')\n\
        assert said == '80 PROXY TCP6 ::1 ::1 %d 9080\\r\\nhello\\n' % own, said\n\
        for family, host in ((socket.AF_INET, '127.0.0.1'), (socket.AF_INET6, '::1')):\n\
        \x20   u = socket.socket(family, socket.SOCK_DGRAM); u.settimeout(60)\n\
        \x20   for n in (5, 1400, 9000):\n\
        \x20       u.sendto(b'a' * n + b'b', (host, 5353))\n\
        \x20       assert u.recv(65536) == b'b' + b'a' * n\n\
        print('all is well')";
    scenario(|bed| {
        let peer = bed.peer();
        let program = peer
            .longshore()
            .args([
                "run",
                "--expose",
                "127.0.0.1:9000-9001:80-81",
                "--expose",
                "9080:80/proxy",
            ])
            .args(["--expose", "5353:53/udp", "--", "python3", "-c", PROGRAM])
            .spawn();
        eventually("the program serves", || {
            program.stdout().contains("up").then_some(())
        });
        let said = peer.cmd("python3").args(["-c", CLIENT]).check();
        assert_eq!(said, "80 hello\n81 hello\nall is well\n");
    });
}

/// Small packets, links of two addresses, and limits of an engine of one's own.
#[test]
fn unusual_links() {
    const PROGRAM: &str = "import socket\n\
        l = socket.create_server(('', 7)); print('up', flush=True)\n\
        c, _ = l.accept()\n\
        import sys; got = c.makefile('rb').read(int(sys.argv[1]))\n\
        c.sendall(got[::-1]); c.close()";
    const CLIENT: &str = "import socket, sys\n\
        s = socket.create_connection((sys.argv[1], 7), 60); s.settimeout(60)\n\
        sent = bytes(i * i & 255 for i in range(int(sys.argv[2])))\n\
        s.sendall(sent); got = s.makefile('rb').read()\n\
        assert got == sent[::-1]; print('all is well')";
    scenario(|bed| {
        let peer = bed.peer();
        for (options, address) in [
            (&["--addr", "10.79.0.2/24", "--mtu", "576"][..], "10.79.0.2"),
            (&["--addr", "10.79.0.2/24", "--mtu", "68"], "10.79.0.2"),
            (&["--addr", "10.79.0.2/31"], "10.79.0.2"),
            (&["--addr", "10.79.0.3/31"], "10.79.0.3"),
            (&["--addr", "fd79::2/127"], "fd79::2"),
        ] {
            // The kernel itself sends segments of 36 bytes at least, which do not fit into the
            // smallest packets.
            let length = if options.contains(&"68") {
                "10"
            } else {
                "200000"
            };
            let program = peer
                .longshore()
                .arg("run")
                .args(options)
                .args(["--kernel-too", "no", "--", "python3", "-c"])
                .arg(PROGRAM.replace(
                    "('', 7)",
                    &format!(
                        "('{address}', 7), family=socket.AF_INET{}",
                        if address.contains(':') { "6" } else { "" }
                    ),
                ))
                .arg(length)
                .spawn();
            eventually("the program listens", || {
                program.stdout().contains("up").then_some(())
            });
            let said = peer
                .cmd("python3")
                .args(["-c", CLIENT, address, length])
                .check();
            assert_eq!(said, "all is well\n", "{options:?}");
            let end = program.wait();
            assert!(end.status.success(), "{end:?}");
        }
        let run = |options: &[&str]| {
            peer.longshore()
                .arg("run")
                .args(options)
                .args(["--", "/bin/true"])
                .run()
        };
        for (options, says) in [
            (
                &["--addr", "fd79::2/64", "--mtu", "576"][..],
                "too small for IPv6",
            ),
            (&["--addr", "10.79.0.2/32"], "no address for the kernel"),
            (&["--receive-memory", "1"], "must be at least 32"),
            (&["--mtu", "67"], "68 to 65535"),
        ] {
            let end = run(options);
            assert_eq!(end.status.code(), Some(125), "{options:?} {end:?}");
            assert!(end.stderr.contains(says), "{options:?} {end:?}");
        }
        assert!(run(&["--mtu", "600"]).status.success());
        const SOCKETS: &str = "import socket\nheld = []\n\
            try:\n\
            \x20   while len(held) < 200: s = socket.socket(); s.bind(('', 0)); held.append(s)\n\
            except OSError: pass\n\
            print(len(held))";
        let said = peer
            .longshore()
            .args(["run", "--max-sockets", "64", "--", "python3", "-c", SOCKETS])
            .check();
        assert_eq!(said, "64\n");
    });
}

/// An address that is alone in its network, behind a router that is on the link.
#[test]
fn a_single_address() {
    scenario(|bed| {
        let peer = bed.peer();
        for command in [
            "tuntap add dev single mode tap",
            "address add 192.0.2.1/32 dev single",
            "link set single up",
            "route add 203.0.113.7/32 dev single",
        ] {
            peer.namespace().ip(command);
        }
        let options = [
            "--port",
            "tap:single",
            "--addr",
            "203.0.113.7/32",
            "--gateway",
            "192.0.2.1",
        ];
        let program = peer
            .longshore()
            .arg("run")
            .args(options)
            .args(["--", "python3", "-m", "http.server", "8000"])
            .spawn();
        peer.wait_for("203.0.113.7:8000".parse().expect("an address"));
        let end = peer
            .cmd("curl")
            .args(["-sSf", "http://203.0.113.7:8000/"])
            .run();
        assert!(end.status.success(), "{end:?}");
        let _ = program.terminate();
    });
}
