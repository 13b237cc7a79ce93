/* select, poll and epoll, with sockets among other descriptors. */
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>

static int epoll_with(int fd, uint32_t events) {
  int ep = SYS(epoll_create1(EPOLL_CLOEXEC));
  struct epoll_event e = {.events = events, .data.fd = fd};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
  return ep;
}

/* What epoll says about its only descriptor; 0 if nothing within `ms`. */
static uint32_t says(int ep, int fd, int ms) {
  struct epoll_event e[4];
  int n = SYS(epoll_wait(ep, e, 4, ms));
  if (n == 0)
    return 0;
  IS(n, 1);
  IS(e[0].data.fd, fd);
  return e[0].events;
}

static void level(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    IS(says(ep, mine, 0), 0);
    send_all(far, "12", 2);
    IS(says(ep, mine, 10000), EPOLLIN);
    IS(says(ep, mine, 0), EPOLLIN);
    char c;
    receive_all(mine, &c, 1);
    IS(says(ep, mine, 0), EPOLLIN); /* one byte is left */
    receive_all(mine, &c, 1);
    IS(says(ep, mine, 0), 0);
    close(ep);
  }
}

static void level_out(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLOUT);
    IS(says(ep, mine, 10000), EPOLLOUT);
    IS(says(ep, mine, 0), EPOLLOUT);
    static char big[1 << 20];
    fill(mine, 1 << 16);
    IS(says(ep, mine, 50), 0);
    /* All may have come before the acknowledgment of any of it: no read may wait for more. */
    while (says(ep, mine, 10) == 0)
      OK(recv(far, big, sizeof big, MSG_DONTWAIT) > 0 || errno == EAGAIN);
    IS(says(ep, mine, 0), EPOLLOUT);
    close(ep);
  }
}

static void edge(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN | EPOLLET);
    IS(says(ep, mine, 0), 0);
    send_all(far, "1", 1);
    IS(says(ep, mine, 10000), EPOLLIN);
    IS(says(ep, mine, 50), 0); /* told once */
    send_all(far, "2", 1);
    IS(says(ep, mine, 10000), EPOLLIN); /* and again when more has come */
    char buf[8];
    nonblocking(mine);
    IS(read(mine, buf, 8), 2);
    FAILS(read(mine, buf, 8), EAGAIN);
    send_all(far, "3", 1);
    IS(says(ep, mine, 10000), EPOLLIN);
    close(ep);
  }
}

static void edge_out(void) {
  EACH_PAIR(mine, far) {
    nonblocking(mine);
    int ep = epoll_with(mine, EPOLLOUT | EPOLLET);
    IS(says(ep, mine, 10000), EPOLLOUT);
    IS(says(ep, mine, 20), 0);
    static char big[1 << 20];
    while (write(mine, big, sizeof big) > 0)
      ;
    pid_t child = SYS(fork());
    if (!child) {
      for (;;)
        if (read(far, big, sizeof big) <= 0)
          _exit(0);
    }
    IS(says(ep, mine, 5000), EPOLLOUT);
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    close(ep);
  }
}

/* A write that takes less than it was given says that there is no room left: a program that does not
 * ask once more for EAGAIN is told of room all the same. */
static void edge_out_after_a_part(void) {
  for (int how = 0; how < 4; how++)
    EACH_PAIR(mine, far) {
      static char big[32 << 20];
      struct iovec v[] = {{big, 1 << 20}, {big, sizeof big - (1 << 20)}};
      struct msghdr m = {.msg_iov = v, .msg_iovlen = 2};
      nonblocking(mine);
      int ep = epoll_with(mine, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
      IS(says(ep, mine, 10000), EPOLLOUT);
      ssize_t wrote = SYS(how == 0   ? write(mine, big, sizeof big)
                          : how == 1 ? writev(mine, v, 2)
                          : how == 2 ? sendmsg(mine, &m, 0)
                                     : send(mine, big, sizeof big, MSG_MORE));
      OK(wrote > 0 && wrote < (ssize_t)sizeof big);
      static char sink[1 << 20];
      for (ssize_t left = wrote; left > 0;)
        left -= SYS(read(far, sink, sizeof sink));
      IS(says(ep, mine, 5000), EPOLLOUT);
      close(ep);
    }
}

static void edge_tells_what_was_there_before(void) {
  EACH_PAIR(mine, far) {
    send_all(far, "early", 5);
    OK(ready(mine, POLLIN, 10000));
    int ep = epoll_with(mine, EPOLLIN | EPOLLOUT | EPOLLET);
    IS(says(ep, mine, 10000), EPOLLIN | EPOLLOUT);
    close(ep);
  }
}

static void edge_again_after_modify(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN | EPOLLET);
    send_all(far, "x", 1);
    IS(says(ep, mine, 10000), EPOLLIN);
    IS(says(ep, mine, 20), 0);
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.fd = mine};
    SYS(epoll_ctl(ep, EPOLL_CTL_MOD, mine, &e));
    IS(says(ep, mine, 10000), EPOLLIN); /* MOD looks afresh */
    close(ep);
  }
}

static void oneshot(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN | EPOLLONESHOT);
    send_all(far, "1", 1);
    IS(says(ep, mine, 10000), EPOLLIN);
    IS(says(ep, mine, 20), 0);
    send_all(far, "2", 1);
    IS(says(ep, mine, 50), 0); /* not even for new data, until armed again */
    struct epoll_event e = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = mine};
    SYS(epoll_ctl(ep, EPOLL_CTL_MOD, mine, &e));
    IS(says(ep, mine, 10000), EPOLLIN);
    close(ep);
  }
}

