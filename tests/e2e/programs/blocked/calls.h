/* The calls that wait. Each says what it gave, and those of epoll when they are about to wait. */
#ifndef CALLS_H
#define CALLS_H
#include "scene.h"

enum { SAID = 160 };

struct outcome {
  char text[SAID];
};

static void __attribute__((format(printf, 2, 3)))
say(struct outcome *o, const char *format, ...) {
  size_t n = strlen(o->text);
  va_list args;
  va_start(args, format);
  vsnprintf(o->text + n, SAID - n, format, args);
  va_end(args);
}

static void say_result(struct outcome *o, long result) {
  int why = errno;
  if (result < 0)
    say(o, "%s", strerrorname_np(why));
  else
    say(o, "%ld", result);
}

/* How much of something large is the stack's affair. */
static void say_part(struct outcome *o, long result, long all) {
  if (result > 0 && result < all)
    say(o, "a part");
  else if (result == all)
    say(o, "all");
  else
    say_result(o, result);
}

static void say_bytes(struct outcome *o, long result, const char *bytes) {
  say_result(o, result);
  if (result > 0)
    say(o, " %.*s", (int)result, bytes);
}

static void say_events(struct outcome *o, int events) {
  static const struct {
    int event;
    const char *name;
  } EVENTS[] = {{POLLIN, " in"},   {POLLPRI, " pri"}, {POLLOUT, " out"},     {POLLERR, " err"},
                {POLLHUP, " hup"}, {POLLNVAL, " nval"}, {POLLRDHUP, " rdhup"}};
  for (size_t i = 0; i < sizeof EVENTS / sizeof *EVENTS; i++)
    if (events & EVENTS[i].event)
      say(o, "%s", EVENTS[i].name);
}

static void call_recv(struct outcome *o) {
  char b[16];
  say_bytes(o, recv(scene.fd, b, sizeof b, 0), b);
}

static void call_peek(struct outcome *o) {
  char b[16];
  say_bytes(o, recv(scene.fd, b, sizeof b, MSG_PEEK), b);
}

static void call_waitall(struct outcome *o) {
  char b[5];
  say_bytes(o, recv(scene.fd, b, sizeof b, MSG_WAITALL), b);
}

static void call_read(struct outcome *o) {
  char b[16];
  say_bytes(o, read(scene.fd, b, sizeof b), b);
}

static void call_readv(struct outcome *o) {
  char b[16];
  struct iovec parts[] = {{b, 2}, {b + 2, sizeof b - 2}};
  say_bytes(o, readv(scene.fd, parts, 2), b);
}

static void call_recvfrom(struct outcome *o) {
  char b[16];
  struct sockaddr_in from = {0};
  socklen_t n = sizeof from;
  say_bytes(o, recvfrom(scene.fd, b, sizeof b, 0, (void *)&from, &n), b);
  say(o, " from %u bytes", n);
}

static void call_recvmsg(struct outcome *o) {
  char b[16];
  struct iovec part = {b, sizeof b};
  struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
  say_bytes(o, recvmsg(scene.fd, &m, 0), b);
  say(o, " flags %#x", m.msg_flags);
}

static void receive_many(struct outcome *o, int flags, struct timespec *limit) {
  char b[2][16];
  struct iovec parts[] = {{b[0], 16}, {b[1], 16}};
  struct mmsghdr m[] = {{.msg_hdr = {.msg_iov = &parts[0], .msg_iovlen = 1}},
                        {.msg_hdr = {.msg_iov = &parts[1], .msg_iovlen = 1}}};
  int n = recvmmsg(scene.fd, m, 2, flags, limit);
  say_result(o, n);
  for (int i = 0; i < n; i++)
    say(o, " %u", m[i].msg_len);
}

static void call_recvmmsg(struct outcome *o) {
  receive_many(o, 0, 0);
}

static void call_recvmmsg_one(struct outcome *o) {
  receive_many(o, MSG_WAITFORONE, 0);
}

static void call_limited(struct outcome *o) {
  char b[16];
  setsockopt(scene.fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_usec = 500000},
             sizeof(struct timeval));
  say_bytes(o, recv(scene.fd, b, sizeof b, 0), b);
}

