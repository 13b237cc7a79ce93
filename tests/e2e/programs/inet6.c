/* IPv6, and IPv4 on sockets of IPv6. ADDR6 and FAR_ADDR6 are the addresses of the
 * two ends, beside ADDR and FAR_ADDR. */
#include "check.h"

static struct sockaddr_in6 address6(const char *ip, int port) {
  struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  if (inet_pton(AF_INET6, ip, &a.sin6_addr) != 1)
    FAIL("bad address %s", ip);
  return a;
}

static const char *my_ip6(void) {
  return getenv("ADDR6") ? getenv("ADDR6") : "::1";
}

static const char *far_ip6(void) {
  return getenv("FAR_ADDR6") ? getenv("FAR_ADDR6") : "::1";
}

/* An IPv4 address as an IPv6 socket has it. */
static struct sockaddr_in6 mapped(const char *ip, int port) {
  char text[INET6_ADDRSTRLEN];
  snprintf(text, sizeof text, "::ffff:%s", ip);
  return address6(text, port);
}

static int same_ip(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b) {
  return memcmp(&a->sin6_addr, &b->sin6_addr, 16) == 0;
}

typedef int name_call(int, struct sockaddr *, socklen_t *);

static struct sockaddr_in6 name6(name_call *call, int fd) {
  struct sockaddr_in6 a;
  memset(&a, 0xee, sizeof a);
  socklen_t n = sizeof a;
  SYS(call(fd, (struct sockaddr *)&a, &n));
  IS(n, sizeof a);
  IS(a.sin6_family, AF_INET6);
  IS(a.sin6_flowinfo, 0);
  return a;
}

static int mine6(int type) { return SYS(socket(AF_INET6, type, 0)); }

static int listen_at(struct sockaddr_in6 a, int only) {
  int fd = mine6(SOCK_STREAM);
  set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  set(fd, IPPROTO_IPV6, IPV6_V6ONLY, only);
  SYS(bind(fd, A(a)));
  SYS(listen(fd, 8));
  return fd;
}

static int far_socket6(int type) {
  return SYS(far_in_kernel() ? syscall(SYS_socket, AF_INET6, type, 0)
                             : socket(AF_INET6, type, 0));
}

static int far_bind6(int fd, struct sockaddr_in6 a) {
  return far_in_kernel() ? syscall(SYS_bind, fd, &a, sizeof a) : bind(fd, A(a));
}

static int far_connect6(int fd, struct sockaddr_in6 a) {
  return far_in_kernel() ? syscall(SYS_connect, fd, &a, sizeof a)
                         : connect(fd, A(a));
}

static struct sockaddr_in6 far_name6(int fd) {
  struct sockaddr_in6 a;
  socklen_t n = sizeof a;
  SYS(far_in_kernel() ? syscall(SYS_getsockname, fd, &a, &n)
                      : getsockname(fd, (struct sockaddr *)&a, &n));
  return a;
}

static int far_listener6(void) {
  int fd = far_socket6(SOCK_STREAM);
  SYS(far_bind6(fd, address6(far_ip6(), 0)));
  SYS(far_in_kernel() ? syscall(SYS_listen, fd, 8) : listen(fd, 8));
  return fd;
}

static void both_ways(int mine, int far) {
  enum { N = 2000000 };
  pid_t out = send_in_background(mine, N);
  receive_pattern(far, N);
  joined(out);
  pid_t back = send_in_background(far, N);
  receive_pattern(mine, N);
  joined(back);
}