/* An instance that is closed is in no other any more, nor is the next one, whatever its number. */
static void closed_within_another(void) {
  EACH_PAIR(mine, far) {
    int outer = SYS(epoll_create1(0)), inner = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN};
    SYS(epoll_ctl(inner, EPOLL_CTL_ADD, mine, &e));
    SYS(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &e));
    SYS(close(inner));
    inner = SYS(epoll_create1(0));
    SYS(epoll_ctl(inner, EPOLL_CTL_ADD, mine, &e));
    send_all(far, "x", 1);
    IS(epoll_wait(inner, &e, 1, 10000), 1);
    IS(epoll_wait(outer, &e, 1, 30), 0);
    IS(ready(outer, POLLIN, 0), 0);
    e.events = EPOLLIN;
    SYS(epoll_ctl(outer, EPOLL_CTL_ADD, inner, &e));
    IS(epoll_wait(outer, &e, 1, 10000), 1);
    SYS(close(inner));
    IS(epoll_wait(outer, &e, 1, 30), 0);
    SYS(close(outer));
  }
}

static void nested(void) {
  EACH_PAIR(mine, far) {
    int inner = epoll_with(mine, EPOLLIN);
    int outer = epoll_with(inner, EPOLLIN);
    IS(says(outer, inner, 20), 0);
    send_all(far, "x", 1);
    IS(says(outer, inner, 10000), EPOLLIN);
    IS(says(inner, mine, 0), EPOLLIN);
    OK(ready(inner, POLLIN, 0) == POLLIN); /* an epoll can be polled, too */
    char c;
    receive_all(mine, &c, 1);
    IS(says(outer, inner, 20), 0);
    close(inner), close(outer);
  }
}

static void peer_half_close(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN | EPOLLRDHUP);
    SYS(shutdown(far, SHUT_WR));
    uint32_t events = says(ep, mine, 10000);
    IS(events, EPOLLIN | EPOLLRDHUP);
    SYS(shutdown(mine, SHUT_WR));
    IS(ready(mine, 0, 10000), POLLHUP); /* both halves are closed: told unasked */
    OK(says(ep, mine, 0) & EPOLLHUP);
    close(ep);
  }
}

static void hangup_is_told_unasked(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, 0);
    IS(says(ep, mine, 20), 0);
    far_reset(far);
    far = -1;
    uint32_t events = says(ep, mine, 10000);
    OK((events & (EPOLLERR | EPOLLHUP)) == (EPOLLERR | EPOLLHUP));
    close(ep);
  }
}

static void control_errors(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    struct epoll_event e = {.events = EPOLLIN};
    FAILS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e), EEXIST);
    SYS(epoll_ctl(ep, EPOLL_CTL_DEL, mine, 0));
    FAILS(epoll_ctl(ep, EPOLL_CTL_DEL, mine, 0), ENOENT);
    FAILS(epoll_ctl(ep, EPOLL_CTL_MOD, mine, &e), ENOENT);
    FAILS(epoll_ctl(ep, EPOLL_CTL_ADD, 999, &e), EBADF);
    FAILS(epoll_ctl(mine, EPOLL_CTL_ADD, far, &e), EINVAL);
    FAILS(epoll_ctl(ep, EPOLL_CTL_ADD, ep, &e), EINVAL);
    volatile int none = 0;
    FAILS(epoll_wait(ep, &e, none, 0), EINVAL);
    close(ep);
  }
}

static void removed_is_silent(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    send_all(far, "x", 1);
    IS(says(ep, mine, 10000), EPOLLIN);
    SYS(epoll_ctl(ep, EPOLL_CTL_DEL, mine, 0));
    IS(says(ep, mine, 50), 0);
    close(ep);
  }
}

static void closed_leaves_by_itself(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    send_all(far, "x", 1);
    IS(says(ep, mine, 10000), EPOLLIN);
    SYS(close(mine));
    mine = -1;
    struct epoll_event e;
    IS(epoll_wait(ep, &e, 1, 50), 0);
    close(ep);
  }
}

static void modify(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    IS(says(ep, mine, 20), 0);
    struct epoll_event e = {.events = EPOLLOUT, .data.fd = mine};
    SYS(epoll_ctl(ep, EPOLL_CTL_MOD, mine, &e));
    IS(says(ep, mine, 10000), EPOLLOUT);
    e.events = EPOLLIN | EPOLLOUT;
    SYS(epoll_ctl(ep, EPOLL_CTL_MOD, mine, &e));
    send_all(far, "x", 1);
    OK(ready(mine, POLLIN, 10000));
    IS(says(ep, mine, 10000), EPOLLIN | EPOLLOUT);
    close(ep);
  }
}

static void listener_in_epoll(void) {
  int listener = my_listener(8);
  int ep = epoll_with(listener, EPOLLIN);
  IS(says(ep, listener, 20), 0);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, name_of(listener)));
  IS(says(ep, listener, 10000), EPOLLIN);
  SYS(accept(listener, 0, 0));
  IS(says(ep, listener, 20), 0);
}

static void exclusive(void) {
  int listener = my_listener(8);
  int ep = SYS(epoll_create1(0));
  struct epoll_event e = {.events = EPOLLIN | EPOLLEXCLUSIVE, .data.fd = listener};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e));
  FAILS(epoll_ctl(ep, EPOLL_CTL_MOD, listener, &e), EINVAL);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, name_of(listener)));
  IS(says(ep, listener, 10000), EPOLLIN);
}

static void two_epolls_on_one_socket(void) {
  EACH_PAIR(mine, far) {
    int a = epoll_with(mine, EPOLLIN), b = epoll_with(mine, EPOLLIN | EPOLLET);
    send_all(far, "x", 1);
    IS(says(a, mine, 10000), EPOLLIN);
    IS(says(b, mine, 10000), EPOLLIN);
    IS(says(a, mine, 0), EPOLLIN);
    IS(says(b, mine, 20), 0);
    close(a), close(b);
  }
}

