/* What goes to more than one station: IPv4 broadcasts, and groups of both versions. */
#define GROUP "239.77.1.2"
#include "group_traffic.h"
#include <ifaddrs.h>
#include <net/if.h>

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif

static struct ip_mreqn membership(const char *group, const char *ip) {
  struct ip_mreqn m = {0};
  m.imr_multiaddr = address(group, 0).sin_addr;
  m.imr_address = address(ip, 0).sin_addr;
  return m;
}

static int join(int fd, const char *group) {
  struct ip_mreqn m = membership(group, my_ip());
  return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m);
}

static int leave(int fd, const char *group) {
  struct ip_mreqn m = membership(group, my_ip());
  return setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &m, sizeof m);
}

static void a_group_is_heard_while_it_is_joined(void) {
  struct sockaddr_in at;
  int fd = on_all(&at), far = far_sender();
  SYS(join(fd, GROUP));
  far_says(far, "to all", in_group(at));
  hears(fd, "to all");
  SYS(leave(fd, GROUP));
  far_says(far, "gone", in_group(at));
  hears_nothing(fd);
}

static void joined_before_it_is_bound(void) {
  int fd = udp(), far = far_sender();
  SYS(join(fd, GROUP));
  struct sockaddr_in at = address("0.0.0.0", 0);
  SYS(bind(fd, A(at)));
  at = name_of(fd);
  far_says(far, "late", in_group(at));
  hears(fd, "late");
}

static void refusals(void) {
  struct sockaddr_in at;
  int fd = on_all(&at);
  FAILS(leave(fd, GROUP), EADDRNOTAVAIL);
  SYS(join(fd, GROUP));
  FAILS(join(fd, GROUP), EADDRINUSE);
  FAILS(join(fd, my_ip()), EINVAL);
  char name[32];
  for (int i = 0; i < 19; i++) {
    snprintf(name, sizeof name, "239.77.2.%d", i);
    SYS(join(fd, name));
  }
  FAILS(join(fd, "239.77.3.1"), ENOBUFS);
  SYS(leave(fd, GROUP));
  SYS(join(fd, "239.77.3.1"));
}

static void all_who_share_a_port_hear(void) {
  int fds[3], far = far_sender();
  struct sockaddr_in at = address("0.0.0.0", 0);
  for (int i = 0; i < 3; i++) {
    fds[i] = udp();
    set(fds[i], SOL_SOCKET, SO_REUSEADDR, 1);
    SYS(bind(fds[i], A(at)));
    at = name_of(fds[i]);
  }
  SYS(join(fds[0], GROUP));
  SYS(join(fds[1], GROUP));
  /* The third has not joined, and by IP_MULTICAST_ALL hears what the others do. */
  far_says(far, "every", in_group(at));
  for (int i = 0; i < 3; i++)
    hears(fds[i], "every");
  set(fds[2], IPPROTO_IP, IP_MULTICAST_ALL, 0);
  far_says(far, "member", in_group(at));
  hears(fds[0], "member");
  hears(fds[1], "member");
  hears_nothing(fds[2]);
  /* With the first one gone, the second is still in. */
  SYS(close(fds[0]));
  far_says(far, "still", in_group(at));
  hears(fds[1], "still");
}

static void bound_to_the_group(void) {
  int fd = udp(), far = far_sender();
  struct sockaddr_in at = address(GROUP, 0);
  SYS(bind(fd, A(at)));
  at = name_of(fd);
  OK(at.sin_addr.s_addr == address(GROUP, 0).sin_addr.s_addr);
  SYS(join(fd, GROUP));
  far_says(far, "group", in_group(at));
  hears(fd, "group");
  /* What is for this station alone is another's. */
  far_says(far, "alone", address(my_ip(), ntohs(at.sin_port)));
  hears_nothing(fd);
}

/* A far member of the group. */
static int far_member(struct sockaddr_in *at) {
  int fd = far_socket(SOCK_DGRAM);
  SYS(far_bind(fd, address("0.0.0.0", 0)));
  *at = far_name(fd);
  struct ip_mreqn m = membership(GROUP, far_ip());
  SYS(far_in_kernel() ? syscall(SYS_setsockopt, fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m)
                      : setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m));
  return fd;
}

