/* Every option of sockets, IP, IPv6, TCP and UDP that Linux has: it is done as Linux does
 * it, or refused. None is taken and not done.
 *
 * The table says what becomes of each on the engine. DONE: it is set and read back, with
 * the effect that the check beside has seen. HINT: it is about what the engine does not
 * have (the kernel's queues and processors), or has no effect in Linux either. An errno:
 * the engine does not do it, and says so. What the kernel itself refuses is refused. */
#include "check.h"
#include <linux/filter.h>
#include <netinet/udp.h>

enum { DONE = -1, HINT = -2 };
enum { T4 = 1, T6 = 2, U4 = 4, U6 = 8, TCP = T4 | T6, UDP = U4 | U6, ALL = TCP | UDP, V6 = T6 | U6 };

static const struct row {
  int level, name, kinds, here;
  int value; /* what is tried */
} TABLE[] = {
    /* SOL_SOCKET */
    {SOL_SOCKET, SO_DEBUG, ALL, HINT, 1},
    {SOL_SOCKET, SO_REUSEADDR, ALL, DONE, 1},
    {SOL_SOCKET, SO_DONTROUTE, ALL, ENOPROTOOPT, 1},
    {SOL_SOCKET, SO_BROADCAST, ALL, DONE, 1}, /* groups: may_send_to_everybody */
    {SOL_SOCKET, SO_SNDBUF, ALL, DONE, 65536},
    {SOL_SOCKET, SO_RCVBUF, ALL, DONE, 65536},
    {SOL_SOCKET, SO_KEEPALIVE, ALL, DONE, 1},
    {SOL_SOCKET, SO_OOBINLINE, ALL, DONE, 1},
    {SOL_SOCKET, 11 /* SO_NO_CHECK */, TCP, HINT, 1},
    {SOL_SOCKET, 11, UDP, DONE, 1}, /* departures: without_a_checksum */
    {SOL_SOCKET, SO_PRIORITY, ALL, HINT, 3},
    {SOL_SOCKET, SO_BSDCOMPAT, ALL, HINT, 1},
    {SOL_SOCKET, SO_REUSEPORT, ALL, DONE, 1},
    {SOL_SOCKET, SO_RCVLOWAT, ALL, DONE, 1},
    {SOL_SOCKET, 29 /* SO_TIMESTAMP */, TCP, ENOPROTOOPT, 1},
    {SOL_SOCKET, 29, UDP, DONE, 1}, /* told: times */
    {SOL_SOCKET, 32 /* SO_SNDBUFFORCE, read as SO_SNDBUF */, ALL, HINT, 65536},
    {SOL_SOCKET, 33 /* SO_RCVBUFFORCE, the same */, ALL, HINT, 65536},
    {SOL_SOCKET, 35 /* SO_TIMESTAMPNS */, TCP, ENOPROTOOPT, 1},
    {SOL_SOCKET, 35, UDP, DONE, 1},
    {SOL_SOCKET, SO_MARK, ALL, EPERM, 1},
    {SOL_SOCKET, 37 /* SO_TIMESTAMPING: RX_SOFTWARE */, TCP, ENOPROTOOPT, 8},
    {SOL_SOCKET, 37, UDP, DONE, 8}, /* told: when_a_datagram_came */
    {SOL_SOCKET, 37 /* TX_SOFTWARE */, ALL, DONE, 2}, /* told: when_it_was_sent */
    {SOL_SOCKET, 37 /* BIND_PHC */, ALL, EOPNOTSUPP, 32768},
    {SOL_SOCKET, SO_RXQ_OVFL, TCP, HINT, 1},
    {SOL_SOCKET, SO_RXQ_OVFL, UDP, DONE, 1}, /* told: losses */
    {SOL_SOCKET, 41 /* SO_WIFI_STATUS */, ALL, ENOPROTOOPT, 1},
    {SOL_SOCKET, 42 /* SO_PEEK_OFF */, ALL, DONE, 0}, /* told: peek_offset_* */
    {SOL_SOCKET, 43 /* SO_NOFCS */, ALL, ENOPROTOOPT, 1},
    {SOL_SOCKET, 44 /* SO_LOCK_FILTER */, ALL, ENOPROTOOPT, 1},
    {SOL_SOCKET, 45 /* SO_SELECT_ERR_QUEUE */, TCP, HINT, 1},
    {SOL_SOCKET, 45, UDP, DONE, 1}, /* errors: errors_count_as_urgent */
    {SOL_SOCKET, SO_BUSY_POLL, ALL, HINT, 0},
    {SOL_SOCKET, 47 /* SO_MAX_PACING_RATE */, TCP, DONE, 1000000},
    {SOL_SOCKET, 47, UDP, ENOPROTOOPT, 1000000},
    {SOL_SOCKET, SO_INCOMING_CPU, ALL, HINT, 0},
    {SOL_SOCKET, 53 /* SO_CNX_ADVICE */, ALL, ENOPROTOOPT, 1},
    {SOL_SOCKET, 60 /* SO_ZEROCOPY */, ALL, DONE, 1}, /* errors: copies_are_told */
    {SOL_SOCKET, 63 /* SO_TIMESTAMP_NEW */, ALL, ENOPROTOOPT, 1},
    {SOL_SOCKET, 64 /* SO_TIMESTAMPNS_NEW */, ALL, ENOPROTOOPT, 1},
    {SOL_SOCKET, 65 /* SO_TIMESTAMPING_NEW */, ALL, ENOPROTOOPT, 8},
    {SOL_SOCKET, 69 /* SO_PREFER_BUSY_POLL */, ALL, HINT, 0},
    {SOL_SOCKET, 70 /* SO_BUSY_POLL_BUDGET */, ALL, HINT, 8},
    {SOL_SOCKET, 72 /* SO_BUF_LOCK */, ALL, ENOPROTOOPT, 1},
    {SOL_SOCKET, 73 /* SO_RESERVE_MEM */, ALL, ENOPROTOOPT, 0},
    {SOL_SOCKET, 74 /* SO_TXREHASH */, ALL, ENOPROTOOPT, 1},
    {SOL_SOCKET, 75 /* SO_RCVMARK */, ALL, ENOPROTOOPT, 1},
    {SOL_SOCKET, 82 /* SO_RCVPRIORITY */, ALL, ENOPROTOOPT, 1},
    {SOL_SOCKET, 199 /* none */, ALL, ENOPROTOOPT, 1},
    /* IPPROTO_IP */
    {IPPROTO_IP, IP_TOS, ALL, DONE, 0x10},
    {IPPROTO_IP, IP_TTL, ALL, DONE, 33},
    {IPPROTO_IP, IP_RECVOPTS, ALL, ENOPROTOOPT, 1},
    {IPPROTO_IP, IP_RETOPTS, ALL, ENOPROTOOPT, 1},
    {IPPROTO_IP, IP_PKTINFO, TCP, HINT, 1},
    {IPPROTO_IP, IP_PKTINFO, UDP, DONE, 1}, /* datagram: packet_information */
    {IPPROTO_IP, IP_MTU_DISCOVER, TCP, DONE, IP_PMTUDISC_PROBE}, /* options: segments_that_routers_may_cut */
    {IPPROTO_IP, IP_MTU_DISCOVER, UDP, DONE, IP_PMTUDISC_DO}, /* departures: not_to_be_cut */
    {IPPROTO_IP, IP_RECVERR, ALL, DONE, 1},
    {IPPROTO_IP, IP_RECVTTL, TCP, HINT, 1},
    {IPPROTO_IP, IP_RECVTTL, UDP, DONE, 1},
    {IPPROTO_IP, IP_RECVTOS, TCP, HINT, 1},
    {IPPROTO_IP, IP_RECVTOS, UDP, DONE, 1},
    {IPPROTO_IP, IP_FREEBIND, ALL, HINT, 1},
    {IPPROTO_IP, IP_PASSSEC, ALL, ENOPROTOOPT, 1},
    {IPPROTO_IP, IP_TRANSPARENT, ALL, EPERM, 1},
    {IPPROTO_IP, IP_RECVORIGDSTADDR, TCP, ENOPROTOOPT, 1},
    {IPPROTO_IP, IP_RECVORIGDSTADDR, UDP, DONE, 1}, /* told: original_destination */
    {IPPROTO_IP, IP_MINTTL, ALL, ENOPROTOOPT, 200},
    {IPPROTO_IP, 23 /* IP_CHECKSUM */, ALL, ENOPROTOOPT, 1},
    {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, ALL, DONE, 1}, /* ephemeral: bound_without_* */
    {IPPROTO_IP, 25 /* IP_RECVFRAGSIZE */, ALL, ENOPROTOOPT, 1},
    {IPPROTO_IP, 26 /* IP_RECVERR_RFC4884 */, ALL, ENOPROTOOPT, 1},
    {IPPROTO_IP, IP_MULTICAST_TTL, UDP, DONE, 5},
    {IPPROTO_IP, IP_MULTICAST_LOOP, UDP, DONE, 0},
    {IPPROTO_IP, IP_MULTICAST_ALL, UDP, DONE, 0},
    {IPPROTO_IP, IP_MULTICAST_LOOP, TCP, HINT, 0},
    {IPPROTO_IP, IP_MULTICAST_ALL, TCP, HINT, 0},
    {IPPROTO_IP, 50 /* IP_UNICAST_IF */, TCP, HINT, 0},
    {IPPROTO_IP, 50, UDP, DONE, 0}, /* devices: leaves_by_the_one_that_is_chosen */
    {IPPROTO_IP, 51 /* IP_LOCAL_PORT_RANGE */, ALL, ENOPROTOOPT, 0},
    {IPPROTO_IP, 99 /* none */, ALL, ENOPROTOOPT, 1},
    /* IPPROTO_IPV6 */
    {IPPROTO_IPV6, 2 /* IPV6_2292PKTINFO */, V6, ENOPROTOOPT, 1},
    {IPPROTO_IPV6, 8 /* IPV6_2292HOPLIMIT */, V6, ENOPROTOOPT, 1},
    {IPPROTO_IPV6, IPV6_UNICAST_HOPS, V6, DONE, 33},
    {IPPROTO_IPV6, IPV6_MULTICAST_HOPS, U6, DONE, 5},
    {IPPROTO_IPV6, IPV6_MULTICAST_LOOP, U6, DONE, 0},
    {IPPROTO_IPV6, IPV6_MULTICAST_LOOP, T6, HINT, 0},
    {IPPROTO_IPV6, IPV6_MTU_DISCOVER, T6, DONE, IPV6_PMTUDISC_INTERFACE}, /* about errors of routers alone */
    {IPPROTO_IPV6, IPV6_MTU_DISCOVER, U6, DONE, IPV6_PMTUDISC_DO},
    {IPPROTO_IPV6, IPV6_MTU, T6, HINT, 1400},
    {IPPROTO_IPV6, IPV6_MTU, U6, ENOPROTOOPT, 1400}, /* the least: departures: cut_to_the_least_mtu */
    {IPPROTO_IPV6, IPV6_RECVERR, V6, DONE, 1},
    {IPPROTO_IPV6, IPV6_V6ONLY, V6, DONE, 1},
    {IPPROTO_IPV6, 29 /* IPV6_MULTICAST_ALL */, U6, DONE, 0},
    {IPPROTO_IPV6, 29, T6, HINT, 0},
    {IPPROTO_IPV6, 31 /* IPV6_RECVERR_RFC4884 */, V6, ENOPROTOOPT, 1},
    {IPPROTO_IPV6, 33 /* IPV6_FLOWINFO_SEND */, V6, DONE, 1}, /* inet6: flow_labels */
    {IPPROTO_IPV6, IPV6_RECVPKTINFO, T6, HINT, 1},
    {IPPROTO_IPV6, IPV6_RECVPKTINFO, U6, DONE, 1},
    {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, T6, HINT, 1},
    {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, U6, DONE, 1},
    {IPPROTO_IPV6, IPV6_RECVHOPOPTS, V6, ENOPROTOOPT, 1},
    {IPPROTO_IPV6, IPV6_RECVRTHDR, V6, ENOPROTOOPT, 1},
    {IPPROTO_IPV6, IPV6_RECVDSTOPTS, V6, ENOPROTOOPT, 1},
    {IPPROTO_IPV6, IPV6_RECVPATHMTU, V6, ENOPROTOOPT, 1},
    {IPPROTO_IPV6, IPV6_DONTFRAG, T6, HINT, 1},
    {IPPROTO_IPV6, IPV6_DONTFRAG, U6, DONE, 1},
    {IPPROTO_IPV6, IPV6_RECVTCLASS, T6, HINT, 1},
    {IPPROTO_IPV6, IPV6_RECVTCLASS, U6, DONE, 1},
    {IPPROTO_IPV6, IPV6_TCLASS, V6, DONE, 0x10},
    {IPPROTO_IPV6, 70 /* IPV6_AUTOFLOWLABEL */, V6, ENOPROTOOPT, 1},
    {IPPROTO_IPV6, 72 /* IPV6_ADDR_PREFERENCES */, V6, ENOPROTOOPT, 2},
    {IPPROTO_IPV6, 73 /* IPV6_MINHOPCOUNT */, V6, ENOPROTOOPT, 200},
    {IPPROTO_IPV6, 74 /* IPV6_ORIGDSTADDR */, T6, ENOPROTOOPT, 1},
    {IPPROTO_IPV6, 74, U6, DONE, 1},
    {IPPROTO_IPV6, 76 /* IPV6_UNICAST_IF */, T6, HINT, 0},
    {IPPROTO_IPV6, 76, U6, DONE, 0},
    {IPPROTO_IPV6, IPV6_TRANSPARENT, V6, EPERM, 1},
    {IPPROTO_IPV6, 77 /* IPV6_RECVFRAGSIZE */, V6, ENOPROTOOPT, 1},
    {IPPROTO_IPV6, 78 /* IPV6_FREEBIND */, V6, HINT, 1},
    {IPPROTO_IPV6, 199 /* none */, V6, ENOPROTOOPT, 1},
    /* IPPROTO_TCP */
    {IPPROTO_TCP, TCP_NODELAY, TCP, DONE, 1},
    {IPPROTO_TCP, TCP_MAXSEG, TCP, DONE, 1000},
    {IPPROTO_TCP, TCP_CORK, TCP, DONE, 1},
    {IPPROTO_TCP, TCP_KEEPIDLE, TCP, DONE, 50},
    {IPPROTO_TCP, TCP_KEEPINTVL, TCP, DONE, 50},
    {IPPROTO_TCP, TCP_KEEPCNT, TCP, DONE, 5},
    {IPPROTO_TCP, TCP_SYNCNT, TCP, DONE, 3},
    {IPPROTO_TCP, TCP_LINGER2, TCP, DONE, 10},
    {IPPROTO_TCP, TCP_DEFER_ACCEPT, TCP, DONE, 1},
    {IPPROTO_TCP, TCP_WINDOW_CLAMP, TCP, DONE, 65536},
    {IPPROTO_TCP, TCP_QUICKACK, TCP, DONE, 1},
    {IPPROTO_TCP, 16 /* TCP_THIN_LINEAR_TIMEOUTS */, TCP, ENOPROTOOPT, 1},
    {IPPROTO_TCP, 17 /* TCP_THIN_DUPACK */, TCP, HINT, 0},
    {IPPROTO_TCP, TCP_USER_TIMEOUT, TCP, DONE, 5000},
    {IPPROTO_TCP, TCP_REPAIR, TCP, EPERM, 1},
    {IPPROTO_TCP, TCP_FASTOPEN, TCP, DONE, 5},
    {IPPROTO_TCP, 24 /* TCP_TIMESTAMP */, TCP, ENOPROTOOPT, 1},
    {IPPROTO_TCP, TCP_NOTSENT_LOWAT, TCP, DONE, 16384}, /* told: little_is_not_sent */
    {IPPROTO_TCP, TCP_SAVE_SYN, TCP, ENOPROTOOPT, 1},
    {IPPROTO_TCP, TCP_FASTOPEN_CONNECT, TCP, DONE, 1},
    {IPPROTO_TCP, 34 /* TCP_FASTOPEN_NO_COOKIE */, TCP, ENOPROTOOPT, 1},
    {IPPROTO_TCP, 36 /* TCP_INQ */, TCP, DONE, 1}, /* told: what_is_left */
    {IPPROTO_TCP, 37 /* TCP_TX_DELAY */, TCP, ENOPROTOOPT, 1000},
    {IPPROTO_TCP, 44 /* TCP_RTO_MAX_MS */, TCP, ENOPROTOOPT, 5000},
    {IPPROTO_TCP, 45 /* TCP_RTO_MIN_US */, TCP, ENOPROTOOPT, 100000},
    {IPPROTO_TCP, 46 /* TCP_DELACK_MAX_US */, TCP, ENOPROTOOPT, 100000},
    {IPPROTO_TCP, 199 /* none */, TCP, ENOPROTOOPT, 1},
    /* IPPROTO_UDP */
    {IPPROTO_UDP, UDP_CORK, UDP, DONE, 1},
    {IPPROTO_UDP, 100 /* UDP_ENCAP */, UDP, ENOPROTOOPT, 2},
    {IPPROTO_UDP, 101 /* UDP_NO_CHECK6_TX */, UDP, ENOPROTOOPT, 1},
    {IPPROTO_UDP, 102 /* UDP_NO_CHECK6_RX */, UDP, ENOPROTOOPT, 1},
    {IPPROTO_UDP, 103 /* UDP_SEGMENT */, UDP, DONE, 1000},
    {IPPROTO_UDP, 104 /* UDP_GRO */, UDP, DONE, 1}, /* told: trains */
    {IPPROTO_UDP, 199 /* none */, UDP, ENOPROTOOPT, 1},
};
enum { ROWS = sizeof TABLE / sizeof *TABLE };

