/* UDP: one call, one datagram. */
#include "check.h"
#include "nowhere.h"
#include <net/if.h>

/* Two bound sockets, unconnected, and their addresses. */
static void two(int *mine, struct sockaddr_in *here, int *far, struct sockaddr_in *there) {
  *mine = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(*mine, A(a)));
  *here = name_of(*mine);
  *far = far_socket(SOCK_DGRAM);
  SYS(far_bind(*far, address(far_ip(), 0)));
  *there = far_name(*far);
}

#define TWO                                                                    \
  int mine, far;                                                               \
  struct sockaddr_in here, there;                                              \
  two(&mine, &here, &far, &there)

static ssize_t far_send(int fd, const void *p, size_t n, struct sockaddr_in to) {
  return far_in_kernel() ? syscall(SYS_sendto, fd, p, n, 0, &to, sizeof to)
                         : sendto(fd, p, n, 0, A(to));
}

static void there_and_back(void) {
  TWO;
  char buf[16];
  IS(sendto(mine, "ping", 4, 0, A(there)), 4);
  IS(recv(far, buf, sizeof buf, 0), 4);
  IS(far_send(far, "pong!", 5, here), 5);
  struct sockaddr_in from;
  socklen_t n = sizeof from;
  IS(recvfrom(mine, buf, sizeof buf, 0, (struct sockaddr *)&from, &n), 5);
  OK(memcmp(buf, "pong!", 5) == 0);
  IS(n, sizeof from);
  OK(same(from, there));
}

static void boundaries_stay(void) {
  TWO;
  char buf[16];
  far_send(far, "one", 3, here);
  far_send(far, "", 0, here);
  far_send(far, "three", 5, here);
  IS(recv(mine, buf, sizeof buf, 0), 3);
  IS(recv(mine, buf, sizeof buf, 0), 0);
  IS(recv(mine, buf, sizeof buf, 0), 5);
  FAILS(recv(mine, buf, sizeof buf, MSG_DONTWAIT), EAGAIN);
}

static void truncation(void) {
  TWO;
  char buf[4];
  far_send(far, "123456", 6, here);
  IS(recv(mine, buf, 4, 0), 4); /* the rest is gone */
  far_send(far, "123456", 6, here);
  IS(recv(mine, buf, 4, MSG_TRUNC), 6); /* its true length */
  far_send(far, "123456", 6, here);
  struct iovec v = {buf, 4};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  IS(recvmsg(mine, &m, 0), 4);
  OK(m.msg_flags & MSG_TRUNC);
  FAILS(recv(mine, buf, 4, MSG_DONTWAIT), EAGAIN);
}