static void accepted(void) {
  int listener = listen_at(address6(my_ip6(), 0), 0);
  struct sockaddr_in6 at = name6(getsockname, listener);
  int far = far_socket6(SOCK_STREAM);
  SYS(far_connect6(far, at));
  struct sockaddr_in6 from;
  socklen_t n = sizeof from;
  int mine = SYS(accept(listener, (struct sockaddr *)&from, &n));
  IS(n, sizeof from);
  struct sockaddr_in6 far_at = far_name6(far), peer = name6(getpeername, mine);
  OK(same_ip(&from, &far_at) && from.sin6_port == far_at.sin6_port);
  OK(same_ip(&peer, &from) && peer.sin6_port == from.sin6_port);
  struct sockaddr_in6 local = name6(getsockname, mine);
  OK(same_ip(&local, &at) && local.sin6_port == at.sin6_port);
  both_ways(mine, far);
}

static void connected(void) {
  int listener = far_listener6();
  struct sockaddr_in6 at = far_name6(listener);
  int mine = mine6(SOCK_STREAM);
  SYS(connect(mine, A(at)));
  int far = far_accept(listener);
  struct sockaddr_in6 local = name6(getsockname, mine), ours = address6(my_ip6(), 0);
  OK(same_ip(&local, &ours) && local.sin6_port != 0);
  struct sockaddr_in6 peer = name6(getpeername, mine);
  OK(same_ip(&peer, &at) && peer.sin6_port == at.sin6_port);
  both_ways(mine, far);
}

static void refused(void) {
  int fd = far_socket6(SOCK_STREAM);
  SYS(far_bind6(fd, address6(far_ip6(), 0)));
  struct sockaddr_in6 nobody = far_name6(fd);
  int mine = mine6(SOCK_STREAM);
  FAILS(connect(mine, A(nobody)), ECONNREFUSED);
}

static void wildcard_takes_both(void) {
  int listener = listen_at(address6("::", 0), 0);
  struct sockaddr_in6 at = name6(getsockname, listener), none = address6("::", 0);
  OK(same_ip(&at, &none) && at.sin6_port != 0);
  int port = ntohs(at.sin6_port);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, address(my_ip(), port)));
  struct sockaddr_in6 from;
  socklen_t n = sizeof from;
  int mine = SYS(accept(listener, (struct sockaddr *)&from, &n));
  struct sockaddr_in6 far_at = mapped(far_ip(), 0), here = mapped(my_ip(), 0);
  OK(n == sizeof from && from.sin6_family == AF_INET6 && same_ip(&from, &far_at));
  struct sockaddr_in6 local = name6(getsockname, mine);
  OK(same_ip(&local, &here) && local.sin6_port == at.sin6_port);
  both_ways(mine, far);
  int far6 = far_socket6(SOCK_STREAM);
  SYS(far_connect6(far6, address6(my_ip6(), port)));
  int mine_6 = SYS(accept(listener, 0, 0));
  struct sockaddr_in6 peer = name6(getpeername, mine_6), far_ = address6(far_ip6(), 0);
  OK(same_ip(&peer, &far_));
}

static void mapped_address_is_ipv4(void) {
  int listener = listen_at(mapped(my_ip(), 0), 0);
  int port = ntohs(name6(getsockname, listener).sin6_port);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, address(my_ip(), port)));
  SYS(accept(listener, 0, 0));
  int at = far_listener(8);
  int to = mine6(SOCK_STREAM);
  struct sockaddr_in6 there = mapped(far_ip(), ntohs(far_name(at).sin_port));
  SYS(connect(to, A(there)));
  struct sockaddr_in6 peer = name6(getpeername, to), here = mapped(my_ip(), 0);
  OK(same_ip(&peer, &there));
  struct sockaddr_in6 local = name6(getsockname, to);
  OK(same_ip(&local, &here));
  both_ways(to, far_accept(at));
}

