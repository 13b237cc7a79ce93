/* What a step does. A call that would wait is made so that it does not, unless a time limit
 * ends it. */
#ifndef PERFORM_H
#define PERFORM_H
#include "options.h"

static int is_stream(int at) {
  return places[at].type == SOCK_STREAM;
}

/* What poll says now. */
static int look(int fd, int events) {
  struct pollfd p = {.fd = fd, .events = events};
  return poll(&p, 1, 0) < 1 ? 0 : p.revents;
}

static int is_blocking(int fd) {
  return !(fcntl(fd, F_GETFL) & O_NONBLOCK);
}

static int has_limit(int fd, int option) {
  struct timeval t = {0};
  socklen_t n = sizeof t;
  getsockopt(fd, SOL_SOCKET, option, &t, &n);
  return t.tv_sec || t.tv_usec;
}

/* Whether a call of this direction would wait with nobody to end that. */
static int would_wait(int fd, int event) {
  return is_blocking(fd) && !(look(fd, event) & (event | POLLERR | POLLHUP)) &&
         !has_limit(fd, event == POLLIN ? SO_RCVTIMEO : SO_SNDTIMEO);
}

static void put_in(int at, int fd, int domain, int type) {
  struct place *p = &places[at];
  if (p->fd >= 0) {
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, p->fd, 0);
    close(p->fd);
  }
  *p = (struct place){fd, domain, type, 0};
  struct epoll_event e = {.events = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP,
                          .data.u32 = at};
  if (fd >= 0)
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
}

/* --- addresses ----------------------------------------------------------- */

static socklen_t make_v4(struct sockaddr_storage *to, const char *ip, int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, ip, &a.sin_addr);
  memcpy(to, &a, sizeof a);
  return sizeof a;
}

static socklen_t make_v6(struct sockaddr_storage *to, const char *ip, int port) {
  struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  inet_pton(AF_INET6, ip, &a.sin6_addr);
  memcpy(to, &a, sizeof a);
  return sizeof a;
}

static const char *own(const char *variable, const char *otherwise) {
  return getenv(variable) ? getenv(variable) : otherwise;
}

/* An address for a socket of this family: the loopback more often than another; and now and
 * then one of another family. */
static socklen_t make_address(struct sockaddr_storage *to, int domain, uint32_t which, int port) {
  char mapped[64];
  memset(to, 0, sizeof *to);
  if (which % 32 == 31)
    domain = domain == AF_INET ? AF_INET6 : AF_INET;
  if (domain == AF_INET)
    switch (which % 16) {
    case 0 ... 7:
      return make_v4(to, "127.0.0.1", port);
    case 8 ... 11:
      return make_v4(to, "0.0.0.0", port);
    case 12:
      return make_v4(to, "127.0.0.2", port);
    case 13:
      return make_v4(to, "192.0.2.1", port);
    default:
      return make_v4(to, own("ADDR", "127.0.0.3"), port);
    }
  switch (which % 16) {
  case 0 ... 3:
    return make_v6(to, "::1", port);
  case 4 ... 7:
    return make_v6(to, "::ffff:127.0.0.1", port);
  case 8 ... 10:
    return make_v6(to, "::", port);
  case 11:
    return make_v6(to, "::ffff:0.0.0.0", port);
  case 12:
    return make_v6(to, "2001:db8::1", port);
  case 13:
    snprintf(mapped, sizeof mapped, "::ffff:%s", own("ADDR", "127.0.0.3"));
    return make_v6(to, mapped, port);
  default:
    return make_v6(to, own("ADDR6", "::1"), port);
  }
}

/* The port of the socket at a place, 0 without one. */
static int port_of(int at) {
  struct sockaddr_in6 a = {0};
  socklen_t n = sizeof a;
  if (places[at].fd < 0 || getsockname(places[at].fd, (void *)&a, &n))
    return 0;
  return ntohs(a.sin6_port); /* it lies where that of sockaddr_in does */
}

