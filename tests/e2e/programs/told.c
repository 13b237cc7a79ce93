/* What is told beside what is received, and of what was sent. */
#include "check.h"
#include <linux/errqueue.h>
#include <netinet/udp.h>
#ifndef UDP_GRO
#define UDP_SEGMENT 103
#define UDP_GRO 104
#endif
#ifndef TCP_INQ
#define TCP_INQ 36
#endif

static int bound(struct sockaddr_in *name) {
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(fd, A(a)));
  *name = name_of(fd);
  return fd;
}

static void far_send(int fd, const void *p, size_t n, struct sockaddr_in to) {
  IS(far_in_kernel() ? syscall(SYS_sendto, fd, p, n, 0, &to, sizeof to) : sendto(fd, p, n, 0, A(to)), n);
}

/* Receives, and copies the value of a control message of this type; its length, or -1. */
static int told(int fd, int level, int type, void *value, size_t size, ssize_t *got) {
  static char buf[70000];
  char control[256];
  struct iovec v = {buf, sizeof buf};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  OK(ready(fd, POLLIN, 10000) & POLLIN);
  ssize_t n = SYS(recvmsg(fd, &m, 0));
  if (got)
    *got = n;
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
    if (h->cmsg_level == level && h->cmsg_type == type) {
      size_t len = h->cmsg_len - CMSG_LEN(0);
      memcpy(value, CMSG_DATA(h), len < size ? len : size);
      return len;
    }
  return -1;
}

static int64_t stamp_ns(int fd) {
  struct timespec t;
  struct timeval micros;
  SYS(ioctl(fd, SIOCGSTAMPNS, &t));
  SYS(ioctl(fd, SIOCGSTAMP, &micros));
  OK(micros.tv_sec == t.tv_sec && micros.tv_usec == t.tv_nsec / 1000);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* When the last datagram came is kept for those who ask afterwards. */
static void time_of_the_last(void) {
  struct sockaddr_in to;
  struct timeval micros;
  struct timespec nanos;
  char c;
  int mine = bound(&to), far = far_socket(SOCK_DGRAM);
  FAILS(ioctl(SYS(socket(AF_INET, SOCK_STREAM, 0)), SIOCGSTAMP, &micros), ENOENT);
  FAILS(ioctl(mine, SIOCGSTAMP, &micros), ENOENT);
  FAILS(ioctl(mine, SIOCGSTAMPNS, &nanos), ENOENT);
  /* Linux begins to look at the clock for each packet some time after it was first asked to. */
  int tries = 0, early = 0;
  for (; !early && tries < 50; tries++) {
    far_send(far, "a", 1, to);
    IS(ready(mine, POLLIN, 10000), POLLIN);
    int64_t before = now_ns();
    sleep_ms(20);
    IS(recv(mine, &c, 1, 0), 1);
    early = stamp_ns(mine) <= before;
  }
  OK(early);
  int64_t last = stamp_ns(mine);
  far_send(far, "b", 1, to);
  IS(ready(mine, POLLIN, 10000), POLLIN);
  /* What was not received yet does not count, but what is looked at does. */
  IS(stamp_ns(mine), last);
  IS(recv(mine, &c, 1, MSG_PEEK), 1);
  int64_t next = stamp_ns(mine);
  OK(next > last && next <= now_ns());
  IS(recv(mine, &c, 1, 0), 1);
  IS(stamp_ns(mine), next);
  FAILS(ioctl(mine, SIOCGSTAMP, (void *)1), EFAULT);
  /* Of what came before it was asked for, it is the time of asking. */
  int other = bound(&to);
  far_send(far, "c", 1, to);
  IS(recv(other, &c, 1, 0), 1);
  sleep_ms(20);
  int64_t asked = now_ns();
  next = stamp_ns(other);
  OK(next >= asked);
  IS(stamp_ns(other), next);
}

static void times(void) {
  struct sockaddr_in to;
  int mine = bound(&to), far = far_socket(SOCK_DGRAM);
  struct timeval micros;
  struct timespec nanos, before, after;
  set(mine, SOL_SOCKET, SO_TIMESTAMP, 1);
  clock_gettime(CLOCK_REALTIME, &before);
  far_send(far, "a", 1, to);
  IS(told(mine, SOL_SOCKET, SO_TIMESTAMP, &micros, sizeof micros, 0), sizeof micros);
  clock_gettime(CLOCK_REALTIME, &after);
  OK(micros.tv_sec >= before.tv_sec && micros.tv_sec <= after.tv_sec && micros.tv_usec < 1000000);
  /* What is set last is told. */
  set(mine, SOL_SOCKET, SO_TIMESTAMPNS, 1);
  /* When it came counts, not when it was read. Linux begins to look at the clock for each
   * packet some time after it was first asked to. */
  int tries = 0, early = 0;
  for (; !early && tries < 50; tries++) {
    far_send(far, "b", 1, to);
    IS(ready(mine, POLLIN, 10000), POLLIN);
    clock_gettime(CLOCK_REALTIME, &before);
    sleep_ms(20);
    IS(told(mine, SOL_SOCKET, SO_TIMESTAMPNS, &nanos, sizeof nanos, 0), sizeof nanos);
    early = nanos.tv_sec < before.tv_sec || (nanos.tv_sec == before.tv_sec && nanos.tv_nsec <= before.tv_nsec);
  }
  OK(early);
  far_send(far, "c", 1, to);
  IS(told(mine, SOL_SOCKET, SO_TIMESTAMP, &micros, sizeof micros, 0), -1);
  set(mine, SOL_SOCKET, SO_TIMESTAMPNS, 0);
  far_send(far, "d", 1, to);
  IS(told(mine, SOL_SOCKET, SO_TIMESTAMPNS, &nanos, sizeof nanos, 0), -1);
  /* Asked for before the socket is bound; turning one off turns off both. */
  int unbound = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  set(unbound, SOL_SOCKET, SO_TIMESTAMP, 1);
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(unbound, A(a)));
  far_send(far, "e", 1, name_of(unbound));
  IS(told(unbound, SOL_SOCKET, SO_TIMESTAMP, &micros, sizeof micros, 0), sizeof micros);
  set(unbound, SOL_SOCKET, SO_TIMESTAMPNS, 0);
  far_send(far, "f", 1, name_of(unbound));
  IS(told(unbound, SOL_SOCKET, SO_TIMESTAMP, &micros, sizeof micros, 0), -1);
}

