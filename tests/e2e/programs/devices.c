/* Sockets that are bound to an interface (SO_BINDTODEVICE, SO_BINDTOIFINDEX), where the stack under
 * test has the loopback, too: each receives what goes to the addresses of its interface, from
 * whichever host, and sends by it alone. Those that have chosen one for what they send to one host
 * (IP_UNICAST_IF, IPV6_UNICAST_IF) receive by all. */
#include "check.h"
#include <ifaddrs.h>
#include <net/if.h>

static const char LO[] = "lo", LOOPBACK[] = "127.0.0.1";

/* The interface that has the address of the stack under test. */
static const char *the_link(void) {
  static char name[IF_NAMESIZE];
  struct sockaddr_in mine = address(my_ip(), 0);
  struct ifaddrs *all;
  SYS(getifaddrs(&all));
  for (struct ifaddrs *a = all; a; a = a->ifa_next)
    if (a->ifa_addr && a->ifa_addr->sa_family == AF_INET &&
        ((struct sockaddr_in *)a->ifa_addr)->sin_addr.s_addr == mine.sin_addr.s_addr)
      strcpy(name, a->ifa_name);
  freeifaddrs(all);
  OK(*name);
  return name;
}

static void bind_to(int fd, const char *device) {
  SYS(setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, strlen(device) + 1));
}

/* A socket at this address that is bound to an interface, if that is named. */
static int at(int type, const char *device, const char *ip, int port) {
  int fd = SYS(socket(AF_INET, type, 0));
  struct sockaddr_in a = address(ip, port);
  if (device)
    bind_to(fd, device);
  SYS(bind(fd, A(a)));
  if (type == SOCK_STREAM)
    SYS(listen(fd, 8));
  return fd;
}

static int port_of(int fd) { return ntohs(name_of(fd).sin_port); }

/* Whether a stream is connected there; it is refused otherwise. */
static int is_served(const char *ip, int port, const char *device) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in a = address(ip, port);
  if (device)
    bind_to(fd, device);
  int done = connect(fd, A(a));
  OK(!done || errno == ECONNREFUSED);
  SYS(close(fd));
  return done == 0;
}

/* Whether a datagram that is sent there arrives. */
static int arrives(int to, const char *ip, const char *device) {
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address(ip, port_of(to));
  char c;
  if (device)
    bind_to(fd, device);
  IS(sendto(fd, "x", 1, 0, A(a)), 1);
  int has = ready(to, POLLIN, 100) & POLLIN;
  if (has)
    IS(recv(to, &c, 1, 0), 1);
  SYS(close(fd));
  return has != 0;
}

static void streams_by_the_loopback(void) {
  int listener = at(SOCK_STREAM, LO, LOOPBACK, 0), fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in a = name_of(listener);
  bind_to(fd, LO);
  SYS(connect(fd, A(a)));
  int accepted = SYS(accept(listener, 0, 0));
  char text[IF_NAMESIZE] = "";
  socklen_t n = sizeof text;
  SYS(getsockopt(accepted, SOL_SOCKET, SO_BINDTODEVICE, text, &n));
  OK(n == sizeof LO && strcmp(text, LO) == 0);
  IS(option(accepted, SOL_SOCKET, 62 /* SO_BINDTOIFINDEX */), 1);
  send_all(fd, "ping", 4);
  receive_all(accepted, text, 4);
  OK(is_served(LOOPBACK, port_of(listener), 0));
}

static void datagrams_by_the_loopback(void) {
  int one = at(SOCK_DGRAM, LO, LOOPBACK, 0), other = at(SOCK_DGRAM, LO, LOOPBACK, 0);
  struct sockaddr_in a = name_of(one), from;
  socklen_t n = sizeof from;
  char c;
  IS(sendto(other, "a", 1, 0, A(a)), 1);
  IS(recvfrom(one, &c, 1, 0, (void *)&from, &n), 1);
  OK(same(from, name_of(other)));
  SYS(connect(one, A(from)));
  IS(send(one, "b", 1, 0), 1);
  IS(recv(other, &c, 1, 0), 1);
  OK(arrives(other, LOOPBACK, 0));
}