/* One wait for a socket, a pipe, a timer and an event counter. */
static void mixed(int with_poll) {
  EACH_PAIR(mine, far) {
    int p[2], timer = SYS(timerfd_create(CLOCK_MONOTONIC, 0)), event = SYS(eventfd(0, 0));
    SYS(pipe(p));
    int fds[4] = {mine, p[0], timer, event};
    int ep = SYS(epoll_create1(0));
    for (int i = 0; i < 4; i++) {
      struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
      SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e));
    }
    for (int round = 0; round < 4; round++) {
      uint64_t one = 1;
      struct itimerspec soon = {.it_value = {0, 30000000}};
      if (round == 0)
        send_all(far, "x", 1);
      else if (round == 1)
        send_all(p[1], "x", 1);
      else if (round == 2)
        SYS(timerfd_settime(timer, 0, &soon, 0));
      else
        send_all(event, &one, sizeof one);
      int which = -1;
      if (with_poll) {
        struct pollfd all[4];
        for (int i = 0; i < 4; i++)
          all[i] = (struct pollfd){fds[i], POLLIN, 0};
        IS(poll(all, 4, 10000), 1);
        for (int i = 0; i < 4; i++)
          if (all[i].revents)
            which = i;
      } else {
        struct epoll_event e;
        IS(epoll_wait(ep, &e, 1, 10000), 1);
        which = e.data.u32;
      }
      IS(which, round);
      uint64_t buf;
      OK(read(fds[round], &buf, round < 2 ? 1 : 8) > 0);
    }
    struct epoll_event e;
    IS(epoll_wait(ep, &e, 1, 20), 0);
    close(ep), close(timer), close(event), close(p[0]), close(p[1]);
  }
}

static void mixed_epoll(void) { mixed(0); }
static void mixed_poll(void) { mixed(1); }

/* How many of these (-1 for none) have exceptions within 0.2 s. */
static int exceptional(const int *fds, int count) {
  fd_set except;
  struct timeval limit = {0, 200000};
  int top = 0;
  FD_ZERO(&except);
  for (int i = 0; i < count; i++)
    if (fds[i] >= 0) {
      FD_SET(fds[i], &except);
      top = fds[i] >= top ? fds[i] + 1 : top;
    }
  return SYS(select(top, 0, 0, &except, &limit));
}

/* Errors and hang-ups are nothing to who asks for what is urgent alone, of either kind of socket. */
static void select_for_what_is_urgent(void) {
  EACH_PAIR(mine, far) {
    int two[2];
    SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, two));
    SYS(close(two[1]));
    far_reset(far);
    far = dup(mine);
    OK(ready(mine, POLLIN, 10000) & POLLERR);
    OK(ready(two[0], POLLIN, 0) & POLLHUP);
    for (int i = 1; i < 4; i++) {
      const int fds[] = {i & 1 ? mine : -1, i & 2 ? two[0] : -1};
      TAKES(IS(exceptional(fds, 2), 0), 0.2, 1);
    }
    SYS(close(two[0]));
  }
}

static void mixed_select(void) {
  EACH_PAIR(mine, far) {
    int p[2];
    SYS(pipe(p));
    fd_set r, w;
    struct timeval t = {0, 20000};
    FD_ZERO(&r);
    FD_ZERO(&w);
    FD_SET(mine, &r);
    FD_SET(p[0], &r);
    int top = (mine > p[0] ? mine : p[0]) + 1;
    IS(select(top, &r, 0, 0, &t), 0);
    OK(!FD_ISSET(mine, &r) && !FD_ISSET(p[0], &r));
    send_all(far, "x", 1);
    FD_SET(mine, &r);
    FD_SET(p[0], &r);
    FD_SET(mine, &w);
    OK(ready(mine, POLLIN, 10000));
    t = (struct timeval){2, 0};
    IS(select(top, &r, &w, 0, &t), 2); /* counts bits, not descriptors */
    OK(FD_ISSET(mine, &r) && FD_ISSET(mine, &w) && !FD_ISSET(p[0], &r));
    send_all(p[1], "x", 1);
    FD_ZERO(&r);
    FD_SET(mine, &r);
    FD_SET(p[0], &r);
    t = (struct timeval){2, 0};
    IS(select(top, &r, 0, 0, &t), 2);
    close(p[0]), close(p[1]);
  }
}

static void waits_for_what_comes_later(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    for (int way = 0; way < 3; way++) {
      pid_t child = SYS(fork());
      if (!child) {
        sleep_ms(50);
        send_all(far, "x", 1);
        _exit(0);
      }
      if (way == 0) {
        IS(says(ep, mine, 5000), EPOLLIN);
      } else if (way == 1) {
        IS(ready(mine, POLLIN, 5000), POLLIN);
      } else {
        fd_set r;
        FD_ZERO(&r);
        FD_SET(mine, &r);
        IS(select(mine + 1, &r, 0, 0, 0), 1);
      }
      char c;
      receive_all(mine, &c, 1);
      joined(child);
    }
    close(ep);
  }
}

static void timeouts_take_their_time(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    TAKES(IS(says(ep, mine, 100), 0), 0.09, 0.5);
    TAKES(IS(ready(mine, POLLIN, 100), 0), 0.09, 0.5);
    struct timespec t = {0, 100000000};
    struct pollfd p = {mine, POLLIN, 0};
    TAKES(IS(ppoll(&p, 1, &t, 0), 0), 0.09, 0.5);
    close(ep);
  }
}

