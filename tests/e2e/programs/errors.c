/* The queue of errors: IP_RECVERR, IPV6_RECVERR and MSG_ERRQUEUE. */
#include "check.h"
#include <linux/errqueue.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>

/* A port at the far end that nobody has, and that is given to no socket that asks for none in
 * particular. */
static struct sockaddr_in nobody(void) {
  return address(far_ip(), 9);
}

static int asking(int on) {
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(fd, A(a)));
  set(fd, IPPROTO_IP, IP_RECVERR, on);
  return fd;
}

/* What was read from the queue. */
struct report {
  ssize_t len;
  int flags;
  char data[64];
  struct sockaddr_in to;
  socklen_t to_len;
  struct sock_extended_err error;
  struct sockaddr_in offender;
};

static struct report next_report(int fd, size_t room) {
  struct report r = {0};
  char control[256];
  struct iovec v = {r.data, room};
  struct msghdr m = {.msg_name = &r.to, .msg_namelen = sizeof r.to, .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  r.len = recvmsg(fd, &m, MSG_ERRQUEUE);
  if (r.len < 0)
    return r;
  r.flags = m.msg_flags;
  r.to_len = m.msg_namelen;
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  OK(h && h->cmsg_level == IPPROTO_IP && h->cmsg_type == IP_RECVERR);
  IS(h->cmsg_len, CMSG_LEN(sizeof r.error + sizeof r.offender));
  memcpy(&r.error, CMSG_DATA(h), sizeof r.error);
  memcpy(&r.offender, CMSG_DATA(h) + sizeof r.error, sizeof r.offender);
  return r;
}

static void is_refusal(struct report r, struct sockaddr_in gone) {
  OK(r.flags & MSG_ERRQUEUE);
  IS(r.to_len, sizeof r.to);
  OK(same(r.to, gone));
  IS(r.error.ee_errno, ECONNREFUSED);
  IS(r.error.ee_origin, SO_EE_ORIGIN_ICMP);
  IS(r.error.ee_type, ICMP_DEST_UNREACH);
  IS(r.error.ee_code, ICMP_PORT_UNREACH);
  IS(r.error.ee_info, 0);
  IS(r.error.ee_data, 0);
  IS(r.offender.sin_family, AF_INET);
  OK(r.offender.sin_addr.s_addr == gone.sin_addr.s_addr);
}

static void refusal_of_a_connected_socket(void) {
  struct sockaddr_in gone = nobody();
  int fd = asking(1);
  SYS(connect(fd, A(gone)));
  IS(send(fd, "anyone?", 7, 0), 7);
  OK(ready(fd, POLLIN, 10000) & POLLERR);
  char c;
  FAILS(recv(fd, &c, 1, MSG_DONTWAIT), ECONNREFUSED);
  FAILS(recv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
  /* It is in the queue as well. */
  IS(ready(fd, POLLIN, 0), POLLERR);
  struct report r = next_report(fd, 64);
  IS(r.len, 7);
  OK(memcmp(r.data, "anyone?", 7) == 0);
  is_refusal(r, gone);
  FAILS(next_report(fd, 64).len, EAGAIN);
  IS(ready(fd, POLLIN, 0), 0);
}

static void refusal_of_an_unconnected_socket(void) {
  struct sockaddr_in gone = nobody();
  int fd = asking(1);
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  OK(ready(fd, POLLIN, 10000) & POLLERR);
  struct report r = next_report(fd, 64);
  IS(r.len, 6);
  OK(memcmp(r.data, "hello?", 6) == 0);
  is_refusal(r, gone);
  /* Reading the last one takes the pending error, too. */
  char c;
  FAILS(recv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
  IS(ready(fd, POLLIN, 0), 0);
}

static void nothing_without_asking(void) {
  struct sockaddr_in gone = nobody();
  int fd = asking(0);
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  IS(ready(fd, POLLIN, 100), 0);
  FAILS(next_report(fd, 64).len, EAGAIN);
  char c;
  FAILS(recv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
}

static void the_queue_is_not_waited_for(void) {
  int fd = asking(1);
  TAKES(FAILS(next_report(fd, 64).len, EAGAIN), 0, 0.1);
}

static void asked_for_by_getsockopt(void) {
  struct sockaddr_in gone = nobody();
  int fd = asking(1);
  IS(option(fd, IPPROTO_IP, IP_RECVERR), 1);
  IS(sendto(fd, "x", 1, 0, A(gone)), 1);
  OK(ready(fd, POLLIN, 10000) & POLLERR);
  IS(option(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
  IS(option(fd, SOL_SOCKET, SO_ERROR), 0);
  IS(next_report(fd, 64).len, 1);
}

/* What was sent to `gone` before this has been answered. */
static void all_is_answered(struct sockaddr_in gone) {
  int fd = asking(1);
  IS(sendto(fd, "last", 4, 0, A(gone)), 4);
  OK(ready(fd, POLLIN, 10000) & POLLERR);
  SYS(close(fd));
}

static void several_in_order(void) {
  struct sockaddr_in first = nobody(), second = nobody();
  int fd = asking(1);
  IS(sendto(fd, "first", 5, 0, A(first)), 5);
  OK(ready(fd, POLLIN, 10000) & POLLERR);
  /* A call says that there is an error, before it sends anything. */
  FAILS(sendto(fd, "second", 6, 0, A(second)), ECONNREFUSED);
  IS(sendto(fd, "second", 6, 0, A(second)), 6);
  all_is_answered(second);
  struct report r = next_report(fd, 64);
  IS(r.len, 5);
  is_refusal(r, first);
  /* The next one is the pending error again. */
  IS(option(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
  OK(ready(fd, POLLIN, 0) & POLLERR);
  r = next_report(fd, 64);
  IS(r.len, 6);
  is_refusal(r, second);
  IS(ready(fd, POLLIN, 0), 0);
}

static void errors_come_before_data(void) {
  struct sockaddr_in gone = nobody();
  int far = far_socket(SOCK_DGRAM);
  SYS(far_bind(far, address(far_ip(), 0)));
  int fd = asking(1);
  struct sockaddr_in here = name_of(fd);
  if (far_in_kernel())
    IS(syscall(SYS_sendto, far, "data", 4, 0, &here, sizeof here), 4);
  else
    IS(sendto(far, "data", 4, 0, A(here)), 4);
  IS(ready(fd, POLLIN, 10000), POLLIN);
  IS(sendto(fd, "x", 1, 0, A(gone)), 1);
  IS(ready(fd, 0, 10000), POLLERR);
  IS(ready(fd, POLLIN, 0), POLLIN | POLLERR);
  char buf[8];
  FAILS(recv(fd, buf, 8, MSG_DONTWAIT), ECONNREFUSED);
  IS(recv(fd, buf, 8, MSG_DONTWAIT), 4);
  IS(next_report(fd, 64).len, 1);
}

static void a_short_buffer_cuts(void) {
  struct sockaddr_in gone = nobody();
  int fd = asking(1);
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  OK(ready(fd, POLLIN, 10000) & POLLERR);
  struct report r = next_report(fd, 3);
  IS(r.len, 3);
  OK(r.flags & MSG_TRUNC);
  is_refusal(r, gone);
  FAILS(next_report(fd, 64).len, EAGAIN);
}

static void no_room_for_the_report(void) {
  struct sockaddr_in gone = nobody();
  int fd = asking(1);
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  OK(ready(fd, POLLIN, 10000) & POLLERR);
  char data[8];
  struct iovec v = {data, 8};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  IS(recvmsg(fd, &m, MSG_ERRQUEUE), 6);
  OK(m.msg_flags & MSG_CTRUNC);
  OK(m.msg_flags & MSG_ERRQUEUE);
}

static void recv_reads_it_too(void) {
  struct sockaddr_in gone = nobody();
  int fd = asking(1);
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  OK(ready(fd, POLLIN, 10000) & POLLERR);
  char data[8];
  struct sockaddr_in to;
  socklen_t n = sizeof to;
  IS(recvfrom(fd, data, 8, MSG_ERRQUEUE, (struct sockaddr *)&to, &n), 6);
  OK(same(to, gone));
  FAILS(recv(fd, data, 8, MSG_ERRQUEUE), EAGAIN);
}

static void switching_it_off_empties_the_queue(void) {
  struct sockaddr_in gone = nobody();
  int fd = asking(1);
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  OK(ready(fd, POLLIN, 10000) & POLLERR);
  set(fd, IPPROTO_IP, IP_RECVERR, 0);
  FAILS(next_report(fd, 64).len, EAGAIN);
}

static void told_by_epoll(void) {
  struct sockaddr_in gone = nobody();
  int fd = asking(1), ep = SYS(epoll_create1(0));
  struct epoll_event e = {.events = EPOLLIN | EPOLLET};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  IS(epoll_wait(ep, &e, 1, 10000), 1);
  IS(e.events, EPOLLERR);
  IS(next_report(fd, 64).len, 6);
  IS(epoll_wait(ep, &e, 1, 50), 0);
}

enum { SELECT_ERR_QUEUE = 45 /* SO_SELECT_ERR_QUEUE */ };

/* A datagram socket tells of them as of urgent data, if it is to. */
static void errors_count_as_urgent(void) {
  struct sockaddr_in gone = nobody();
  for (int is_bound = 0; is_bound < 2; is_bound++) {
    int fd = is_bound ? asking(1) : SYS(socket(AF_INET, SOCK_DGRAM, 0)), e = SYS(epoll_create1(0));
    struct epoll_event event = {.events = EPOLLPRI};
    set(fd, IPPROTO_IP, IP_RECVERR, 1);
    set(fd, SOL_SOCKET, SELECT_ERR_QUEUE, 1);
    IS(option(fd, SOL_SOCKET, SELECT_ERR_QUEUE), 1);
    SYS(connect(fd, A(gone)));
    SYS(epoll_ctl(e, EPOLL_CTL_ADD, fd, &event));
    IS(ready(fd, POLLIN | POLLPRI, 0), 0);
    IS(send(fd, "x", 1, 0), 1);
    IS(ready(fd, POLLPRI, 10000), POLLERR | POLLPRI);
    IS(ready(fd, POLLIN, 0), POLLERR);
    fd_set except;
    FD_ZERO(&except);
    FD_SET(fd, &except);
    struct timeval limit = {10, 0};
    IS(select(fd + 1, 0, 0, &except, &limit), 1);
    OK(FD_ISSET(fd, &except));
    IS(epoll_wait(e, &event, 1, 0), 1);
    IS(event.events, EPOLLERR | EPOLLPRI);
    set(fd, SOL_SOCKET, SELECT_ERR_QUEUE, 0);
    IS(ready(fd, POLLPRI, 0), POLLERR);
    set(fd, SOL_SOCKET, SELECT_ERR_QUEUE, 1);
    is_refusal(next_report(fd, 64), gone);
    FAILS(recv(fd, (char[1]){0}, 1, MSG_DONTWAIT), EAGAIN);
    IS(ready(fd, POLLPRI, 0), 0);
    SYS(close(fd));
  }
}

/* So it does of when what it has sent left. */
static void times_count_as_urgent(void) {
  int fd = asking(0);
  struct sockaddr_in a = name_of(fd);
  set(fd, SOL_SOCKET, SELECT_ERR_QUEUE, 1);
  set(fd, SOL_SOCKET, SO_TIMESTAMPING, 1 << 1 | 1 << 4 /* TX_SOFTWARE, SOFTWARE */);
  IS(sendto(fd, "x", 1, 0, A(a)), 1);
  IS(ready(fd, POLLPRI, 10000), POLLERR | POLLPRI);
  OK(recv(fd, (char[512]){0}, 512, MSG_ERRQUEUE) > 0);
  OK(ready(fd, POLLIN, 10000) == POLLIN);
  IS(ready(fd, POLLPRI, 0), 0);
}

/* Of a stream Linux never tells of them so. */
static void errors_of_a_stream_are_not_urgent(void) {
  EACH_PAIR(mine, far) {
    set(mine, SOL_SOCKET, SELECT_ERR_QUEUE, 1);
    IS(option(mine, SOL_SOCKET, SELECT_ERR_QUEUE), 1);
    far_reset(far);
    far = dup(mine);
    OK(ready(mine, POLLIN, 10000) & POLLERR);
    IS(ready(mine, POLLPRI, 0), POLLERR | POLLHUP);
  }
}

static void set_before_anything_else(void) {
  struct sockaddr_in gone = nobody();
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  set(fd, IPPROTO_IP, IP_RECVERR, 1);
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  OK(ready(fd, POLLIN, 10000) & POLLERR);
  is_refusal(next_report(fd, 64), gone);
}

/* A busy kernel has a refusal come later, which is not what is asked here. */
static void let_it_come(int fd) {
  struct pollfd p = {.fd = fd};
  while (!on_longshore() && !(p.revents & POLLERR))
    SYS(poll(&p, 1, 100));
}

/* A socket that has sent to a port of its own address that nobody has, and that it could not
 * get itself as its own; connected to it, or asking for errors. Linux has the refusal there
 * when the call returns, however many there were. */
static int refused_at_home(int connected) {
  struct sockaddr_in gone = address(my_ip(), 9);
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  if (connected)
    SYS(connect(fd, A(gone)));
  else
    set(fd, IPPROTO_IP, IP_RECVERR, 1);
  IS(sendto(fd, "hello?", 6, 0, connected ? 0 : (void *)&gone, connected ? 0 : sizeof gone), 6);
  let_it_come(fd);
  return fd;
}

static void a_refusal_is_there_when_send_returns(void) {
  for (int i = 0; i < 100; i++) {
    int fd = refused_at_home(i & 1);
    IS(option(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
    SYS(close(fd));
    fd = refused_at_home(i & 1);
    IS(ready(fd, POLLOUT, 0), POLLOUT | POLLERR);
    SYS(close(fd));
    fd = refused_at_home(i & 1);
    char c;
    FAILS(recv(fd, &c, 1, MSG_DONTWAIT), ECONNREFUSED);
    SYS(close(fd));
  }
  int fd = refused_at_home(1);
  for (int i = 0; i < 10; i++) {
    FAILS(send(fd, "again", 5, 0), ECONNREFUSED);
    IS(send(fd, "again", 5, 0), 5);
    let_it_come(fd);
  }
}

/* So it is with one that several calls have put together, whichever ends it. */
static void a_refusal_of_what_was_begun(void) {
  for (int by_cork = 0; by_cork < 2; by_cork++) {
    int fd = asking(0), rounds = far_in_kernel() ? 1 : 20;
    struct sockaddr_in gone = nobody();
    SYS(connect(fd, A(gone)));
    for (int i = 0; i < rounds; i++) {
      if (by_cork)
        set(fd, IPPROTO_UDP, UDP_CORK, 1);
      IS(send(fd, "be", 2, by_cork ? 0 : MSG_MORE), 2);
      if (by_cork)
        set(fd, IPPROTO_UDP, UDP_CORK, 0);
      else
        IS(send(fd, "gun", 3, 0), 3);
      if (far_in_kernel())
        OK(ready(fd, POLLIN, 10000) & POLLERR);
      FAILS(send(fd, "more", 4, 0), ECONNREFUSED);
    }
    SYS(close(fd));
  }
}

static void a_refusal_comes_after_others_were_taken(void) {
  int peer = SYS(socket(AF_INET, SOCK_DGRAM, 0)), fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(peer, A(a)));
  struct sockaddr_in there = name_of(peer);
  SYS(connect(fd, A(there)));
  for (int i = 0; i < 10; i++)
    IS(send(fd, "hello", 5, 0), 5);
  char c[8];
  for (int i = 0; i < 10; i++)
    IS(recv(peer, c, sizeof c, 0), 5);
  SYS(close(peer));
  IS(send(fd, "hello?", 6, 0), 6);
  for (int i = 0; i < 10; i++) {
    OK(ready(fd, POLLIN, 10000) & POLLERR);
    FAILS(send(fd, "again", 5, 0), ECONNREFUSED);
    IS(send(fd, "again", 5, 0), 5);
  }
}

static void *waits(void *fd) {
  char c;
  FAILS(recv(*(int *)fd, &c, 1, 0), ECONNREFUSED);
  return 0;
}

static void who_waits_is_told(void) {
  struct sockaddr_in gone = nobody();
  int fd = asking(1);
  pthread_t thread;
  OK(pthread_create(&thread, 0, waits, &fd) == 0);
  sleep_ms(100);
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  OK(pthread_join(thread, 0) == 0);
}

static struct sockaddr_in6 address6(const char *name, int port) {
  struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  const char *ip = getenv(name) ? getenv(name) : "::1";
  if (inet_pton(AF_INET6, ip, &a.sin6_addr) != 1)
    FAIL("bad address %s", ip);
  return a;
}

/* The next report of a socket of IPv6: `gone` itself has refused. */
static struct sock_extended_err refusal6(int fd, struct sockaddr_in6 gone) {
  char data[8], control[256];
  struct sockaddr_in6 to;
  struct iovec v = {data, 8};
  struct msghdr m = {.msg_name = &to, .msg_namelen = sizeof to, .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  IS(recvmsg(fd, &m, MSG_ERRQUEUE), 6);
  IS(m.msg_namelen, sizeof to);
  OK(memcmp(&to.sin6_addr, &gone.sin6_addr, 16) == 0 && to.sin6_port == gone.sin6_port);
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  OK(h && h->cmsg_level == IPPROTO_IPV6 && h->cmsg_type == IPV6_RECVERR);
  struct sock_extended_err e;
  struct sockaddr_in6 offender;
  IS(h->cmsg_len, CMSG_LEN(sizeof e + sizeof offender));
  memcpy(&e, CMSG_DATA(h), sizeof e);
  memcpy(&offender, CMSG_DATA(h) + sizeof e, sizeof offender);
  IS(e.ee_errno, ECONNREFUSED);
  IS(offender.sin6_family, AF_INET6);
  OK(memcmp(&offender.sin6_addr, &gone.sin6_addr, 16) == 0);
  return e;
}

static void ipv6(void) {
  struct sockaddr_in6 gone = address6("FAR_ADDR6", 9), mine = address6("ADDR6", 0);
  int fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  SYS(bind(fd, A(mine)));
  set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  /* The address may be new: it asks for neighbours in earnest only when it is known to be
   * nobody else's (RFC 4862, RFC 4429), and then once a second. */
  OK(ready(fd, POLLIN, 5000) & POLLERR);
  struct sock_extended_err e = refusal6(fd, gone);
  IS(e.ee_origin, SO_EE_ORIGIN_ICMP6);
  IS(e.ee_type, 1);
  IS(e.ee_code, 4);
}

static void ipv4_on_a_socket_of_ipv6(void) {
  struct sockaddr_in gone4 = nobody();
  struct sockaddr_in6 gone = {.sin6_family = AF_INET6, .sin6_port = gone4.sin_port};
  gone.sin6_addr.s6_addr[10] = gone.sin6_addr.s6_addr[11] = 0xff;
  memcpy(&gone.sin6_addr.s6_addr[12], &gone4.sin_addr, 4);
  int fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  set(fd, IPPROTO_IP, IP_RECVERR, 1);
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  OK(ready(fd, POLLIN, 10000) & POLLERR);
  IS(refusal6(fd, gone).ee_origin, SO_EE_ORIGIN_ICMP);
}

static void tcp_has_a_queue_too(void) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  set(fd, IPPROTO_IP, IP_RECVERR, 1);
  int listener = far_listener(1);
  struct sockaddr_in there = far_name(listener);
  SYS(connect(fd, A(there)));
  FAILS(next_report(fd, 64).len, EAGAIN);
  IS(ready(fd, POLLIN | POLLOUT, 0), POLLOUT);
}

/* A report that a datagram was too long, which this host has found itself: how much gets through, the
 * address that it was for, and with it the port. */
static void is_too_long(int fd, const void *to, socklen_t n, unsigned mtu) {
  char data[8], control[256];
  struct sockaddr_storage name = {0}, none = {0};
  struct iovec v = {data, sizeof data};
  struct msghdr m = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  IS(SYS(recvmsg(fd, &m, MSG_ERRQUEUE)), 0);
  IS(m.msg_flags & (MSG_ERRQUEUE | MSG_TRUNC | MSG_CTRUNC), MSG_ERRQUEUE);
  IS(m.msg_namelen, n);
  OK(memcmp(&name, to, n) == 0);
  struct cmsghdr *h = CMSG_FIRSTHDR(&m);
  int v6 = n == sizeof(struct sockaddr_in6);
  OK(h && h->cmsg_level == (v6 ? IPPROTO_IPV6 : IPPROTO_IP));
  IS(h->cmsg_type, v6 ? IPV6_RECVERR : IP_RECVERR);
  struct sock_extended_err e;
  IS(h->cmsg_len, CMSG_LEN(sizeof e + n));
  memcpy(&e, CMSG_DATA(h), sizeof e);
  IS(e.ee_errno, EMSGSIZE);
  IS(e.ee_origin, SO_EE_ORIGIN_LOCAL);
  IS(e.ee_type, 0);
  IS(e.ee_code, 0);
  IS(e.ee_info, mtu);
  IS(e.ee_data, 0);
  OK(memcmp(CMSG_DATA(h) + sizeof e, &none, n) == 0);
}

/* A datagram that is too long is refused, and reported to a socket that asks for that. */
static void too_long_is_reported(void) {
  static char big[66000];
  char c;
  struct sockaddr_in there = nobody();
  for (int is_connected = 0; is_connected < 2; is_connected++) {
    int fd = asking(1), probe = asking(0), queue = SYS(epoll_create1(0));
    SYS(connect(probe, A(there)));
    int mtu = option(probe, IPPROTO_IP, IP_MTU);
    if (is_connected)
      SYS(connect(fd, A(there)));
    struct epoll_event e = {.events = EPOLLIN | EPOLLET};
    SYS(epoll_ctl(queue, EPOLL_CTL_ADD, fd, &e));
    /* Longer than any packet: nobody looks at where to. */
    FAILS(sendto(fd, big, 65536, 0, A(there)), EMSGSIZE);
    FAILS(next_report(fd, 64).len, EAGAIN);
    IS(epoll_wait(queue, &e, 1, 0), 0);
    for (int i = 0; i < 2; i++)
      FAILS(sendto(fd, big, 65508 + i, 0, A(there)), EMSGSIZE);
    IS(epoll_wait(queue, &e, 1, 5000), 1);
    OK(e.events & EPOLLERR);
    IS(ready(fd, POLLIN, 0), POLLERR);
    IS(option(fd, SOL_SOCKET, SO_ERROR), 0);
    FAILS(recv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
    struct sockaddr_in to = there;
    to.sin_port = is_connected ? there.sin_port : 0;
    is_too_long(fd, A(to), mtu);
    is_too_long(fd, A(to), mtu);
    FAILS(next_report(fd, 64).len, EAGAIN);
    IS(ready(fd, POLLIN, 0), 0);
    FAILS(sendto(probe, big, 65508, 0, A(there)), EMSGSIZE);
    FAILS(next_report(probe, 64).len, EAGAIN);
    IS(ready(probe, POLLIN, 0), 0);
  }
}

/* As reported are those that are not to be cut, and those that several calls have made too long. */
static void too_long_for_the_link_is_reported(void) {
  static char big[66000];
  struct sockaddr_in there = nobody();
  int fd = asking(1), probe = asking(0);
  SYS(connect(probe, A(there)));
  int mtu = option(probe, IPPROTO_IP, IP_MTU);
  set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  struct sockaddr_in to = there;
  to.sin_port = 0;
  FAILS(sendto(fd, big, mtu - 27, 0, A(there)), EMSGSIZE);
  is_too_long(fd, A(to), mtu);
  set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DONT);
  IS(sendto(fd, big, 40000, MSG_MORE, A(there)), 40000);
  FAILS(sendto(fd, big, 40000, MSG_MORE, A(there)), EMSGSIZE);
  is_too_long(fd, A(to), mtu);
  FAILS(next_report(fd, 64).len, EAGAIN);
}

/* What came by ICMP before it is the pending error, and what this host has found is none. */
static void too_long_among_others(void) {
  static char big[66000];
  char c;
  struct sockaddr_in gone = nobody();
  int fd = asking(1);
  FAILS(sendto(fd, big, 65508, 0, A(gone)), EMSGSIZE);
  IS(sendto(fd, "hello?", 6, 0, A(gone)), 6);
  for (int i = 0; i < 1000 && option(fd, SOL_SOCKET, SO_ERROR) == 0; i++)
    sleep_ms(5);
  FAILS(sendto(fd, big, 65508, 0, A(gone)), EMSGSIZE);
  IS(recv(fd, &c, 1, MSG_DONTWAIT | MSG_ERRQUEUE), 0);
  /* The next one came by ICMP. */
  FAILS(recv(fd, &c, 1, MSG_DONTWAIT), ECONNREFUSED);
  is_refusal(next_report(fd, 64), gone);
  FAILS(recv(fd, &c, 1, MSG_DONTWAIT), EAGAIN);
  IS(ready(fd, POLLIN, 0), POLLERR);
  IS(next_report(fd, 64).error.ee_origin, SO_EE_ORIGIN_LOCAL);
  IS(ready(fd, POLLIN, 0), 0);
}

static void too_long_in_ipv6(void) {
  static char big[66000];
  struct sockaddr_in6 there = address6("FAR_ADDR6", 9), mine = address6("ADDR6", 0);
  int fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0)), probe = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  SYS(bind(fd, A(mine)));
  SYS(connect(probe, A(there)));
  int mtu = option(probe, IPPROTO_IPV6, IPV6_MTU);
  set(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
  for (size_t n = 65528; n <= sizeof big; n += sizeof big - 65528) {
    FAILS(sendto(fd, big, n, 0, A(there)), EMSGSIZE);
    IS(ready(fd, POLLIN, 0), POLLERR);
    is_too_long(fd, A(there), mtu);
    IS(ready(fd, POLLIN, 0), 0);
  }
  /* What goes by IPv4 is reported to a socket that asks for the errors of IPv4. */
  struct sockaddr_in there4 = nobody();
  struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = there4.sin_port};
  mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
  memcpy(&mapped.sin6_addr.s6_addr[12], &there4.sin_addr, 4);
  int both = SYS(socket(AF_INET6, SOCK_DGRAM, 0)), probe4 = asking(0);
  SYS(connect(probe4, A(there4)));
  set(both, IPPROTO_IPV6, IPV6_RECVERR, 1);
  FAILS(sendto(both, big, 65508, 0, A(mapped)), EMSGSIZE);
  IS(ready(both, POLLIN, 0), 0);
  set(both, IPPROTO_IP, IP_RECVERR, 1);
  FAILS(sendto(both, big, 65508, 0, A(mapped)), EMSGSIZE);
  mapped.sin6_port = 0;
  is_too_long(both, A(mapped), option(probe4, IPPROTO_IP, IP_MTU));
}

/* Which sends the notices are about that come within 10 s and follow `first`, all up to
 * `last`. */
static void sends_are_told(int fd, int level, int type, unsigned first, unsigned last) {
  for (unsigned next = first; next != last + 1;) {
    OK(ready(fd, 0, 10000) & POLLERR);
    char control[256], c;
    struct sockaddr_storage name;
    struct iovec v = {&c, 1};
    struct msghdr m = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &v, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    IS(SYS(recvmsg(fd, &m, MSG_ERRQUEUE)), 0);
    IS(m.msg_flags & (MSG_ERRQUEUE | MSG_CTRUNC), MSG_ERRQUEUE);
    IS(m.msg_namelen, 0);
    struct cmsghdr *h = CMSG_FIRSTHDR(&m);
    OK(h && h->cmsg_level == level && h->cmsg_type == type);
    struct sock_extended_err e;
    memcpy(&e, CMSG_DATA(h), sizeof e);
    IS(e.ee_errno, 0);
    IS(e.ee_origin, SO_EE_ORIGIN_ZEROCOPY);
    IS(e.ee_type, 0);
    if (on_longshore())
      IS(e.ee_code, SO_EE_CODE_ZEROCOPY_COPIED);
    IS(e.ee_info, next);
    OK(e.ee_data - first <= last - first);
    next = e.ee_data + 1;
  }
  char c;
  FAILS(recv(fd, &c, 1, MSG_ERRQUEUE), EAGAIN);
  IS(ready(fd, 0, 0), 0);
}

static void copies_are_told(void) {
  int near, far;
  pair(1, &near, &far);
  set(near, SOL_SOCKET, SO_ZEROCOPY, 1);
  char buffer[1000];
  memset(buffer, 'z', sizeof buffer);
  for (int i = 0; i < 3; i++)
    IS(send(near, buffer, sizeof buffer, MSG_ZEROCOPY), sizeof buffer);
  /* Neither nothing nor what is sent otherwise has a number. */
  IS(send(near, buffer, 0, MSG_ZEROCOPY), 0);
  IS(send(near, buffer, sizeof buffer, 0), sizeof buffer);
  char got[4000];
  IS(recv(far, got, sizeof got, MSG_WAITALL), sizeof got);
  sends_are_told(near, IPPROTO_IP, IP_RECVERR, 0, 2);
  struct iovec v = {buffer, 10};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  IS(sendmsg(near, &m, MSG_ZEROCOPY), 10);
  IS(recv(far, got, 10, MSG_WAITALL), 10);
  sends_are_told(near, IPPROTO_IP, IP_RECVERR, 3, 3);
  /* It is not an error. */
  IS(option(near, SOL_SOCKET, SO_ERROR), 0);
}

static void copies_are_not_told_unasked(void) {
  int near, far;
  pair(1, &near, &far);
  char c;
  IS(send(near, "quiet", 5, MSG_ZEROCOPY), 5);
  char got[5];
  IS(recv(far, got, 5, MSG_WAITALL), 5);
  IS(ready(near, 0, 100), 0);
  FAILS(recv(near, &c, 1, MSG_ERRQUEUE), EAGAIN);
  FAILS(setsockopt(near, SOL_SOCKET, SO_ZEROCOPY, &(int){2}, sizeof(int)), EINVAL);
}

static void an_accepted_connection_tells_of_copies_too(void) {
  int listener = my_listener(1);
  set(listener, SOL_SOCKET, SO_ZEROCOPY, 1);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, name_of(listener)));
  int fd = SYS(accept(listener, 0, 0));
  IS(option(fd, SOL_SOCKET, SO_ZEROCOPY), 1);
  IS(send(fd, "heir", 4, MSG_ZEROCOPY), 4);
  char got[4];
  IS(recv(far, got, 4, MSG_WAITALL), 4);
  sends_are_told(fd, IPPROTO_IP, IP_RECVERR, 0, 0);
}

static void copies_of_datagrams_are_told(void) {
  int far = far_socket(SOCK_DGRAM);
  SYS(far_bind(far, address(far_ip(), 0)));
  struct sockaddr_in there = far_name(far);
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  set(fd, SOL_SOCKET, SO_ZEROCOPY, 1);
  char got[8];
  for (int i = 0; i < 2; i++) {
    IS(sendto(fd, "datagram", 8, MSG_ZEROCOPY, A(there)), 8);
    IS(recv(far, got, 8, 0), 8);
  }
  sends_are_told(fd, IPPROTO_IP, IP_RECVERR, 0, 1);
}

static void copies_are_told_once_by_an_edge(void) {
  int near, far;
  pair(1, &near, &far);
  set(near, SOL_SOCKET, SO_ZEROCOPY, 1);
  int ready_set = SYS(epoll_create1(0));
  struct epoll_event e = {.events = EPOLLET};
  SYS(epoll_ctl(ready_set, EPOLL_CTL_ADD, near, &e));
  for (int i = 0; i < 2; i++) {
    IS(send(near, "edge", 4, MSG_ZEROCOPY), 4);
    char got[4];
    IS(recv(far, got, 4, MSG_WAITALL), 4);
    IS(epoll_wait(ready_set, &e, 1, 10000), 1);
    IS(e.events & EPOLLERR, EPOLLERR);
    IS(epoll_wait(ready_set, &e, 1, 50), 0);
  }
  sends_are_told(near, IPPROTO_IP, IP_RECVERR, 0, 1);
}

const struct check CHECKS[] = {
    {"refusal_of_a_connected_socket", refusal_of_a_connected_socket},
    {"refusal_of_an_unconnected_socket", refusal_of_an_unconnected_socket},
    {"nothing_without_asking", nothing_without_asking},
    {"the_queue_is_not_waited_for", the_queue_is_not_waited_for},
    {"asked_for_by_getsockopt", asked_for_by_getsockopt},
    {"several_in_order", several_in_order},
    {"errors_come_before_data", errors_come_before_data},
    {"a_short_buffer_cuts", a_short_buffer_cuts},
    {"no_room_for_the_report", no_room_for_the_report},
    {"recv_reads_it_too", recv_reads_it_too},
    {"switching_it_off_empties_the_queue", switching_it_off_empties_the_queue},
    {"told_by_epoll", told_by_epoll},
    {"set_before_anything_else", set_before_anything_else},
    {"errors_count_as_urgent", errors_count_as_urgent},
    {"times_count_as_urgent", times_count_as_urgent},
    {"errors_of_a_stream_are_not_urgent", errors_of_a_stream_are_not_urgent},
    {"a_refusal_is_there_when_send_returns", a_refusal_is_there_when_send_returns},
    {"a_refusal_of_what_was_begun", a_refusal_of_what_was_begun},
    {"a_refusal_comes_after_others_were_taken", a_refusal_comes_after_others_were_taken},
    {"who_waits_is_told", who_waits_is_told},
    {"ipv6", ipv6},
    {"ipv4_on_a_socket_of_ipv6", ipv4_on_a_socket_of_ipv6},
    {"tcp_has_a_queue_too", tcp_has_a_queue_too},
    {"too_long_is_reported", too_long_is_reported},
    {"too_long_for_the_link_is_reported", too_long_for_the_link_is_reported},
    {"too_long_among_others", too_long_among_others},
    {"too_long_in_ipv6", too_long_in_ipv6},
    {"copies_are_told", copies_are_told},
    {"copies_are_not_told_unasked", copies_are_not_told_unasked},
    {"an_accepted_connection_tells_of_copies_too", an_accepted_connection_tells_of_copies_too},
    {"copies_of_datagrams_are_told", copies_of_datagrams_are_told},
    {"copies_are_told_once_by_an_edge", copies_are_told_once_by_an_edge},
    {0, 0},
};