static void ipv6_only(void) {
  int six = listen_at(address6("::", 0), 1);
  IS(option(six, IPPROTO_IPV6, IPV6_V6ONLY), 1);
  int port = ntohs(name6(getsockname, six).sin6_port);
  int four = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in any = address("0.0.0.0", port);
  /* IPv4's wildcard is free, unless the port is somebody else's there. */
  for (int more = 20; bind(four, A(any)) != 0; more--) {
    OK(errno == EADDRINUSE && more > 0);
    SYS(close(six));
    six = listen_at(address6("::", 0), 1);
    port = ntohs(name6(getsockname, six).sin6_port);
    any = address("0.0.0.0", port);
  }
  int far = far_socket(SOCK_STREAM);
  FAILS(far_connect(far, address(my_ip(), port)), ECONNREFUSED);
  SYS(listen(four, 8));
  far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, address(my_ip(), port)));
  SYS(accept(four, 0, 0));
  int far6 = far_socket6(SOCK_STREAM);
  SYS(far_connect6(far6, address6(my_ip6(), port)));
  SYS(accept(six, 0, 0));
  IS(ready(four, POLLIN, 0), 0);
  int to = mine6(SOCK_STREAM);
  set(to, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  struct sockaddr_in6 there = mapped(far_ip(), 9);
  FAILS(connect(to, A(there)), ENETUNREACH);
}

static void wildcards_clash(void) {
  int six = mine6(SOCK_STREAM);
  struct sockaddr_in6 any = address6("::", 0);
  SYS(bind(six, A(any)));
  int port = ntohs(name6(getsockname, six).sin6_port);
  int four = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in any4 = address("0.0.0.0", port), mine4 = address(my_ip(), port);
  FAILS(bind(four, A(any4)), EADDRINUSE);
  FAILS(bind(four, A(mine4)), EADDRINUSE);
  int value = 1;
  FAILS(setsockopt(six, IPPROTO_IPV6, IPV6_V6ONLY, &value, sizeof value), EINVAL);
}

static void wrong_family(void) {
  int six = mine6(SOCK_STREAM), four = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in a = address(far_ip(), 9);
  struct sockaddr_in6 b = address6(far_ip6(), 9);
  FAILS(connect(six, A(a)), EINVAL);
  FAILS(connect(four, A(b)), EAFNOSUPPORT);
  FAILS(bind(six, A(a)), EINVAL);
  FAILS(bind(four, A(b)), EAFNOSUPPORT);
  struct sockaddr_in6 foreign = address6("2001:db8::77", 0);
  FAILS(bind(six, A(foreign)), EADDRNOTAVAIL);
}

static void options_of_ipv6(void) {
  int fd = mine6(SOCK_STREAM);
  IS(option(fd, IPPROTO_IPV6, IPV6_V6ONLY), 0);
  IS(option(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS), 64);
  set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 9);
  set(fd, IPPROTO_IPV6, IPV6_TCLASS, 0x20);
  int listener = far_listener6();
  struct sockaddr_in6 at = far_name6(listener);
  SYS(connect(fd, A(at)));
  IS(option(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS), 9);
  IS(option(fd, IPPROTO_IPV6, IPV6_TCLASS), 0x20);
  int domain = option(fd, SOL_SOCKET, SO_DOMAIN);
  IS(domain, AF_INET6);
  close(far_accept(listener));
}

static ssize_t far_send6(int fd, const void *p, size_t n, struct sockaddr_in6 a) {
  return far_in_kernel() ? syscall(SYS_sendto, fd, p, n, 0, &a, sizeof a)
                         : sendto(fd, p, n, 0, A(a));
}

static ssize_t far_receive(int fd, void *p, size_t n) {
  return far_in_kernel() ? syscall(SYS_recvfrom, fd, p, n, 0, 0, 0)
                         : recvfrom(fd, p, n, 0, 0, 0);
}

/* A socket of the kernel's has a flow label for itself: then no other socket uses one that it has
 * not asked for. */
static void make_labels_exclusive(void) {
  struct {
    struct in6_addr to;
    uint32_t label;
    uint8_t action, share;
    uint16_t flags, expires, linger;
    uint32_t unused;
  } request = {
      .to = address6(far_ip6(), 0).sin6_addr, .label = htonl(0x77001), .share = 1, .flags = 1};
  long fd = syscall(SYS_socket, AF_INET6, SOCK_DGRAM, 0);
  syscall(SYS_setsockopt, fd, IPPROTO_IPV6, 32 /* IPV6_FLOWLABEL_MGR */, &request, sizeof request);
}