/* To where a step connects or sends: mostly to what the socket at its second place is bound
 * to, by the loopback if that is the wildcard. */
static socklen_t make_target(struct sockaddr_storage *to, const struct step *s) {
  int domain = places[s->a].domain, port = port_of(s->b);
  socklen_t n = sizeof *to;
  memset(to, 0, sizeof *to);
  uint32_t how = s->draw[0] % 16;
  if (how < 11 && port) {
    getsockname(places[s->b].fd, (void *)to, &n);
    struct sockaddr_in6 *v6 = (void *)to;
    struct sockaddr_in *v4 = (void *)to;
    int is_any = to->ss_family == AF_INET6 ? IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr)
                                           : v4->sin_addr.s_addr == 0;
    if (to->ss_family == domain && !is_any)
      return n;
    if (domain == AF_INET)
      return make_v4(to, "127.0.0.1", port);
    return make_v6(to, to->ss_family == AF_INET || s->draw[1] % 2 ? "::ffff:127.0.0.1" : "::1",
                   port);
  }
  if (how == 15) {
    to->ss_family = AF_UNSPEC;
    return ONE_OF(s->draw[1], sizeof(struct sockaddr_in), sizeof(struct sockaddr_in6), 2, 16);
  }
  if (how == 14)
    port = 0;
  else if (!port || how == 13)
    port = first_fixed_port + s->draw[2] % FIXED_PORTS;
  /* To an address that is nobody's would go by a route that differs. */
  uint32_t which = s->draw[3] % 16 == (domain == AF_INET ? 13 : 12) ? 0 : s->draw[3];
  return make_address(to, domain, which, port);
}

/* --- differences that are meant (docs/compatibility.md) -------------------- */

/* Whether a stream had a connection, or was refused one, and has not been told: Linux binds
 * such a one again, and Longshore does not (EINVAL). One that is shut down then does not connect
 * any more on Linux, and does on Longshore. */
static int is_over(int at) {
  int events = look(places[at].fd, POLLIN | POLLRDHUP);
  return is_stream(at) && events & POLLHUP && events & POLLIN;
}

/* Whether the peer has ended its half: where Linux keeps no TIME-WAIT, as it is told to here, it
 * has forgotten a peer that was closed, and answers what ends the other half with a reset. */
static int is_half_closed(int at) {
  return is_stream(at) && look(places[at].fd, POLLRDHUP) & POLLRDHUP;
}

/* Whether a datagram socket has a peer. */
static int has_peer(int fd) {
  struct sockaddr_storage a;
  socklen_t n = sizeof a;
  return getpeername(fd, (void *)&a, &n) == 0;
}

/* Whether a step is left out for one of these. */
static int is_left_out(const struct step *s) {
  switch (s->op) {
  case BIND:
    return is_over(s->a);
  case SHUTDOWN:
    return is_over(s->a) || is_half_closed(s->a);
  case PEER:
    /* One that both sides have ended has no peer any more on Linux. */
    return is_over(s->a);
  case LISTEN:
    /* On the port of connections that it has accepted, Linux's does not listen again
     * (EADDRINUSE). */
    return places[s->a].was_listener;
  default:
    return 0;
  }
}

/* Whether a socket is bound to one address of IPv6, and `a` is another: Linux answers nobody
 * who goes from the loopback address to another. */
static int is_elsewhere(int fd, const struct sockaddr_storage *a) {
  struct sockaddr_in6 own = {0};
  const struct sockaddr_in6 *to = (const void *)a;
  socklen_t n = sizeof own;
  if (getsockname(fd, (void *)&own, &n) || own.sin6_family != AF_INET6 ||
      to->sin6_family != AF_INET6)
    return 0;
  if (IN6_IS_ADDR_UNSPECIFIED(&to->sin6_addr) || IN6_IS_ADDR_V4MAPPED(&to->sin6_addr))
    return 0;
  /* What an attempt has chosen, Linux keeps for the next. */
  if (IN6_IS_ADDR_UNSPECIFIED(&own.sin6_addr) || IN6_IS_ADDR_V4MAPPED(&own.sin6_addr))
    return !IN6_IS_ADDR_LOOPBACK(&to->sin6_addr);
  return !IN6_ARE_ADDR_EQUAL(&own.sin6_addr, &to->sin6_addr);
}