/* As long as numbers go is no error, and less than nothing is. */
static void timeouts_of_any_length(void) {
  struct timespec ages = {LONG_MAX, 999999999}, bad[] = {{-1, 0}, {0, -1}, {0, 1000000000}};
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    struct pollfd p = {mine, POLLIN, 0};
    struct epoll_event e;
    fd_set r;
    FD_ZERO(&r);
    for (int way = 0; way < 4; way++) {
      pid_t parent = getpid(), child = SYS(fork());
      if (!child) {
        until_it_sleeps(parent);
        send_all(far, "x", 1);
        _exit(0);
      }
      FD_SET(mine, &r);
      if (way == 0)
        IS(ppoll(&p, 1, &ages, 0), 1);
      else if (way == 1)
        IS(select(mine + 1, &r, 0, 0, &(struct timeval){LONG_MAX, 999999}), 1);
      else if (way == 2)
        IS(pselect(mine + 1, &r, 0, 0, &ages, 0), 1);
      else
        IS(epoll_pwait2(ep, &e, 1, &ages, 0), 1);
      char c;
      receive_all(mine, &c, 1);
      joined(child);
    }
    for (int i = 0; i < 3; i++) {
      FD_SET(mine, &r);
      FAILS(ppoll(&p, 1, &bad[i], 0), EINVAL);
      FAILS(pselect(mine + 1, &r, 0, 0, &bad[i], 0), EINVAL);
      FAILS(epoll_pwait2(ep, &e, 1, &bad[i], 0), EINVAL);
    }
    FAILS(select(mine + 1, &r, 0, 0, &(struct timeval){-1, 0}), EINVAL);
    FAILS(select(mine + 1, &r, 0, 0, &(struct timeval){0, -1}), EINVAL);
    /* Microseconds may be more than a second's. */
    send_all(far, "x", 1);
    FD_SET(mine, &r);
    IS(select(mine + 1, &r, 0, 0, &(struct timeval){0, 30000000}), 1);
    close(ep);
  }
}

static void *wait_in_thread(void *ep) {
  struct epoll_event e;
  return (void *)(intptr_t)epoll_wait(*(int *)ep, &e, 1, 5000);
}

static void added_while_another_thread_waits(void) {
  EACH_PAIR(mine, far) {
    int ep = SYS(epoll_create1(0));
    pthread_t thread;
    OK(pthread_create(&thread, 0, wait_in_thread, &ep) == 0);
    sleep_ms(50);
    struct epoll_event e = {.events = EPOLLIN};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    sleep_ms(20);
    send_all(far, "x", 1);
    void *n;
    OK(pthread_join(thread, &n) == 0);
    IS((intptr_t)n, 1);
    close(ep);
  }
}

/* A thread waits; then `prepare` makes something happen that nobody waits for, and
 * `mine` is added: the thread is told at once of what is there. */
static void told_of_what_is_there(int ep, int mine, int far, uint32_t events,
                                  void (*prepare)(int, int)) {
  pthread_t thread;
  OK(pthread_create(&thread, 0, wait_in_thread, &ep) == 0);
  sleep_ms(50);
  prepare(mine, far);
  sleep_ms(50);
  double began = now();
  struct epoll_event e = {.events = events};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
  void *n;
  OK(pthread_join(thread, &n) == 0);
  IS((intptr_t)n, 1);
  OK(now() - began < 2.5);
  SYS(epoll_ctl(ep, EPOLL_CTL_DEL, mine, 0));
}

static void bytes_come(int mine, int far) {
  (void)mine;
  send_all(far, "x", 1);
}

/* All room is taken, and then there is some again. */
static void room_comes(int mine, int far) {
  static char big[1 << 16];
  size_t written = fill(mine, sizeof big);
  FAILS(write(mine, big, 1), EAGAIN);
  while (written != 0)
    written -= SYS(read(far, big, sizeof big));
}

static void added_with_what_is_there_while_another_thread_waits(void) {
  EACH_PAIR(mine, far) {
    /* Another socket in it, so that the thread waits for both kinds. */
    int listener = my_listener(1);
    int ep = epoll_with(listener, EPOLLIN);
    told_of_what_is_there(ep, mine, far, EPOLLIN, bytes_come);
    told_of_what_is_there(ep, mine, far, EPOLLOUT | EPOLLONESHOT, room_comes);
    close(ep);
    close(listener);
  }
}

static void *hear_in_thread(void *ep) {
  struct epoll_event e = {0};
  int n = epoll_wait(*(int *)ep, &e, 1, 5000);
  return (void *)(intptr_t)(n == 1 ? e.data.fd : -n);
}

/* A thread waits for a socket of which it is not known yet whose it will be; it hears
 * of that socket, and of nothing else meanwhile. `late` is for one that is the first
 * of its process, and added when the thread already waits. */
static void told_once_it_is_bound(int late) {
  int ep = SYS(epoll_create1(0)), mine = -1;
  pthread_t thread;
  if (late) {
    OK(pthread_create(&thread, 0, hear_in_thread, &ep) == 0);
    sleep_ms(50);
  }
  mine = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct epoll_event e = {.events = EPOLLIN, .data.fd = mine};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
  if (!late) {
    OK(pthread_create(&thread, 0, hear_in_thread, &ep) == 0);
    sleep_ms(50);
  }
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(mine, A(a)));
  a = name_of(mine);
  sleep_ms(50);
  int far = far_socket(SOCK_DGRAM);
  SYS(far_connect(far, a));
  double began = now();
  IS(far_in_kernel() ? syscall(SYS_write, far, "x", 1) : write(far, "x", 1), 1);
  void *told;
  OK(pthread_join(thread, &told) == 0);
  IS((intptr_t)told, mine);
  OK(now() - began < 2.5);
}

static void bound_while_another_thread_waits(void) { told_once_it_is_bound(0); }
static void made_while_another_thread_waits(void) { told_once_it_is_bound(1); }

static void disconnected_while_another_thread_waits(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    pthread_t thread;
    OK(pthread_create(&thread, 0, wait_in_thread, &ep) == 0);
    sleep_ms(50);
    double began = now();
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    SYS(connect(mine, &nobody, sizeof nobody));
    void *n;
    OK(pthread_join(thread, &n) == 0);
    IS((intptr_t)n, 1);
    OK(now() - began < 2.5);
    close(ep);
  }
}

static volatile sig_atomic_t alarms;
static void on_signal(int signal) {
  (void)signal;
  alarms++;
}