static void peek(void) {
  TWO;
  char buf[8];
  far_send(far, "peek", 4, here);
  IS(recv(mine, buf, 8, MSG_PEEK), 4);
  IS(recv(mine, buf, 8, MSG_PEEK), 4);
  IS(recv(mine, buf, 8, 0), 4);
  FAILS(recv(mine, buf, 8, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
}

static void connected(void) {
  TWO;
  char buf[8];
  SYS(connect(mine, A(there)));
  OK(same(peer_of(mine), there));
  IS(send(mine, "abc", 3, 0), 3);
  IS(recv(far, buf, 8, 0), 3);
  IS(write(mine, "de", 2), 2);
  IS(recv(far, buf, 8, 0), 2);
  far_send(far, "xy", 2, here);
  IS(read(mine, buf, 8), 2);
  /* Others are not heard any more. */
  int stranger = far_socket(SOCK_DGRAM);
  SYS(far_bind(stranger, address(far_ip(), 0)));
  far_send(stranger, "psst", 4, here);
  FAILS((sleep_ms(30), recv(mine, buf, 8, MSG_DONTWAIT)), EAGAIN);
}

static void disconnected(void) {
  TWO;
  SYS(connect(mine, A(there)));
  struct sockaddr_in none = {.sin_family = AF_UNSPEC};
  SYS(connect(mine, A(none)));
  FAILS(send(mine, "x", 1, 0), EDESTADDRREQ);
  IS(sendto(mine, "x", 1, 0, A(there)), 1);
}

/* What has no peer may be disconnected, as often as one likes (getaddrinfo does it between any two
 * addresses). The address that it was bound to stays, and comes with its next port. */
static void disconnected_again(void) {
  TWO;
  struct sockaddr_in none = {.sin_family = AF_UNSPEC};
  for (int bound = 0; bound < 3; bound++) {
    int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in to = address(my_ip(), 0);
    if (bound == 1)
      SYS(bind(fd, A(to)));
    if (bound == 2)
      SYS(connect(fd, A(there)));
    for (int i = 0; i < 3; i++)
      SYS(connect(fd, A(none)));
    IS(name_of(fd).sin_port, 0);
    IS(sendto(fd, "x", 1, 0, A(there)), 1);
    OK(name_of(fd).sin_port != 0);
    IS(name_of(fd).sin_addr.s_addr, bound == 1 ? to.sin_addr.s_addr : INADDR_ANY);
    SYS(connect(fd, A(none)));
    SYS(connect(fd, A(none)));
    SYS(connect(fd, A(there)));
    IS(send(fd, "x", 1, 0), 1);
    SYS(close(fd));
  }
}

/* A half that was shut down stays so when a peer is taken away. */
static void disconnected_and_shut(void) {
  TWO;
  struct sockaddr_in none = {.sin_family = AF_UNSPEC};
  for (int connected = 0; connected < 2; connected++) {
    int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
    if (connected)
      SYS(connect(fd, A(there)));
    if (connected)
      SYS(shutdown(fd, SHUT_WR));
    else
      FAILS(shutdown(fd, SHUT_WR), ENOTCONN);
    SYS(connect(fd, A(none)));
    FAILS(sendto(fd, "x", 1, MSG_NOSIGNAL, A(there)), EPIPE);
    SYS(connect(fd, A(there)));
    FAILS(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
    SYS(close(fd));
  }
}

static void chosen_address(void) {
  TWO;
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  IS(name_of(fd).sin_port, 0);
  FAILS(send(fd, "x", 1, 0), EDESTADDRREQ);
  IS(sendto(fd, "hello", 5, 0, A(there)), 5); /* binds it */
  OK(name_of(fd).sin_port != 0);
  char buf[8];
  IS(recv(far, buf, 8, 0), 5);
  SYS(connect(fd, A(there)));
  OK(name_of(fd).sin_addr.s_addr == address(my_ip(), 0).sin_addr.s_addr);
}

static void refused(void) {
  int fd = far_socket(SOCK_DGRAM);
  SYS(far_bind(fd, address(far_ip(), 0)));
  struct sockaddr_in gone = far_name(fd);
  SYS(close(fd));
  int mine = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  SYS(connect(mine, A(gone)));
  IS(send(mine, "anyone?", 7, 0), 7);
  OK(ready(mine, POLLIN, 10000) & POLLERR);
  char c;
  FAILS(recv(mine, &c, 1, MSG_DONTWAIT), ECONNREFUSED);
  FAILS(recv(mine, &c, 1, MSG_DONTWAIT), EAGAIN);
}

/* What was sent before its receiver was closed, or has chosen a peer, has arrived before. */
static void sent_before_a_change(void) {
  if (far_in_kernel())
    return;
  for (int i = 0; i < 100; i++) {
    TWO;
    char buf[4];
    SYS(connect(far, A(here)));
    for (int sent = 0; sent < 3; sent++)
      IS(send(far, "x", 1, 0), 1);
    if (i % 2) {
      SYS(connect(mine, A(here)));
      for (int received = 0; received < 3; received++)
        IS(recv(mine, buf, sizeof buf, MSG_DONTWAIT), 1);
    }
    SYS(close(mine));
    IS(option(far, SOL_SOCKET, SO_ERROR), 0);
    SYS(close(far));
  }
}

static void sizes(void) {
  TWO;
  static unsigned char out[65507], in[65536];
  pattern(out, sizeof out, 0);
  static const size_t all[] = {1, 1472, 1473, 2000, 9000, 30000, 65507};
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
    IS(sendto(mine, out, all[i], 0, A(there)), all[i]);
    IS(ready(far, POLLIN, 10000), POLLIN);
    IS(recv(far, in, sizeof in, 0), all[i]);
    check_pattern(in, all[i], 0);
    IS(far_send(far, out, all[i], here), all[i]);
    IS(ready(mine, POLLIN, 10000), POLLIN);
    IS(recv(mine, in, sizeof in, 0), all[i]);
    check_pattern(in, all[i], 0);
  }
}

static void too_long(void) {
  TWO;
  static char big[65508];
  FAILS(sendto(mine, big, sizeof big, 0, A(there)), EMSGSIZE);
}

static void waiting_bytes(void) {
  TWO;
  int n = -1;
  SYS(ioctl(mine, FIONREAD, &n));
  IS(n, 0);
  far_send(far, "12345", 5, here);
  far_send(far, "678", 3, here);
  OK(ready(mine, POLLIN, 10000));
  SYS(ioctl(mine, FIONREAD, &n));
  IS(n, 5); /* of the next datagram, not of all */
}

static void gathered_and_scattered(void) {
  TWO;
  struct iovec out[2] = {{"head", 4}, {"body", 4}};
  struct msghdr m = {.msg_name = &there, .msg_namelen = sizeof there, .msg_iov = out, .msg_iovlen = 2};
  IS(sendmsg(mine, &m, 0), 8);
  char buf[8], a[3], b[8];
  IS(recv(far, buf, 8, 0), 8);
  OK(memcmp(buf, "headbody", 8) == 0);
  far_send(far, "abcdefg", 7, here);
  struct sockaddr_in from;
  struct iovec in[2] = {{a, 3}, {b, 8}};
  struct msghdr r = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = in, .msg_iovlen = 2};
  IS(recvmsg(mine, &r, 0), 7);
  IS(r.msg_namelen, sizeof from);
  OK(same(from, there));
  OK(memcmp(a, "abc", 3) == 0 && memcmp(b, "defg", 4) == 0);
}

static void many_messages_in_one_call(void) {
  TWO;
  struct iovec v[8];
  struct mmsghdr m[8] = {0};
  char text[8][4];
  for (int i = 0; i < 8; i++) {
    snprintf(text[i], 4, "m%d", i);
    v[i] = (struct iovec){text[i], 2};
    m[i].msg_hdr = (struct msghdr){.msg_name = &there, .msg_namelen = sizeof there, .msg_iov = &v[i], .msg_iovlen = 1};
  }
  IS(sendmmsg(mine, m, 8, 0), 8);
  char buf[4];
  for (int i = 0; i < 8; i++) {
    IS(recv(far, buf, 4, 0), 2);
    IS(buf[1], '0' + i);
    far_send(far, buf, 2, here);
  }
  for (int i = 0; i < 8; i++)
    m[i].msg_hdr.msg_name = 0, m[i].msg_hdr.msg_namelen = 0;
  for (int got = 0; got < 8;) {
    IS(ready(mine, POLLIN, 5000), POLLIN);
    got += SYS(recvmmsg(mine, m + got, 8 - got, MSG_DONTWAIT, 0));
  }
  for (int i = 0; i < 8; i++) {
    IS(m[i].msg_len, 2);
    IS(text[i][1], '0' + i);
  }
}

/* A call that does not wait is not told that nothing will come: Linux says so to those that do. */
static void nothing_comes_and_it_does_not_wait(void) {
  TWO;
  for (int how = SHUT_RD; how <= SHUT_RDWR; how += SHUT_RDWR - SHUT_RD) {
    int fd = SYS(socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0));
    char c;
    SYS(sendto(fd, "x", 1, 0, A(there)));
    FAILS(shutdown(fd, how), ENOTCONN);
    FAILS(recv(fd, &c, 1, 0), EAGAIN);
    FAILS(recv(fd, &c, 1, 0), EAGAIN);
    SYS(close(fd));
  }
}