static void call_splice_in(struct outcome *o) {
  say_result(o, splice(scene.fd, 0, scene.pipe[1], 0, 16, 0));
}

static void poll_for(struct outcome *o, int events) {
  struct pollfd p = {scene.fd, events, 0};
  say_result(o, poll(&p, 1, -1));
  say_events(o, p.revents);
}

static void call_poll_in(struct outcome *o) {
  poll_for(o, POLLIN);
}

static void call_poll_rdhup(struct outcome *o) {
  poll_for(o, POLLRDHUP);
}

static void call_poll_pri(struct outcome *o) {
  poll_for(o, POLLPRI);
}

static void call_poll_nothing(struct outcome *o) {
  poll_for(o, 0);
}

static void call_poll_out(struct outcome *o) {
  poll_for(o, POLLOUT);
}

/* With something of the kernel's. */
static void call_ppoll(struct outcome *o) {
  struct pollfd p[] = {{scene.pipe[0], POLLIN, 0}, {scene.fd, POLLIN | POLLRDHUP, 0}};
  say_result(o, ppoll(p, 2, 0, 0));
  say_events(o, p[0].revents | p[1].revents);
}

static void call_select(struct outcome *o) {
  fd_set in, bad;
  FD_ZERO(&in);
  FD_SET(scene.fd, &in);
  bad = in;
  int n = select(scene.fd + 1, &in, 0, &bad, 0);
  say_result(o, n);
  if (n >= 0)
    say(o, "%s%s", FD_ISSET(scene.fd, &in) ? " in" : "", FD_ISSET(scene.fd, &bad) ? " bad" : "");
}

static void call_pselect_out(struct outcome *o) {
  fd_set out;
  FD_ZERO(&out);
  FD_SET(scene.fd, &out);
  say_result(o, pselect(scene.fd + 1, 0, &out, 0, 0, 0));
}

static void wait_in_set(struct outcome *o, uint32_t events) {
  struct epoll_event e = {.events = events}, told[4];
  scene.set = must(epoll_create1(0), "epoll_create1");
  must(epoll_ctl(scene.set, EPOLL_CTL_ADD, scene.fd, &e), "epoll_ctl");
  /* That it can be written to once is not waited for. */
  if (events & EPOLLET)
    epoll_wait(scene.set, told, 4, 0);
  scene.is_next = 1;
  int n = epoll_wait(scene.set, told, 4, -1);
  say_result(o, n);
  for (int i = 0; i < n; i++)
    say_events(o, told[i].events);
}

static void call_epoll(struct outcome *o) {
  wait_in_set(o, EPOLLIN);
}

static void call_epoll_edge(struct outcome *o) {
  wait_in_set(o, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
}

static void call_epoll_once(struct outcome *o) {
  wait_in_set(o, EPOLLIN | EPOLLONESHOT);
}

static void call_epoll_out(struct outcome *o) {
  wait_in_set(o, EPOLLOUT);
}

/* A set in a set, for which poll waits. */
static void call_epoll_nested(struct outcome *o) {
  struct epoll_event e = {.events = EPOLLIN};
  int outer = must(epoll_create1(0), "epoll_create1");
  scene.set = must(epoll_create1(0), "epoll_create1");
  must(epoll_ctl(scene.set, EPOLL_CTL_ADD, scene.fd, &e), "epoll_ctl");
  must(epoll_ctl(outer, EPOLL_CTL_ADD, scene.set, &e), "epoll_ctl");
  struct pollfd p = {outer, POLLIN, 0};
  scene.is_next = 1;
  say_result(o, poll(&p, 1, -1));
  say_events(o, p.revents);
}

static void call_accept(struct outcome *o) {
  say(o, "%s", accept(scene.fd, 0, 0) < 0 ? strerrorname_np(errno) : "a connection");
}

static void call_accept4(struct outcome *o) {
  struct sockaddr_in from;
  socklen_t n = sizeof from;
  int fd = accept4(scene.fd, (void *)&from, &n, SOCK_NONBLOCK);
  say(o, "%s", fd < 0 ? strerrorname_np(errno) : "a connection");
}

static void call_send(struct outcome *o) {
  static char b[100];
  say_result(o, send(scene.fd, b, sizeof b, MSG_NOSIGNAL));
}

static void call_send_much(struct outcome *o) {
  static char b[MUCH];
  say_part(o, send(scene.fd, b, sizeof b, MSG_NOSIGNAL), sizeof b);
}

static void call_writev(struct outcome *o) {
  static char b[100];
  struct iovec parts[] = {{b, 50}, {b + 50, 50}};
  say_result(o, writev(scene.fd, parts, 2));
}

static void call_sendmmsg(struct outcome *o) {
  static char b[100];
  struct iovec part = {b, sizeof b};
  struct mmsghdr m[] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}},
                        {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};
  say_result(o, sendmmsg(scene.fd, m, 2, MSG_NOSIGNAL));
}