static void interrupted(void) {
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  SYS(sigaction(SIGUSR1, &a, 0));
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    for (int way = 0; way < 3; way++) {
      pid_t parent = getpid(), child = SYS(fork());
      if (!child) {
        until_it_sleeps(parent);
        kill(parent, SIGUSR1);
        _exit(0);
      }
      struct epoll_event e;
      struct pollfd p = {mine, POLLIN, 0};
      fd_set r;
      FD_ZERO(&r);
      FD_SET(mine, &r);
      struct timeval t = {5, 0};
      if (way == 0)
        FAILS(epoll_wait(ep, &e, 1, 5000), EINTR);
      else if (way == 1)
        FAILS(poll(&p, 1, 5000), EINTR);
      else
        FAILS(select(mine + 1, &r, 0, 0, &t), EINTR);
      joined(child);
    }
    close(ep);
  }
}

static void signal_mask_while_waiting(void) {
  struct sigaction a = {.sa_handler = on_signal};
  SYS(sigaction(SIGUSR1, &a, 0));
  sigset_t block, open;
  sigemptyset(&block);
  sigaddset(&block, SIGUSR1);
  SYS(sigprocmask(SIG_BLOCK, &block, &open));
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    alarms = 0;
    kill(getpid(), SIGUSR1);
    struct epoll_event e;
    IS(alarms, 0);
    FAILS(epoll_pwait(ep, &e, 1, 5000, &open), EINTR);
    IS(alarms, 1);
    kill(getpid(), SIGUSR1);
    struct pollfd p = {mine, POLLIN, 0};
    struct timespec t = {5, 0};
    FAILS(ppoll(&p, 1, &t, &open), EINTR);
    IS(alarms, 2);
    close(ep);
  }
}

static void poll_odds_and_ends(void) {
  EACH_PAIR(mine, far) {
    struct pollfd p[3] = {{-1, POLLIN, 7}, {mine, POLLIN | POLLOUT, 0}, {999, POLLIN, 0}};
    IS(poll(p, 3, 1000), 2);
    IS(p[0].revents, 0);
    IS(p[1].revents, POLLOUT);
    IS(p[2].revents, POLLNVAL);
    /* The same descriptor twice. */
    struct pollfd q[2] = {{mine, POLLIN, 0}, {mine, POLLOUT, 0}};
    IS(poll(q, 2, 1000), 1);
    IS(q[0].revents, 0);
    IS(q[1].revents, POLLOUT);
    SYS(shutdown(far, SHUT_WR));
    struct pollfd r = {mine, POLLIN | POLLRDHUP, 0};
    IS(poll(&r, 1, 10000), 1);
    IS(r.revents, POLLIN | POLLRDHUP);
  }
}

static void many_in_one_epoll(void) {
  enum { N = 100 };
  int ep = SYS(epoll_create1(0)), listener = my_listener(N), far[N], mine[N];
  for (int i = 0; i < N; i++) {
    far[i] = far_socket(SOCK_STREAM);
    SYS(far_connect(far[i], name_of(listener)));
    mine[i] = SYS(accept(listener, 0, 0));
    struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.u32 = i};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine[i], &e));
  }
  for (int round = 0; round < 3; round++) {
    char seen[N] = {0};
    int left = N;
    for (int i = 0; i < N; i++)
      send_all(far[i], "x", 1);
    while (left) {
      struct epoll_event e[16];
      int n = SYS(epoll_wait(ep, e, 16, 5000));
      OK(n > 0);
      for (int k = 0; k < n; k++) {
        char c;
        IS(e[k].events, EPOLLIN);
        OK(!seen[e[k].data.u32]);
        seen[e[k].data.u32] = 1;
        IS(read(mine[e[k].data.u32], &c, 1), 1);
        left--;
      }
    }
  }
}

static void duplicate_keeps_the_interest(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine, EPOLLIN);
    int twin = SYS(dup(mine));
    SYS(close(mine));
    send_all(far, "x", 1);
    /* The description lives on in its twin, so epoll still watches it. */
    IS(says(ep, mine, 10000), EPOLLIN);
    SYS(close(twin));
    mine = -1;
    struct epoll_event e;
    IS(epoll_wait(ep, &e, 1, 20), 0);
    close(ep);
  }
}

static void before_it_connects(void) {
  int ep = SYS(epoll_create1(0));
  int fd = SYS(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
  IS(says(ep, fd, 0), EPOLLOUT | EPOLLHUP);
  int listener = far_listener(4);
  struct sockaddr_in a = far_name(listener);
  FAILS(connect(fd, A(a)), EINPROGRESS);
  uint32_t events = says(ep, fd, 5000);
  IS(events, EPOLLOUT);
  int far = far_accept(listener);
  send_all(far, "x", 1);
  OK(says(ep, fd, 5000) & EPOLLIN);
}

/* Only what is returned is written. */
/* Who takes one event at a time sees first what came first by another way: a message that says
 * that the connection is another's now. */
static void one_event_at_a_time(void) {
  EACH_PAIR(mine, far) {
    int way[2], ep = SYS(epoll_create1(0));
    char byte;
    struct epoll_event e = {.events = EPOLLIN, .data.fd = mine}, got;
    SYS(pipe(way));
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    e.data.fd = way[0];
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, way[0], &e));
    for (int round = 0; round < 20; round++) {
      IS(epoll_wait(ep, &got, 1, 0), 0);
      send_all(way[1], "m", 1);
      send_all(far, "x", 1);
      OK(ready(mine, POLLIN, 10000) & POLLIN);
      IS(epoll_wait(ep, &got, 1, round % 2 ? -1 : 0), 1);
      IS(got.data.fd, way[0]);
      IS(read(way[0], &byte, 1), 1);
      IS(epoll_wait(ep, &got, 1, round % 2 ? -1 : 0), 1);
      IS(got.data.fd, mine);
      IS(read(mine, &byte, 1), 1);
    }
    /* And nobody is passed over for ever. */
    send_all(way[1], "m", 1);
    send_all(far, "x", 1);
    OK(ready(mine, POLLIN, 10000) & POLLIN);
    for (int round = 0, seen = 0; seen != 3; round++) {
      OK(round < 100);
      IS(epoll_wait(ep, &got, 1, -1), 1);
      seen |= got.data.fd == mine ? 1 : 2;
    }
    SYS(close(ep));
    close(way[0]), close(way[1]);
  }
}

