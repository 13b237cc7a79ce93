/* What a datagram leaves with: all that was set when it was sent, and nothing that was set
 * later. */
#include "check.h"
#include <netinet/ip.h>
#include <netinet/udp.h>

enum { MANY = 100 };

static int bound(struct sockaddr_in *name) {
  int fd = far_socket(SOCK_DGRAM);
  SYS(far_bind(fd, address(far_ip(), 0)));
  *name = far_name(fd);
  return fd;
}

static int mine4(void) { return SYS(socket(AF_INET, SOCK_DGRAM, 0)); }

/* The number that came beside the next datagram, which begins with `first`. */
static int told(int fd, int level, int type, unsigned char first) {
  unsigned char c[8], control[256];
  struct iovec v = {c, sizeof c};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  OK(ready(fd, POLLIN, 10000) & POLLIN);
  SYS(recvmsg(fd, &m, 0));
  IS(c[0], first);
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
    if (h->cmsg_level == level && h->cmsg_type == type) {
      int number = 0;
      memcpy(&number, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0));
      return number;
    }
  return -1;
}

static void receives(int fd, const char *text) {
  char buf[64];
  OK(ready(fd, POLLIN, 10000) & POLLIN);
  IS(recv(fd, buf, sizeof buf, 0), strlen(text));
  OK(memcmp(buf, text, strlen(text)) == 0);
}

static void nothing_more(int fd) { FAILS(recv(fd, (char[8]){0}, 8, MSG_DONTWAIT), EAGAIN); }

/* Each datagram goes to the socket that was the peer when it was sent. */
static void the_peer_of_then(void) {
  struct sockaddr_in to[2], none = {.sin_family = AF_UNSPEC};
  int far[2] = {bound(&to[0]), bound(&to[1])}, mine = mine4();
  for (int i = 0; i < MANY; i++) {
    unsigned char c = i;
    SYS(connect(mine, A(to[i % 2])));
    IS(send(mine, &c, 1, 0), 1);
    if (i % 3 == 0)
      SYS(connect(mine, A(none)));
  }
  for (int i = 0; i < MANY; i++) {
    unsigned char c;
    OK(ready(far[i % 2], POLLIN, 10000) & POLLIN);
    IS(recv(far[i % 2], &c, 1, 0), 1);
    IS(c, i);
  }
  nothing_more(far[0]);
  nothing_more(far[1]);
}

/* An option set before each of many datagrams. */
static void each_with_its_own(int mine, int far, const struct sockaddr *to, socklen_t n,
                              int level, int name, int type, int step) {
  for (int i = 0; i < MANY; i++) {
    unsigned char c = i;
    set(mine, level, name, 10 + i * step);
    IS(sendto(mine, &c, 1, 0, to, n), 1);
  }
  for (int i = 0; i < MANY; i++)
    IS(told(far, level, type, i), 10 + i * step);
}

static void hops_and_class_of_then(void) {
  struct sockaddr_in to;
  int far = bound(&to), mine = mine4();
  SYS(far_option(far, IPPROTO_IP, IP_RECVTTL, 1));
  each_with_its_own(mine, far, A(to), IPPROTO_IP, IP_TTL, IP_TTL, 1);
  SYS(far_option(far, IPPROTO_IP, IP_RECVTTL, 0));
  SYS(far_option(far, IPPROTO_IP, IP_RECVTOS, 1));
  set(mine, IPPROTO_IP, IP_TTL, 64);
  each_with_its_own(mine, far, A(to), IPPROTO_IP, IP_TOS, IP_TOS, 2);
}

static struct sockaddr_in6 address6(const char *ip, int port) {
  struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  if (inet_pton(AF_INET6, ip, &a.sin6_addr) != 1)
    FAIL("bad address %s", ip);
  return a;
}

static int bound6(struct sockaddr_in6 *name) {
  const char *ip = getenv("FAR_ADDR6") ? getenv("FAR_ADDR6") : "::1";
  struct sockaddr_in6 a = address6(ip, 0);
  socklen_t n = sizeof a;
  int fd;
  if (far_in_kernel()) {
    fd = SYS(syscall(SYS_socket, AF_INET6, SOCK_DGRAM, 0));
    SYS(syscall(SYS_bind, fd, &a, sizeof a));
    SYS(syscall(SYS_getsockname, fd, name, &n));
  } else {
    fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
    SYS(bind(fd, A(a)));
    SYS(getsockname(fd, (struct sockaddr *)name, &n));
  }
  return fd;
}