static void call_sendfile(struct outcome *o) {
  say_result(o, sendfile(scene.fd, scene.file, &(off_t){0}, 100));
}

static void call_splice_out(struct outcome *o) {
  static char b[100];
  must(write(scene.pipe[1], b, sizeof b), "write");
  say_result(o, splice(scene.pipe[0], 0, scene.fd, 0, sizeof b, 0));
}

static const struct call {
  const char *name;
  enum kind kinds;
  void (*run)(struct outcome *);
  /* What poll says afterwards is not compared: Linux keeps that recvmmsg was interrupted as an
   * error of the socket's, and accept may give the number that was closed. */
  int without_state;
} CALLS[] = {
    {"recv", EMPTY | DATAGRAM, call_recv, 0},
    {"recv(PEEK)", EMPTY | DATAGRAM, call_peek, 0},
    {"recv(WAITALL)", EMPTY, call_waitall, 0},
    {"recv with a limit", EMPTY | DATAGRAM, call_limited, 0},
    {"read", EMPTY | DATAGRAM, call_read, 0},
    {"readv", EMPTY | DATAGRAM, call_readv, 0},
    {"recvfrom", EMPTY | DATAGRAM, call_recvfrom, 0},
    {"recvmsg", EMPTY | DATAGRAM, call_recvmsg, 0},
    {"recvmmsg", EMPTY | DATAGRAM, call_recvmmsg, 1},
    {"recvmmsg(WAITFORONE)", EMPTY | DATAGRAM, call_recvmmsg_one, 0},
    {"splice in", EMPTY, call_splice_in, 0},
    {"poll in", EMPTY | DATAGRAM | LISTENER, call_poll_in, 0},
    {"poll rdhup", EMPTY | FULL | LISTENER, call_poll_rdhup, 0},
    {"poll pri", EMPTY, call_poll_pri, 0},
    {"poll nothing", ANY, call_poll_nothing, 0},
    {"poll out", FULL, call_poll_out, 0},
    {"ppoll", EMPTY | DATAGRAM | LISTENER, call_ppoll, 0},
    {"select", EMPTY | DATAGRAM | LISTENER, call_select, 0},
    {"pselect out", FULL, call_pselect_out, 0},
    {"epoll", EMPTY | DATAGRAM | LISTENER, call_epoll, 0},
    {"epoll edge", ANY, call_epoll_edge, 0},
    {"epoll once", EMPTY | DATAGRAM | LISTENER, call_epoll_once, 0},
    {"epoll out", FULL, call_epoll_out, 0},
    {"epoll nested", EMPTY | DATAGRAM | LISTENER, call_epoll_nested, 0},
    {"accept", LISTENER, call_accept, 1},
    {"accept4", LISTENER, call_accept4, 1},
    {"send", FULL, call_send, 0},
    {"send much", FULL, call_send_much, 0},
    {"writev", FULL, call_writev, 0},
    {"sendmmsg", FULL, call_sendmmsg, 0},
    {"sendfile", FULL, call_sendfile, 0},
    {"splice out", FULL, call_splice_out, 0},
};
enum { CALL_COUNT = sizeof CALLS / sizeof *CALLS };

#endif