/* Of a datagram that came before anybody asked, the time is told, too: when it is read, at the latest. */
static void times_of_what_has_come(void) {
  struct sockaddr_in to;
  int mine = bound(&to), far = far_socket(SOCK_DGRAM);
  struct timespec nanos, before, after;
  clock_gettime(CLOCK_REALTIME, &before);
  far_send(far, "a", 1, to);
  IS(ready(mine, POLLIN, 10000), POLLIN);
  set(mine, SOL_SOCKET, SO_TIMESTAMPNS, 1);
  IS(told(mine, SOL_SOCKET, SO_TIMESTAMPNS, &nanos, sizeof nanos, 0), sizeof nanos);
  clock_gettime(CLOCK_REALTIME, &after);
  OK(nanos.tv_sec >= before.tv_sec && nanos.tv_sec <= after.tv_sec && nanos.tv_nsec < 1000000000);
}

/* Of what is no datagram nothing is told: the socket is shut down. */
static void nothing_of_an_end(void) {
  int mine = SYS(socket(AF_INET6, SOCK_DGRAM, 0)), yes = 1;
  struct sockaddr_in6 far = {.sin6_family = AF_INET6, .sin6_port = htons(9)};
  char text[64];
  snprintf(text, sizeof text, "::ffff:%s", far_ip());
  IS(inet_pton(AF_INET6, text, &far.sin6_addr), 1);
  set(mine, SOL_SOCKET, SO_TIMESTAMPNS, 1);
  SYS(setsockopt(mine, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, &yes, sizeof yes));
  SYS(setsockopt(mine, IPPROTO_IPV6, IPV6_RECVTCLASS, &yes, sizeof yes));
  SYS(setsockopt(mine, IPPROTO_IP, IP_RECVTTL, &yes, sizeof yes));
  SYS(connect(mine, A(far)));
  SYS(shutdown(mine, SHUT_RD));
  char buf[10], control[256];
  struct iovec v = {buf, sizeof buf};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  IS(recvmsg(mine, &m, 0), 0);
  IS(m.msg_controllen, 0);
  IS(m.msg_flags, 0);
  struct msghdr without = {.msg_iov = &v, .msg_iovlen = 1};
  IS(recvmsg(mine, &without, 0), 0);
  IS(without.msg_flags, 0);
}

/* How many datagrams found no room. */
static void losses(void) {
  struct sockaddr_in to;
  int mine = bound(&to), far = far_socket(SOCK_DGRAM), lost = 0, got = 0;
  set(mine, SOL_SOCKET, SO_RXQ_OVFL, 1);
  set(mine, SOL_SOCKET, SO_RCVBUF, 4096);
  enum { SENT = 1000 };
  static char some[1000];
  far_send(far, some, sizeof some, to);
  IS(told(mine, SOL_SOCKET, SO_RXQ_OVFL, &lost, sizeof lost, 0), -1); /* none yet */
  for (int i = 0; i < SENT; i++)
    far_send(far, some, sizeof some, to);
  while (ready(mine, POLLIN, 200)) {
    told(mine, SOL_SOCKET, SO_RXQ_OVFL, &lost, sizeof lost, 0);
    got++;
  }
  OK(got > 0 && got < SENT);
  far_send(far, some, sizeof some, to);
  IS(told(mine, SOL_SOCKET, SO_RXQ_OVFL, &lost, sizeof lost, 0), sizeof lost);
  OK(lost > 0 && lost <= SENT - got);
}

static void original_destination(void) {
  struct sockaddr_in to, seen;
  int any = SYS(socket(AF_INET, SOCK_DGRAM, 0)), far = far_socket(SOCK_DGRAM);
  set(any, IPPROTO_IP, IP_RECVORIGDSTADDR, 1);
  struct sockaddr_in a = address("0.0.0.0", 0);
  SYS(bind(any, A(a)));
  to = address(my_ip(), ntohs(name_of(any).sin_port));
  far_send(far, "a", 1, to);
  IS(told(any, IPPROTO_IP, IP_ORIGDSTADDR, &seen, sizeof seen, 0), sizeof seen);
  IS(seen.sin_family, AF_INET);
  OK(same(seen, to));
}

