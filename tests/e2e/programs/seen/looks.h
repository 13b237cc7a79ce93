/* Two ends of a connection within a host, what may be done to one of them, and calls that look at the
 * other, each of which says what it gives (seen.c, sequences.c). */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTCOME = 300, BYTES = 5 };

static void fail(const char *what) {
  fprintf(stderr, "%s: %s\n", what, strerror(errno));
  exit(1);
}

/* --- the scene: two ends of a connection, and an epoll instance that has one ------ */

static struct {
  /* The end that is looked at, that which things are done to, and what accepted. */
  int fd, other, listener;
  /* An epoll instance that has fd since before, level-triggered. */
  int epoll;
} scene;

static void make_scene(void) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  socklen_t size = sizeof at;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, (void *)&at, sizeof at) || listen(listener, 4) ||
      getsockname(listener, (void *)&at, &size))
    fail("listen");
  scene.other = socket(AF_INET, SOCK_STREAM, 0);
  if (connect(scene.other, (void *)&at, sizeof at))
    fail("connect");
  scene.fd = accept(listener, 0, 0);
  close(listener);
  scene.epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP};
  if (scene.fd < 0 || epoll_ctl(scene.epoll, EPOLL_CTL_ADD, scene.fd, &event))
    fail("scene");
}

/* --- the calls that look at it ---------------------------------------------------- */

static char said[OUTCOME];

static void say(const char *format, ...) {
  size_t at = strlen(said);
  va_list all;
  va_start(all, format);
  vsnprintf(said + at, sizeof said - at, format, all);
  va_end(all);
}

static void say_result(long result) {
  if (result < 0)
    say(" %s", strerrorname_np(errno));
  else
    say(" %ld", result);
}

static void look_recv(void) {
  char buf[100];
  say_result(recv(scene.fd, buf, sizeof buf, MSG_DONTWAIT));
}
static void look_recv_twice(void) { look_recv(), look_recv(), look_recv(); }
static void look_peek(void) {
  char buf[100];
  say_result(recv(scene.fd, buf, sizeof buf, MSG_DONTWAIT | MSG_PEEK));
}
static void look_urgent(void) {
  char buf[1];
  say_result(recv(scene.fd, buf, 1, MSG_DONTWAIT | MSG_OOB));
}
static void look_getpeername(void) {
  struct sockaddr_storage at;
  socklen_t size = sizeof at;
  say_result(getpeername(scene.fd, (void *)&at, &size));
}
static void look_getsockname(void) {
  /* Of either version: the port is at the same place. */
  union {
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
  } at = {0};
  socklen_t size = sizeof at;
  say_result(getsockname(scene.fd, (void *)&at, &size));
  say(" %s", at.v4.sin_port ? "port" : "no port");
}
static void look_send(void) { say_result(send(scene.fd, "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT)); }
static void look_write_0(void) { say_result(write(scene.fd, "", 0)); }
static void look_send_twice(void) { look_send(), look_send(); }
static void look_error(void) {
  int error = -1;
  socklen_t size = sizeof error;
  getsockopt(scene.fd, SOL_SOCKET, SO_ERROR, &error, &size);
  say(" %s", error ? strerrorname_np(error) : "none");
}
static void look_shut_write(void) { say_result(shutdown(scene.fd, SHUT_WR)); }
static void look_shut_both(void) { say_result(shutdown(scene.fd, SHUT_RDWR)); }
static void look_poll(void) {
  struct pollfd p = {scene.fd, POLLIN | POLLOUT | POLLRDHUP | POLLPRI, 0};
  say_result(poll(&p, 1, 0));
  say(" %x", p.revents);
}
static void look_poll_out(void) {
  struct pollfd p = {scene.fd, POLLOUT, 0};
  say_result(poll(&p, 1, 0));
  say(" %x", p.revents);
}
static void look_select(void) {
  fd_set in, out, priority;
  FD_ZERO(&in);
  FD_SET(scene.fd, &in);
  out = priority = in;
  struct timeval at_once = {0, 0};
  say_result(select(scene.fd + 1, &in, &out, &priority, &at_once));
  say(" %d%d%d", FD_ISSET(scene.fd, &in) != 0, FD_ISSET(scene.fd, &out) != 0,
      FD_ISSET(scene.fd, &priority) != 0);
}
static void look_epoll(void) {
  /* It is one entry if there is room for more. */
  struct epoll_event events[4] = {0};
  say_result(epoll_wait(scene.epoll, events, 4, 0));
  say(" %x", events[0].events);
}
static void look_new_epoll(void) {
  int epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP};
  epoll_ctl(epoll, EPOLL_CTL_ADD, scene.fd, &event);
  struct epoll_event events[4] = {0};
  say_result(epoll_wait(epoll, events, 4, 0));
  say(" %x", events[0].events);
  close(epoll);
}
static void look_unread(void) {
  int n = -1;
  say_result(ioctl(scene.fd, FIONREAD, &n));
  say(" %d", n);
}
static void look_mark(void) {
  int n = -1;
  say_result(ioctl(scene.fd, SIOCATMARK, &n));
  say(" %d", n);
}
/* How soon the end of what was sent is acknowledged is a matter of time. */
static void look_state(void) {
  struct tcp_info info = {.tcpi_state = 99};
  socklen_t size = sizeof info;
  say_result(getsockopt(scene.fd, IPPROTO_TCP, TCP_INFO, &info, &size));
  say(" %d", info.tcpi_state == TCP_FIN_WAIT2 ? TCP_FIN_WAIT1 : info.tcpi_state);
}
static void look_connect(void) {
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(9)};
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  say_result(connect(scene.fd, (void *)&at, sizeof at));
}
static void look_close_at_last(void) {
  /* What it gives does not tell, but that it comes back. */
  say_result(shutdown(scene.fd, SHUT_RD));
  say_result(close(dup(scene.fd)));
}