static void flow_labels(void) {
  enum { SEND = 33 /* IPV6_FLOWINFO_SEND */ };
  make_labels_exclusive();
  int fds[] = {mine6(SOCK_STREAM), mine6(SOCK_STREAM), mine6(SOCK_DGRAM)};
  int listener = far_listener6(), far = far_socket6(SOCK_DGRAM);
  struct sockaddr_in6 at = far_name6(listener);
  at.sin6_flowinfo = htonl(0x77002);
  /* Unless it is asked for, nobody looks at it. */
  IS(option(fds[0], IPPROTO_IPV6, SEND), 0);
  SYS(connect(fds[0], A(at)));
  close(far_accept(listener));
  set(fds[1], IPPROTO_IPV6, SEND, 1);
  IS(option(fds[1], IPPROTO_IPV6, SEND), 1);
  FAILS(connect(fds[1], A(at)), EINVAL);
  /* A traffic class is no label. */
  at.sin6_flowinfo = htonl(0x28 << 20);
  SYS(connect(fds[1], A(at)));
  IS(option(fds[1], IPPROTO_IPV6, IPV6_TCLASS), 0);
  close(far_accept(listener));
  /* That there is a connection is said first. */
  at.sin6_flowinfo = htonl(0x77002);
  FAILS(connect(fds[1], A(at)), EISCONN);

  SYS(far_bind6(far, address6(far_ip6(), 0)));
  at = far_name6(far);
  struct iovec v = {"four", 4};
  struct msghdr m = {.msg_name = &at, .msg_namelen = sizeof at, .msg_iov = &v, .msg_iovlen = 1};
  char got[8];
  for (int on = 1; on >= 0; on--) {
    set(fds[2], IPPROTO_IPV6, SEND, on);
    at.sin6_flowinfo = htonl(0x77002);
    if (on) {
      FAILS(sendto(fds[2], "four", 4, 0, A(at)), EINVAL);
      FAILS(sendmsg(fds[2], &m, 0), EINVAL);
      FAILS(connect(fds[2], A(at)), EINVAL);
      at.sin6_flowinfo = htonl(0x28 << 20);
    }
    IS(sendto(fds[2], "four", 4, 0, A(at)), 4);
    IS(sendmsg(fds[2], &m, 0), 4);
    IS(far_receive(far, got, sizeof got), 4);
    IS(far_receive(far, got, sizeof got), 4);
  }
}

static void datagrams(void) {
  static unsigned char out[65536], in[65536];
  pattern(out, sizeof out, 0);
  int mine = mine6(SOCK_DGRAM), far = far_socket6(SOCK_DGRAM);
  struct sockaddr_in6 here = address6(my_ip6(), 0);
  SYS(bind(mine, A(here)));
  SYS(far_bind6(far, address6(far_ip6(), 0)));
  here = name6(getsockname, mine);
  struct sockaddr_in6 there = far_name6(far);
  static const size_t lengths[] = {0, 1, 1452, 1453, 8000, 65527};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    size_t n = lengths[i];
    IS(sendto(mine, out, n, 0, A(there)), n);
    IS(far_receive(far, in, sizeof in), n);
    OK(memcmp(in, out, n) == 0);
    IS(far_send6(far, out, n, here), n);
    struct sockaddr_in6 from;
    socklen_t len = sizeof from;
    IS(recvfrom(mine, in, sizeof in, 0, (struct sockaddr *)&from, &len), n);
    OK(len == sizeof from && same_ip(&from, &there) && from.sin6_port == there.sin6_port);
    OK(memcmp(in, out, n) == 0);
  }
  FAILS(sendto(mine, out, 65528, 0, A(there)), EMSGSIZE);
}