/* A control message takes no more room than it is long, and comes in part where there is less. */
static void room_for_what_is_told(void) {
  struct sockaddr_in to;
  int mine = bound(&to), far = far_socket(SOCK_DGRAM);
  set(mine, IPPROTO_IP, IP_RECVTTL, 1);
  set(mine, IPPROTO_IP, IP_RECVTOS, 1);
  const size_t one = CMSG_LEN(sizeof(int)), ttl = CMSG_SPACE(sizeof(int)), head = sizeof(struct cmsghdr);
  for (size_t room = 0; room < 60; room++) {
    _Alignas(struct cmsghdr) char control[80];
    memset(control, 0x55, sizeof control);
    char c;
    struct iovec v = {&c, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = room};
    far_send(far, "a", 1, to);
    IS(ready(mine, POLLIN, 5000), POLLIN);
    IS(recvmsg(mine, &m, 0), 1);
    /* Of the second message, the byte of IP_TOS. */
    size_t all = ttl + CMSG_LEN(1);
    IS(!!(m.msg_flags & MSG_CTRUNC), room < all);
    size_t used = room < head ? 0 : room < ttl + head ? (room < ttl ? room : ttl) : room;
    if (used > ttl + CMSG_SPACE(1))
      used = ttl + CMSG_SPACE(1);
    IS(m.msg_controllen, used);
    struct cmsghdr *first = (void *)control, *second = (void *)(control + ttl);
    if (room >= head)
      IS(first->cmsg_len, room < one ? room : one);
    if (room >= ttl + head)
      IS(second->cmsg_len, room < all ? room - ttl : CMSG_LEN(1));
    for (size_t i = room; i < sizeof control; i++)
      IS(control[i], 0x55);
  }
}

/* Receives one datagram, and writes the types of its control messages, in their order. */
static const char *types_told(int fd) {
  static char types[200];
  char control[512], c;
  struct iovec v = {&c, 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  OK(ready(fd, POLLIN, 10000) & POLLIN);
  IS(recvmsg(fd, &m, 0), 1);
  int at = 0;
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h))
    at += snprintf(types + at, sizeof types - at, "%d/%d ", h->cmsg_level, h->cmsg_type);
  return types;
}

static void set_all(int fd, int level, const int *names) {
  for (; *names; names++)
    set(fd, level, *names, 1);
}

/* Where there is little room, the order decides what is told: first what is every protocol's, then what is IPv6's
 * of all datagrams, then what is of the datagram's version. */
static void order_of_what_is_told(void) {
  const int of4[] = {IP_RECVORIGDSTADDR, IP_RECVTOS, IP_RECVTTL, IP_PKTINFO, 0};
  const int of6[] = {74 /* IPV6_RECVORIGDSTADDR */, IPV6_RECVTCLASS, IPV6_RECVHOPLIMIT, IPV6_RECVPKTINFO, 0};
  int far = far_socket(SOCK_DGRAM);
  char expected[200];
  for (int v6 = 0; v6 < 2; v6++) {
    int mine = SYS(socket(v6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0));
    set_all(mine, IPPROTO_IP, of4);
    if (v6)
      set_all(mine, IPPROTO_IPV6, of6);
    set(mine, SOL_SOCKET, SO_TIMESTAMPNS, 1);
    struct sockaddr_in a4 = address("0.0.0.0", 0);
    struct sockaddr_in6 name, a6 = {.sin6_family = AF_INET6};
    SYS(v6 ? bind(mine, A(a6)) : bind(mine, A(a4)));
    socklen_t len = sizeof name;
    SYS(getsockname(mine, (struct sockaddr *)&name, &len));
    far_send(far, "a", 1, address(my_ip(), ntohs(name.sin6_port)));
    char info6[20] = "";
    if (v6)
      snprintf(info6, sizeof info6, "%d/%d ", IPPROTO_IPV6, IPV6_PKTINFO);
    snprintf(expected, sizeof expected, "%d/%d %s%d/%d %d/%d %d/%d %d/%d ", SOL_SOCKET, SO_TIMESTAMPNS, info6, IPPROTO_IP,
             IP_PKTINFO, IPPROTO_IP, IP_TTL, IPPROTO_IP, IP_TOS, IPPROTO_IP, IP_ORIGDSTADDR);
    const char *types = types_told(mine);
    if (strcmp(types, expected))
      FAIL("%s, not %s", types, expected);
  }
}

/* A train that is sent to ourselves, or by the kernel on one machine, arrives whole where
 * that is wanted, and in its parts where not. */
static void trains(void) {
  struct sockaddr_in to;
  int mine = bound(&to), from = SYS(socket(AF_INET, SOCK_DGRAM, 0)), segment = 0;
  static unsigned char train[5000];
  pattern(train, sizeof train, 0);
  set(from, IPPROTO_UDP, UDP_SEGMENT, 1000);
  IS(sendto(from, train, sizeof train, 0, A(to)), sizeof train);
  for (int i = 0; i < 5; i++) {
    unsigned char part[2000];
    IS(recv(mine, part, sizeof part, 0), 1000);
    check_pattern(part, 1000, i * 1000);
  }
  set(mine, IPPROTO_UDP, UDP_GRO, 1);
  ssize_t got;
  IS(sendto(from, train, 4500, 0, A(to)), 4500);
  IS(told(mine, IPPROTO_UDP, UDP_GRO, &segment, sizeof segment, &got), sizeof segment);
  IS(segment, 1000);
  IS(got, 4500);
}