/* Whether `a` is not to be connected to. */
static int is_no_target(const struct step *s, int fd, const struct sockaddr_storage *a) {
  int port = ntohs(((const struct sockaddr_in *)a)->sin_port);
  if (is_stream(s->a))
    /* A listener that was one, and what was shut down before, to itself. */
    return (a->ss_family != AF_UNSPEC && port == port_of(s->a) && port != 0) ||
           is_elsewhere(fd, a);
  /* A socket of IPv6 that has had peers of both versions keeps some of the first. */
  if (places[s->a].domain == AF_INET6 && a->ss_family != AF_UNSPEC && has_peer(fd))
    return 1;
  /* From the peer with port 0, Linux receives what any port of its address sends; and a port
   * that a failed send has given it, it gives back. */
  return a->ss_family == AF_UNSPEC ? !has_peer(fd) : port == 0;
}

/* Whether a datagram goes to the peer instead of to `a`: to no family, or to the other version, a
 * socket of IPv6 that has a peer sends by what it keeps of that; and what was begun is sent to
 * port 0, too. */
static int is_for_peer(const struct step *s, int fd, const struct sockaddr_storage *a) {
  if (is_stream(s->a))
    return 0;
  int port = ntohs(((const struct sockaddr_in *)a)->sin_port);
  return (places[s->a].domain == AF_INET6 && (a->ss_family == AF_UNSPEC || has_peer(fd))) ||
         port == 0;
}

/* --- binding, connecting --------------------------------------------------- */

static void bind_it(const struct step *s, int fd) {
  struct sockaddr_storage a;
  int port = 0, how = s->draw[1] % 8;
  if (how >= 3 && how < 6)
    port = first_fixed_port + s->draw[2] % FIXED_PORTS;
  else if (how >= 6)
    port = port_of(s->b);
  socklen_t n = make_address(&a, places[s->a].domain, s->draw[0], port);
  if (s->draw[3] % 32 == 0)
    n = ONE_OF(s->draw[4], 0, 2, 15, 16, 24, 27);
  if (s->draw[3] % 32 == 1)
    a.ss_family = AF_UNSPEC;
  say("bind(");
  say_address(&a, n);
  say(")");
  say_result(bind(fd, (void *)&a, n));
}

static void connect_it(const struct step *s, int fd) {
  struct sockaddr_storage a;
  socklen_t n = make_target(&a, s);
  if (is_no_target(s, fd, &a)) {
    say("connect left out");
    return;
  }
  say("connect(");
  say_address(&a, n);
  say(")");
  int flags = fcntl(fd, F_GETFL);
  /* Half of them do not wait; what waits is ended by the time limit of a step. */
  int changes = is_stream(s->a) && s->draw[4] % 2;
  if (changes)
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  say("%s", fcntl(fd, F_GETFL) & O_NONBLOCK ? " nonblocking" : "");
  say_result(connect(fd, (void *)&a, n));
  if (changes)
    fcntl(fd, F_SETFL, flags);
}

static void accept_it(const struct step *s, int fd) {
  struct sockaddr_storage a = {0};
  int kind = s->draw[1] % 8;
  int flags = ONE_OF(s->draw[2], 0, 0, 0, SOCK_NONBLOCK, SOCK_CLOEXEC, 1);
  socklen_t n = kind == 0 ? 8 : sizeof a;
  int old = fcntl(fd, F_GETFL);
  if (would_wait(fd, POLLIN))
    fcntl(fd, F_SETFL, old | O_NONBLOCK);
  say("accept4(%#x)", flags);
  int got = accept4(fd, kind == 1 ? 0 : (void *)&a, kind == 1 ? 0 : &n, flags);
  say_result(got < 0 ? got : 0);
  fcntl(fd, F_SETFL, old);
  if (got < 0)
    return;
  if (kind > 1) {
    say(" from ");
    say_address(&a, n);
  } else if (kind == 0) {
    say(" from /%u", (unsigned)n);
  }
  say(" flags %#x %#x", fcntl(got, F_GETFL) & O_NONBLOCK, fcntl(got, F_GETFD));
  put_in(s->b, got, places[s->a].domain, SOCK_STREAM);
}