static void hops_and_class_of_then_in_ipv6(void) {
  struct sockaddr_in6 to;
  int far = bound6(&to), mine = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  SYS(far_option(far, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1));
  each_with_its_own(mine, far, A(to), IPPROTO_IPV6, IPV6_UNICAST_HOPS, IPV6_HOPLIMIT, 1);
  SYS(far_option(far, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 0));
  SYS(far_option(far, IPPROTO_IPV6, IPV6_RECVTCLASS, 1));
  set(mine, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 64);
  each_with_its_own(mine, far, A(to), IPPROTO_IPV6, IPV6_TCLASS, IPV6_TCLASS, 2);
}

/* IPv4's options count for what an IPv6 socket sends over IPv4. */
static void either_version_has_its_own(void) {
  struct sockaddr_in to;
  int far = bound(&to), mine = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  char text[64];
  snprintf(text, sizeof text, "::ffff:%s", far_ip());
  struct sockaddr_in6 to6 = address6(text, ntohs(to.sin_port));
  SYS(far_option(far, IPPROTO_IP, IP_RECVTTL, 1));
  set(mine, IPPROTO_IP, IP_TTL, 33);
  set(mine, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 44);
  IS(sendto(mine, "a", 1, 0, A(to6)), 1);
  IS(told(far, IPPROTO_IP, IP_TTL, 'a'), 33);
}

/* Sends one byte with a control message. */
static ssize_t send_with(int fd, char byte, const void *to, socklen_t to_len, int level, int type,
                         const void *value, size_t size) {
  union {
    char bytes[CMSG_SPACE(64)];
    struct cmsghdr aligned;
  } control = {{0}};
  struct iovec v = {&byte, 1};
  struct msghdr m = {.msg_name = (void *)to, .msg_namelen = to_len, .msg_iov = &v, .msg_iovlen = 1,
                     .msg_control = &control, .msg_controllen = CMSG_SPACE(size)};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = level, h->cmsg_type = type, h->cmsg_len = CMSG_LEN(size);
  memcpy(CMSG_DATA(h), value, size);
  return sendmsg(fd, &m, 0);
}

#define WITH(fd, byte, to, level, type, value) \
  send_with(fd, byte, &to, sizeof to, level, type, &(__typeof__(value)){value}, sizeof(value))

static void said_beside_one_datagram(void) {
  struct sockaddr_in to;
  int far = bound(&to), mine = mine4();
  set(mine, IPPROTO_IP, IP_TTL, 50);
  set(mine, IPPROTO_IP, IP_TOS, 0x10);
  SYS(far_option(far, IPPROTO_IP, IP_RECVTTL, 1));
  IS(WITH(mine, 'a', to, IPPROTO_IP, IP_TTL, 7), 1);
  IS(told(far, IPPROTO_IP, IP_TTL, 'a'), 7);
  IS(sendto(mine, "b", 1, 0, A(to)), 1);
  IS(told(far, IPPROTO_IP, IP_TTL, 'b'), 50);
  SYS(far_option(far, IPPROTO_IP, IP_RECVTTL, 0));
  SYS(far_option(far, IPPROTO_IP, IP_RECVTOS, 1));
  IS(WITH(mine, 'c', to, IPPROTO_IP, IP_TOS, 2), 1); /* ECT(0), as QUIC has it */
  IS(told(far, IPPROTO_IP, IP_TOS, 'c'), 2);
  unsigned char one = 0x21;
  IS(WITH(mine, 'd', to, IPPROTO_IP, IP_TOS, one), 1);
  IS(told(far, IPPROTO_IP, IP_TOS, 'd'), 0x21);
  IS(sendto(mine, "e", 1, 0, A(to)), 1);
  IS(told(far, IPPROTO_IP, IP_TOS, 'e'), 0x10);
  FAILS(WITH(mine, 'x', to, IPPROTO_IP, IP_TTL, 0), EINVAL);
  FAILS(WITH(mine, 'x', to, IPPROTO_IP, IP_TTL, 256), EINVAL);
  FAILS(WITH(mine, 'x', to, IPPROTO_IP, IP_TTL, one), EINVAL);
  FAILS(WITH(mine, 'x', to, IPPROTO_IP, IP_TOS, 256), EINVAL);
  FAILS(WITH(mine, 'x', to, IPPROTO_IP, 99, 1), EINVAL);
  FAILS(WITH(mine, 'x', to, SOL_SOCKET, 99, 1), EINVAL);
  FAILS(WITH(mine, 'x', to, IPPROTO_UDP, 99, 1), EINVAL);
  IS(WITH(mine, 'f', to, IPPROTO_IPV6, IPV6_HOPLIMIT, 9), 1); /* not this socket's version */
  told(far, 0, 0, 'f');
  nothing_more(far);
}