/* Receives so many bytes, and says how many are told to be left (TCP_INQ). */
static int left_behind(int fd, void *buf, size_t size, int flags, ssize_t got) {
  char control[64];
  int left = -1;
  struct iovec v = {buf, size};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  IS(recvmsg(fd, &m, flags), got);
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  OK(h && h->cmsg_level == IPPROTO_TCP && h->cmsg_type == TCP_INQ);
  memcpy(&left, CMSG_DATA(h), sizeof left);
  return left;
}

/* How many bytes are left after a read. */
static void what_is_left(void) {
  EACH_PAIR(mine, far) {
    char buf[4];
    send_all(far, "0123456789", 10);
    for (int n = 0; n < 10; sleep_ms(1))
      SYS(ioctl(mine, FIONREAD, &n));
    set(mine, IPPROTO_TCP, TCP_INQ, 1);
    for (int rest = 6; rest >= -2; rest -= 4) {
      if (rest < 0) {
        SYS(shutdown(far, SHUT_WR));
        IS(ready(mine, POLLRDHUP, 10000), POLLRDHUP);
      }
      ssize_t got = rest >= 0 ? 4 : rest + 4;
      IS(left_behind(mine, buf, sizeof buf, 0, got), rest < 0 ? 1 : rest); /* the end counts for one */
    }
    int two = 2;
    FAILS(setsockopt(mine, IPPROTO_TCP, TCP_INQ, &two, sizeof two), EINVAL);
  }
}

/* The urgent byte is one of those that are left, until the mark is passed. */
static void urgent_is_left(void) {
  static const struct {
    int flags, left;
  } READS[] = {{MSG_OOB | MSG_PEEK, 4}, {MSG_OOB, 4}, {0, 3}, {0, 2}, {0, 1}};
  EACH_PAIR(mine, far) {
    char c;
    set(mine, IPPROTO_TCP, TCP_INQ, 1);
    send_all(far, "012", 3);
    IS(send(far, "3", 1, MSG_OOB), 1);
    IS(ready(mine, POLLPRI, 10000), POLLPRI);
    for (size_t i = 0; i < sizeof READS / sizeof *READS; i++) {
      IS(left_behind(mine, &c, 1, READS[i].flags, 1), READS[i].left);
    }
  }
}

/* An end that the peer has not sent does not count: one's own, or that of a reset. */
static void nothing_is_left(void) {
  for (int by_reset = 0; by_reset < 2; by_reset++) {
    EACH_PAIR(mine, far) {
      char c;
      set(mine, IPPROTO_TCP, TCP_INQ, 1);
      if (by_reset) {
        far_reset(far);
        far = -1;
        OK(ready(mine, POLLIN, 10000) & POLLERR);
        FAILS(read(mine, &c, 1), ECONNRESET);
      } else {
        SYS(shutdown(mine, SHUT_RD));
      }
      IS(left_behind(mine, &c, 1, 0, 0), 0);
    }
  }
}

/* Of net_tstamp.h. */
enum {
  TX_SOFTWARE = 1 << 1,
  RX_SOFTWARE = 1 << 3,
  SOFTWARE = 1 << 4,
  OPT_ID = 1 << 7,
  TX_SCHED = 1 << 8,
  TX_ACK = 1 << 9,
  OPT_TSONLY = 1 << 11,
  OPT_ID_TCP = 1 << 16
};

static int64_t ns_of(struct timespec t) { return t.tv_sec * 1000000000ll + t.tv_nsec; }

/* Takes a stamp of what was sent, with the packet; what it is of, or -1 if there is none yet. */
static int stamp_with(int fd, uint32_t *key, int64_t *at, int *flags, char *packet, size_t size, ssize_t *len) {
  char control[256];
  struct iovec v = {packet, size};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  int what = -1, stamped = 0;
  *len = recvmsg(fd, &m, MSG_ERRQUEUE);
  if (*len == -1) {
    int why = errno;
    IS(why, EAGAIN);
    return -1;
  }
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
    if (h->cmsg_level == SOL_SOCKET) {
      struct timespec t[3];
      IS(h->cmsg_type, 37);
      IS(h->cmsg_len, CMSG_LEN(sizeof t));
      memcpy(t, CMSG_DATA(h), sizeof t);
      OK(!t[1].tv_sec && !t[2].tv_sec);
      *at = ns_of(t[0]);
      stamped = 1;
    } else {
      struct sock_extended_err e;
      memcpy(&e, CMSG_DATA(h), sizeof e);
      IS(e.ee_errno, ENOMSG);
      IS(e.ee_origin, 4);
      what = e.ee_info;
      *key = e.ee_data;
    }
  }
  OK(what >= 0 && stamped);
  *flags = m.msg_flags;
  return what;
}