static void both_versions(void) {
  for (int i = 0; i < 2; i++) {
    int type = i ? SOCK_DGRAM : SOCK_STREAM;
    int one = SYS(socket(AF_INET6, type, 0)), other = SYS(socket(AF_INET6, type, 0));
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t n = sizeof a;
    bind_to(one, LO);
    set(other, SOL_SOCKET, 62 /* SO_BINDTOIFINDEX */, 1);
    SYS(bind(one, A(a)));
    SYS(getsockname(one, (void *)&a, &n));
    if (type == SOCK_STREAM)
      SYS(listen(one, 1));
    SYS(connect(other, A(a)));
    IS(send(other, "x", 1, 0), 1);
    OK(ready(one, POLLIN, 10000) & POLLIN);
    int wrong = SYS(socket(AF_INET6, type, 0));
    bind_to(wrong, the_link());
    a.sin6_port = 0;
    FAILS(bind(wrong, A(a)), EADDRNOTAVAIL);
  }
}

static void all_addresses_of_an_interface(void) {
  const char *link = the_link();
  int by_lo = at(SOCK_STREAM, LO, "0.0.0.0", 0), by_link = at(SOCK_STREAM, link, "0.0.0.0", 0);
  OK(is_served(LOOPBACK, port_of(by_lo), 0));
  OK(!is_served(my_ip(), port_of(by_lo), 0));
  OK(!is_served(LOOPBACK, port_of(by_link), 0));
  OK(is_served(my_ip(), port_of(by_link), 0));
  OK(is_served(my_ip(), port_of(by_link), link));
  /* What comes over the wire comes by the link. */
  int far = far_socket(SOCK_STREAM);
  FAILS(far_connect(far, address(my_ip(), port_of(by_lo))), ECONNREFUSED);
  far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, address(my_ip(), port_of(by_link))));
  by_lo = at(SOCK_DGRAM, LO, "0.0.0.0", 0), by_link = at(SOCK_DGRAM, link, "0.0.0.0", 0);
  OK(arrives(by_lo, LOOPBACK, 0));
  OK(!arrives(by_lo, my_ip(), 0));
  OK(!arrives(by_link, LOOPBACK, 0));
  OK(arrives(by_link, my_ip(), 0));
  OK(arrives(by_link, my_ip(), link));
}

static void one_port_for_each_interface(void) {
  const char *link = the_link();
  for (int i = 0; i < 2; i++) {
    int type = i ? SOCK_DGRAM : SOCK_STREAM;
    int by_lo = at(type, LO, "0.0.0.0", 0), port = port_of(by_lo);
    int by_link = at(type, link, "0.0.0.0", port), by_any = SYS(socket(AF_INET, type, 0));
    struct sockaddr_in a = address("0.0.0.0", port);
    FAILS(bind(by_any, A(a)), EADDRINUSE);
    for (int to_lo = 0; to_lo < 2; to_lo++) {
      int fd = SYS(socket(AF_INET, type, 0));
      a = address(to_lo ? LOOPBACK : my_ip(), port);
      SYS(connect(fd, A(a)));
      if (type == SOCK_DGRAM)
        IS(send(fd, "x", 1, 0), 1);
      OK(ready(to_lo ? by_lo : by_link, POLLIN, 10000) & POLLIN);
      OK(!ready(to_lo ? by_link : by_lo, POLLIN, 0));
      char c;
      IS(type == SOCK_STREAM ? accept(to_lo ? by_lo : by_link, 0, 0) >= 0
                             : recv(to_lo ? by_lo : by_link, &c, 1, 0) == 1, 1);
    }
  }
}