static void make_socket(const struct step *s) {
  uint32_t kind = s->draw[0] % 8;
  int v6 = s->draw[0] / 8 % 2;
  int domain = v6 ? AF_INET6 : AF_INET, type = kind < 5 ? SOCK_STREAM : SOCK_DGRAM;
  int flags = ONE_OF(s->draw[1], 0, 0, SOCK_NONBLOCK, SOCK_CLOEXEC);
  int protocol = ONE_OF(s->draw[2] % 32, 0, 0, IPPROTO_TCP, IPPROTO_UDP, 0, 0);
  say("socket(%s, %s, %#x, %d)", v6 ? "v6" : "v4", type == SOCK_STREAM ? "stream" : "dgram", flags,
      protocol);
  int fd = socket(domain, type | flags, protocol);
  say_result(fd < 0 ? fd : 0);
  if (fd < 0)
    return;
  /* What is held back for an acknowledgment depends on timers. */
  if (type == SOCK_STREAM)
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
  put_in(s->a, fd, domain, type);
}

static void dup_it(const struct step *s, int fd) {
  struct place p = places[s->a];
  if (s->a == s->b) {
    say("dup2 onto itself");
    say_result(dup2(fd, fd) == fd);
    return;
  }
  say("dup to %d", s->b);
  int got = s->draw[0] % 2 ? dup(fd) : fcntl(fd, F_DUPFD_CLOEXEC, 0);
  say_result(got < 0 ? got : 0);
  put_in(s->b, got, p.domain, p.type);
}

/* --- bytes ---------------------------------------------------------------- */

enum { MOST = 70000, VECTORS = 4 };
static unsigned char out[MOST], in[MOST];

/* Bytes that no other step sends. */
static size_t fill(const struct step *s) {
  size_t n = is_stream(s->a) ? (size_t)ONE_OF(s->draw[5], 0, 1, 10, 10, 100, 1000, 4000)
                             : (size_t)ONE_OF(s->draw[5], 0, 1, 10, 10, 100, 1400, 9000);
  if (!is_stream(s->a) && s->draw[6] % 32 == 0)
    n = ONE_OF(s->draw[7], 65507, 65508, 65527, 65528, 66000);
  for (size_t i = 0; i < n; i++)
    out[i] = (s->draw[7] + i) * 2654435761u >> 24;
  return n;
}

static int send_flags(const struct step *s, int fd) {
  int flags = ONE_OF(s->draw[4], 0, 0, 0, 0, MSG_NOSIGNAL, MSG_DONTWAIT, MSG_MORE, MSG_OOB,
                     MSG_EOR, MSG_DONTROUTE, MSG_CONFIRM, MSG_PEEK, MSG_ERRQUEUE);
  /* Of a stream, what is held back leaves with an acknowledgment, of which there are none
   * between two sockets of an engine; of datagrams, a child has no part in what was begun. */
  if (is_stream(s->a) || s->by == A_CHILD)
    flags &= ~MSG_MORE;
  return would_wait(fd, POLLOUT) ? flags | MSG_DONTWAIT : flags;
}

/* Cuts `n` bytes into pieces, some of them empty. */
static int cut(struct iovec *to, unsigned char *bytes, size_t n, uint32_t how) {
  int pieces = how % VECTORS + 1;
  size_t done = 0;
  for (int i = 0; i < pieces; i++) {
    size_t part = i == pieces - 1 ? n - done : (n - done) / (how / VECTORS % 3 + 1);
    to[i] = (struct iovec){bytes + done, part};
    done += part;
  }
  return pieces;
}