static int sent_stamp(int fd, uint32_t *key, int64_t *at, int *flags) {
  ssize_t len;
  char byte;
  return stamp_with(fd, key, at, flags, &byte, 0, &len);
}

/* Of each datagram, with the packet or without. */
static void when_a_datagram_left(void) {
  enum { FLAGS = TX_SOFTWARE | SOFTWARE | TX_SCHED | OPT_ID };
  const int order[] = {1, 0}; /* SCM_TSTAMP_SCHED, SND */
  for (int alone = 0; alone < 2; alone++) {
    struct sockaddr_in to;
    int mine = SYS(socket(AF_INET, SOCK_DGRAM, 0)), far = far_socket(SOCK_DGRAM);
    struct sockaddr_in a = address(far_ip(), 0);
    SYS(far_bind(far, a));
    to = far_name(far);
    set(mine, SOL_SOCKET, SO_TIMESTAMPING, FLAGS | (alone ? OPT_TSONLY : 0));
    IS(option(mine, SOL_SOCKET, SO_TIMESTAMPING), FLAGS | (alone ? OPT_TSONLY : 0));
    for (uint32_t i = 0; i < 3; i++) {
      char some[100], packet[600];
      memset(some, 'a' + i, sizeof some);
      int64_t before = now_ns(), at = 0;
      IS(sendto(mine, some, sizeof some, 0, A(to)), sizeof some);
      for (int n = 0; n < 2; n++) {
        uint32_t key = 9;
        int flags = 0;
        ssize_t len = 0;
        OK(ready(mine, POLLERR, 10000) & POLLERR);
        IS(stamp_with(mine, &key, &at, &flags, packet, sizeof packet, &len), order[n]);
        IS(key, i);
        OK(at >= before && at <= now_ns());
        IS(flags, MSG_ERRQUEUE);
        IS(len, alone ? 0 : 14 + 20 + 8 + (ssize_t)sizeof some);
        if (!alone) {
          OK(!memcmp(packet + 42, some, sizeof some) && packet[12] == 8 && packet[14] == 0x45);
          OK(!memcmp(packet + 14 + 16, &to.sin_addr, 4) && !memcmp(packet + 14 + 20 + 2, &to.sin_port, 2));
        }
      }
    }
    IS(ready(mine, POLLERR, 0), 0);
    set(mine, SOL_SOCKET, SO_TIMESTAMPING, 0);
    IS(sendto(mine, "a", 1, 0, A(to)), 1);
    IS(ready(mine, POLLERR, 50), 0);
  }
}

/* With OPT_CMSG, what is told of a datagram that comes is told of one that left, too. */
static void where_a_datagram_left(void) {
  enum { OPT_CMSG = 1 << 10 };
  struct sockaddr_in to, a = address(far_ip(), 0);
  int mine = SYS(socket(AF_INET, SOCK_DGRAM, 0)), far = far_socket(SOCK_DGRAM);
  SYS(far_bind(far, a));
  to = far_name(far);
  SYS(connect(mine, A(to)));
  for (int i = 0; i < 3; i++) {
    union {
      char bytes[512];
      struct cmsghdr align;
    } control;
    char packet[100];
    struct iovec v = {packet, sizeof packet};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int order[4], n = 0;
    set(mine, SOL_SOCKET, SO_TIMESTAMPING, TX_SOFTWARE | SOFTWARE | (i ? OPT_CMSG : 0));
    set(mine, IPPROTO_IP, IP_PKTINFO, 1);
    set(mine, IPPROTO_IP, IP_RECVTTL, i == 2);
    set(mine, IPPROTO_IP, IP_TTL, 33);
    IS(send(mine, "x", 1, 0), 1);
    OK(ready(mine, POLLERR, 10000) & POLLERR);
    SYS(recvmsg(mine, &m, MSG_ERRQUEUE));
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
      OK(n < 4);
      order[n++] = h->cmsg_type;
      if (h->cmsg_type == IP_PKTINFO) {
        struct in_pktinfo info;
        memcpy(&info, CMSG_DATA(h), sizeof info);
        OK(info.ipi_addr.s_addr == to.sin_addr.s_addr);
        OK(info.ipi_spec_dst.s_addr == name_of(mine).sin_addr.s_addr);
        OK(info.ipi_ifindex > 0 && (info.ipi_ifindex == 1 || far_in_kernel()));
      }
      if (h->cmsg_type == IP_TTL) {
        int hops;
        memcpy(&hops, CMSG_DATA(h), sizeof hops);
        IS(hops, 33);
      }
    }
    const int expected[] = {SO_TIMESTAMPING, IP_PKTINFO, IP_TTL, IP_RECVERR};
    IS(n, 2 + i);
    for (int k = 0, at = 0; k < 4; k++)
      if ((k != 1 || i > 0) && (k != 2 || i > 1))
        IS(order[at++], expected[k]);
  }
}