static void epoll_leaves_the_rest_alone(void) {
  EACH_PAIR(mine, far) {
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = mine};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    struct epoll_event got[2] = {{0}, {0}};
    IS(epoll_wait(ep, got, 1, 1000), 1);
    memset(got, 0, sizeof got);
    IS(epoll_wait(ep, got, 2, 0), 0);
    OK(got[0].events == 0 && got[0].data.u64 == 0);
    OK(got[1].events == 0 && got[1].data.u64 == 0);
    SYS(close(ep));
    (void)far;
  }
}

/* Made by its number, a call finds what the kernel finds, also where there is nothing. */
static void bad_pointers_by_number(void) {
  char *bad = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  OK(bad != MAP_FAILED);
  EACH_PAIR(mine, far) {
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN, .data.fd = mine};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    struct pollfd p = {.fd = mine, .events = POLLIN};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(mine, &set);
    struct timespec none = {0, 0};
#ifdef SYS_select
    FAILS((syscall)(SYS_select, mine + 1, &set, NULL, NULL, bad), EFAULT);
    FAILS((syscall)(SYS_select, mine + 1, bad, NULL, NULL, NULL), EFAULT);
    FAILS((syscall)(SYS_select, mine + 1, NULL, bad, NULL, NULL), EFAULT);
#endif
    FAILS((syscall)(SYS_pselect6, mine + 1, &set, NULL, NULL, bad, NULL), EFAULT);
    FAILS((syscall)(SYS_pselect6, mine + 1, &set, NULL, NULL, &none, bad), EFAULT);
    FAILS((syscall)(SYS_ppoll, &p, 1, bad, NULL, 8), EFAULT);
    FAILS((syscall)(SYS_epoll_pwait2, ep, &e, 1, bad, NULL, 8), EFAULT);
    IS((syscall)(SYS_pselect6, mine + 1, &set, NULL, NULL, &none, NULL), 0);
    SYS(close(ep));
    (void)far;
  }
  SYS(munmap(bad, 4096));
}

static double seconds(struct timespec t) { return t.tv_sec + t.tv_nsec / 1e9; }

/* Made by its number, a call tells how much of its time was left, and libc's function of that
 * name does not. Where this cannot be written, it is not. */
static void time_left_by_number(void) {
  struct timespec *fixed = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  OK(fixed != MAP_FAILED);
  *fixed = (struct timespec){0, 20000000};
  SYS(mprotect(fixed, 4096, PROT_READ));
  EACH_PAIR(mine, far) {
    struct pollfd p = {.fd = mine, .events = POLLIN};
    fd_set set;
    struct timespec t = {0, 20000000};
    IS((syscall)(SYS_ppoll, &p, 1, &t, NULL, 0), 0);
    OK(seconds(t) == 0);
    t = (struct timespec){0, 20000000};
    FD_ZERO(&set);
    FD_SET(mine, &set);
    IS((syscall)(SYS_pselect6, mine + 1, &set, NULL, NULL, &t, NULL), 0);
    OK(seconds(t) == 0);
    IS((syscall)(SYS_ppoll, &p, 1, fixed, NULL, 0), 0);
    FD_ZERO(&set);
    FD_SET(mine, &set);
    IS((syscall)(SYS_pselect6, mine + 1, &set, NULL, NULL, fixed, NULL), 0);
    send_all(far, "x", 1);
    IS(poll(&p, 1, 10000), 1);
    t = (struct timespec){10, 0};
    IS((syscall)(SYS_ppoll, &p, 1, &t, NULL, 0), 1);
    OK(seconds(t) > 0 && seconds(t) < 10);
    t = (struct timespec){10, 0};
    FD_ZERO(&set);
    FD_SET(mine, &set);
    IS((syscall)(SYS_pselect6, mine + 1, &set, NULL, NULL, &t, NULL), 1);
    OK(seconds(t) > 0 && seconds(t) < 10);
    t = (struct timespec){10, 0};
    IS(ppoll(&p, 1, &t, NULL), 1);
    OK(seconds(t) == 10);
  }
  SYS(munmap(fixed, 4096));
}

/* A mask of signals has the kernel's size, if there is one. */
static void masks_by_number(void) {
  struct {
    void *mask;
    size_t size;
  } sized = {NULL, 128};
  sigset_t mask;
  sigemptyset(&mask);
  EACH_PAIR(mine, far) {
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN, .data.fd = mine};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    struct pollfd p = {.fd = mine, .events = POLLIN};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(mine, &set);
    struct timespec none = {0, 0};
    for (size_t size = 0; size < 200; size = size * 2 + 4) {
      FAILS((syscall)(SYS_ppoll, &p, 1, &none, &mask, size), EINVAL);
      FAILS((syscall)(SYS_epoll_pwait, ep, &e, 1, 0, &mask, size), EINVAL);
      FAILS((syscall)(SYS_epoll_pwait2, ep, &e, 1, &none, &mask, size), EINVAL);
      sized.mask = &mask;
      sized.size = size;
      FAILS((syscall)(SYS_pselect6, mine + 1, &set, NULL, NULL, &none, &sized), EINVAL);
      IS((syscall)(SYS_ppoll, &p, 1, &none, NULL, size), 0);
      IS((syscall)(SYS_epoll_pwait, ep, &e, 1, 0, NULL, size), 0);
    }
    IS((syscall)(SYS_ppoll, &p, 1, &none, &mask, 8), 0);
    IS((syscall)(SYS_epoll_pwait, ep, &e, 1, 0, &mask, 8), 0);
    sized.size = 8;
    IS((syscall)(SYS_pselect6, mine + 1, &set, NULL, NULL, &none, &sized), 0);
    SYS(close(ep));
    (void)far;
  }
}

