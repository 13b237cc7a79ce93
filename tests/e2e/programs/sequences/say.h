/* What is done in sequences (sequences.c): each operation says what it gives. */
#include <fcntl.h>

/* What an operation needs of the scene: the other end, which it may take away. */
enum { ANY, OTHER, ENDS_OTHER };

static const struct operation {
  const char *name;
  void (*run)(void);
  int needs;
} no_operation = {0};

static void set(int level, int option, int value) {
  say_result(setsockopt(scene.fd, level, option, &value, sizeof value));
}

/* Closes a descriptor by a reset, so that no port is kept by TIME-WAIT. */
static void close_hard(int fd) {
  struct linger none = {1, 0};
  if (fd < 0)
    return;
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof none);
  close(fd);
}

static void disconnect(int fd) {
  struct sockaddr none = {.sa_family = AF_UNSPEC};
  say_result(connect(fd, &none, sizeof none));
}

/* --- series of calls that look ---------------------------------------------------- */

static void look_at_addresses(void) {
  for (int peer = 0; peer < 2; peer++) {
    union {
      struct sockaddr_in v4;
      struct sockaddr_in6 v6;
    } at = {0};
    socklen_t size = sizeof at;
    char text[INET6_ADDRSTRLEN] = "";
    int result = (peer ? getpeername : getsockname)(scene.fd, (void *)&at, &size);
    if (result)
      say_result(result);
    else if (at.v4.sin_family == AF_INET)
      say(" %s", inet_ntop(AF_INET, &at.v4.sin_addr, text, sizeof text));
    else
      say(" %s", inet_ntop(AF_INET6, &at.v6.sin6_addr, text, sizeof text));
    if (!result)
      say(":%s", at.v4.sin_port ? "port" : "0");
  }
}

static void look_at_state(void) {
  /* One that finds room waits for no datagram. */
  struct pollfd p = {scene.fd, POLLIN, 0};
  say_result(poll(&p, 1, 0));
  look_poll();
  look_select();
  look_new_epoll();
  look_poll_out();
  look_unread();
  look_mark();
  look_state();
  look_at_addresses();
  look_error();
  look_poll();
  look_state();
}

static void look_at_bytes(void) {
  look_peek();
  look_urgent();
  look_unread();
  look_recv();
  look_urgent();
  look_write_0();
}

static void look_after_sending(void) {
  look_send_twice();
  look_error();
  look_recv();
  look_poll();
}

static void look_after_end(void) {
  look_shut_write();
  look_recv();
  look_shut_both();
  look_close_at_last();
  look_getpeername();
  look_getsockname();
  look_poll();
}