/* A socket of a kind, new, or the stack's. */
static int of_kind(int kind, int decided) {
  int v6 = kind & V6, fd = SYS(socket(v6 ? AF_INET6 : AF_INET, kind & TCP ? SOCK_STREAM : SOCK_DGRAM, 0));
  if (!decided)
    return fd;
  struct sockaddr_in a = address(my_ip(), 0);
  struct sockaddr_in6 a6 = {.sin6_family = AF_INET6};
  const char *ip = getenv("ADDR6") ? getenv("ADDR6") : "::1";
  IS(inet_pton(AF_INET6, ip, &a6.sin6_addr), 1);
  if (v6)
    SYS(bind(fd, A(a6)));
  else
    SYS(bind(fd, A(a)));
  return fd;
}

static void each_is_done_or_refused(void) {
  int wrong = 0;
  for (int decided = 0; decided < 2; decided++)
    for (const struct row *r = TABLE; r < TABLE + ROWS; r++)
      for (int kind = 1; kind <= U6; kind *= 2) {
        /* When it is bound, it is too late for this. */
        if (!(r->kinds & kind) || (decided && r->level == IPPROTO_IPV6 && r->name == IPV6_V6ONLY))
          continue;
        int fd = of_kind(kind, decided), refused = r->here > 0 && on_longshore();
        int result = setsockopt(fd, r->level, r->name, &r->value, sizeof r->value);
        if (refused ? result != -1 || errno != r->here : r->here <= 0 && result != 0) {
          wrong++;
          printf("option %d of level %d (value %d, kind %d, %s): %d, errno %d\n", r->name, r->level,
                 r->value, kind, decided ? "bound" : "new", result, errno);
        }
        int value = -77;
        socklen_t n = sizeof value;
        result = getsockopt(fd, r->level, r->name, &value, &n);
        int bad = n == 1 ? (char)value != (char)r->value : value < r->value;
        if (r->here == DONE && (result != 0 || bad)) {
          wrong++;
          printf("option %d of level %d (kind %d, %s) reads %d, not %d\n", r->name, r->level, kind,
                 decided ? "bound" : "new", value, r->value);
        }
        SYS(close(fd));
      }
  if (wrong)
    FAIL("%d of %d rows differ", wrong, ROWS);
}