/* A peer with port 0 is none to be told of. */
static void a_peer_without_a_port(void) {
  TWO;
  struct sockaddr_in a = there;
  socklen_t n = sizeof a;
  a.sin_port = 0;
  SYS(connect(mine, A(a)));
  FAILS(getpeername(mine, (void *)&a, &n), ENOTCONN);
  FAILS(getsockopt(mine, SOL_SOCKET, SO_PEERNAME, &a, &n), ENOTCONN);
  SYS(connect(mine, A(there)));
  SYS(getpeername(mine, (void *)&a, &n));
  IS(a.sin_port, there.sin_port);
}

/* A time is looked at after each datagram, and what is left of it told. */
static void time_left_for_many(void) {
  TWO;
  char text[2][4];
  struct iovec v[2];
  struct mmsghdr m[2] = {0};
  for (int i = 0; i < 2; i++) {
    v[i] = (struct iovec){text[i], 4};
    m[i].msg_hdr = (struct msghdr){.msg_iov = &v[i], .msg_iovlen = 1};
  }
  SYS(sendto(mine, "a", 1, 0, (void *)&there, sizeof there));
  char c;
  IS(recv(far, &c, 1, 0), 1);
  struct timespec t = {10, 0};
  FAILS(recvmmsg(mine, m, 2, MSG_DONTWAIT, &t), EAGAIN);
  IS(t.tv_sec, 10);
  far_send(far, "x", 1, here);
  IS(ready(mine, POLLIN, 5000), POLLIN);
  IS(recvmmsg(mine, m, 2, MSG_WAITFORONE, &t), 1);
  IS(t.tv_sec, 9);
  t = (struct timespec){0, 1};
  far_send(far, "x", 1, here);
  IS(recvmmsg(mine, m, 2, 0, &t), 1);
  IS(t.tv_sec, 0);
  IS(t.tv_nsec, 0);
}