static void my_interface(int fd) {
  struct in_addr by = address(my_ip(), 0).sin_addr;
  SYS(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by));
}

static void sent_to_a_group(void) {
  struct sockaddr_in at, from;
  int fd = udp(), far = far_member(&at);
  struct sockaddr_in mine = address(my_ip(), 0);
  SYS(bind(fd, A(mine)));
  my_interface(fd);
  struct sockaddr_in to = in_group(at);
  IS(sendto(fd, "hello", 5, 0, A(to)), 5);
  char buf[8];
  socklen_t n = sizeof from;
  IS(ready(far, POLLIN, 10000), POLLIN);
  IS(recvfrom(far, buf, 8, 0, (struct sockaddr *)&from, &n), 5);
  OK(from.sin_addr.s_addr == mine.sin_addr.s_addr);
  /* Connected, too. */
  SYS(connect(fd, A(to)));
  IS(send(fd, "again", 5, 0), 5);
  hears(far, "again");
}

static void the_interface_that_was_chosen_is_told(void) {
  struct in_addr mine = address(my_ip(), 0).sin_addr, any = {0}, told;
  struct ip_mreq request = {.imr_interface = mine};
  int fds[] = {udp(), udp()};
  struct sockaddr_in at = address(my_ip(), 0);
  SYS(bind(fds[1], A(at)));
  for (int i = 0; i < 2; i++) {
    socklen_t n = sizeof told;
    my_interface(fds[i]);
    SYS(getsockopt(fds[i], IPPROTO_IP, IP_MULTICAST_IF, &told, &n));
    IS(told.s_addr, mine.s_addr);
    SYS(setsockopt(fds[i], IPPROTO_IP, IP_MULTICAST_IF, &any, sizeof any));
    SYS(getsockopt(fds[i], IPPROTO_IP, IP_MULTICAST_IF, &told, &n));
    IS(told.s_addr, 0);
    SYS(setsockopt(fds[i], IPPROTO_IP, IP_MULTICAST_IF, &request, sizeof request));
    SYS(getsockopt(fds[i], IPPROTO_IP, IP_MULTICAST_IF, &told, &n));
    IS(told.s_addr, mine.s_addr);
  }
  /* Datagrams go there all the same. */
  int far = far_member(&at);
  struct sockaddr_in to = in_group(at);
  IS(sendto(fds[0], "hello", 5, 0, A(to)), 5);
  hears(far, "hello");
}

static void the_ipv6_interface_that_was_chosen_is_told(void) {
  /* The interface that has my address. */
  struct ifaddrs *all, *one;
  struct in6_addr mine;
  int index = 0, fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  OK(inet_pton(AF_INET6, getenv("ADDR6"), &mine) == 1);
  SYS(getifaddrs(&all));
  for (one = all; one; one = one->ifa_next) {
    struct sockaddr_in6 *a = (void *)one->ifa_addr;
    if (a && a->sin6_family == AF_INET6 && !memcmp(&a->sin6_addr, &mine, sizeof mine))
      index = if_nametoindex(one->ifa_name);
  }
  freeifaddrs(all);
  OK(index > 0);
  set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, index);
  IS(option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF), index);
  set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, 0);
  IS(option(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF), 0);
}