/* Options that take a number, and are no rows of the table, as others look at what they do. */
static int is_tested_elsewhere(int level, int name) {
  return (level == SOL_SOCKET && name == 62 /* SO_BINDTOIFINDEX: devices */) ||
         (level == IPPROTO_IPV6 && name == IPV6_MULTICAST_IF /* groups */);
}

static int is_in_the_table(int level, int name, int kind) {
  for (const struct row *r = TABLE; r < TABLE + ROWS; r++)
    if (r->level == level && r->name == name && r->kinds & kind)
      return 1;
  return 0;
}

/* Names that the table leaves out are refused, too: on the engine, no option is known that
 * is not done. */
static void unknown_ones_are_refused(void) {
  if (!on_longshore())
    return;
  static const int levels[] = {SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, IPPROTO_UDP};
  int wrong = 0;
  for (int kind = 1; kind <= U6; kind *= 2)
    for (unsigned l = 0; l < sizeof levels / sizeof *levels; l++)
      for (int name = 0; name < 256; name++) {
        if (is_in_the_table(levels[l], name, kind) || is_tested_elsewhere(levels[l], name))
          continue;
        int fd = of_kind(kind, 1), one = 1;
        if (setsockopt(fd, levels[l], name, &one, sizeof one) != -1) {
          wrong++;
          printf("option %d of level %d is taken (kind %d)\n", name, levels[l], kind);
        }
        SYS(close(fd));
      }
  if (wrong)
    FAIL("%d are taken", wrong);
}