/* What one end has sent, or that it is closed, the other sees with its next call, without
 * waiting. With far ends in the kernel there is a wire between. A machine with much more to do
 * than this may hold an engine up for longer than it is waited for (200 ms), though not in each
 * round; a call that found nothing sooner was told too early that there is nothing. */
enum { TRIES = 200, ROUNDS = 3 };
#define WAITED 0.15

static int sees_by_recv(int fd) {
  char c;
  return recv(fd, &c, 1, MSG_DONTWAIT) >= 0;
}

static int sees_by_peek(int fd) {
  char c[8];
  return recv(fd, c, sizeof c, MSG_PEEK | MSG_DONTWAIT) >= 0;
}

static int sees_by_poll(int fd) { return ready(fd, POLLIN, 0) != 0; }

static int sees_by_select(int fd) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fd, &set);
  struct timeval none = {0, 0};
  return SYS(select(fd + 1, &set, 0, 0, &none)) == 1;
}

static int sees_by_epoll(int fd) {
  struct epoll_event e = {.events = EPOLLIN};
  int ep = SYS(epoll_create1(0));
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
  int sees = SYS(epoll_wait(ep, &e, 1, 0));
  SYS(close(ep));
  return sees;
}

static int (*const LOOKS[])(int) = {sees_by_recv, sees_by_peek, sees_by_poll, sees_by_select,
                                    sees_by_epoll};
enum { WAYS = sizeof LOOKS / sizeof *LOOKS };

/* Whether the look finds anything. */
static int sees(int way, int fd, const char *what) {
  double began = now();
  int found = LOOKS[way](fd);
  if (!found && now() - began < WAITED)
    FAIL("%s were late, which nobody had waited for (look %d)", what, way);
  return found;
}

/* How many of TRIES were late, bytes and datagrams. */
static void send_and_look(int *bytes, int *datagrams) {
  int a, b, udp = SYS(socket(AF_INET, SOCK_DGRAM, 0)), from = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  pair(0, &a, &b);
  struct sockaddr_in any = address(my_ip(), 0);
  SYS(bind(udp, A(any)));
  struct sockaddr_in to = name_of(udp);
  *bytes = *datagrams = 0;
  char c;
  for (int i = 0; i < TRIES; i++) {
    int way = i % WAYS;
    send_all(b, "x", 1);
    int found = sees(way, a, "bytes");
    *bytes += !found;
    if (way || !found)
      receive_all(a, &c, 1);
    IS(sendto(from, "x", 1, 0, A(to)), 1);
    found = sees(way, udp, "datagrams");
    *datagrams += !found;
    if (way || !found)
      IS(recv(udp, &c, 1, 0), 1);
  }
  SYS(close(a)), SYS(close(b)), SYS(close(udp)), SYS(close(from));
}

static void what_was_sent_is_seen_at_once(void) {
  if (far_in_kernel())
    return;
  int bytes, datagrams, rounds = 0;
  do
    send_and_look(&bytes, &datagrams);
  while ((bytes || datagrams) && ++rounds < ROUNDS);
  if (rounds == ROUNDS)
    FAIL("of %d, %d were late, and %d datagrams", TRIES, bytes, datagrams);
}

/* More datagrams than an engine passes on in one turn. */
static void all_datagrams_are_seen_at_once(void) {
  if (far_in_kernel())
    return;
  enum { MANY = 150 };
  int udp = SYS(socket(AF_INET, SOCK_DGRAM, 0)), from = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in any = address(my_ip(), 0);
  SYS(bind(udp, A(any)));
  struct sockaddr_in to = name_of(udp);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < MANY; i++)
      IS(sendto(from, "x", 1, 0, A(to)), 1);
    for (int i = 0; i < MANY; i++)
      if (!sees(0, udp, "datagrams"))
        IS(recv(udp, &(char){0}, 1, 0), 1);
    FAILS(recv(udp, &(char){0}, 1, MSG_DONTWAIT), EAGAIN);
  }
  SYS(close(udp)), SYS(close(from));
}

/* How many ends of TRIES were seen late. */
static int end_and_look(void) {
  int late = 0;
  for (int i = 0; i < TRIES; i++) {
    int a, b;
    pair(i % 2, &a, &b);
    if (i % 4 < 2)
      SYS(shutdown(b, SHUT_WR));
    else
      SYS(close(b));
    late += !LOOKS[i / 4 % WAYS](a);
    if (i % 4 < 2)
      SYS(close(b));
    SYS(close(a));
  }
  return late;
}

static void an_end_is_seen_at_once(void) {
  if (far_in_kernel())
    return;
  int late, rounds = 0;
  do
    late = end_and_look();
  while (late && ++rounds < ROUNDS);
  if (rounds == ROUNDS)
    FAIL("of %d, %d were late", TRIES, late);
}

static void allow_descriptors(rlim_t n) {
  struct rlimit limit;
  SYS(getrlimit(RLIMIT_NOFILE, &limit));
  limit.rlim_cur = n;
  SYS(setrlimit(RLIMIT_NOFILE, &limit));
}

/* No descriptor is left, and a socket is added and waited for all the same. */
static void epoll_without_descriptors_left(void) {
  EACH_PAIR(mine, far) {
    int ep = SYS(epoll_create1(0));
    int next = SYS(dup(0));
    SYS(close(next));
    allow_descriptors(next);
    FAILS(dup(0), EMFILE);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = mine};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    IS(epoll_wait(ep, &e, 1, 20), 0);
    pid_t child = SYS(fork());
    if (!child) {
      allow_descriptors(1024);
      until_it_sleeps(getppid());
      send_all(far, "x", 1);
      _exit(0);
    }
    IS(epoll_wait(ep, &e, 1, 15000), 1);
    IS(e.events, EPOLLIN);
    IS(ready(mine, POLLIN, 15000), POLLIN);
    joined(child);
    allow_descriptors(1024);
    SYS(close(ep));
  }
}