static void connected_datagrams(void) {
  int mine = mine6(SOCK_DGRAM), far = far_socket6(SOCK_DGRAM);
  SYS(far_bind6(far, address6(far_ip6(), 0)));
  struct sockaddr_in6 there = far_name6(far);
  SYS(connect(mine, A(there)));
  struct sockaddr_in6 here = name6(getsockname, mine), ours = address6(my_ip6(), 0);
  OK(same_ip(&here, &ours) && here.sin6_port != 0);
  IS(send(mine, "six", 3, 0), 3);
  char buf[8];
  IS(far_receive(far, buf, sizeof buf), 3);
  IS(far_send6(far, "back", 4, here), 4);
  IS(recv(mine, buf, sizeof buf, 0), 4);
}

/* The address that a datagram came to, and the length of what it is told by. */
static struct in6_addr came_to(int fd, struct sockaddr_in6 *from) {
  char buf[8], control[128];
  struct iovec v = {buf, sizeof buf};
  struct msghdr m = {.msg_name = from, .msg_namelen = sizeof *from, .msg_iov = &v,
                     .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  IS(recvmsg(fd, &m, 0), 4);
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  OK(h && h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_PKTINFO);
  struct in6_pktinfo info;
  memcpy(&info, CMSG_DATA(h), sizeof info);
  return info.ipi6_addr;
}

/* What is told of the hops and the class of a datagram of four bytes. */
static void told_of(int fd, int *hops, int *class) {
  char buf[8], control[128];
  struct iovec v = {buf, sizeof buf};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  *hops = *class = -1;
  IS(recvmsg(fd, &m, 0), 4);
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
    if (h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_HOPLIMIT)
      memcpy(hops, CMSG_DATA(h), sizeof *hops);
    if (h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_TCLASS)
      memcpy(class, CMSG_DATA(h), sizeof *class);
  }
}