/* What is said beside a datagram counts for it alone; those that are asked about are counted. */
static void one_datagram_is_asked_about(void) {
  int mine = SYS(socket(AF_INET, SOCK_DGRAM, 0)), far = far_socket(SOCK_DGRAM), flags;
  struct sockaddr_in to, a = address(far_ip(), 0);
  uint32_t key = 9;
  int64_t at;
  SYS(far_bind(far, a));
  to = far_name(far);
  set(mine, SOL_SOCKET, SO_TIMESTAMPING, SOFTWARE | OPT_ID | OPT_TSONLY);
  union {
    char bytes[CMSG_SPACE(sizeof(uint32_t))];
    struct cmsghdr align;
  } control = {0};
  struct iovec v = {"abc", 3};
  struct msghdr m = {&to, sizeof to, &v, 1, control.bytes, sizeof control.bytes, 0};
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  uint32_t what = SOFTWARE;
  h->cmsg_level = SOL_SOCKET;
  h->cmsg_type = SO_TIMESTAMPING;
  h->cmsg_len = CMSG_LEN(sizeof what);
  memcpy(CMSG_DATA(h), &what, sizeof what);
  FAILS(sendmsg(mine, &m, 0), EINVAL);
  for (uint32_t i = 0; i < 2; i++) {
    IS(sendto(mine, "ab", 2, 0, A(to)), 2);
    what = TX_SOFTWARE;
    memcpy(CMSG_DATA(h), &what, sizeof what);
    IS(sendmsg(mine, &m, 0), 3);
    OK(ready(mine, POLLERR, 10000) & POLLERR);
    IS(sent_stamp(mine, &key, &at, &flags), 0);
    IS(key, i);
    IS(sent_stamp(mine, &key, &at, &flags), -1);
  }
}

/* When a datagram came, beside it. */
static void when_a_datagram_came(void) {
  struct sockaddr_in to;
  struct timespec t[3], nanos;
  int mine = bound(&to), far = far_socket(SOCK_DGRAM);
  set(mine, SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE);
  IS(option(mine, SOL_SOCKET, SO_TIMESTAMPING), RX_SOFTWARE);
  /* Linux begins to look at the clock for each packet some time after it was first asked to. */
  sleep_ms(300);
  far_send(far, "a", 1, to);
  IS(told(mine, SOL_SOCKET, SO_TIMESTAMPING, t, sizeof t, 0), -1);
  set(mine, SOL_SOCKET, SO_TIMESTAMPING, RX_SOFTWARE | SOFTWARE);
  int64_t before = 0, after = 0;
  int told_len = -1;
  for (int n = 0; told_len == -1 && n < (on_longshore() ? 1 : 50); n++) {
    before = now_ns();
    far_send(far, "b", 1, to);
    IS(ready(mine, POLLIN, 10000), POLLIN);
    after = now_ns();
    sleep_ms(20);
    told_len = told(mine, SOL_SOCKET, SO_TIMESTAMPING, t, sizeof t, 0);
  }
  IS(told_len, sizeof t);
  OK(ns_of(t[0]) >= before && ns_of(t[0]) <= after && !t[1].tv_sec && !t[2].tv_sec);
  set(mine, SOL_SOCKET, SO_TIMESTAMPNS, 1);
  far_send(far, "c", 1, to);
  IS(told(mine, SOL_SOCKET, SO_TIMESTAMPNS, &nanos, sizeof nanos, 0), sizeof nanos);
  set(mine, SOL_SOCKET, SO_TIMESTAMPNS, 0);
  set(mine, SOL_SOCKET, SO_TIMESTAMPING, 0);
  far_send(far, "d", 1, to);
  IS(told(mine, SOL_SOCKET, SO_TIMESTAMPING, t, sizeof t, 0), -1);
}

static void when_it_was_sent(void) {
  enum { FLAGS = TX_SOFTWARE | SOFTWARE | TX_SCHED | TX_ACK };
  const int each[] = {OPT_ID | OPT_TSONLY, OPT_ID | OPT_ID_TCP, 0};
  const int order[] = {1, 0, 2}; /* SCM_TSTAMP_SCHED, SND, ACK */
  for (int i = 0; i < 3; i++)
    EACH_PAIR(mine, far) {
      static char some[4000];
      set(mine, IPPROTO_TCP, TCP_NODELAY, 1);
      send_all(mine, some, 100);
      receive_all(far, some, 100);
      for (int n = 0; queue(mine, SIOCOUTQ) && n < 1000; n++)
        sleep_ms(1);
      set(mine, SOL_SOCKET, SO_TIMESTAMPING, FLAGS | each[i]);
      IS(option(mine, SOL_SOCKET, SO_TIMESTAMPING), FLAGS | each[i]);
      uint32_t end = 0, key = 0;
      for (int len = 4000; len > 1000; len -= 1500) {
        int64_t before = now_ns(), at = 0, last = before;
        send_all(mine, some, len);
        receive_all(far, some, len);
        end += len;
        for (int n = 0; n < 3; n++) {
          int flags = 0, what;
          OK(ready(mine, POLLERR, 10000) & POLLERR);
          what = sent_stamp(mine, &key, &at, &flags);
          IS(what, order[n]);
          IS(key, each[i] ? end - 1 : 0);
          OK(at >= last && at <= now_ns());
          IS(flags, MSG_ERRQUEUE | (each[i] & OPT_TSONLY ? 0 : MSG_TRUNC));
          last = at;
        }
      }
      IS(ready(mine, POLLERR, 0), 0);
      int flags;
      int64_t at;
      IS(sent_stamp(mine, &key, &at, &flags), -1);
      /* What comes is no concern of it, nor what is sent without being asked about. */
      set(mine, SOL_SOCKET, SO_TIMESTAMPING, 0);
      send_all(mine, "a", 1);
      receive_all(far, some, 1);
      IS(ready(mine, POLLERR, 50), 0);
    }
}