static void send_it(const struct step *s, int fd) {
  struct iovec pieces[VECTORS];
  struct sockaddr_storage to;
  size_t n = fill(s);
  int flags = send_flags(s, fd);
  struct msghdr m = {.msg_iov = pieces, .msg_iovlen = cut(pieces, out, n, s->draw[1])};
  static const char *const NAMES[] = {[SEND] = "send", [SENDTO] = "sendto", [SENDMSG] = "sendmsg",
                                      [WRITE] = "write"};
  say("%s(%zu", NAMES[s->op], n);
  if (s->op == SENDTO || (s->op == SENDMSG && s->draw[2] % 2)) {
    m.msg_namelen = make_target(&to, s), m.msg_name = &to;
    if (is_for_peer(s, fd, &to))
      m.msg_namelen = 0, m.msg_name = 0;
    say(" to ");
    say_address(&to, m.msg_namelen);
  }
  if (s->op == WRITE && would_wait(fd, POLLOUT)) {
    say(") would wait");
    return;
  }
  if (s->op != WRITE) {
    say(", ");
    say_flags(flags & ~MSG_DONTWAIT);
  }
  say(")");
  ssize_t result;
  switch (s->op) {
  case SEND:
    result = send(fd, out, n, flags);
    break;
  case SENDTO:
    result = sendto(fd, out, n, flags, m.msg_name, m.msg_namelen);
    break;
  case SENDMSG:
    result = sendmsg(fd, &m, flags);
    break;
  default:
    result = s->draw[2] % 2 ? write(fd, out, n) : writev(fd, pieces, m.msg_iovlen);
  }
  say_result(result);
}

static void send_file(const struct step *s, int fd) {
  /* A datagram with less than was asked for has an end of its own. */
  off_t from = s->draw[0] % (is_stream(s->a) ? 5000 : 1000);
  size_t n = ONE_OF(s->draw[1], 0, 1, 100, 3000, 9000);
  if (would_wait(fd, POLLOUT)) {
    say("sendfile would wait");
    return;
  }
  say("sendfile(%zu from %lld)", n, (long long)from);
  say_result(sendfile(fd, file_fd, &from, n));
  say(" to %lld", (long long)from);
}

static void say_control(struct msghdr *m) {
  for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
    const unsigned char *data = CMSG_DATA(c);
    size_t n = c->cmsg_len - CMSG_LEN(0);
    say(" cmsg %d/%d/%zu", c->cmsg_level, c->cmsg_type, n);
    int is_time = c->cmsg_level == SOL_SOCKET &&
                  (c->cmsg_type == SO_TIMESTAMP || c->cmsg_type == SO_TIMESTAMPNS);
    /* The original destination has a port, and the port may be anybody's. */
    int is_address = c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVORIGDSTADDR;
    for (size_t i = is_address ? 4 : 0; i < n && !is_time; i++)
      say("%s%02x", i % 4 ? "" : " ", data[i]);
  }
}

static int receive_flags(const struct step *s, int fd) {
  int flags = ONE_OF(s->draw[4], 0, 0, 0, 0, 0, MSG_PEEK, MSG_PEEK, MSG_TRUNC, MSG_DONTWAIT,
                     MSG_WAITALL, MSG_OOB, MSG_ERRQUEUE, MSG_PEEK | MSG_TRUNC,
                     MSG_PEEK | MSG_WAITALL, MSG_CMSG_CLOEXEC, MSG_OOB | MSG_PEEK);
  /* For all of it one would wait that has some. */
  int waits = would_wait(fd, POLLIN) ||
              (flags & MSG_WAITALL && is_stream(s->a) && !has_limit(fd, SO_RCVTIMEO));
  return waits ? flags | MSG_DONTWAIT : flags;
}