static void hops(void) {
  struct sockaddr_in at;
  int fd = udp(), far = far_member(&at);
  my_interface(fd);
  IS(option(fd, IPPROTO_IP, IP_MULTICAST_TTL), 1);
  IS(option(fd, IPPROTO_IP, IP_MULTICAST_LOOP), 1);
  int on = 1;
  SYS(far_in_kernel() ? syscall(SYS_setsockopt, far, IPPROTO_IP, IP_RECVTTL, &on, sizeof on)
                      : setsockopt(far, IPPROTO_IP, IP_RECVTTL, &on, sizeof on));
  struct sockaddr_in to = in_group(at);
  for (int want = 1; want < 200; want += 60) {
    set(fd, IPPROTO_IP, IP_MULTICAST_TTL, want);
    IS(option(fd, IPPROTO_IP, IP_MULTICAST_TTL), want);
    IS(sendto(fd, "x", 1, 0, A(to)), 1);
    char c, control[64];
    struct iovec v = {&c, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    IS(ready(far, POLLIN, 10000), POLLIN);
    IS(recvmsg(far, &m, 0), 1);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    if (!h && !far_in_kernel())
      continue; /* who is on the engine is not told of hops */
    OK(h && h->cmsg_type == IP_TTL);
    int ttl;
    memcpy(&ttl, CMSG_DATA(h), sizeof ttl);
    IS(ttl, want);
  }
}

static void what_is_sent_comes_back(void) {
  struct sockaddr_in at;
  int fd = on_all(&at);
  SYS(join(fd, GROUP));
  my_interface(fd);
  struct sockaddr_in to = in_group(at);
  IS(sendto(fd, "echo", 4, 0, A(to)), 4);
  hears(fd, "echo");
  set(fd, IPPROTO_IP, IP_MULTICAST_LOOP, 0);
  IS(sendto(fd, "quiet", 5, 0, A(to)), 5);
  hears_nothing(fd);
}

static void the_group_is_told_beside_the_datagram(void) {
  struct sockaddr_in at;
  int fd = on_all(&at), far = far_sender();
  SYS(join(fd, GROUP));
  set(fd, IPPROTO_IP, IP_PKTINFO, 1);
  far_says(far, "x", in_group(at));
  char c, control[64];
  struct iovec v = {&c, 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  IS(recvmsg(fd, &m, 0), 1);
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  OK(h && h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_PKTINFO);
  struct in_pktinfo info;
  memcpy(&info, CMSG_DATA(h), sizeof info);
  OK(info.ipi_addr.s_addr == address(GROUP, 0).sin_addr.s_addr);
  OK(info.ipi_spec_dst.s_addr == address(my_ip(), 0).sin_addr.s_addr);
}

/* The last address of my network. */
static struct sockaddr_in everybody_near(int port) {
  struct sockaddr_in a = address(my_ip(), port);
  a.sin_addr.s_addr |= htonl(0xff);
  return a;
}

static void broadcasts_need_permission(void) {
  int fd = udp(), connected = udp();
  struct sockaddr_in mine = address(my_ip(), 0);
  SYS(bind(fd, A(mine)));
  struct sockaddr_in near = everybody_near(9), all = address("255.255.255.255", 9);
  FAILS(sendto(fd, "x", 1, 0, A(near)), EACCES);
  FAILS(sendto(fd, "x", 1, 0, A(all)), EACCES);
  FAILS(connect(connected, A(near)), EACCES);
  set(fd, SOL_SOCKET, SO_BROADCAST, 1);
  IS(sendto(fd, "x", 1, 0, A(near)), 1);
  IS(sendto(fd, "x", 1, 0, A(all)), 1);
  set(fd, SOL_SOCKET, SO_BROADCAST, 0);
  FAILS(sendto(fd, "x", 1, 0, A(near)), EACCES);
  set(connected, SOL_SOCKET, SO_BROADCAST, 1);
  SYS(connect(connected, A(near)));
  IS(send(connected, "x", 1, 0), 1);
}

static void broadcasts_are_heard(void) {
  struct sockaddr_in at;
  int fd = on_all(&at), far = far_sender(), on = 1;
  SYS(far_in_kernel() ? syscall(SYS_setsockopt, far, SOL_SOCKET, SO_BROADCAST, &on, sizeof on)
                      : setsockopt(far, SOL_SOCKET, SO_BROADCAST, &on, sizeof on));
  far_says(far, "near", everybody_near(ntohs(at.sin_port)));
  hears(fd, "near");
  /* A socket that is bound to one address does not hear what is for all. */
  int one = udp();
  struct sockaddr_in mine = address(my_ip(), 0);
  SYS(bind(one, A(mine)));
  far_says(far, "near", everybody_near(ntohs(name_of(one).sin_port)));
  hears_nothing(one);
}

static void broadcasts_are_sent(void) {
  int fd = udp(), far = far_socket(SOCK_DGRAM);
  SYS(far_bind(far, address("0.0.0.0", 0)));
  struct sockaddr_in at = far_name(far), near = everybody_near(ntohs(at.sin_port));
  struct sockaddr_in mine = address(my_ip(), 0), from;
  SYS(bind(fd, A(mine)));
  set(fd, SOL_SOCKET, SO_BROADCAST, 1);
  IS(sendto(fd, "hello", 5, 0, A(near)), 5);
  char buf[8];
  socklen_t n = sizeof from;
  IS(ready(far, POLLIN, 10000), POLLIN);
  IS(recvfrom(far, buf, 8, 0, (struct sockaddr *)&from, &n), 5);
  OK(from.sin_addr.s_addr == mine.sin_addr.s_addr);
}

static void a_connection_is_between_two(void) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  nonblocking(fd);
  struct sockaddr_in near = everybody_near(9), group = address(GROUP, 9);
  OK(connect(fd, A(near)) == -1 && (errno == EACCES || errno == ENETUNREACH));
  FAILS(connect(fd, A(group)), ENETUNREACH);
}

static void kernels_interfaces_stay(void) {
  struct sockaddr_in at;
  int fd = on_all(&at), other = SYS(syscall(SYS_socket, AF_INET, SOCK_DGRAM, 0));
  struct ip_mreqn m = membership(GROUP, "127.0.0.1");
  m.imr_ifindex = if_nametoindex("lo");
  SYS(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m));
  struct in_addr by = address("127.0.0.1", 0).sin_addr;
  SYS(syscall(SYS_setsockopt, other, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by));
  struct sockaddr_in to = in_group(at);
  IS(syscall(SYS_sendto, other, "loop", 4, 0, &to, sizeof to), 4);
  hears(fd, "loop");
}