static void bound_to_another_later(void) {
  int listener = at(SOCK_STREAM, LO, "0.0.0.0", 0), fd = at(SOCK_DGRAM, 0, "0.0.0.0", 0);
  OK(!is_served(my_ip(), port_of(listener), 0));
  bind_to(listener, "");
  OK(is_served(my_ip(), port_of(listener), 0));
  OK(is_served(LOOPBACK, port_of(listener), 0));
  bind_to(listener, the_link());
  OK(!is_served(LOOPBACK, port_of(listener), 0));
  OK(arrives(fd, my_ip(), 0));
  bind_to(fd, LO);
  OK(!arrives(fd, my_ip(), 0));
  OK(arrives(fd, LOOPBACK, 0));
}

/* It sends by its interface, on which nobody has the address. */
static void sends_by_its_interface(void) {
  int fd = at(SOCK_DGRAM, 0, "0.0.0.0", 0), listener = at(SOCK_STREAM, 0, "0.0.0.0", 0);
  OK(arrives(fd, LOOPBACK, LO));
  OK(!arrives(fd, LOOPBACK, the_link()));
  for (int is_bound = 0; is_bound < 2; is_bound++) {
    int stream = SYS(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in a = address(LOOPBACK, port_of(listener)), any = address("0.0.0.0", 0);
    bind_to(stream, the_link());
    if (is_bound)
      SYS(bind(stream, A(any)));
    nonblocking(stream);
    FAILS(connect(stream, A(a)), EINPROGRESS);
    OK(!ready(stream, POLLOUT, 100));
  }
}

enum { UNICAST_IF = 50 /* IP_UNICAST_IF */, UNICAST_IF6 = 76 /* IPV6_UNICAST_IF */ };

/* A number of an interface in the network's order, as these options have it. */
static int numbered(const char *device) { return htonl(if_nametoindex(device)); }

static void comes(int to, const char *text) {
  char got[8];
  OK(ready(to, POLLIN, 10000) & POLLIN);
  IS(recv(to, got, sizeof got, 0), 1);
  IS(*got, *text);
}

static void nothing_comes(int to) { IS(ready(to, POLLIN, 100), 0); }

/* It leaves by the interface that its socket has chosen, on which nobody may have the address. */
static void leaves_by_the_one_that_is_chosen(void) {
  int to = at(SOCK_DGRAM, 0, "0.0.0.0", 0);
  struct sockaddr_in by_lo = address(LOOPBACK, port_of(to)), by_link = address(my_ip(), port_of(to));
  for (int is_bound = 0; is_bound < 2; is_bound++) {
    int fd = is_bound ? at(SOCK_DGRAM, 0, "0.0.0.0", 0) : SYS(socket(AF_INET, SOCK_DGRAM, 0));
    set(fd, IPPROTO_IP, UNICAST_IF, numbered(the_link()));
    IS(option(fd, IPPROTO_IP, UNICAST_IF), numbered(the_link()));
    IS(sendto(fd, "a", 1, 0, A(by_lo)), 1);
    nothing_comes(to);
    IS(sendto(fd, "b", 1, 0, A(by_link)), 1);
    comes(to, "b");
    set(fd, IPPROTO_IP, UNICAST_IF, numbered(LO));
    IS(sendto(fd, "c", 1, 0, A(by_lo)), 1);
    comes(to, "c");
    set(fd, IPPROTO_IP, UNICAST_IF, 0);
    IS(sendto(fd, "d", 1, 0, A(by_lo)), 1);
    comes(to, "d");
    IS(sendto(fd, "e", 1, 0, A(by_link)), 1);
    comes(to, "e");
    /* What it receives comes by any. */
    set(fd, IPPROTO_IP, UNICAST_IF, numbered(the_link()));
    OK(arrives(fd, LOOPBACK, 0));
    OK(arrives(fd, my_ip(), 0));
    SYS(close(fd));
  }
}

/* What a peer is found by is the one that is chosen when it is. */
static void chosen_before_it_has_a_peer(void) {
  int to = at(SOCK_DGRAM, 0, "0.0.0.0", 0), fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address(LOOPBACK, port_of(to));
  set(fd, IPPROTO_IP, UNICAST_IF, numbered(LO));
  SYS(connect(fd, A(a)));
  IS(send(fd, "a", 1, 0), 1);
  comes(to, "a");
  int other = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  set(other, IPPROTO_IP, UNICAST_IF, numbered(the_link()));
  SYS(connect(other, A(a)));
  IS(send(other, "b", 1, 0), 1);
  nothing_comes(to);
}

/* It is nothing to streams. */
static void streams_choose_none(void) {
  int listener = at(SOCK_STREAM, 0, "0.0.0.0", 0), fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in a = address(LOOPBACK, port_of(listener));
  set(listener, IPPROTO_IP, UNICAST_IF, numbered(the_link()));
  set(fd, IPPROTO_IP, UNICAST_IF, numbered(the_link()));
  SYS(connect(fd, A(a)));
  IS(option(fd, IPPROTO_IP, UNICAST_IF), numbered(the_link()));
  int accepted = SYS(accept(listener, 0, 0));
  IS(option(accepted, IPPROTO_IP, UNICAST_IF), numbered(the_link()));
}

static void chosen_in_vain(void) {
  for (int i = 0; i < 8; i++) {
    int v6 = i & 1, level = v6 ? IPPROTO_IPV6 : IPPROTO_IP, name = v6 ? UNICAST_IF6 : UNICAST_IF;
    int fd = SYS(socket(v6 ? AF_INET6 : AF_INET, i & 2 ? SOCK_STREAM : SOCK_DGRAM, 0));
    struct sockaddr_in any = address("0.0.0.0", 0);
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
    int none = htonl(0x7fff0000), link[2] = {numbered(the_link()), 0};
    if (i & 4)
      SYS(v6 ? bind(fd, A(any6)) : bind(fd, A(any)));
    IS(option(fd, level, name), 0);
    FAILS(setsockopt(fd, level, name, &none, sizeof none), EADDRNOTAVAIL);
    FAILS(setsockopt(fd, level, name, link, 1), EINVAL);
    FAILS(setsockopt(fd, level, name, link, 8), EINVAL);
    IS(option(fd, level, name), 0);
    set(fd, level, name, *link);
    IS(option(fd, level, name), *link);
    bind_to(fd, the_link());
    FAILS(setsockopt(fd, level, name, link, sizeof *link), EINVAL);
    set(fd, level, name, 0);
    IS(option(fd, level, name), 0);
    SYS(close(fd));
  }
  /* One of IPv4 has none by IPv6. */
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0)), link = numbered(the_link());
  FAILS(setsockopt(fd, IPPROTO_IPV6, UNICAST_IF6, &link, sizeof link), ENOPROTOOPT);
}