static void receive_message(const struct step *s, int fd, size_t n, int flags) {
  struct iovec pieces[VECTORS];
  struct sockaddr_storage from = {0};
  unsigned char control[512];
  struct msghdr m = {.msg_iov = pieces, .msg_iovlen = cut(pieces, in, n, s->draw[1])};
  if (s->draw[2] % 4)
    m.msg_name = &from, m.msg_namelen = sizeof from;
  if (s->draw[3] % 4)
    m.msg_control = control, m.msg_controllen = s->draw[3] % 4 == 1 ? 24 : sizeof control;
  ssize_t got = recvmsg(fd, &m, flags);
  say_result(got);
  if (got < 0)
    return;
  say_bytes(in, (size_t)got < n ? (size_t)got : n);
  if (m.msg_name) {
    say(" from ");
    say_address(&from, m.msg_namelen);
  }
  say(" flags ");
  say_flags(m.msg_flags);
  say_control(&m);
}

static void receive_it(const struct step *s, int fd) {
  struct iovec pieces[VECTORS];
  struct sockaddr_storage from = {0};
  size_t n = ONE_OF(s->draw[5], 0, 1, 5, 10, 100, 1000, 5000, 65536);
  int flags = receive_flags(s, fd);
  static const char *const NAMES[] = {[RECV] = "recv", [RECVFROM] = "recvfrom",
                                      [RECVMSG] = "recvmsg", [READ] = "read"};
  memset(in, 0, n);
  say("%s(%zu", NAMES[s->op], n);
  if (s->op == READ && would_wait(fd, POLLIN)) {
    say(") would wait");
    return;
  }
  if (s->op != READ) {
    say(", ");
    say_flags(flags & ~MSG_DONTWAIT);
  }
  say(")");
  if (s->op == RECVMSG) {
    receive_message(s, fd, n, flags);
    return;
  }
  socklen_t length = sizeof from;
  ssize_t got;
  if (s->op == RECV)
    got = recv(fd, in, n, flags);
  else if (s->op == RECVFROM)
    got = recvfrom(fd, in, n, flags, (void *)&from, &length);
  else if (s->draw[2] % 2)
    got = read(fd, in, n);
  else
    got = readv(fd, pieces, cut(pieces, in, n, s->draw[1]));
  say_result(got);
  if (got < 0)
    return;
  say_bytes(in, (size_t)got < n ? (size_t)got : n);
  if (s->op == RECVFROM) {
    say(" from ");
    say_address(&from, length);
  }
}

/* --- the others ----------------------------------------------------------- */

static void name_of(const struct step *s, int fd) {
  struct sockaddr_storage a = {0};
  socklen_t n = s->draw[0] % 8 ? (int)sizeof a : ONE_OF(s->draw[1], 0, 2, 8, 16);
  say(s->op == NAME ? "getsockname(%u)" : "getpeername(%u)", (unsigned)n);
  int result = (s->op == NAME ? getsockname : getpeername)(fd, (void *)&a, &n);
  say_result(result);
  if (result == 0) {
    say(" ");
    say_address(&a, n);
  }
}

static void control_it(const struct step *s, int fd) {
  static const struct {
    unsigned long request;
    const char *name;
  } ASKED[] = {{FIONREAD, "FIONREAD"}, {FIONREAD, "FIONREAD"}, {SIOCATMARK, "SIOCATMARK"},
               {SIOCOUTQ, "SIOCOUTQ"}, {SIOCOUTQNSD, "SIOCOUTQNSD"}};
  int which = s->draw[0] % 5, n = -1;
  say("ioctl(%s)", ASKED[which].name);
  int result = ioctl(fd, ASKED[which].request, &n);
  say_result(result);
  struct tcp_info info = {0};
  socklen_t length = sizeof info;
  /* Without a connection, what is queued is the difference of numbers that mean nothing; and
   * an end that is not acknowledged counts for Linux. */
  getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
  if (is_stream(s->a) && which >= 3 && info.tcpi_state != TCP_ESTABLISHED)
    return;
  if (result == 0)
    say(" %d", n);
}