static void what_cannot_be_stamped(void) {
  int listener = my_listener(8), fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  int flags[2] = {0};
  socklen_t n = sizeof flags;
  const int none[] = {OPT_ID | TX_ACK, OPT_ID_TCP, 1 << 30};
  for (int i = 0; i < 3; i++) {
    FAILS(setsockopt(listener, SOL_SOCKET, SO_TIMESTAMPING, none + i, sizeof(int)), EINVAL);
    FAILS(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, none + i, sizeof(int)), EINVAL);
  }
  FAILS(setsockopt(fd, SOL_SOCKET, SO_TIMESTAMPING, none, 2), EINVAL);
  /* A connection has what its listener has. */
  set(listener, SOL_SOCKET, SO_TIMESTAMPING, TX_ACK | SOFTWARE | OPT_TSONLY);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, name_of(listener)));
  int mine = SYS(accept(listener, 0, 0));
  SYS(getsockopt(mine, SOL_SOCKET, SO_TIMESTAMPING, flags, &n));
  IS(n, sizeof flags);
  OK(flags[0] == (TX_ACK | SOFTWARE | OPT_TSONLY) && !flags[1]);
  uint32_t key = 9;
  int64_t at = 0;
  send_all(mine, "a", 1);
  OK(ready(mine, POLLERR, 10000) & POLLERR);
  IS(sent_stamp(mine, &key, &at, flags), 2);
  IS(key, 0);
}

/* No more is written than the mark above what was sent, though the buffer has room. */
static void little_is_not_sent(void) {
  EACH_PAIR(mine, far) {
    enum { MARK = 20000 };
    static char some[4000];
    set(mine, SOL_SOCKET, SO_SNDBUF, 2 << 20);
    far_option(far, SOL_SOCKET, SO_RCVBUF, 65536);
    set(mine, IPPROTO_TCP, TCP_NOTSENT_LOWAT, MARK);
    size_t all = fill(mine, sizeof some);
    int unsent = queue(mine, SIOCOUTQNSD);
    OK(unsent > 0 && unsent <= MARK + 65536); /* Linux fills the segment that it has begun */
    OK(all < 1 << 20);
    IS(ready(mine, POLLOUT, 0), 0);
    /* A process that waits is told when there is less than half of it. */
    pid_t child = SYS(fork());
    if (!child) {
      static char sink[65536];
      for (size_t got = 0; got < all; got += SYS(read(far, sink, sizeof sink)))
        ;
      _exit(0);
    }
    IS(ready(mine, POLLOUT, 10000), POLLOUT);
    OK(write(mine, some, sizeof some) > 0);
    joined(child);
  }
}

static void peeks(int fd, const char *what, int offset) {
  char buf[64] = {0};
  IS(recv(fd, buf, strlen(what), MSG_PEEK), strlen(what));
  if (strncmp(buf, what, sizeof buf))
    FAIL("peeked %s, not %s", buf, what);
  IS(option(fd, SOL_SOCKET, SO_PEEK_OFF), offset);
}