static void a_list_longer_than_the_limit(void) {
  EACH_PAIR(mine, far) {
    struct pollfd list[100];
    struct timespec none = {0, 0};
    for (int i = 0; i < 100; i++)
      list[i] = (struct pollfd){.fd = i ? -1 : mine, .events = POLLOUT};
    allow_descriptors(64);
    FAILS(poll(list, 100, 0), EINVAL);
    FAILS(ppoll(list, 65, &none, 0), EINVAL);
    IS(poll(list, 64, 0), 1);
    allow_descriptors(1024);
    IS(poll(list, 100, 0), 1);
  }
}

static void exclusive_is_for_adding_alone(void) {
  EACH_PAIR(mine, far) {
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN | EPOLLEXCLUSIVE};
    FAILS(epoll_ctl(ep, EPOLL_CTL_MOD, mine, &e), EINVAL);
    e.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLONESHOT;
    FAILS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e), EINVAL);
    e.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLRDHUP;
    FAILS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e), EINVAL);
    e.events = EPOLLIN | EPOLLEXCLUSIVE | EPOLLET;
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    e.events = EPOLLIN;
    FAILS(epoll_ctl(ep, EPOLL_CTL_MOD, mine, &e), EINVAL);
    e.events = EPOLLIN | EPOLLEXCLUSIVE;
    FAILS(epoll_ctl(ep, EPOLL_CTL_MOD, mine, &e), EINVAL);
    SYS(epoll_ctl(ep, EPOLL_CTL_DEL, mine, &e));
    e.events = EPOLLIN;
    FAILS(epoll_ctl(ep, EPOLL_CTL_MOD, mine, &e), ENOENT);
    SYS(close(ep));
  }
}

/* The other names of what can be read and written, by kinds of socket. */
static void events_by_other_names(void) {
  enum { NORMAL = POLLIN | POLLOUT, OTHER = POLLRDNORM | POLLRDBAND | POLLWRNORM | POLLWRBAND | POLLMSG };
  struct sockaddr_in a = address(my_ip(), 0);
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  IS(ready(fd, NORMAL | OTHER, 0), POLLOUT | POLLWRNORM | POLLWRBAND);
  SYS(bind(fd, A(a)));
  a = name_of(fd);
  IS(ready(fd, NORMAL | OTHER, 0), POLLOUT | POLLWRNORM | POLLWRBAND);
  IS(says(epoll_with(fd, EPOLLWRBAND), fd, 0), EPOLLWRBAND);
  IS(sendto(fd, "x", 1, 0, A(a)), 1);
  IS(ready(fd, POLLIN, 10000), POLLIN);
  IS(ready(fd, NORMAL | OTHER, 0), NORMAL | POLLRDNORM | POLLWRNORM | POLLWRBAND);
  EACH_PAIR(mine, far) {
    IS(ready(mine, NORMAL | OTHER, 0), POLLOUT | POLLWRNORM);
    send_all(far, "x", 1);
    IS(ready(mine, POLLIN, 10000), POLLIN);
    IS(ready(mine, NORMAL | OTHER, 0), NORMAL | POLLRDNORM | POLLWRNORM);
  }
}

const struct check CHECKS[] = {
    {"level", level},
    {"level_out", level_out},
    {"edge", edge},
    {"edge_out", edge_out},
    {"edge_out_after_a_part", edge_out_after_a_part},
    {"edge_tells_what_was_there_before", edge_tells_what_was_there_before},
    {"edge_again_after_modify", edge_again_after_modify},
    {"oneshot", oneshot},
    {"nested", nested},
    {"events_by_other_names", events_by_other_names},
    {"closed_within_another", closed_within_another},
    {"peer_half_close", peer_half_close},
    {"hangup_is_told_unasked", hangup_is_told_unasked},
    {"control_errors", control_errors},
    {"removed_is_silent", removed_is_silent},
    {"closed_leaves_by_itself", closed_leaves_by_itself},
    {"modify", modify},
    {"listener_in_epoll", listener_in_epoll},
    {"exclusive", exclusive},
    {"two_epolls_on_one_socket", two_epolls_on_one_socket},
    {"mixed_epoll", mixed_epoll},
    {"mixed_poll", mixed_poll},
    {"mixed_select", mixed_select},
    {"select_for_what_is_urgent", select_for_what_is_urgent},
    {"waits_for_what_comes_later", waits_for_what_comes_later},
    {"timeouts_take_their_time", timeouts_take_their_time},
    {"timeouts_of_any_length", timeouts_of_any_length},
    {"added_while_another_thread_waits", added_while_another_thread_waits},
    {"added_with_what_is_there_while_another_thread_waits",
     added_with_what_is_there_while_another_thread_waits},
    {"bound_while_another_thread_waits", bound_while_another_thread_waits},
    {"made_while_another_thread_waits", made_while_another_thread_waits},
    {"disconnected_while_another_thread_waits",
     disconnected_while_another_thread_waits},
    {"interrupted", interrupted},
    {"signal_mask_while_waiting", signal_mask_while_waiting},
    {"poll_odds_and_ends", poll_odds_and_ends},
    {"many_in_one_epoll", many_in_one_epoll},
    {"duplicate_keeps_the_interest", duplicate_keeps_the_interest},
    {"before_it_connects", before_it_connects},
    {"one_event_at_a_time", one_event_at_a_time},
    {"epoll_leaves_the_rest_alone", epoll_leaves_the_rest_alone},
    {"bad_pointers_by_number", bad_pointers_by_number},
    {"time_left_by_number", time_left_by_number},
    {"masks_by_number", masks_by_number},
    {"what_was_sent_is_seen_at_once", what_was_sent_is_seen_at_once},
    {"all_datagrams_are_seen_at_once", all_datagrams_are_seen_at_once},
    {"an_end_is_seen_at_once", an_end_is_seen_at_once},
    {"epoll_without_descriptors_left", epoll_without_descriptors_left},
    {"a_list_longer_than_the_limit", a_list_longer_than_the_limit},
    {"exclusive_is_for_adding_alone", exclusive_is_for_adding_alone},
    {0, 0},
};