static void switch_blocking(const struct step *s, int fd) {
  int on = s->draw[0] % 2;
  if (s->draw[1] % 2) {
    say("ioctl(FIONBIO, %d)", on);
    say_result(ioctl(fd, FIONBIO, &on));
  } else {
    int flags = fcntl(fd, F_GETFL);
    say("fcntl(F_SETFL, %s)", on ? "O_NONBLOCK" : "0");
    say_result(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
  }
  say(" flags %#x", fcntl(fd, F_GETFL));
}

static void take(const struct step *s) {
  int fd = places[s->a].fd;
  say("s%d ", s->a);
  if (s->op != SOCKET && fd < 0) {
    say("nothing");
    return;
  }
  if (is_left_out(s)) {
    say("left out");
    return;
  }
  switch (s->op) {
  case SOCKET:
    make_socket(s);
    break;
  case BIND:
    bind_it(s, fd);
    break;
  case LISTEN: {
    /* With room for all: where there is none, Linux tries again after a second. */
    int backlog = ONE_OF(s->draw[1], 8, 8, 128, -1, 16, 5);
    say("listen(%d)", backlog);
    say_result(listen(fd, backlog));
    break;
  }
  case CONNECT:
    connect_it(s, fd);
    break;
  case ACCEPT:
    say("to %d ", s->b);
    accept_it(s, fd);
    break;
  case SEND:
  case SENDTO:
  case SENDMSG:
  case WRITE:
    send_it(s, fd);
    break;
  case RECV:
  case RECVFROM:
  case RECVMSG:
  case READ:
    receive_it(s, fd);
    break;
  case SHUTDOWN: {
    int how = ONE_OF(s->draw[0], SHUT_RD, SHUT_WR, SHUT_WR, SHUT_RDWR, SHUT_RD, 3, -1);
    int listens = 0;
    socklen_t n = sizeof listens;
    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n);
    places[s->a].was_listener |= listens && how != SHUT_WR;
    say("shutdown(%d)", how);
    say_result(shutdown(fd, how));
    break;
  }
  case CLOSE:
    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, fd, 0);
    places[s->a].fd = -1;
    say("close");
    say_result(close(fd));
    break;
  case DUP:
    dup_it(s, fd);
    break;
  case GETOPT:
    get_option(s, fd);
    break;
  case SETOPT:
    set_option(s, fd);
    break;
  case NAME:
  case PEER:
    name_of(s, fd);
    break;
  case IOCTL:
    control_it(s, fd);
    break;
  case FCNTL:
    switch_blocking(s, fd);
    break;
  case SENDFILE:
    send_file(s, fd);
    break;
  }
}

static void *take_in_thread(void *step) {
  take(step);
  return 0;
}

/* The child that has taken the step; -1: there is none. */
static pid_t child = -1;

static void await(volatile int *word) {
  while (!*word)
    nanosleep(&(struct timespec){0, 100000}, 0);
}

static void end_child(void) {
  shared->may_end = 1;
  while (waitpid(child, 0, 0) < 0 && errno == EINTR)
    ;
  child = -1;
}

/* Takes a step, by whom it says. A child takes it with the descriptors that it inherits, and
 * lives on until it may end. */
static void perform(const struct step *s) {
  static const char *const BY[] = {"", "thread: ", "child: "};
  say("%s", BY[s->by]);
  if (s->by == ITSELF) {
    take(s);
  } else if (s->by == A_THREAD) {
    pthread_t thread;
    if (pthread_create(&thread, 0, take_in_thread, (void *)s) == 0)
      pthread_join(thread, 0);
  } else {
    shared->is_taken = shared->may_end = 0;
    child = fork();
    if (child == 0) {
      /* Descriptors that it gets are its own. */
      epoll_fd = -1;
      take(s);
      shared->is_taken = 1;
      await(&shared->may_end);
      _exit(0);
    }
    await(&shared->is_taken);
  }
}

#endif