static void readiness(void) {
  TWO;
  IS(ready(mine, POLLIN | POLLOUT, 0), POLLOUT);
  int ep = SYS(epoll_create1(0));
  struct epoll_event e = {.events = EPOLLIN | EPOLLET};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
  IS(epoll_wait(ep, &e, 1, 20), 0);
  far_send(far, "x", 1, here);
  IS(epoll_wait(ep, &e, 1, 10000), 1);
  IS(epoll_wait(ep, &e, 1, 20), 0);
  far_send(far, "y", 1, here);
  IS(epoll_wait(ep, &e, 1, 10000), 1);
  char c;
  IS(recv(mine, &c, 1, 0), 1);
  IS(recv(mine, &c, 1, 0), 1);
}

static void receive_timeout(void) {
  TWO;
  struct timeval t = {0, 100000};
  SYS(setsockopt(mine, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
  char c;
  TAKES(FAILS(recv(mine, &c, 1, 0), EAGAIN), 0.09, 0.5);
}

static void wildcard(void) {
  TWO;
  int any = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address("0.0.0.0", 0);
  SYS(bind(any, A(a)));
  struct sockaddr_in at = address(my_ip(), ntohs(name_of(any).sin_port));
  far_send(far, "to any", 6, at);
  char buf[8];
  struct sockaddr_in from;
  socklen_t n = sizeof from;
  IS(recvfrom(any, buf, 8, 0, (struct sockaddr *)&from, &n), 6);
  OK(same(from, there));
  IS(sendto(any, "back", 4, 0, A(from)), 4);
  struct sockaddr_in seen;
  n = sizeof seen;
  IS(recvfrom(far, buf, 8, 0, (struct sockaddr *)&seen, &n), 4);
  OK(same(seen, at));
}

static void taken(void) {
  TWO;
  int other = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  FAILS(bind(other, A(here)), EADDRINUSE);
}

static void shared_by_a_child(void) {
  TWO;
  char buf[8];
  pid_t child = SYS(fork());
  if (!child) {
    IS(recv(mine, buf, 8, 0), 4);
    IS(sendto(mine, "done", 4, 0, A(there)), 4);
    _exit(0);
  }
  far_send(far, "task", 4, here);
  IS(recv(far, buf, 8, 0), 4);
  joined(child);
  far_send(far, "me", 2, here);
  IS(recv(mine, buf, 8, 0), 2);
}

static void packet_information(void) {
  TWO;
  int any = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  set(any, IPPROTO_IP, IP_PKTINFO, 1);
  struct sockaddr_in a = address("0.0.0.0", 0);
  SYS(bind(any, A(a)));
  far_send(far, "x", 1, address(my_ip(), ntohs(name_of(any).sin_port)));
  char c, control[128];
  struct iovec v = {&c, 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  IS(recvmsg(any, &m, 0), 1);
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  OK(h && h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_PKTINFO);
  struct in_pktinfo info;
  memcpy(&info, CMSG_DATA(h), sizeof info);
  OK(info.ipi_addr.s_addr == address(my_ip(), 0).sin_addr.s_addr);
  char name[IF_NAMESIZE];
  OK(if_indextoname(info.ipi_ifindex, name));
  /* It says when there is no room, and ends when it is told to. */
  struct sockaddr_in to = address(my_ip(), ntohs(name_of(any).sin_port));
  far_send(far, "y", 1, to);
  m.msg_controllen = 4;
  IS(recvmsg(any, &m, 0), 1);
  OK(m.msg_flags & MSG_CTRUNC);
  set(any, IPPROTO_IP, IP_PKTINFO, 0);
  far_send(far, "z", 1, to);
  m.msg_controllen = sizeof control;
  IS(recvmsg(any, &m, 0), 1);
  IS(m.msg_controllen, 0);
  /* An answer from the address that was asked, and from one that is not ours. */
  m.msg_name = &there, m.msg_namelen = sizeof there;
  memset(control, 0, sizeof control);
  m.msg_controllen = CMSG_SPACE(sizeof info);
  h = CMSG_FIRSTHDR(&m);
  h->cmsg_level = IPPROTO_IP, h->cmsg_type = IP_PKTINFO, h->cmsg_len = CMSG_LEN(sizeof info);
  struct in_pktinfo from = {.ipi_spec_dst = info.ipi_addr};
  memcpy(CMSG_DATA(h), &from, sizeof from);
  IS(sendmsg(any, &m, 0), 1);
  IS(recv(far, &c, 1, 0), 1);
  from.ipi_spec_dst = address("198.51.100.1", 0).sin_addr;
  memcpy(CMSG_DATA(h), &from, sizeof from);
  FAILS(sendmsg(any, &m, 0), ENETUNREACH);
}

/* The control message of this type that came with the next datagram, which is one byte:
 * its number, or -1. */
static int told(int fd, int level, int type) {
  char c, control[256];
  struct iovec v = {&c, 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  IS(recvmsg(fd, &m, 0), 1);
  for (struct cmsghdr *h = CMSG_FIRSTHDR(&m); h; h = CMSG_NXTHDR(&m, h)) {
    if (h->cmsg_level != level || h->cmsg_type != type)
      continue;
    int number = 0;
    memcpy(&number, CMSG_DATA(h), h->cmsg_len - CMSG_LEN(0));
    return number;
  }
  return -1;
}

static void hops_and_service(void) {
  TWO;
  IS(option(mine, IPPROTO_IP, IP_RECVTTL), 0);
  far_send(far, "0", 1, here);
  IS(told(mine, IPPROTO_IP, IP_TTL), -1);
  set(mine, IPPROTO_IP, IP_RECVTTL, 1);
  set(mine, IPPROTO_IP, IP_RECVTOS, 1);
  IS(option(mine, IPPROTO_IP, IP_RECVTTL), 1);
  IS(option(mine, IPPROTO_IP, IP_RECVTOS), 1);
  SYS(far_option(far, IPPROTO_IP, IP_TTL, 33));
  SYS(far_option(far, IPPROTO_IP, IP_TOS, 0x2a));
  far_send(far, "1", 1, here);
  IS(told(mine, IPPROTO_IP, IP_TTL), 33);
  far_send(far, "2", 1, here);
  IS(told(mine, IPPROTO_IP, IP_TOS), 0x2a);
  set(mine, IPPROTO_IP, IP_RECVTTL, 0);
  far_send(far, "3", 1, here);
  IS(told(mine, IPPROTO_IP, IP_TTL), -1);
  far_send(far, "4", 1, here);
  IS(told(mine, IPPROTO_IP, IP_TOS), 0x2a);
  /* Set before the socket is anybody's, and asked of one for both versions. */
  int any = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  set(any, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
  set(any, IPPROTO_IP, IP_RECVTTL, 1);
  struct sockaddr_in6 a = {.sin6_family = AF_INET6};
  SYS(bind(any, A(a)));
  socklen_t n = sizeof a;
  SYS(getsockname(any, (struct sockaddr *)&a, &n));
  struct sockaddr_in to = address(my_ip(), ntohs(a.sin6_port));
  far_send(far, "5", 1, to);
  IS(told(any, IPPROTO_IP, IP_TTL), 33);
  far_send(far, "6", 1, to);
  IS(told(any, IPPROTO_IPV6, IPV6_HOPLIMIT), -1);
}

static void flood_does_not_hang(void) {
  TWO;
  static char some[1000];
  int got = 0;
  for (int i = 0; i < 20000; i++)
    sendto(mine, some, sizeof some, MSG_DONTWAIT, A(there));
  /* Nobody promises that a datagram is there when the call that sent it returns. */
  while (ready(far, POLLIN, got ? 100 : 5000) && recv(far, some, sizeof some, MSG_DONTWAIT) > 0)
    got++;
  OK(got > 0);
  for (int i = 0; i < 20000; i++)
    far_send(far, some, sizeof some, here);
  got = 0;
  while (ready(mine, POLLIN, got ? 100 : 5000) && recv(mine, some, sizeof some, MSG_DONTWAIT) > 0)
    got++;
  OK(got > 0);
  char buf[8];
  ssize_t n = 0;
  /* A latecomer of the flood may come in between, or leave no room for it. */
  for (double end = now() + 10; n != 5 && now() < end;) {
    far_send(far, "alive", 5, here);
    while (n != 5 && ready(mine, POLLIN, 200))
      n = SYS(recv(mine, buf, 8, 0));
  }
  IS(n, 5);
}

/* Sends a byte to what is no address, as a message, too. */
static ssize_t send_to(int fd, const void *name, socklen_t n, int as_message) {
  struct iovec v = {"x", 1};
  struct msghdr m = {
      .msg_name = (void *)name, .msg_namelen = n, .msg_iov = &v, .msg_iovlen = 1};
  return as_message ? sendmsg(fd, &m, 0) : sendto(fd, "x", 1, 0, name, n);
}

static void bad_destinations(void) {
  TWO;
  void *volatile nowhere;
  struct sockaddr_un local = {.sun_family = AF_UNIX, .sun_path = "/nowhere"};
  struct sockaddr_in6 newer = {.sin6_family = AF_INET6, .sin6_port = there.sin_port};
  /* Connected, it could go to the peer. */
  for (int is_connected = 0; is_connected < 2; is_connected++) {
    if (is_connected)
      SYS(connect(mine, A(there)));
    for (int m = 0; m < 2; m++) {
      EACH_NOWHERE(nowhere)
        FAILS(send_to(mine, nowhere, sizeof there, m), EFAULT);
      FAILS(send_to(mine, &there, 8, m), EINVAL);
      FAILS(send_to(mine, &there, -1, m), EINVAL);
      FAILS(send_to(mine, &local, sizeof local, m), EAFNOSUPPORT);
      FAILS(send_to(mine, &newer, sizeof newer, m), EAFNOSUPPORT);
    }
    FAILS(send_to(mine, &there, 0, 0), EINVAL);
    FAILS(send_to(mine, &there, 1000, 0), EINVAL);
  }
  char buf[8];
  IS(send(mine, "end", 3, 0), 3);
  IS(recv(far, buf, sizeof buf, 0), 3);
  /* A stream goes to its peer, whatever the address says that can be read. */
  EACH_PAIR(stream, other) {
    for (int m = 0; m < 2; m++) {
      EACH_NOWHERE(nowhere)
        FAILS(send_to(stream, nowhere, sizeof there, m), EFAULT);
      FAILS(send_to(stream, &there, -1, m), EINVAL);
      IS(send_to(stream, &local, sizeof local, m), 1);
      IS(send_to(stream, &there, 0, m), 1);
    }
    receive_all(other, buf, 4);
  }
}

const struct check CHECKS[] = {
    {"there_and_back", there_and_back},
    {"boundaries_stay", boundaries_stay},
    {"truncation", truncation},
    {"peek", peek},
    {"connected", connected},
    {"disconnected", disconnected},
    {"disconnected_again", disconnected_again},
    {"disconnected_and_shut", disconnected_and_shut},
    {"chosen_address", chosen_address},
    {"refused", refused},
    {"bad_destinations", bad_destinations},
    {"sent_before_a_change", sent_before_a_change},
    {"sizes", sizes},
    {"too_long", too_long},
    {"waiting_bytes", waiting_bytes},
    {"gathered_and_scattered", gathered_and_scattered},
    {"many_messages_in_one_call", many_messages_in_one_call},
    {"nothing_comes_and_it_does_not_wait", nothing_comes_and_it_does_not_wait},
    {"a_peer_without_a_port", a_peer_without_a_port},
    {"time_left_for_many", time_left_for_many},
    {"readiness", readiness},
    {"receive_timeout", receive_timeout},
    {"wildcard", wildcard},
    {"taken", taken},
    {"shared_by_a_child", shared_by_a_child},
    {"packet_information", packet_information},
    {"hops_and_service", hops_and_service},
    {"flood_does_not_hang", flood_does_not_hang},
    {0, 0},
};