#define GROUP "239.77.9.1"

/* Joins the group on the loopback in one of several ways. */
static void join_there(int fd, int how) {
  struct ip_mreqn m = {.imr_multiaddr = address(GROUP, 0).sin_addr};
  struct group_req r = {.gr_interface = if_nametoindex(LO)};
  struct sockaddr_in group = address(GROUP, 0);
  memcpy(&r.gr_group, &group, sizeof group);
  if (how == 0)
    m.imr_address = address(LOOPBACK, 0).sin_addr;
  else
    m.imr_ifindex = if_nametoindex(LO);
  SYS(how == 2 ? setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &r, sizeof r)
               : setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m));
}

/* Has what is sent to groups go there in one of several ways. */
static void send_there(int fd, int how) {
  struct ip_mreqn m = {.imr_ifindex = if_nametoindex(LO)};
  struct in_addr ip = address(LOOPBACK, 0).sin_addr;
  if (how == 0)
    SYS(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &ip, sizeof ip));
  if (how == 1)
    SYS(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &m, sizeof m));
  if (how == 2)
    bind_to(fd, LO);
}

/* One of the far end that is in the group on its link. */
static int far_member(int port) {
  int fd = far_socket(SOCK_DGRAM);
  struct ip_mreqn m = {.imr_multiaddr = address(GROUP, 0).sin_addr};
  m.imr_address = address(far_ip(), 0).sin_addr;
  SYS(far_option(fd, SOL_SOCKET, SO_REUSEADDR, 1));
  SYS(far_option(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0));
  SYS(far_bind(fd, address("0.0.0.0", port)));
  SYS(syscall(SYS_setsockopt, fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m));
  return fd;
}