static void said_beside_one_datagram_in_ipv6(void) {
  struct sockaddr_in6 to;
  int far = bound6(&to), mine = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  set(mine, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 50);
  set(mine, IPPROTO_IPV6, IPV6_TCLASS, 0x10);
  SYS(far_option(far, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1));
  IS(WITH(mine, 'a', to, IPPROTO_IPV6, IPV6_HOPLIMIT, 7), 1);
  IS(told(far, IPPROTO_IPV6, IPV6_HOPLIMIT, 'a'), 7);
  IS(WITH(mine, 'b', to, IPPROTO_IPV6, IPV6_HOPLIMIT, -1), 1);
  IS(told(far, IPPROTO_IPV6, IPV6_HOPLIMIT, 'b'), 50);
  SYS(far_option(far, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 0));
  SYS(far_option(far, IPPROTO_IPV6, IPV6_RECVTCLASS, 1));
  IS(WITH(mine, 'c', to, IPPROTO_IPV6, IPV6_TCLASS, 1), 1);
  IS(told(far, IPPROTO_IPV6, IPV6_TCLASS, 'c'), 1);
  IS(sendto(mine, "d", 1, 0, A(to)), 1);
  IS(told(far, IPPROTO_IPV6, IPV6_TCLASS, 'd'), 0x10);
  FAILS(WITH(mine, 'x', to, IPPROTO_IPV6, IPV6_HOPLIMIT, 256), EINVAL);
  FAILS(WITH(mine, 'x', to, IPPROTO_IPV6, IPV6_TCLASS, -2), EINVAL);
  FAILS(WITH(mine, 'x', to, IPPROTO_IPV6, IPV6_DONTFRAG, 2), EINVAL);
  FAILS(WITH(mine, 'x', to, IPPROTO_IPV6, 199, 1), EINVAL);
  nothing_more(far);
}

static void more_follows(void) {
  struct sockaddr_in to, other;
  int far = bound(&to), elsewhere = bound(&other), mine = mine4();
  IS(sendto(mine, "one ", 4, MSG_MORE, A(to)), 4);
  IS(ready(far, POLLIN, 50), 0);
  IS(sendto(mine, "two ", 4, MSG_MORE, A(other)), 4); /* where it goes was said first */
  IS(sendto(mine, "three", 5, 0, A(other)), 5);
  receives(far, "one two three");
  IS(sendto(mine, "next", 4, 0, A(other)), 4);
  receives(elsewhere, "next");
  nothing_more(far);
  SYS(connect(mine, A(to)));
  IS(send(mine, "a", 1, MSG_MORE), 1);
  IS(send(mine, "", 0, 0), 0);
  receives(far, "a");
  /* Too much drops it all. */
  static char big[65000];
  IS(send(mine, big, sizeof big, MSG_MORE), sizeof big);
  FAILS(send(mine, big, sizeof big, MSG_MORE), EMSGSIZE);
  IS(send(mine, "b", 1, 0), 1);
  receives(far, "b");
  /* What was begun goes with the socket. */
  IS(send(mine, "lost", 4, MSG_MORE), 4);
  SYS(close(mine));
  IS(ready(far, POLLIN, 50), 0);
}

