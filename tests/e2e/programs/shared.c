/* One connection, two processes that wait for it: both are told what happens,
 * and what one of them does the other sees. */
#include "check.h"

static int epoll_with(int fd, uint32_t events) {
  int ep = SYS(epoll_create1(EPOLL_CLOEXEC));
  struct epoll_event e = {.events = events, .data.fd = fd};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
  return ep;
}

static uint32_t says(int ep, int ms) {
  struct epoll_event e = {0};
  return SYS(epoll_wait(ep, &e, 1, ms)) ? e.events : 0;
}

/* Processes that have the connection, wait for `events` in an epoll of their
 * own, and say by a pipe what they are told. */
enum { SHARERS = 3 };
struct sharer {
  pid_t pid;
  int up[2], down[2];
};

static void share(struct sharer s[SHARERS], int fd, int other, uint32_t events,
                  int steps) {
  for (int i = 0; i < SHARERS; i++) {
    SYS(pipe(s[i].up));
    SYS(pipe(s[i].down));
    if (!(s[i].pid = SYS(fork()))) {
      SYS(close(other));
      int ep = epoll_with(fd, events);
      uint32_t said = says(ep, 0);
      for (int step = 0;; step++) {
        send_all(s[i].up[1], &said, sizeof said);
        if (step == steps)
          _exit(0);
        char go;
        receive_all(s[i].down[0], &go, 1);
        said = says(ep, 10000);
      }
    }
  }
}

static void all_are_told(struct sharer s[SHARERS], uint32_t events) {
  for (int i = 0; i < SHARERS; i++) {
    uint32_t said;
    receive_all(s[i].up[0], &said, sizeof said);
    IS(said, events);
  }
}

/* From here on they wait for the next thing. */
static void all_wait(struct sharer s[SHARERS]) {
  for (int i = 0; i < SHARERS; i++)
    send_all(s[i].down[1], "g", 1);
  sleep_ms(50);
}

static void all_end(struct sharer s[SHARERS]) {
  for (int i = 0; i < SHARERS; i++) {
    joined(s[i].pid);
    close(s[i].up[0]), close(s[i].up[1]), close(s[i].down[0]), close(s[i].down[1]);
  }
}

static void all_see_data_by(uint32_t how) {
  EACH_PAIR(mine, far) {
    struct sharer s[SHARERS];
    share(s, mine, far, EPOLLIN | EPOLLRDHUP | how, 2);
    all_are_told(s, 0);
    all_wait(s);
    send_all(far, "x", 1);
    all_are_told(s, EPOLLIN);
    char c;
    receive_all(mine, &c, 1);
    all_wait(s);
    SYS(shutdown(far, SHUT_WR));
    all_are_told(s, EPOLLIN | EPOLLRDHUP);
    all_end(s);
  }
}

static void all_see_data(void) { all_see_data_by(0); }
static void all_see_data_by_edge(void) { all_see_data_by(EPOLLET); }

static void all_see_a_reset(void) {
  EACH_PAIR(mine, far) {
    struct sharer s[SHARERS];
    share(s, mine, far, EPOLLRDHUP, 1);
    all_are_told(s, 0);
    all_wait(s);
    far_reset(far);
    far = -1;
    all_are_told(s, EPOLLERR | EPOLLHUP | EPOLLRDHUP);
    all_end(s);
  }
}

static void all_see_room(void) {
  EACH_PAIR(mine, far) {
    static char big[1 << 20];
    struct sharer s[SHARERS];
    fill(mine, 1 << 16);
    share(s, mine, far, EPOLLOUT, 1);
    all_are_told(s, 0);
    all_wait(s);
    size_t got = 0;
    while (got < 3 << 20 && ready(far, POLLIN, 1000))
      got += SYS(read(far, big, sizeof big));
    all_are_told(s, EPOLLOUT);
    all_end(s);
  }
}

static void all_see_a_shutdown_by_one(void) {
  EACH_PAIR(mine, far) {
    struct sharer s[SHARERS];
    share(s, mine, far, EPOLLIN | EPOLLRDHUP, 1);
    all_are_told(s, 0);
    all_wait(s);
    SYS(shutdown(mine, SHUT_RD));
    all_are_told(s, EPOLLIN | EPOLLRDHUP);
    all_end(s);
  }
}

static void a_reader_is_woken_by_anothers_shutdown(void) {
  EACH_PAIR(mine, far) {
    pid_t child = SYS(fork());
    if (!child) {
      char c;
      IS(read(mine, &c, 1), 0);
      _exit(0);
    }
    sleep_ms(50);
    SYS(shutdown(mine, SHUT_RD));
    joined(child);
  }
}

const struct check CHECKS[] = {
    {"all_see_data", all_see_data},
    {"all_see_data_by_edge", all_see_data_by_edge},
    {"all_see_a_reset", all_see_a_reset},
    {"all_see_room", all_see_room},
    {"all_see_a_shutdown_by_one", all_see_a_shutdown_by_one},
    {"a_reader_is_woken_by_anothers_shutdown", a_reader_is_woken_by_anothers_shutdown},
    {0, 0},
};
