//! Larger programs with processes and event loops of their own, as servers and as
//! clients: a database, and a runtime for programs.

use longshore_e2e::servers::postgres as database;
use longshore_e2e::{Host, scenarios};
use std::net::IpAddr;

/// Results of several megabytes, rows by COPY both ways, and clients at once.
fn use_postgres(client: &Host<'_>, server: IpAddr) {
    let at = format!("-h {server} -U postgres");
    let programs = database::programs();
    let script = format!(
        "p='{programs}/psql {at} -qAtX -v ON_ERROR_STOP=1 postgres'; \
         for i in $(seq 600); do $p -c '' 2>/dev/null && break; sleep 0.1; done; \
         $p -c \"select string_agg(md5(i::text), '') from generate_series(1, 100000) i\" | wc -c; \
         $p -c 'drop table if exists rows' -c 'create table rows (n int, t text)' 2>/dev/null; \
         seq 50000 | awk '{{print $1 \"\\t\" \"row number \" $1}}' | $p -c 'copy rows from stdin'; \
         $p -c 'copy rows to stdout' | awk '{{s += $1}} END {{print NR, s}}'; \
         {programs}/pgbench {at} -i -q -s 1 postgres 2>/dev/null; \
         {programs}/pgbench {at} -n -c 4 -j 2 -t 25 postgres; \
         {programs}/pgbench {at} -n -C -S -c 2 -t 10 postgres",
    );
    let said = client.sh(&script).check();
    for part in [
        "3200001\n",
        "50000 1250025000\n",
        "actually processed: 100/100\n",
        "actually processed: 20/20\n",
    ] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

scenarios! {
    /// PostgreSQL, whose first process forks one for each connection; then psql and
    /// pgbench.
    fn postgres(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        database::make_database(bed);
        let mut server = database::start(bed, &host);
        use_postgres(&peer, host.ip());
        server.assert_running();
        let end = server.terminate();
        assert!(end.status.success(), "{end:?}");
        let _server = database::start(bed, &peer);
        // Another one: the first one's interface may be there for a moment yet.
        let other = bed.host(1);
        use_postgres(&other, other.gateway());
    }

    /// Node.js: an HTTP server with connections that are kept and one that becomes
    /// something else; then its client.
    fn node(bed) within 300 {
        let (host, peer) = (bed.host(0), bed.peer());
        let (serve, ask) = (bed.file("server.js", SERVER), bed.file("client.js", CLIENT));
        let other = bed.host(1);
        for (server, client, at) in [(&host, &peer, host.ip()), (&peer, &other, other.gateway())] {
            let mut running = server.cmd("node").arg(&serve).spawn();
            let said = client.cmd("node").arg(&ask).arg(at.to_string()).check();
            assert_eq!(said, SAID);
            running.assert_running();
        }
    }
}

/// What [`CLIENT`] says if all is well.
const SAID: &str = "large: 8000000\nuploads: 20 of 300000 on at most 4 connections\nupgraded: 100000\nrefused: ECONNREFUSED\n";

/// Sends /large, answers uploads with their length, and echoes to clients that upgrade.
const SERVER: &str = r#"
const http = require("http");
const large = Buffer.alloc(8000000, "0123456789");
const server = http.createServer((request, response) => {
  if (request.url === "/large") return response.end(large);
  let length = 0;
  request.on("data", (piece) => { length += piece.length; });
  request.on("end", () => response.end(String(length)));
});
server.on("upgrade", (request, socket, head) => {
  socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n");
  socket.write(head);
  socket.pipe(socket);
});
server.listen(8080, "0.0.0.0");
"#;

const CLIENT: &str = r#"
const http = require("http");
const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
const to = { host: process.argv[2], port: 8080, agent };
const ports = new Set();
function ask(path, body) {
  return new Promise((resolve, reject) => {
    const method = body ? "POST" : "GET";
    const request = http.request({ ...to, path, method }, (response) => {
      ports.add(request.socket.localPort);
      const pieces = [];
      response.on("data", (piece) => pieces.push(piece));
      response.on("end", () => resolve(Buffer.concat(pieces)));
    });
    request.on("error", reject);
    request.end(body);
  });
}
function upgrade(bytes) {
  return new Promise((resolve, reject) => {
    const headers = { Connection: "Upgrade", Upgrade: "echo" };
    const request = http.request({ ...to, agent: false, headers });
    request.on("error", reject);
    request.on("upgrade", (response, socket, head) => {
      let got = head;
      socket.on("data", (piece) => { got = Buffer.concat([got, piece]); });
      socket.on("end", () => resolve(got.equals(bytes) ? got.length : "other bytes"));
      socket.end(bytes);
    });
    request.end();
  });
}
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
(async () => {
  for (let i = 0; i < 300; i++) {
    if (await ask("/", Buffer.from("x")).catch(() => null)) break;
    await sleep(100);
  }
  const large = await ask("/large");
  if (!large.equals(Buffer.alloc(8000000, "0123456789"))) throw Error("other bytes");
  console.log(`large: ${large.length}`);
  ports.clear();
  const sizes = await Promise.all(Array.from({ length: 20 }, () => ask("/", Buffer.alloc(300000))));
  if (sizes.some((size) => String(size) !== "300000")) throw Error(sizes.join());
  console.log(`uploads: ${sizes.length} of 300000 on at most ${Math.max(4, ports.size)} connections`);
  console.log(`upgraded: ${await upgrade(Buffer.alloc(100000, "abcdefg"))}`);
  const refused = await new Promise((resolve) =>
    http.get({ host: to.host, port: 9, agent: false }).on("error", (e) => resolve(e.code)));
  console.log(`refused: ${refused}`);
  agent.destroy();
})().catch((error) => { console.error(error); process.exit(1); });
"#;
