/* The ports of sockets that ask for none in particular. */
#include "check.h"

/* New sockets get a port of this range that is not among the others. */
static void give(const char *range, const char *reserved) {
  write_setting("ip_local_port_range", range);
  write_setting("ip_local_reserved_ports", reserved);
  /* Longshore looks at most once a millisecond. */
  sleep_ms(20);
}

static int with(int kind, int option) {
  int fd = SYS(socket(AF_INET, kind, 0));
  if (option)
    set(fd, SOL_SOCKET, option, 1);
  return fd;
}

static int bind_at(int fd, int port) {
  struct sockaddr_in at = address(my_ip(), port);
  return bind(fd, A(at));
}

static int port_of(int fd) { return ntohs(name_of(fd).sin_port); }

static const int KINDS[] = {SOCK_STREAM, SOCK_DGRAM};

static void reserved_ports_are_not_given(void) {
  give("40000 40003", "40000,40002-40003\n");
  for (int i = 0; i < 2; i++) {
    int one = with(KINDS[i], 0), other = with(KINDS[i], 0), named = with(KINDS[i], 0);
    SYS(bind_at(one, 0));
    IS(port_of(one), 40001);
    FAILS(bind_at(other, 0), EADDRINUSE);
    SYS(bind_at(named, 40002));
    IS(port_of(named), 40002);
    SYS(close(one));
    SYS(bind_at(other, 0));
    IS(port_of(other), 40001);
    SYS(close(other));
    SYS(close(named));
  }
}

/* Where the kernel serves all interfaces beside the stack under test, no port is given that something
 * of the kernel's has: who has bound to all addresses, or listens without, is reached by the loopback,
 * too. */