static void peek_offset_of_a_stream(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    IS(option(mine, SOL_SOCKET, SO_PEEK_OFF), -1);
    set(mine, SOL_SOCKET, SO_PEEK_OFF, 0);
    send_all(far, "abcdefgh", 8);
    IS(ready(mine, POLLIN, 5000), POLLIN);
    peeks(mine, "abc", 3);
    peeks(mine, "de", 5);
    set(mine, SOL_SOCKET, SO_PEEK_OFF, 1);
    peeks(mine, "bcd", 4);
    /* What is read takes it back, to the front at most. */
    receive_all(mine, buf, 2);
    IS(option(mine, SOL_SOCKET, SO_PEEK_OFF), 2);
    peeks(mine, "ef", 4);
    IS(recv(mine, buf, 1, MSG_TRUNC), 1);
    IS(option(mine, SOL_SOCKET, SO_PEEK_OFF), 3);
    receive_all(mine, buf, 4);
    IS(option(mine, SOL_SOCKET, SO_PEEK_OFF), 0);
    /* Beyond what is there: as if there was nothing, though the socket is readable. */
    set(mine, SOL_SOCKET, SO_PEEK_OFF, 1);
    IS(ready(mine, POLLIN, 0), POLLIN);
    FAILS(recv(mine, buf, 8, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
    pid_t child = SYS(fork());
    if (!child) {
      sleep_ms(50);
      send_all(far, "ij", 2);
      _exit(0);
    }
    IS(recv(mine, buf, 2, MSG_PEEK | MSG_WAITALL), 2);
    IS(memcmp(buf, "ij", 2), 0);
    joined(child);
    SYS(shutdown(far, SHUT_WR));
    IS(recv(mine, buf, 8, MSG_PEEK), 0);
    /* Off, it begins at the front again. */
    set(mine, SOL_SOCKET, SO_PEEK_OFF, -1);
    peeks(mine, "hij", -1);
  }
}

static void peek_offset_of_datagrams(void) {
  int mine = SYS(socket(AF_INET, SOCK_DGRAM, 0)), far = far_socket(SOCK_DGRAM);
  struct sockaddr_in here = address(my_ip(), 0);
  char buf[64];
  SYS(bind(mine, A(here)));
  SYS(far_connect(far, name_of(mine)));
  set(mine, SOL_SOCKET, SO_PEEK_OFF, 0);
  send_all(far, "abcd", 4);
  send_all(far, "efghij", 6);
  sleep_ms(50);
  IS(ready(mine, POLLIN, 5000), POLLIN);
  peeks(mine, "abc", 3);
  peeks(mine, "d", 4);
  peeks(mine, "efg", 7);
  /* One is looked at to its end, even if there is room for more. */
  struct iovec iov = {buf, sizeof buf};
  struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
  IS(recvmsg(mine, &m, MSG_PEEK), 3);
  IS(m.msg_flags, 0);
  IS(memcmp(buf, "hij", 3), 0);
  IS(option(mine, SOL_SOCKET, SO_PEEK_OFF), 10);
  FAILS(recv(mine, buf, sizeof buf, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
  set(mine, SOL_SOCKET, SO_PEEK_OFF, 5);
  iov.iov_len = 2;
  IS(recvmsg(mine, &m, MSG_PEEK), 2);
  IS(m.msg_flags, MSG_TRUNC);
  IS(memcmp(buf, "fg", 2), 0);
  IS(recv(mine, buf, 1, MSG_PEEK | MSG_TRUNC), 6);
  IS(option(mine, SOL_SOCKET, SO_PEEK_OFF), 13);
  IS(recv(mine, buf, sizeof buf, 0), 4);
  IS(option(mine, SOL_SOCKET, SO_PEEK_OFF), 9);
  IS(recv(mine, buf, sizeof buf, 0), 6);
  IS(option(mine, SOL_SOCKET, SO_PEEK_OFF), 3);
}

static void peek_offset_is_set_before(void) {
  int listener = my_listener(8), far = far_socket(SOCK_STREAM);
  char buf[8];
  set(listener, SOL_SOCKET, SO_PEEK_OFF, 2);
  SYS(far_connect(far, name_of(listener)));
  int mine = SYS(accept(listener, 0, 0));
  IS(option(mine, SOL_SOCKET, SO_PEEK_OFF), 2);
  send_all(far, "abc", 3);
  IS(recv(mine, buf, 1, MSG_PEEK), 1);
  IS(buf[0], 'c');
}

/* Whether a port was asked for, and what the offset is, are two things, whichever is set first. */
static void peek_offset_beside_a_bind(void) {
  static const int OFFSETS[] = {-1, 0, 1, 2, 5};
  int listener = far_listener(16);
  for (int i = 0; i < 2 * 2 * 5; i++) {
    int first = i & 1, alone = i >> 1 & 1, offset = OFFSETS[i / 4];
    int mine = SYS(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in here = address(my_ip(), 0), there = far_name(listener);
    if (first)
      set(mine, SOL_SOCKET, SO_PEEK_OFF, offset);
    if (alone)
      set(mine, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
    SYS(bind(mine, A(here)));
    if (!first)
      set(mine, SOL_SOCKET, SO_PEEK_OFF, offset);
    SYS(connect(mine, A(there)));
    int far = far_accept(listener);
    IS(option(mine, SOL_SOCKET, SO_PEEK_OFF), offset);
    IS(option(mine, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT), alone);
    send_all(far, "abcdefgh", 8);
    IS(ready(mine, POLLIN, 5000), POLLIN);
    char what[] = {'a' + (offset > 0 ? offset : 0), 0};
    peeks(mine, what, offset < 0 ? -1 : offset + 1);
    set(mine, SOL_SOCKET, SO_PEEK_OFF, -1);
    IS(option(mine, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT), alone);
    SYS(close(mine));
    SYS(close(far));
  }
}

const struct check CHECKS[] = {
    {"peek_offset_beside_a_bind", peek_offset_beside_a_bind},
    {"peek_offset_of_a_stream", peek_offset_of_a_stream},
    {"peek_offset_of_datagrams", peek_offset_of_datagrams},
    {"peek_offset_is_set_before", peek_offset_is_set_before},
    {"times", times},
    {"time_of_the_last", time_of_the_last},
    {"when_it_was_sent", when_it_was_sent},
    {"when_a_datagram_left", when_a_datagram_left},
    {"where_a_datagram_left", where_a_datagram_left},
    {"one_datagram_is_asked_about", one_datagram_is_asked_about},
    {"when_a_datagram_came", when_a_datagram_came},
    {"what_cannot_be_stamped", what_cannot_be_stamped},
    {"times_of_what_has_come", times_of_what_has_come},
    {"nothing_of_an_end", nothing_of_an_end},
    {"losses", losses},
    {"original_destination", original_destination},
    {"room_for_what_is_told", room_for_what_is_told},
    {"order_of_what_is_told", order_of_what_is_told},
    {"trains", trains},
    {"what_is_left", what_is_left},
    {"little_is_not_sent", little_is_not_sent},
    {"nothing_is_left", nothing_is_left},
    {"urgent_is_left", urgent_is_left},
    {0, 0},
};
