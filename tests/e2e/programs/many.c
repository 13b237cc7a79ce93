/* Many sockets that become ready together, and many processes that wait for one: each
 * of them is told, however late it looks. */
#include "check.h"
#include <sys/resource.h>

static void allow_descriptors(int n) {
  struct rlimit most = {n, n};
  SYS(setrlimit(RLIMIT_NOFILE, &most));
}

static void add(int ep, int fd, uint32_t events, int number) {
  struct epoll_event e = {.events = events, .data.u32 = number};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
}

/* Reads a byte of each of `n` sockets that the set reports, each once, and then of no
 * more. Stalls now and then. */
static void each_is_told_once(int ep, const int *fds, int n, int at_once) {
  struct epoll_event found[64];
  char *told = calloc(n, 1);
  for (int left = n, round = 0; left; round++) {
    int got = SYS(epoll_wait(ep, found, at_once, 10000));
    if (got == 0)
      FAIL("%d of %d were not told of", left, n);
    for (int i = 0; i < got; i++) {
      int number = found[i].data.u32;
      char c;
      IS(recv(fds[number], &c, 1, MSG_DONTWAIT), 1);
      IS(told[number], 0);
      told[number] = 1;
      left--;
    }
    if (round % 16 == 0)
      sleep_ms(2);
  }
  IS(epoll_wait(ep, found, at_once, 0), 0);
  free(told);
}

/* Connections that a child of ours sends on, while we look at none of them. */
static void connections_by(uint32_t how) {
  enum { N = 1100 };
  static int mine[N], far[N];
  allow_descriptors(2 * N + 100);
  int listener = my_listener(N), ep = SYS(epoll_create1(0));
  struct sockaddr_in a = name_of(listener);
  for (int i = 0; i < N; i++) {
    far[i] = far_socket(SOCK_STREAM);
    SYS(far_connect(far[i], a));
    mine[i] = SYS(accept(listener, 0, 0));
    add(ep, mine[i], EPOLLIN | how, i);
  }
  for (int round = 0; round < 2; round++) {
    pid_t child = SYS(fork());
    if (!child) {
      for (int i = 0; i < N; i++)
        send_all(far[i], "x", 1);
      _exit(0);
    }
    joined(child);
    each_is_told_once(ep, mine, N, 64);
  }
  /* An echo, with both ends waiting for many. */
  pid_t child = SYS(fork());
  if (!child) {
    int back = SYS(epoll_create1(0));
    for (int i = 0; i < N; i++)
      add(back, far[i], EPOLLIN | how, i);
    for (int i = 0; i < N; i++)
      send_all(far[i], "x", 1);
    each_is_told_once(back, far, N, 16);
    _exit(0);
  }
  sleep_ms(100);
  each_is_told_once(ep, mine, N, 7);
  for (int i = 0; i < N; i++)
    send_all(mine[i], "y", 1);
  joined(child);
}

static void connections_at_once(void) { connections_by(0); }
static void connections_at_once_by_edges(void) { connections_by(EPOLLET); }

static void datagram_sockets_at_once(void) {
  if (far_in_kernel())
    return;
  enum { N = 10000 };
  static int mine[N];
  static struct sockaddr_in to[N];
  allow_descriptors(N + 100);
  int ep = SYS(epoll_create1(0)), sender = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  for (int i = 0; i < N; i++) {
    mine[i] = SYS(socket(AF_INET, SOCK_DGRAM, 0));
    struct sockaddr_in any = address(my_ip(), 0);
    SYS(bind(mine[i], A(any)));
    to[i] = name_of(mine[i]);
    add(ep, mine[i], EPOLLIN, i);
  }
  pid_t child = SYS(fork());
  if (!child) {
    for (int i = 0; i < N; i++)
      IS(sendto(sender, "x", 1, 0, A(to[i])), 1);
    _exit(0);
  }
  joined(child);
  /* It may be under way still. */
  sleep_ms(100);
  each_is_told_once(ep, mine, N, 64);
}

/* One of many others is what a blocked call waits for. */
static void one_of_many_is_waited_for(void) {
  enum { N = 1100 };
  static int mine[N], far[N];
  allow_descriptors(2 * N + 100);
  for (int i = 0; i < N; i++)
    if (i)
      pair(0, &mine[i], &far[i]);
    else
      pair(1, &mine[i], &far[i]);
  pid_t child = SYS(fork());
  if (!child) {
    until_it_sleeps(getppid());
    for (int i = N; i--;)
      send_all(far[i], "x", 1);
    _exit(0);
  }
  char c;
  receive_all(mine[0], &c, 1);
  joined(child);
  for (int i = 1; i < N; i++)
    IS(ready(mine[i], POLLIN, 10000), POLLIN);
}

/* More processes than a socket's list of waiters has places. */
static void processes_that_wait_for_one(void) {
  enum { N = 40 };
  int mine, far, up[2], go[2];
  pid_t children[N];
  pair(0, &mine, &far);
  SYS(pipe(up));
  SYS(pipe(go));
  for (int i = 0; i < N; i++) {
    if ((children[i] = SYS(fork())))
      continue;
    int ep = SYS(epoll_create1(0));
    add(ep, mine, EPOLLIN | EPOLLRDHUP, i);
    struct epoll_event e;
    char c;
    IS(epoll_wait(ep, &e, 1, 0), 0);
    send_all(up[1], "r", 1);
    if (epoll_wait(ep, &e, 1, 15000) != 1 || e.events != EPOLLIN)
      FAIL("process %d was not told", i);
    send_all(up[1], "d", 1);
    receive_all(go[0], &c, 1);
    /* All is read. */
    SYS(epoll_ctl(ep, EPOLL_CTL_DEL, mine, 0));
    add(ep, mine, EPOLLRDHUP, i);
    if (epoll_wait(ep, &e, 1, 15000) != 1 || e.events != EPOLLRDHUP)
      FAIL("process %d was not told of the end", i);
    _exit(0);
  }
  char c[N];
  receive_all(up[0], c, N);
  until_it_sleeps(children[N - 1]);
  send_all(far, "x", 1);
  receive_all(up[0], c, N);
  receive_all(mine, c, 1);
  memset(c, 'g', N);
  send_all(go[1], c, N);
  until_it_sleeps(children[N - 1]);
  SYS(shutdown(far, SHUT_WR));
  for (int i = 0; i < N; i++)
    joined(children[i]);
}

const struct check CHECKS[] = {
    {"connections_at_once", connections_at_once},
    {"connections_at_once_by_edges", connections_at_once_by_edges},
    {"datagram_sockets_at_once", datagram_sockets_at_once},
    {"one_of_many_is_waited_for", one_of_many_is_waited_for},
    {"processes_that_wait_for_one", processes_that_wait_for_one},
    {0, 0},
};