/* No interface has the address of a group, or everybody's. */
static void addresses_that_no_interface_has(void) {
  static const char *const none[] = {GROUP, "224.0.0.1", "255.255.255.255"};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    struct sockaddr_in at;
    int fd = on_all(&at), fresh = udp();
    struct in_addr by = address(none[i], 0).sin_addr;
    FAILS(setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by), EADDRNOTAVAIL);
    FAILS(setsockopt(fresh, IPPROTO_IP, IP_MULTICAST_IF, &by, sizeof by), EADDRNOTAVAIL);
    struct ip_mreqn m = membership(GROUP, none[i]);
    FAILS(setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m), ENODEV);
    SYS(close(fd));
    SYS(close(fresh));
  }
}

/* A socket of IPv6 hears those groups of IPv4 alone that it has joined itself, unless it asks for
 * what others have joined, too. */
static void ipv4_groups_on_ipv6_sockets(void) {
  int fds[2], far = far_sender();
  struct sockaddr_in6 at = {.sin6_family = AF_INET6};
  socklen_t n = sizeof at;
  for (int i = 0; i < 2; i++) {
    fds[i] = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
    set(fds[i], SOL_SOCKET, SO_REUSEADDR, 1);
    SYS(bind(fds[i], A(at)));
    SYS(getsockname(fds[i], (struct sockaddr *)&at, &n));
    IS(option(fds[i], IPPROTO_IP, IP_MULTICAST_ALL), 0);
    IS(option(fds[i], IPPROTO_IPV6, IPV6_MULTICAST_ALL), 1);
  }
  SYS(join(fds[0], GROUP));
  struct sockaddr_in to = address(GROUP, ntohs(at.sin6_port));
  far_says(far, "member", to);
  hears(fds[0], "member");
  hears_nothing(fds[1]);
  /* What is said of groups of IPv6 is not about these. */
  set(fds[1], IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
  set(fds[1], IPPROTO_IPV6, IPV6_MULTICAST_ALL, 1);
  far_says(far, "member", to);
  hears(fds[0], "member");
  hears_nothing(fds[1]);
  set(fds[1], IPPROTO_IP, IP_MULTICAST_ALL, 1);
  set(fds[1], IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
  far_says(far, "every", to);
  hears(fds[0], "every");
  hears(fds[1], "every");
}

static void ipv6_groups(void) {
  int fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  struct sockaddr_in6 at = {.sin6_family = AF_INET6};
  SYS(bind(fd, A(at)));
  socklen_t n = sizeof at;
  SYS(getsockname(fd, (struct sockaddr *)&at, &n));
  struct ipv6_mreq m = {0};
  OK(inet_pton(AF_INET6, "ff15::7701", &m.ipv6mr_multiaddr) == 1);
  FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP, &m, sizeof m), EADDRNOTAVAIL);
  SYS(setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &m, sizeof m));
  FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &m, sizeof m), EADDRINUSE);
  IS(option(fd, IPPROTO_IPV6, IPV6_MULTICAST_HOPS), 1);
  at.sin6_addr = m.ipv6mr_multiaddr;
  IS(sendto(fd, "six", 3, 0, A(at)), 3);
  hears(fd, "six");
  set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 0);
  IS(sendto(fd, "six", 3, 0, A(at)), 3);
  hears_nothing(fd);
  set(fd, IPPROTO_IPV6, IPV6_MULTICAST_LOOP, 1);
  SYS(setsockopt(fd, IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP, &m, sizeof m));
  IS(sendto(fd, "six", 3, 0, A(at)), 3);
  hears_nothing(fd);
}