/* Options whose values are no numbers. */
static void filters_and_keys_are_refused(void) {
  struct sock_filter drop_all = {BPF_RET | BPF_K, 0, 0, 0};
  struct sock_fprog program = {1, &drop_all};
  int t = of_kind(T4, 1), u = of_kind(U4, 1);
  char key[16] = {1};
  if (on_longshore()) {
    FAILS(setsockopt(u, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program), ENOPROTOOPT);
    FAILS(setsockopt(u, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof program), ENOPROTOOPT);
    FAILS(setsockopt(t, IPPROTO_TCP, TCP_FASTOPEN_KEY, key, sizeof key), ENOPROTOOPT);
    FAILS(setsockopt(t, IPPROTO_TCP, TCP_MD5SIG, key, sizeof key), ENOPROTOOPT);
    FAILS(setsockopt(t, IPPROTO_TCP, TCP_ULP, "tls", 3), ENOPROTOOPT);
  }
  FAILS(setsockopt(u, SOL_SOCKET, SO_DETACH_FILTER, &program, sizeof program), ENOENT);
}

/* What was refused has changed nothing: a connection goes on. */
static void refused_ones_change_nothing(void) {
  EACH_PAIR(mine, far) {
    char c = 0;
    for (int i = 0; i < ROWS; i++)
      if (TABLE[i].here > 0 && on_longshore())
        setsockopt(mine, TABLE[i].level, TABLE[i].name, &TABLE[i].value, sizeof TABLE[i].value);
    send_all(mine, "a", 1);
    receive_all(far, &c, 1);
    IS(c, 'a');
    send_all(far, "b", 1);
    receive_all(mine, &c, 1);
    IS(c, 'b');
  }
}

