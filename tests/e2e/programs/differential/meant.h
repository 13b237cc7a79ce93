/* Differences that are meant (docs/compatibility.md), and what depends on time: the steps that are
 * left out for them. */
#ifndef MEANT_H
#define MEANT_H
#include "places.h"

/* Whether a stream had a connection, or was refused one, and has not been told. One that is shut down
 * then does not connect any more on Linux, and does on Longshore. */
static int is_over(int at) {
  int events = look(places[at].fd, POLLIN | POLLRDHUP);
  return is_stream(at) && events & POLLHUP && events & POLLIN;
}

/* Whether the peer has ended its half. */
static int is_half_closed(int at) {
  return is_stream(at) && look(places[at].fd, POLLRDHUP) & POLLRDHUP;
}

/* Whether it may be the port of an end that was closed and whose peer goes on: Linux keeps that,
 * until the peer ends, too. */
static int is_kept(int port) {
  for (int i = 0; i < PLACES; i++) {
    struct sockaddr_in6 a = {0};
    socklen_t n = sizeof a;
    if (places[i].fd >= 0 && is_half_closed(i) && !is_over(i) && !getpeername(places[i].fd, (void *)&a, &n) &&
        ntohs(a.sin6_port) == port)
      return 1;
  }
  return 0;
}

/* Whether a datagram socket has a peer. */
static int has_peer(int fd) {
  struct sockaddr_storage a;
  socklen_t n = sizeof a;
  return getpeername(fd, (void *)&a, &n) == 0;
}

/* The socket at a place is one of these from now on. */
static void note_socket(int at, struct sockets *all) {
  struct stat stat = {0};
  if (all->count < STEPS && !fstat(places[at].fd, &stat))
    all->of[all->count++] = stat.st_ino;
}

static int is_noted(int at, const struct sockets *all) {
  struct stat stat = {0};
  if (fstat(places[at].fd, &stat))
    return 0;
  for (int i = 0; i < all->count; i++)
    if (all->of[i] == stat.st_ino)
      return 1;
  return 0;
}

/* Whether a stream of IPv6 was to reach an address of IPv4: what it sends from then on, wherever to,
 * Linux sends by the ways of that. */
static int was_for_v4(int at) {
  return is_noted(at, &shared->mapped);
}

/* Whether it was a listener, and was shut down, or disconnected. */
static int was_listener(int at) {
  return is_noted(at, &shared->listened);
}

static int listens(int at) {
  int is = 0;
  socklen_t n = sizeof is;
  getsockopt(places[at].fd, SOL_SOCKET, SO_ACCEPTCONN, &is, &n);
  return is;
}

/* Whether a step is left out for one of these. */
static int is_left_out(const struct step *s) {
  switch (s->op) {
  case BIND:
    return was_for_v4(s->a);
  case SEND:
  case SENDTO:
  case SENDMSG:
  case WRITE:
  case SENDFILE:
  case SENDMMSG:
    /* What a file adds to a datagram that was begun, Linux sums up wrongly where it is of several
     * pages, and throws the datagram away where it arrives. */
    if (s->op == SENDFILE && is_noted(s->a, &shared->begun))
      return 1;
    /* In what its parent has begun, a child has no part; and nothing is added to it by one that is
     * shut down. */
    return is_noted(s->a, &shared->begun) &&
           (s->by == A_CHILD || is_noted(s->a, &shared->shut));
  case SETOPT:
    /* What is set for a listener counts for the connections that wait at it, too. */
    return places[s->a].type == SOCK_STREAM && listens(s->a) && look(places[s->a].fd, POLLIN);
  case LISTEN:
    /* On the port of connections that it has accepted, Linux's does not listen again
     * (EADDRINUSE). What was shut down before it listens is so in what it accepts. */
    return was_listener(s->a) || was_for_v4(s->a) || is_noted(s->a, &shared->shut);
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

/* Whether it is a stream of IPv6 to be connected to an address of IPv6, that was to reach one of
 * IPv4 before; of one that is to, it makes a note. */
static int has_other_version(int at, const struct sockaddr_storage *a) {
  const struct sockaddr_in6 *to = (const void *)a;
  if (a->ss_family != AF_INET6)
    return 0;
  if (!IN6_IS_ADDR_V4MAPPED(&to->sin6_addr))
    return was_for_v4(at);
  note_socket(at, &shared->mapped);
  return 0;
}

/* Whether a stream that connects answers with its first bytes, or after a while (TCP_DEFER_ACCEPT,
 * which is otherwise for listeners). */
static int saves_an_answer(int fd) {
  int seconds = 0;
  socklen_t n = sizeof seconds;
  getsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, &n);
  return seconds;
}

/* Whether `a` is not to be connected to. */
static int is_no_target(const struct step *s, int fd, const struct sockaddr_storage *a) {
  int port = ntohs(((const struct sockaddr_in *)a)->sin_port);
  if (is_stream(s->a))
    /* A listener that was one, and what was shut down before, to itself. */
    return (a->ss_family != AF_UNSPEC && port == port_of(s->a) && port != 0 &&
            (was_listener(s->a) || listens(s->a) || is_noted(s->a, &shared->shut))) ||
           /* One that was refused a connection, has not been told and was shut down then, Linux
            * connects no more. */
           (a->ss_family != AF_UNSPEC && is_noted(s->a, &shared->shut) && is_over(s->a)) ||
           /* What it has accepted and closed, Linux keeps as long as the other end goes on. */
           (was_listener(s->a) && is_half_closed(s->b)) ||
           saves_an_answer(fd) || is_elsewhere(fd, a) || has_other_version(s->a, a);
  /* A socket of IPv6 that has had peers of both versions keeps some of the first. */
  has_other_version(s->a, a);
  if (places[s->a].domain == AF_INET6 && a->ss_family != AF_UNSPEC && has_peer(fd))
    return 1;
  /* From the peer with port 0, Linux receives what any port of its address sends; and a port
   * that a failed send has given it, it gives back. */
  return a->ss_family == AF_UNSPEC ? !has_peer(fd) || is_noted(s->a, &shared->failed) : port == 0;
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

/* Whether a datagram to `a`, or to the peer, is for a port where none of the sockets of the case is:
 * Linux has the answer before it sends the next. */
static int is_for_nobody(const struct step *s, int fd, const struct sockaddr_storage *a) {
  struct sockaddr_storage peer = {0};
  socklen_t n = sizeof peer;
  if (is_stream(s->a) || (!a && getpeername(fd, (void *)&peer, &n)))
    return 0;
  int port = ntohs(((const struct sockaddr_in *)(a ? a : &peer))->sin_port);
  for (int i = 0; i < PLACES; i++)
    if (places[i].fd >= 0 && !is_stream(i) && port_of(i) == port)
      return 0;
  return 1;
}

#endif