static void hops_and_class(void) {
  int mine = mine6(SOCK_DGRAM), far = far_socket6(SOCK_DGRAM), hops, class;
  struct sockaddr_in6 a = address6(my_ip6(), 0);
  SYS(bind(mine, A(a)));
  SYS(far_bind6(far, address6(far_ip6(), 0)));
  struct sockaddr_in6 here = name6(getsockname, mine);
  SYS(far_option(far, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 44));
  SYS(far_option(far, IPPROTO_IPV6, IPV6_TCLASS, 0x51));
  set(mine, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
  set(mine, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
  IS(far_send6(far, "both", 4, here), 4);
  told_of(mine, &hops, &class);
  IS(hops, 44);
  IS(class, 0x51);
  set(mine, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 0);
  IS(far_send6(far, "one.", 4, here), 4);
  told_of(mine, &hops, &class);
  IS(hops, -1);
  IS(class, 0x51);
}

static void packet_information(void) {
  int any = mine6(SOCK_DGRAM), far = far_socket6(SOCK_DGRAM), far4 = far_socket(SOCK_DGRAM);
  set(any, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
  struct sockaddr_in6 a = address6("::", 0), from;
  SYS(bind(any, A(a)));
  int port = ntohs(name6(getsockname, any).sin6_port);
  struct sockaddr_in6 here = address6(my_ip6(), port), here4 = mapped(my_ip(), port);
  SYS(far_bind6(far, address6(far_ip6(), 0)));
  SYS(far_bind(far4, address(far_ip(), 0)));
  IS(far_send6(far, "six.", 4, here), 4);
  struct in6_addr to = came_to(any, &from);
  OK(memcmp(&to, &here.sin6_addr, 16) == 0);
  struct sockaddr_in to4 = address(my_ip(), port);
  IS(far_in_kernel() ? syscall(SYS_sendto, far4, "four", 4, 0, &to4, sizeof to4)
                     : sendto(far4, "four", 4, 0, A(to4)), 4);
  struct sockaddr_in6 from4;
  to = came_to(any, &from4);
  OK(memcmp(&to, &here4.sin6_addr, 16) == 0);
  /* An answer from the address that was asked, and from one that is not ours. */
  char control[CMSG_SPACE(sizeof(struct in6_pktinfo))] = {0};
  struct iovec v = {"back", 4};
  struct msghdr m = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &v,
                     .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  struct in6_pktinfo by = {.ipi6_addr = here.sin6_addr};
  h->cmsg_level = IPPROTO_IPV6, h->cmsg_type = IPV6_PKTINFO, h->cmsg_len = CMSG_LEN(sizeof by);
  memcpy(CMSG_DATA(h), &by, sizeof by);
  IS(sendmsg(any, &m, 0), 4);
  char buf[8];
  IS(far_receive(far, buf, sizeof buf), 4);
  by.ipi6_addr = address6("2001:db8::1", 0).sin6_addr;
  memcpy(CMSG_DATA(h), &by, sizeof by);
  FAILS(sendmsg(any, &m, 0), EINVAL);
}

static void one_datagram_socket_for_both(void) {
  int mine = mine6(SOCK_DGRAM);
  struct sockaddr_in6 any = address6("::", 0);
  SYS(bind(mine, A(any)));
  int port = ntohs(name6(getsockname, mine).sin6_port);
  int far = far_socket(SOCK_DGRAM);
  SYS(far_bind(far, address(far_ip(), 0)));
  struct sockaddr_in to = address(my_ip(), port);
  IS(far_in_kernel() ? syscall(SYS_sendto, far, "four", 4, 0, &to, sizeof to)
                     : sendto(far, "four", 4, 0, A(to)), 4);
  char buf[8];
  struct sockaddr_in6 from, expected = mapped(far_ip(), 0);
  socklen_t n = sizeof from;
  IS(recvfrom(mine, buf, sizeof buf, 0, (struct sockaddr *)&from, &n), 4);
  OK(n == sizeof from && same_ip(&from, &expected));
  IS(sendto(mine, "and back", 8, 0, A(from)), 8);
  IS(far_receive(far, buf, sizeof buf), 8);
}

static void nobody_listens_for_datagrams(void) {
  int far = far_socket6(SOCK_DGRAM);
  SYS(far_bind6(far, address6(far_ip6(), 0)));
  struct sockaddr_in6 there = far_name6(far);
  SYS(close(far));
  int mine = mine6(SOCK_DGRAM);
  SYS(connect(mine, A(there)));
  IS(send(mine, "anybody?", 8, 0), 8);
  OK(ready(mine, POLLIN, 5000) & POLLERR);
  char buf[8];
  FAILS(recv(mine, buf, sizeof buf, MSG_DONTWAIT), ECONNREFUSED);
}

/* What an accepted connection says of IPV6_V6ONLY is what its listener says, which is for IPv6
 * alone if it is bound to an address of that. */
static void accepted_for_one_version(void) {
  static const struct {
    int at, only, says;
  } CASES[] = {{0, 0, 0}, {0, 1, 1}, {1, 0, 1}, {1, 1, 1}, {2, 0, 0}};
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    int at = CASES[i].at;
    struct sockaddr_in6 a = at == 2 ? mapped(my_ip(), 0) : address6(at ? my_ip6() : "::", 0);
    int listener = listen_at(a, CASES[i].only);
    IS(option(listener, IPPROTO_IPV6, IPV6_V6ONLY), CASES[i].says);
    int port = ntohs(name6(getsockname, listener).sin6_port);
    int far = at == 2 ? far_socket(SOCK_STREAM) : far_socket6(SOCK_STREAM);
    if (at == 2)
      SYS(far_connect(far, address(my_ip(), port)));
    else
      SYS(far_connect6(far, address6(my_ip6(), port)));
    int mine = SYS(accept(listener, 0, 0));
    IS(option(mine, IPPROTO_IPV6, IPV6_V6ONLY), CASES[i].says);
    IS(option(mine, IPPROTO_IPV6, IPV6_V6ONLY), CASES[i].says);
    for (int only = 0; only < 2; only++)
      FAILS(setsockopt(mine, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only), EINVAL);
    SYS(write(mine, "x", 1));
    IS(option(mine, IPPROTO_IPV6, IPV6_V6ONLY), CASES[i].says);
    close(mine), close(far), close(listener);
  }
}

/* A connection that was made, and not accepted, says 0 whomever it is to. */
static void connected_for_both_versions(void) {
  int listener = far_listener6(), mine = mine6(SOCK_STREAM), listener4 = far_listener(8);
  struct sockaddr_in6 at = far_name6(listener);
  SYS(connect(mine, A(at)));
  IS(option(mine, IPPROTO_IPV6, IPV6_V6ONLY), 0);
  at = mapped(far_ip(), ntohs(far_name(listener4).sin_port));
  mine = mine6(SOCK_STREAM);
  SYS(connect(mine, A(at)));
  IS(option(mine, IPPROTO_IPV6, IPV6_V6ONLY), 0);
}

static int only6(int type) {
  int fd = mine6(type);
  set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  return fd;
}

/* From a socket of IPv6 alone nothing goes to an address of IPv4, be it bound or not; an attempt
 * to send binds it. */
static void nothing_to_ipv4_from_ipv6_alone(void) {
  static char big[66000];
  int far = far_socket(SOCK_DGRAM);
  SYS(far_bind(far, address(far_ip(), 0)));
  struct sockaddr_in to4 = far_name(far);
  struct sockaddr_in6 to = mapped(far_ip(), ntohs(to4.sin_port)), any = address6("::", 0);
  for (int is_bound = 0; is_bound < 2; is_bound++) {
    int fd = only6(SOCK_DGRAM);
    if (is_bound)
      SYS(bind(fd, A(any)));
    FAILS(sendto(fd, "x", 1, 0, A(to)), ENETUNREACH);
    OK(name6(getsockname, fd).sin6_port != 0);
    FAILS(sendto(fd, "x", 1, 0, A(to4)), ENETUNREACH);
    FAILS(sendto(fd, big, sizeof big, 0, A(to)), ENETUNREACH);
    FAILS(sendto(fd, "x", 1, MSG_OOB, A(to)), ENETUNREACH);
    FAILS(sendto(fd, "x", 1, MSG_MORE, A(to)), ENETUNREACH);
    FAILS(connect(fd, A(to)), ENETUNREACH);
    FAILS(connect(fd, A(to4)), EAFNOSUPPORT);
    SYS(close(fd));
    fd = only6(SOCK_DGRAM);
    if (is_bound)
      SYS(bind(fd, A(any)));
    FAILS(connect(fd, A(to)), ENETUNREACH);
    OK(name6(getsockname, fd).sin6_port != 0);
    SYS(close(fd));
    fd = only6(SOCK_DGRAM);
    FAILS(connect(fd, A(to4)), EAFNOSUPPORT);
    OK(name6(getsockname, fd).sin6_port != 0);
    SYS(close(fd));
  }
  char c;
  FAILS(far_in_kernel() ? syscall(SYS_recvfrom, far, &c, 1, MSG_DONTWAIT, 0, 0)
                        : recv(far, &c, 1, MSG_DONTWAIT), EAGAIN);
  int stream = only6(SOCK_STREAM), listener = far_listener(8);
  to = mapped(far_ip(), ntohs(far_name(listener).sin_port));
  FAILS(connect(stream, A(to)), ENETUNREACH);
  /* It goes to one of IPv6 after that. */
  struct sockaddr_in6 six = far_name6(far_listener6());
  SYS(connect(stream, A(six)));
}

/* IPV6_V6ONLY may be changed as long as the socket has no port. */
static void one_version_and_then_both(void) {
  int far = far_socket(SOCK_DGRAM), fd = only6(SOCK_DGRAM);
  SYS(far_bind(far, address(far_ip(), 0)));
  struct sockaddr_in6 to = mapped(far_ip(), ntohs(far_name(far).sin_port));
  set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  IS(sendto(fd, "x", 1, 0, A(to)), 1);
  FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){1}, sizeof(int)), EINVAL);
  IS(option(fd, IPPROTO_IPV6, IPV6_V6ONLY), 0);
  char buf[8];
  IS(far_receive(far, buf, sizeof buf), 1);
  int refused = only6(SOCK_STREAM), listener = far_listener(8);
  struct sockaddr_in6 nobody = address6(far_ip6(), 1);
  FAILS(connect(refused, A(nobody)), ECONNREFUSED);
  set(refused, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  IS(option(refused, IPPROTO_IPV6, IPV6_V6ONLY), 0);
  to = mapped(far_ip(), ntohs(far_name(listener).sin_port));
  SYS(connect(refused, A(to)));
}

