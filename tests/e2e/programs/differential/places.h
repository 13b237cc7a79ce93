/* What is known of the sockets of a case, and the addresses that its steps name. */
#ifndef PLACES_H
#define PLACES_H
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

/* Nobody is told of the descriptor at a place any more. */
static void forget_place(int at) {
  epoll_ctl(epoll_fd, EPOLL_CTL_DEL, places[at].fd, 0);
  epoll_ctl(edge_fd, EPOLL_CTL_DEL, places[at].fd, 0);
}

static void put_in(int at, int fd, int domain, int type) {
  struct place *p = &places[at];
  if (p->fd >= 0 && p->fd != fd) {
    forget_place(at);
    close(p->fd);
  }
  *p = (struct place){.fd = fd, .domain = domain, .type = type};
  struct epoll_event e = {.events = EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP,
                          .data.u32 = at};
  if (fd >= 0) {
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e);
    e.events |= EPOLLET;
    epoll_ctl(edge_fd, EPOLL_CTL_ADD, fd, &e);
  }
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

#endif