/* A socket that is bound to an interface of the kernel's is the kernel's. */
static void bound_to_an_interface(void) {
  struct sockaddr_in a = address("127.0.0.1", 0);
  int one = SYS(socket(AF_INET, SOCK_DGRAM, 0)), two = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  SYS(setsockopt(one, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
  SYS(setsockopt(two, SOL_SOCKET, SO_BINDTODEVICE, "lo", 3));
  SYS(bind(one, A(a)));
  a = name_of(one);
  IS(sendto(two, "x", 1, 0, A(a)), 1);
  OK(ready(one, POLLIN, 10000) & POLLIN);
  FAILS(setsockopt(two, SOL_SOCKET, SO_BINDTODEVICE, "no-such", 8), ENODEV);
}

/* One that sends by an interface of the kernel's is the kernel's, unless it is the stack's already. */
static void sends_by_an_interface(void) {
  int lo = htonl(1);
  struct sockaddr_in a = address("127.0.0.1", 0), mine = address(my_ip(), 0);
  int one = SYS(syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0)), two = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  SYS(syscall(SYS_bind, one, &a, sizeof a));
  socklen_t n = sizeof a;
  SYS(syscall(SYS_getsockname, one, &a, &n));
  SYS(setsockopt(two, IPPROTO_IP, 50 /* IP_UNICAST_IF */, &lo, sizeof lo));
  IS(sendto(two, "x", 1, 0, A(a)), 1);
  OK(ready(one, POLLIN, 10000) & POLLIN);
  int bound = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  SYS(bind(bound, A(mine)));
  if (on_longshore())
    FAILS(setsockopt(bound, IPPROTO_IP, 50, &lo, sizeof lo), EADDRNOTAVAIL);
  else
    SYS(setsockopt(bound, IPPROTO_IP, 50, &lo, sizeof lo));
}

/* They are not about the socket by which they are set. */
static void rules_of_the_firewall_are_the_kernels(void) {
  const struct {
    int family, level;
  } versions[] = {{AF_INET, IPPROTO_IP}, {AF_INET6, IPPROTO_IPV6}};
  for (int i = 0; i < 2; i++)
    for (int name = 64 /* IPT_SO_SET_REPLACE */; name <= 65 /* IPT_SO_SET_ADD_COUNTERS */; name++) {
      int raw = SYS(syscall(SYS_socket, versions[i].family, SOCK_STREAM, 0));
      int fd = SYS(socket(versions[i].family, SOCK_STREAM, 0));
      char none = 0;
      IS(syscall(SYS_setsockopt, raw, versions[i].level, name, &none, 1), -1);
      int kernels = errno;
      FAILS(setsockopt(fd, versions[i].level, name, &none, 1), kernels);
      close(raw), close(fd);
    }
}

const struct check CHECKS[] = {
    {"each_is_done_or_refused", each_is_done_or_refused},
    {"unknown_ones_are_refused", unknown_ones_are_refused},
    {"filters_and_keys_are_refused", filters_and_keys_are_refused},
    {"refused_ones_change_nothing", refused_ones_change_nothing},
    {"bound_to_an_interface", bound_to_an_interface},
    {"sends_by_an_interface", sends_by_an_interface},
    {"rules_of_the_firewall_are_the_kernels", rules_of_the_firewall_are_the_kernels},
    {0, 0},
};