/* What is sent to a group there comes to its members there, and does not leave the host. It is from
 * the loopback's address if that was named; otherwise Linux has it from another of the host's. */
static void groups_on_the_loopback(void) {
  for (int i = 0; i < 2 * 3 * 3; i++) {
    int to = SYS(socket(AF_INET, SOCK_DGRAM, 0)), fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in any = address("0.0.0.0", 0);
    set(to, SOL_SOCKET, SO_REUSEADDR, 1);
    SYS(bind(to, A(any)));
    int connected = i / 9, far = far_in_kernel() ? far_member(port_of(to)) : -1;
    struct sockaddr_in group = address(GROUP, port_of(to)), from;
    socklen_t n = sizeof from;
    char buf[8];
    join_there(to, i % 3);
    send_there(fd, i / 3 % 3);
    if (connected)
      SYS(connect(fd, A(group)));
    IS(connected ? send(fd, "a", 1, 0) : sendto(fd, "a", 1, 0, A(group)), 1);
    IS(ready(to, POLLIN, 10000), POLLIN);
    IS(recvfrom(to, buf, sizeof buf, 0, (struct sockaddr *)&from, &n), 1);
    OK(from.sin_addr.s_addr == htonl(INADDR_LOOPBACK) ||
       (i / 3 % 3 != 0 && from.sin_addr.s_addr == address(my_ip(), 0).sin_addr.s_addr));
    if (far >= 0) {
      sleep_ms(20);
      FAILS(syscall(SYS_recvfrom, far, buf, sizeof buf, MSG_DONTWAIT, 0, 0), EAGAIN);
      SYS(syscall(SYS_close, far));
    }
    SYS(close(to));
    SYS(close(fd));
  }
}

/* A membership is the same however its interface is named. */
static void a_group_is_joined_once_on_the_loopback(void) {
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct ip_mreqn by_index = {.imr_multiaddr = address(GROUP, 0).sin_addr};
  struct ip_mreq by_address = {by_index.imr_multiaddr, address(LOOPBACK, 0).sin_addr};
  by_index.imr_ifindex = if_nametoindex(LO);
  for (int i = 0; i < 2; i++) {
    SYS(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_address, sizeof by_address));
    FAILS(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &by_index, sizeof by_index), EADDRINUSE);
    SYS(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &by_index, sizeof by_index));
    FAILS(setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &by_address, sizeof by_address),
          EADDRNOTAVAIL);
  }
}

const struct check CHECKS[] = {
    {"groups_on_the_loopback", groups_on_the_loopback},
    {"a_group_is_joined_once_on_the_loopback", a_group_is_joined_once_on_the_loopback},
    {"streams_by_the_loopback", streams_by_the_loopback},
    {"datagrams_by_the_loopback", datagrams_by_the_loopback},
    {"both_versions", both_versions},
    {"all_addresses_of_an_interface", all_addresses_of_an_interface},
    {"one_port_for_each_interface", one_port_for_each_interface},
    {"bound_to_another_later", bound_to_another_later},
    {"sends_by_its_interface", sends_by_its_interface},
    {"leaves_by_the_one_that_is_chosen", leaves_by_the_one_that_is_chosen},
    {"chosen_before_it_has_a_peer", chosen_before_it_has_a_peer},
    {"streams_choose_none", streams_choose_none},
    {"chosen_in_vain", chosen_in_vain},
    {0, 0},
};