/* An option of one version of IP, for a socket or a group of the other. */
static void of_the_other_version(void) {
  struct ipv6_mreq six = {0};
  OK(inet_pton(AF_INET6, "ff15::7702", &six.ipv6mr_multiaddr) == 1);
  struct group_req old = {0}, new = {0};
  struct sockaddr_in group = address(GROUP, 0);
  struct sockaddr_in6 group6 = {.sin6_family = AF_INET6, .sin6_addr = six.ipv6mr_multiaddr};
  memcpy(&old.gr_group, &group, sizeof group);
  memcpy(&new.gr_group, &group6, sizeof group6);
  int any = 0;
  for (int bound = 0; bound < 2; bound++) {
    struct sockaddr_in at = address(my_ip(), 0);
    int fd = udp();
    if (bound)
      SYS(bind(fd, A(at)));
    FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_ADD_MEMBERSHIP, &six, sizeof six), ENOPROTOOPT);
    FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_DROP_MEMBERSHIP, &six, sizeof six), ENOPROTOOPT);
    FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &any, sizeof any), ENOPROTOOPT);
    FAILS(setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_GROUP, &new, sizeof new), ENOPROTOOPT);
    FAILS(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &new, sizeof new), EINVAL);
    SYS(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_GROUP, &old, sizeof old));
    int fd6 = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
    struct sockaddr_in6 at6 = {.sin6_family = AF_INET6};
    if (bound)
      SYS(bind(fd6, A(at6)));
    FAILS(setsockopt(fd6, IPPROTO_IPV6, MCAST_JOIN_GROUP, &old, sizeof old), EADDRNOTAVAIL);
    FAILS(setsockopt(fd6, IPPROTO_IP, MCAST_JOIN_GROUP, &new, sizeof new), EINVAL);
    SYS(setsockopt(fd6, IPPROTO_IPV6, MCAST_JOIN_GROUP, &new, sizeof new));
  }
}

const struct check CHECKS[] = {
    {"a_group_is_heard_while_it_is_joined", a_group_is_heard_while_it_is_joined},
    {"joined_before_it_is_bound", joined_before_it_is_bound},
    {"refusals", refusals},
    {"all_who_share_a_port_hear", all_who_share_a_port_hear},
    {"bound_to_the_group", bound_to_the_group},
    {"sent_to_a_group", sent_to_a_group},
    {"the_interface_that_was_chosen_is_told", the_interface_that_was_chosen_is_told},
    {"the_ipv6_interface_that_was_chosen_is_told", the_ipv6_interface_that_was_chosen_is_told},
    {"hops", hops},
    {"what_is_sent_comes_back", what_is_sent_comes_back},
    {"the_group_is_told_beside_the_datagram", the_group_is_told_beside_the_datagram},
    {"broadcasts_need_permission", broadcasts_need_permission},
    {"broadcasts_are_heard", broadcasts_are_heard},
    {"broadcasts_are_sent", broadcasts_are_sent},
    {"a_connection_is_between_two", a_connection_is_between_two},
    {"kernels_interfaces_stay", kernels_interfaces_stay},
    {"addresses_that_no_interface_has", addresses_that_no_interface_has},
    {"ipv4_groups_on_ipv6_sockets", ipv4_groups_on_ipv6_sockets},
    {"ipv6_groups", ipv6_groups},
    {"of_the_other_version", of_the_other_version},
    {0, 0},
};