static void corked(void) {
  struct sockaddr_in to;
  int far = bound(&to), mine = mine4();
  SYS(connect(mine, A(to)));
  IS(option(mine, IPPROTO_UDP, UDP_CORK), 0);
  set(mine, IPPROTO_UDP, UDP_CORK, 1);
  IS(option(mine, IPPROTO_UDP, UDP_CORK), 1);
  IS(send(mine, "head", 4, 0), 4);
  IS(write(mine, "body", 4), 4);
  IS(ready(far, POLLIN, 50), 0);
  set(mine, IPPROTO_UDP, UDP_CORK, 0);
  receives(far, "headbody");
  IS(send(mine, "alone", 5, 0), 5);
  receives(far, "alone");
  set(mine, IPPROTO_UDP, UDP_CORK, 1);
  set(mine, IPPROTO_UDP, UDP_CORK, 0);
  nothing_more(far);
}

/* Options that were set by one descriptor of a new socket are there by whichever it is used first. */
static void set_by_another_descriptor(void) {
  struct sockaddr_in to;
  int far = bound(&to);
  SYS(far_option(far, IPPROTO_IP, IP_RECVTTL, 1));
  SYS(far_option(far, IPPROTO_IP, IP_RECVTOS, 1));
  for (int way = 0; way < 2; way++) {
    int mine = mine4(), other = SYS(way ? fcntl(mine, F_DUPFD, 100) : dup(mine));
    set(other, IPPROTO_IP, IP_TTL, 33);
    set(mine, IPPROTO_IP, IP_TOS, 8);
    for (int i = 0; i < 2; i++) {
      IS(sendto(mine, "a", 1, 0, A(to)), 1);
      IS(told(far, IPPROTO_IP, i ? IP_TTL : IP_TOS, 'a'), i ? 33 : 8);
    }
    SYS(close(mine));
    SYS(close(other));
  }
}

/* What is set while a datagram is put together: with IPv4 it leaves with that, with IPv6 with what
 * was set when it was begun. */
static void set_while_more_is_added(void) {
  struct sockaddr_in to;
  int far = bound(&to), mine = mine4();
  SYS(far_option(far, IPPROTO_IP, IP_RECVTTL, 1));
  IS(sendto(mine, "a", 1, MSG_MORE, A(to)), 1);
  set(mine, IPPROTO_IP, IP_TTL, 33);
  IS(sendto(mine, "b", 1, 0, A(to)), 1);
  IS(told(far, IPPROTO_IP, IP_TTL, 'a'), 33);
  struct sockaddr_in6 to6;
  int far6 = bound6(&to6), mine6 = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  SYS(far_option(far6, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1));
  set(mine6, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 44);
  IS(sendto(mine6, "a", 1, MSG_MORE, A(to6)), 1);
  set(mine6, IPPROTO_IPV6, IPV6_UNICAST_HOPS, 55);
  IS(sendto(mine6, "b", 1, 0, A(to6)), 1);
  IS(told(far6, IPPROTO_IPV6, IPV6_HOPLIMIT, 'a'), 44);
}

/* What is not to be cut is refused if the path does not take it, and goes if it does. */
static void not_to_be_cut(void) {
  struct sockaddr_in to;
  int far = bound(&to), mine = mine4();
  SYS(connect(mine, A(to)));
  static const int whole[] = {IP_PMTUDISC_DO, IP_PMTUDISC_PROBE, IP_PMTUDISC_INTERFACE};
  static const int cut[] = {IP_PMTUDISC_WANT, IP_PMTUDISC_DONT, IP_PMTUDISC_OMIT};
  static char some[65536];
  IS(option(mine, IPPROTO_IP, IP_MTU_DISCOVER), IP_PMTUDISC_WANT);
  int most = option(mine, IPPROTO_IP, IP_MTU) - 28;
  int is_narrow = most < 60000;
  for (int i = 0; i < 3; i++) {
    set(mine, IPPROTO_IP, IP_MTU_DISCOVER, whole[i]);
    IS(option(mine, IPPROTO_IP, IP_MTU_DISCOVER), whole[i]);
    if (is_narrow) {
      FAILS(send(mine, some, most + 1, 0), EMSGSIZE);
      IS(send(mine, some, most, 0), most);
      IS(recv(far, some, sizeof some, 0), most);
    }
    IS(send(mine, some, 1000, 0), 1000);
    IS(recv(far, some, sizeof some, 0), 1000);
    set(mine, IPPROTO_IP, IP_MTU_DISCOVER, cut[i]);
    if (is_narrow) {
      IS(send(mine, some, most + 1, 0), most + 1);
      IS(recv(far, some, sizeof some, 0), most + 1);
    }
  }
  int bad = 6;
  FAILS(setsockopt(mine, IPPROTO_IP, IP_MTU_DISCOVER, &bad, sizeof bad), EINVAL);
  nothing_more(far);
}