static void a_port_that_something_else_has_is_not_given(void) {
  struct sockaddr_in taken = address("0.0.0.0", 40200), any = address("0.0.0.0", 0);
  struct sockaddr_in there = address("127.0.0.1", 40201), unserved = unserved_address();
  struct linger at_once = {.l_onoff = 1};
  if (!far_in_kernel())
    return;
  for (int i = 0; i < 4 * 6; i++) {
    int how = i % 4, kind = how == 3 ? SOCK_DGRAM : SOCK_STREAM;
    int other = far_socket(kind), fd = with(kind, 0);
    SYS(far_bind(other, taken));
    if (how == 2)
      FAILS(connect(fd, A(unserved)), ECONNREFUSED);
    give("40200 40201", "\n");
    if (how & 1)
      SYS(bind(fd, A(any)));
    if (kind == SOCK_STREAM)
      SYS(listen(fd, 8));
    give("32768 60999", "\n");
    IS(port_of(fd), 40201);
    if (kind == SOCK_STREAM) {
      int client = with(kind, 0);
      SYS(connect(client, A(there)));
      int accepted = SYS(accept(fd, NULL, NULL));
      SYS(setsockopt(accepted, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
      SYS(close(accepted));
      SYS(close(client));
    }
    SYS(close(fd));
    SYS(syscall(SYS_close, other));
  }
}

static void reserved_ports_are_not_given_to_those_who_connect(void) {
  int listener = my_listener(8);
  struct sockaddr_in to = name_of(listener);
  give("40010 40012", "40010,40012\n");
  int datagrams = with(SOCK_DGRAM, 0), more = with(SOCK_DGRAM, 0);
  SYS(connect(datagrams, A(to)));
  IS(port_of(datagrams), 40011);
  FAILS(connect(more, A(to)), EAGAIN);
  int stream = with(SOCK_STREAM, 0), another = with(SOCK_STREAM, 0);
  SYS(connect(stream, A(to)));
  IS(port_of(stream), 40011);
  int accepted = SYS(accept(listener, NULL, NULL));
  char byte;
  IS(write(stream, "s", 1), 1);
  IS(read(accepted, &byte, 1), 1);
  FAILS(connect(another, A(to)), EADDRNOTAVAIL);
  /* A connection that is reset keeps no port in TIME-WAIT. */
  struct linger at_once = {.l_onoff = 1};
  SYS(setsockopt(accepted, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
  SYS(close(accepted));
}

static void reservations_follow_what_is_set(void) {
  give("40020 40021", "40020\n");
  int one = with(SOCK_DGRAM, 0), other = with(SOCK_DGRAM, 0), third = with(SOCK_DGRAM, 0);
  SYS(bind_at(one, 0));
  IS(port_of(one), 40021);
  give("40020 40021", "\n");
  SYS(bind_at(other, 0));
  IS(port_of(other), 40020);
  give("40020 40023", "1-40022\n");
  SYS(bind_at(third, 0));
  IS(port_of(third), 40023);
}

static void datagram_sockets_that_reuse_share_what_they_are_given(void) {
  const int options[] = {SO_REUSEADDR, SO_REUSEPORT};
  for (int i = 0; i < 2; i++) {
    give(i ? "40031 40031" : "40030 40030", "\n");
    int plain = with(SOCK_DGRAM, 0);
    for (int n = 0; n < 4; n++) {
      int fd = with(SOCK_DGRAM, options[i]);
      SYS(bind_at(fd, 0));
      IS(port_of(fd), 40030 + i);
    }
    FAILS(bind_at(plain, 0), EADDRINUSE);
    FAILS(bind_at(with(SOCK_DGRAM, options[1 - i]), 0), EADDRINUSE);
  }
}

static void those_who_connect_share_what_they_are_given(void) {
  int listener = my_listener(8);
  struct sockaddr_in to = name_of(listener);
  give("40040 40040", "\n");
  for (int n = 0; n < 3; n++) {
    int fd = with(SOCK_DGRAM, SO_REUSEADDR);
    SYS(connect(fd, A(to)));
    IS(port_of(fd), 40040);
  }
  SYS(bind_at(with(SOCK_DGRAM, SO_REUSEADDR), 40040));
  FAILS(bind_at(with(SOCK_DGRAM, 0), 40040), EADDRINUSE);
  FAILS(connect(with(SOCK_DGRAM, 0), A(to)), EAGAIN);
}

static void streams_do_not_share_what_they_are_given(void) {
  const int options[] = {SO_REUSEADDR, SO_REUSEPORT};
  for (int i = 0; i < 2; i++) {
    give(i ? "40054 40055" : "40050 40051", "\n");
    for (int n = 0; n < 2; n++)
      SYS(bind_at(with(SOCK_STREAM, options[i]), 0));
    FAILS(bind_at(with(SOCK_STREAM, options[i]), 0), EADDRINUSE);
    FAILS(listen(with(SOCK_STREAM, options[i]), 1), EADDRINUSE);
  }
}

/* Where net.ipv4.ip_autobind_reuse is on, those with SO_REUSEADDR do, but for those that have
 * SO_REUSEPORT, too; and where there is a port that nobody has, they get that. */
static void streams_that_may_share_what_they_are_given(void) {
  give("40070 40071", "\n");
  write_setting("ip_autobind_reuse", "1");
  sleep_ms(20);
  int first = with(SOCK_STREAM, SO_REUSEADDR), other = with(SOCK_STREAM, SO_REUSEADDR);
  SYS(bind_at(first, 0));
  SYS(bind_at(other, 0));
  OK(port_of(first) != port_of(other));
  for (int n = 0; n < 3; n++) {
    int fd = with(SOCK_STREAM, SO_REUSEADDR);
    SYS(bind_at(fd, 0));
    OK(port_of(fd) == port_of(first) || port_of(fd) == port_of(other));
  }
  FAILS(bind_at(with(SOCK_STREAM, 0), 0), EADDRINUSE);
  FAILS(bind_at(with(SOCK_STREAM, SO_REUSEPORT), 0), EADDRINUSE);
  int both = with(SOCK_STREAM, SO_REUSEADDR);
  set(both, SOL_SOCKET, SO_REUSEPORT, 1);
  SYS(bind_at(both, 0));
  give("40072 40072", "\n");
  for (int n = 0; n < 2; n++) {
    int alike = with(SOCK_STREAM, SO_REUSEADDR);
    set(alike, SOL_SOCKET, SO_REUSEPORT, 1);
    if (n == 0)
      SYS(bind_at(alike, 0));
    else
      FAILS(bind_at(alike, 0), EADDRINUSE);
  }
  /* Nobody shares what another listens on. */
  give("40073 40073", "\n");
  int listener = with(SOCK_STREAM, SO_REUSEADDR);
  SYS(bind_at(listener, 0));
  SYS(listen(listener, 1));
  FAILS(bind_at(with(SOCK_STREAM, SO_REUSEADDR), 0), EADDRINUSE);
  write_setting("ip_autobind_reuse", "0");
  give("40074 40074", "\n");
  SYS(bind_at(with(SOCK_STREAM, SO_REUSEADDR), 0));
  FAILS(bind_at(with(SOCK_STREAM, SO_REUSEADDR), 0), EADDRINUSE);
}

static void other_addresses_leave_a_port(void) {
  give("40060 40061", "\n");
  for (int i = 0; i < 2; i++) {
    struct sockaddr_in6 at = {.sin6_family = AF_INET6};
    IS(inet_pton(AF_INET6, getenv("ADDR6"), &at.sin6_addr), 1);
    for (int n = 0; n < 2; n++) {
      int fd = SYS(socket(AF_INET6, KINDS[i], 0));
      SYS(bind(fd, A(at)));
    }
    FAILS(bind(SYS(socket(AF_INET6, KINDS[i], 0)), A(at)), EADDRINUSE);
    for (int n = 0; n < 2; n++)
      SYS(bind_at(with(KINDS[i], 0), 0));
    FAILS(bind_at(with(KINDS[i], 0), 0), EADDRINUSE);
  }
}

static int without_port(int kind) {
  int fd = with(kind, 0);
  set(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  IS(option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT), 1);
  SYS(bind_at(fd, 0));
  IS(port_of(fd), 0);
  IS(name_of(fd).sin_addr.s_addr, address(my_ip(), 0).sin_addr.s_addr);
  return fd;
}

static int is_one_of(int port, int first, int last) { return first <= port && port <= last; }

/* IP_BIND_ADDRESS_NO_PORT: the port of a connection is chosen when that is made, and others may have
 * it that have other peers. */
static void bound_without_ports_they_share_them(void) {
  enum { LISTENERS = 3, PORTS = 2 };
  int listeners[LISTENERS], one[LISTENERS * PORTS];
  give("40083 40089", "\n");
  for (int i = 0; i < LISTENERS; i++)
    listeners[i] = my_listener(8);
  give("40080 40081", "\n");
  for (int n = 0; n < LISTENERS * PORTS; n++) {
    struct sockaddr_in to = name_of(listeners[n % LISTENERS]);
    one[n] = without_port(SOCK_STREAM);
    SYS(connect(one[n], A(to)));
    OK(is_one_of(port_of(one[n]), 40080, 40081));
    IS(name_of(one[n]).sin_addr.s_addr, address(my_ip(), 0).sin_addr.s_addr);
    int accepted = SYS(accept(listeners[n % LISTENERS], NULL, NULL));
    OK(same(peer_of(accepted), name_of(one[n])));
    char byte;
    IS(write(accepted, "s", 1), 1);
    IS(read(one[n], &byte, 1), 1);
  }
  int more = without_port(SOCK_STREAM), bound = with(SOCK_STREAM, 0);
  struct sockaddr_in to = name_of(listeners[0]);
  FAILS(connect(more, A(to)), EADDRNOTAVAIL);
  FAILS(bind_at(bound, 0), EADDRINUSE);
  /* It still has its address, and no port. */
  IS(port_of(more), 0);
  give("40082 40082", "\n");
  int other = without_port(SOCK_STREAM);
  struct sockaddr_in next = name_of(listeners[1]);
  SYS(connect(other, A(next)));
  IS(port_of(other), 40082);
  SYS(connect(more, A(to)));
  IS(port_of(more), 40082);
  int accepted = SYS(accept(listeners[0], NULL, NULL));
  struct linger at_once = {.l_onoff = 1};
  SYS(setsockopt(accepted, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
  SYS(close(accepted));
}

/* Until it has a port, it may be bound again; `listen` gives it one. */
static void bound_without_a_port_it_is_bound_again(void) {
  give("40090 40090", "\n");
  for (int i = 0; i < 2; i++) {
    int fd = without_port(KINDS[i]);
    SYS(bind_at(fd, 0));
    IS(port_of(fd), 0);
    SYS(bind_at(fd, 40091));
    IS(port_of(fd), 40091);
    FAILS(bind_at(fd, 0), EINVAL);
    SYS(close(fd));
  }
  int listener = without_port(SOCK_STREAM), other = without_port(SOCK_STREAM);
  SYS(listen(listener, 1));
  IS(port_of(listener), 40090);
  FAILS(listen(other, 1), EADDRINUSE);
  FAILS(bind_at(with(SOCK_STREAM, 0), 40090), EADDRINUSE);
  give("40092 40092", "\n");
  struct sockaddr_in to = name_of(listener), from;
  int fd = without_port(SOCK_STREAM);
  SYS(connect(fd, A(to)));
  IS(port_of(fd), 40092);
  int accepted = SYS(accept(listener, NULL, NULL));
  from = peer_of(accepted);
  OK(same(from, name_of(fd)));
  IS(option(accepted, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT), 1);
  struct linger at_once = {.l_onoff = 1};
  SYS(setsockopt(accepted, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
  SYS(close(accepted));
  /* With all addresses, too. */
  struct sockaddr_in any = address("0.0.0.0", 0);
  give("40093 40093", "\n");
  int all = with(SOCK_STREAM, 0);
  set(all, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
  SYS(bind(all, A(any)));
  OK(same(name_of(all), any));
  SYS(listen(all, 1));
  IS(port_of(all), 40093);
}

/* A datagram socket gets its port with the first datagram, or its peer. */
static void bound_without_a_port_it_sends(void) {
  int far = with(SOCK_DGRAM, 0);
  SYS(bind_at(far, 0));
  struct sockaddr_in to = name_of(far);
  give("40100 40101", "\n");
  for (int connects = 0; connects < 2; connects++) {
    int fd = without_port(SOCK_DGRAM);
    if (connects)
      SYS(connect(fd, A(to)));
    else
      IS(sendto(fd, "x", 1, 0, A(to)), 1);
    OK(is_one_of(port_of(fd), 40100, 40101));
    IS(name_of(fd).sin_addr.s_addr, address(my_ip(), 0).sin_addr.s_addr);
    FAILS(bind_at(fd, 0), EINVAL);
  }
  FAILS(connect(without_port(SOCK_DGRAM), A(to)), EAGAIN);
  FAILS(sendto(without_port(SOCK_DGRAM), "x", 1, 0, A(to)), EAGAIN);
}

static void bound_without_a_port_in_ipv6(void) {
  struct sockaddr_in6 at = {.sin6_family = AF_INET6}, is;
  IS(inet_pton(AF_INET6, getenv("ADDR6"), &at.sin6_addr), 1);
  int listener = SYS(socket(AF_INET6, SOCK_STREAM, 0));
  SYS(bind(listener, A(at)));
  SYS(listen(listener, 8));
  socklen_t n = sizeof is;
  give("40110 40110", "\n");
  int other = SYS(socket(AF_INET6, SOCK_STREAM, 0)), fds[2];
  SYS(bind(other, A(at)));
  SYS(listen(other, 8));
  SYS(getsockname(other, (struct sockaddr *)&is, &n));
  IS(ntohs(is.sin6_port), 40110);
  give("40111 40111", "\n");
  for (int i = 0; i < 2; i++) {
    fds[i] = SYS(socket(AF_INET6, SOCK_STREAM, 0));
    set(fds[i], IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    SYS(bind(fds[i], A(at)));
    n = sizeof is;
    SYS(getsockname(fds[i], (struct sockaddr *)&is, &n));
    IS(is.sin6_port, 0);
    IS(memcmp(&is.sin6_addr, &at.sin6_addr, 16), 0);
    n = sizeof is;
    SYS(getsockname(i ? listener : other, (struct sockaddr *)&is, &n));
    SYS(connect(fds[i], A(is)));
    n = sizeof is;
    SYS(getsockname(fds[i], (struct sockaddr *)&is, &n));
    IS(ntohs(is.sin6_port), 40111);
  }
}

const struct check CHECKS[] = {
    {"a_port_that_something_else_has_is_not_given", a_port_that_something_else_has_is_not_given},
    {"reserved_ports_are_not_given", reserved_ports_are_not_given},
    {"reserved_ports_are_not_given_to_those_who_connect",
     reserved_ports_are_not_given_to_those_who_connect},
    {"reservations_follow_what_is_set", reservations_follow_what_is_set},
    {"datagram_sockets_that_reuse_share_what_they_are_given",
     datagram_sockets_that_reuse_share_what_they_are_given},
    {"those_who_connect_share_what_they_are_given",
     those_who_connect_share_what_they_are_given},
    {"streams_do_not_share_what_they_are_given", streams_do_not_share_what_they_are_given},
    {"streams_that_may_share_what_they_are_given", streams_that_may_share_what_they_are_given},
    {"other_addresses_leave_a_port", other_addresses_leave_a_port},
    {"bound_without_ports_they_share_them", bound_without_ports_they_share_them},
    {"bound_without_a_port_it_is_bound_again", bound_without_a_port_it_is_bound_again},
    {"bound_without_a_port_it_sends", bound_without_a_port_it_sends},
    {"bound_without_a_port_in_ipv6", bound_without_a_port_in_ipv6},
    {0, 0},
};