/* IPV6_PKTINFO for all datagrams: Linux looks at the interface, and keeps the address without any
 * use of it. */
static void packet_information_for_all(void) {
  const int kinds[] = {SOCK_STREAM, SOCK_DGRAM};
  for (int i = 0; i < 4; i++) {
    int fd = SYS(socket(AF_INET6, kinds[i % 2], 0)), other = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
    struct sockaddr_in6 a = {.sin6_family = AF_INET6}, from = {0};
    struct in6_pktinfo info = {0};
    socklen_t n = sizeof a;
    IS(inet_pton(AF_INET6, getenv("ADDR6"), &a.sin6_addr), 1);
    if (i >= 2)
      SYS(bind(fd, A(a)));
    FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_PKTINFO, &info, 4), EINVAL);
    FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_PKTINFO, 0, 0), EINVAL);
    info.ipi6_addr = a.sin6_addr;
    SYS(setsockopt(fd, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info));
    info.ipi6_addr.s6_addr[0] ^= 1;
    SYS(setsockopt(fd, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof info));
    FAILS(getsockopt(fd, IPPROTO_IPV6, IPV6_PKTINFO, &info, &n), ENOPROTOOPT);
    SYS(bind(other, A(a)));
    n = sizeof a;
    SYS(getsockname(other, (struct sockaddr *)&a, &n));
    if (kinds[i % 2] == SOCK_STREAM)
      continue;
    char c;
    IS(sendto(fd, "x", 1, 0, A(a)), 1);
    IS(recvfrom(other, &c, 1, 0, (struct sockaddr *)&from, &n), 1);
    OK(memcmp(&from.sin6_addr, &a.sin6_addr, sizeof a.sin6_addr) == 0);
  }
}

const struct check CHECKS[] = {
    {"packet_information_for_all", packet_information_for_all},
    {"accepted", accepted},
    {"connected", connected},
    {"refused", refused},
    {"wildcard_takes_both", wildcard_takes_both},
    {"mapped_address_is_ipv4", mapped_address_is_ipv4},
    {"ipv6_only", ipv6_only},
    {"wildcards_clash", wildcards_clash},
    {"wrong_family", wrong_family},
    {"options_of_ipv6", options_of_ipv6},
    {"flow_labels", flow_labels},
    {"datagrams", datagrams},
    {"connected_datagrams", connected_datagrams},
    {"packet_information", packet_information},
    {"hops_and_class", hops_and_class},
    {"one_datagram_socket_for_both", one_datagram_socket_for_both},
    {"nobody_listens_for_datagrams", nobody_listens_for_datagrams},
    {"accepted_for_one_version", accepted_for_one_version},
    {"connected_for_both_versions", connected_for_both_versions},
    {"nothing_to_ipv4_from_ipv6_alone", nothing_to_ipv4_from_ipv6_alone},
    {"one_version_and_then_both", one_version_and_then_both},
    {0, 0},
};