static void not_to_be_cut_in_ipv6(void) {
  struct sockaddr_in6 to;
  int far = bound6(&to), mine = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  SYS(connect(mine, A(to)));
  static char some[65536];
  int most = option(mine, IPPROTO_IPV6, IPV6_MTU) - 48;
  for (int i = 0; i < 2 && most < 60000; i++) {
    int name = i ? IPV6_DONTFRAG : IPV6_MTU_DISCOVER;
    set(mine, IPPROTO_IPV6, name, i ? 1 : IPV6_PMTUDISC_DO);
    FAILS(send(mine, some, most + 1, 0), EMSGSIZE);
    IS(send(mine, some, most, 0), most);
    IS(recv(far, some, sizeof some, 0), most);
    set(mine, IPPROTO_IPV6, name, i ? 0 : IPV6_PMTUDISC_WANT);
    IS(send(mine, some, most + 1, 0), most + 1);
    IS(recv(far, some, sizeof some, 0), most + 1);
  }
}

/* IPV6_MTU, set to what each path of IPv6 takes (as nameservers do), before a socket is bound or
 * afterwards: what is longer is cut, or refused if it is not to be. */
static void cut_to_the_least_mtu(void) {
  enum { LEAST = 1280, FITS = LEAST - 48 };
  struct sockaddr_in6 to;
  int far = bound6(&to);
  static char some[65536];
  for (int early = 0; early < 2; early++) {
    int mine = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
    if (!early)
      SYS(connect(mine, A(to)));
    int bad = LEAST - 1, least = LEAST, none = 0;
    FAILS(setsockopt(mine, IPPROTO_IPV6, IPV6_MTU, &bad, sizeof bad), EINVAL);
    SYS(setsockopt(mine, IPPROTO_IPV6, IPV6_MTU, &least, sizeof least));
    if (early)
      SYS(connect(mine, A(to)));
    OK(option(mine, IPPROTO_IPV6, IPV6_MTU) > LEAST);
    IS(send(mine, some, 3000, 0), 3000);
    IS(recv(far, some, sizeof some, 0), 3000);
    set(mine, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
    FAILS(send(mine, some, FITS + 1, 0), EMSGSIZE);
    IS(send(mine, some, FITS, 0), FITS);
    IS(recv(far, some, sizeof some, 0), FITS);
    SYS(setsockopt(mine, IPPROTO_IPV6, IPV6_MTU, &none, sizeof none));
    IS(send(mine, some, FITS + 1, 0), FITS + 1);
    IS(recv(far, some, sizeof some, 0), FITS + 1);
    SYS(close(mine));
  }
  int mine = SYS(socket(AF_INET6, SOCK_DGRAM, 0)), least = LEAST, none = 0;
  SYS(setsockopt(mine, IPPROTO_IPV6, IPV6_MTU, &least, sizeof least));
  SYS(setsockopt(mine, IPPROTO_IPV6, IPV6_MTU, &none, sizeof none));
  set(mine, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
  SYS(connect(mine, A(to)));
  IS(send(mine, some, FITS + 1, 0), FITS + 1);
  IS(recv(far, some, sizeof some, 0), FITS + 1);
  int stream = SYS(socket(AF_INET6, SOCK_STREAM, 0));
  SYS(setsockopt(stream, IPPROTO_IPV6, IPV6_MTU, &least, sizeof least));
}

/* When close returns, the port is free, and what was sent still goes. */
/* The checksum of the next datagram of so many bytes, each of them `c`. */
static int checksum_of(int raw, char c, ssize_t len) {
  for (;;) {
    static unsigned char p[8192];
    OK(ready(raw, POLLIN, 10000) & POLLIN);
    ssize_t n = SYS(recv(raw, p, sizeof p, 0)), header = (p[0] & 15) * 4;
    if (n == header + 8 + len && p[header + 8] == c && p[n - 1] == c)
      return p[header + 6] << 8 | p[header + 7];
  }
}

/* SO_NO_CHECK: a datagram of IPv4 leaves without a checksum, in fragments, too. */
static void without_a_checksum(void) {
  static char bytes[3000];
  struct sockaddr_in to;
  int far = bound(&to), mine = mine4(), raw = -1;
  if (far_in_kernel())
    raw = SYS(syscall(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_UDP));
  IS(option(mine, SOL_SOCKET, SO_NO_CHECK), 0);
  for (int i = 0; i < 6; i++) {
    int on = i & 1;
    size_t len = i < 4 ? 5 : sizeof bytes;
    memset(bytes, 'a' + i, len);
    set(mine, SOL_SOCKET, SO_NO_CHECK, on);
    IS(option(mine, SOL_SOCKET, SO_NO_CHECK), on);
    IS(sendto(mine, bytes, len, 0, A(to)), len);
    OK(ready(far, POLLIN, 10000) & POLLIN);
    IS(recv(far, bytes, sizeof bytes, 0), len);
    IS(*bytes, 'a' + i);
    if (far_in_kernel())
      IS(checksum_of(raw, 'a' + i, len) == 0, on);
  }
  /* What it is when the datagram is sent. */
  IS(sendto(mine, "zz", 2, MSG_MORE, A(to)), 2);
  set(mine, SOL_SOCKET, SO_NO_CHECK, 0);
  IS(sendto(mine, "zz", 2, 0, A(to)), 2);
  receives(far, "zzzz");
  if (far_in_kernel())
    OK(checksum_of(raw, 'z', 4) != 0);
  /* A train has to have them. */
  set(mine, SOL_SOCKET, SO_NO_CHECK, 1);
  set(mine, IPPROTO_UDP, UDP_SEGMENT, 2);
  FAILS(sendto(mine, "zzzz", 4, 0, A(to)), EINVAL);
  FAILS(sendto(mine, "z", 1, 0, A(to)), EINVAL);
  nothing_more(far);
}

/* It says nothing of what goes by IPv6, and what goes by IPv4 from a socket of IPv6 has none. */
static void without_a_checksum_in_ipv6(void) {
  struct sockaddr_in6 to6;
  struct sockaddr_in to;
  int far6 = bound6(&to6), far = bound(&to), mine = SYS(socket(AF_INET6, SOCK_DGRAM, 0)), raw = -1;
  char text[INET_ADDRSTRLEN], name[64];
  snprintf(name, sizeof name, "::ffff:%s", inet_ntop(AF_INET, &to.sin_addr, text, sizeof text));
  struct sockaddr_in6 mapped = address6(name, ntohs(to.sin_port));
  set(mine, SOL_SOCKET, SO_NO_CHECK, 1);
  if (far_in_kernel())
    raw = SYS(syscall(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_UDP));
  IS(sendto(mine, "xx", 2, 0, A(to6)), 2);
  receives(far6, "xx");
  IS(sendto(mine, "yy", 2, 0, A(mapped)), 2);
  receives(far, "yy");
  if (far_in_kernel())
    IS(checksum_of(raw, 'y', 2), 0);
}

static void closed_is_closed(void) {
  struct sockaddr_in to, here = address(my_ip(), 0);
  int far = bound(&to), mine = mine4();
  SYS(bind(mine, A(here)));
  here = name_of(mine);
  for (int i = 0; i < MANY; i++) {
    unsigned char c = i;
    IS(sendto(mine, &c, 1, 0, A(to)), 1);
    SYS(close(mine));
    mine = mine4();
    SYS(bind(mine, A(here)));
  }
  for (int i = 0; i < MANY; i++) {
    unsigned char c;
    OK(ready(far, POLLIN, 10000) & POLLIN);
    IS(recv(far, &c, 1, 0), 1);
    IS(c, i);
  }
}

/* The same if it is another process that closes, and this one hears of it. */
static void closed_elsewhere(void) {
  struct sockaddr_in here = address(my_ip(), 0);
  for (int i = 0; i < 10; i++) {
    int done[2];
    SYS(pipe(done));
    pid_t child = SYS(fork());
    if (!child) {
      int theirs = mine4();
      SYS(bind(theirs, A(here)));
      here = name_of(theirs);
      SYS(close(theirs));
      SYS(write(done[1], &here, sizeof here));
      pause();
    }
    IS(read(done[0], &here, sizeof here), sizeof here);
    int mine = mine4();
    SYS(bind(mine, A(here)));
    SYS(close(mine));
    kill(child, SIGKILL);
    SYS(waitpid(child, 0, 0));
    here = address(my_ip(), 0);
    close(done[0]), close(done[1]);
  }
}

/* Flags that a datagram may have, and an interface that it may not leave by. */
static void nothing_leaves(void) {
  enum { PROBE = 0x10, CMSG_COMPAT = INT_MIN };
  int mine = SYS(socket(AF_INET, SOCK_DGRAM, 0)), far = far_socket(SOCK_DGRAM);
  SYS(far_bind(far, address(far_ip(), 0)));
  struct sockaddr_in to = far_name(far);
  IS(sendto(mine, "abc", 3, PROBE, A(to)), 3);
  IS(sendto(mine, "d", 1, 0, A(to)), 1);
  char buf[8];
  receive_all(far, buf, 1);
  IS(buf[0], 'd');
  union {
    char bytes[CMSG_SPACE(sizeof(struct in_pktinfo))];
    struct cmsghdr align;
  } control = {0};
  struct iovec v = {"ef", 2};
  struct msghdr m = {&to, sizeof to, &v, 1, control.bytes, sizeof control.bytes, 0};
  struct mmsghdr one = {.msg_hdr = m};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  struct in_pktinfo info = {.ipi_ifindex = 77777};
  h->cmsg_level = IPPROTO_IP, h->cmsg_type = IP_PKTINFO, h->cmsg_len = CMSG_LEN(sizeof info);
  memcpy(CMSG_DATA(h), &info, sizeof info);
  FAILS(sendmsg(mine, &m, 0), ENODEV);
  info.ipi_ifindex = 0;
  memcpy(CMSG_DATA(h), &info, sizeof info);
  FAILS(sendmsg(mine, &m, CMSG_COMPAT), EINVAL);
  FAILS(sendmmsg(mine, &one, 1, CMSG_COMPAT), EINVAL);
  FAILS(recvmsg(mine, &m, CMSG_COMPAT | MSG_DONTWAIT), EINVAL);
  FAILS(recvmmsg(mine, &one, 1, CMSG_COMPAT | MSG_DONTWAIT, 0), EINVAL);
  IS(sendmsg(mine, &m, 0), 2);
  receive_all(far, buf, 2);
}

const struct check CHECKS[] = {
    {"nothing_leaves", nothing_leaves},
    {"the_peer_of_then", the_peer_of_then},
    {"hops_and_class_of_then", hops_and_class_of_then},
    {"hops_and_class_of_then_in_ipv6", hops_and_class_of_then_in_ipv6},
    {"either_version_has_its_own", either_version_has_its_own},
    {"said_beside_one_datagram", said_beside_one_datagram},
    {"said_beside_one_datagram_in_ipv6", said_beside_one_datagram_in_ipv6},
    {"more_follows", more_follows},
    {"corked", corked},
    {"set_by_another_descriptor", set_by_another_descriptor},
    {"set_while_more_is_added", set_while_more_is_added},
    {"not_to_be_cut", not_to_be_cut},
    {"not_to_be_cut_in_ipv6", not_to_be_cut_in_ipv6},
    {"cut_to_the_least_mtu", cut_to_the_least_mtu},
    {"without_a_checksum", without_a_checksum},
    {"without_a_checksum_in_ipv6", without_a_checksum_in_ipv6},
    {"closed_is_closed", closed_is_closed},
    {"closed_elsewhere", closed_elsewhere},
    {0, 0},
};
