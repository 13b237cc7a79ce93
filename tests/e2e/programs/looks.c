/* Epoll instances at which one thread looks, without waiting, while another sleeps for them:
 * one of the two has each thing that comes. */
#include "check.h"

enum { ROUNDS = 1500, MOST_LOOKS = 24 };

/* How a thread looks at `mine`, which is in an instance that is in another. */
struct place {
  int inner, outer, mine;
  volatile int over;
};

static struct place place;
static volatile int received;

static void *send_when_told(void *arg) {
  int *ends = arg;
  char c;
  while (read(ends[0], &c, 1) == 1)
    send_all(ends[1], &c, 1);
  return 0;
}

static void read_all_of_it(void) {
  char buf[64];
  ssize_t n;
  while ((n = recv(place.mine, buf, sizeof buf, MSG_DONTWAIT)) > 0)
    __atomic_add_fetch(&received, (int)n, __ATOMIC_SEQ_CST);
  OK(n == -1 && errno == EAGAIN);
}

/* As often as there is one, takes `most` events at a time. */
static int wait_at(int ep, int most, int ms) {
  struct epoll_event e[4];
  int n = SYS(epoll_wait(ep, e, most, ms));
  if (n > 0)
    read_all_of_it();
  return n;
}

static int look_at_inner(void) { return wait_at(place.inner, 4, 0); }
static int look_for_one(void) { return wait_at(place.inner, 1, 0); }
static int look_at_outer(void) { return wait_at(place.outer, 4, 0); }
static int poll_at(int ep) {
  int n = ready(ep, POLLIN, 0);
  if (n)
    read_all_of_it();
  return n;
}
static int poll_inner(void) { return poll_at(place.inner); }
static int poll_outer(void) { return poll_at(place.outer); }
/* Waits for a moment now and then, as the kernel takes a millisecond. */
static int wait_briefly(void) {
  static unsigned looks;
  return wait_at(place.inner, 4, ++looks % 32 == 0);
}

static void *sleep_in_inner(void *arg) {
  (void)arg;
  while (!place.over)
    wait_at(place.inner, 4, -1);
  return 0;
}

static void *sleep_in_outer(void *arg) {
  (void)arg;
  while (!place.over)
    wait_at(place.outer, 4, -1);
  return 0;
}

static void *sleep_in_poll(void *arg) {
  (void)arg;
  while (!place.over) {
    OK(ready(place.inner, POLLIN, -1) == POLLIN);
    read_all_of_it();
  }
  return 0;
}

static void until_received(int count) {
  for (int i = 0; received < count; i++) {
    if (i == 5000)
      FAIL("%d of %d bytes: the thread that sleeps was not woken", received, count);
    usleep(i < 100 ? 20 : 1000);
  }
}

static void have_each(struct place at, int far, void *(*sleeps)(void *), int (*look)(void)) {
  int told[2];
  SYS(pipe(told));
  place = at;
  received = 0;
  /* Each byte goes at once. */
  SYS(setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)));
  int sender[] = {told[0], far};
  pthread_t threads[2];
  OK(pthread_create(&threads[0], 0, sleeps, 0) == 0);
  OK(pthread_create(&threads[1], 0, send_when_told, sender) == 0);
  for (int round = 1; round <= ROUNDS; round++) {
    IS(write(told[1], "x", 1), 1);
    for (int i = 0; i < round % MOST_LOOKS; i++)
      look();
    until_received(round);
  }
  place.over = 1;
  IS(write(told[1], "x", 1), 1);
  OK(pthread_join(threads[0], 0) == 0);
  SYS(close(told[1]));
  OK(pthread_join(threads[1], 0) == 0);
  SYS(close(told[0]));
}

/* `with` has a pipe in the instance, too. */
static void each_is_had(void *(*sleeps)(void *), int (*look)(void), uint32_t events, int with) {
  EACH_PAIR(mine, far) {
    int quiet[2];
    SYS(pipe(quiet));
    struct place at = {
        .mine = mine, .inner = SYS(epoll_create1(0)), .outer = SYS(epoll_create1(0))};
    struct epoll_event e = {.events = events};
    SYS(epoll_ctl(at.inner, EPOLL_CTL_ADD, mine, &e));
    e.events = EPOLLIN;
    if (with)
      SYS(epoll_ctl(at.inner, EPOLL_CTL_ADD, quiet[0], &e));
    SYS(epoll_ctl(at.outer, EPOLL_CTL_ADD, at.inner, &e));
    have_each(at, far, sleeps, look);
    SYS(close(quiet[0])), SYS(close(quiet[1]));
    SYS(close(at.inner)), SYS(close(at.outer));
  }
}

static void at_the_same(void) { each_is_had(sleep_in_inner, look_at_inner, EPOLLIN, 0); }
static void at_the_same_by_edge(void) {
  each_is_had(sleep_in_inner, look_at_inner, EPOLLIN | EPOLLET, 0);
}
static void beside_a_pipe(void) { each_is_had(sleep_in_inner, look_at_inner, EPOLLIN, 1); }
static void beside_a_pipe_by_edge(void) {
  each_is_had(sleep_in_inner, look_at_inner, EPOLLIN | EPOLLET, 1);
}
static void for_one_event(void) { each_is_had(sleep_in_inner, look_for_one, EPOLLIN, 1); }
static void for_a_moment(void) { each_is_had(sleep_in_inner, wait_briefly, EPOLLIN, 1); }
static void from_another_instance(void) {
  each_is_had(sleep_in_inner, look_at_outer, EPOLLIN, 0);
}
static void at_what_is_in_another(void) {
  each_is_had(sleep_in_outer, look_at_inner, EPOLLIN, 0);
}
static void at_the_other(void) { each_is_had(sleep_in_outer, look_at_outer, EPOLLIN, 0); }
static void by_poll(void) { each_is_had(sleep_in_inner, poll_inner, EPOLLIN, 0); }
static void by_poll_at_the_other(void) { each_is_had(sleep_in_outer, poll_outer, EPOLLIN, 0); }
static void by_poll_at_what_is_in_another(void) {
  each_is_had(sleep_in_outer, poll_inner, EPOLLIN, 0);
}
static void beside_poll(void) { each_is_had(sleep_in_poll, look_at_inner, EPOLLIN, 0); }
static void by_poll_beside_poll(void) { each_is_had(sleep_in_poll, poll_inner, EPOLLIN, 0); }

/* The instance is another process's, too, which has inherited it. */
static void after_a_fork(void) {
  EACH_PAIR(mine, far) {
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    pid_t idle = SYS(fork());
    if (!idle) {
      pause();
      _exit(0);
    }
    struct place at = {.mine = mine, .inner = ep};
    have_each(at, far, sleep_in_inner, look_at_inner);
    SYS(kill(idle, SIGKILL));
    SYS(waitpid(idle, 0, 0));
    SYS(close(ep));
  }
}

static void *sleep_once(void *arg) {
  struct epoll_event e;
  (void)arg;
  IS(epoll_wait(place.inner, &e, 1, -1), 1);
  if (e.data.fd == place.mine)
    read_all_of_it();
  return 0;
}

static void *add_it(void *arg) {
  (void)arg;
  struct epoll_event e = {.events = EPOLLIN | EPOLLET, .data.fd = place.mine};
  SYS(epoll_ctl(place.inner, EPOLL_CTL_ADD, place.mine, &e));
  return 0;
}

/* A thread sleeps where there is a pipe alone when a connection is added. */
static void when_the_first_is_added(void) {
  EACH_PAIR(mine, far) {
    for (int round = 1; round <= 300; round++) {
      int quiet[2];
      SYS(pipe(quiet));
      place = (struct place){.mine = mine, .inner = SYS(epoll_create1(0))};
      received = 0;
      struct epoll_event e = {.events = EPOLLIN, .data.fd = quiet[0]};
      SYS(epoll_ctl(place.inner, EPOLL_CTL_ADD, quiet[0], &e));
      pthread_t threads[2];
      OK(pthread_create(&threads[0], 0, sleep_once, 0) == 0);
      usleep(300);
      OK(pthread_create(&threads[1], 0, add_it, 0) == 0);
      for (int i = 0; i < round; i++)
        look_at_inner();
      OK(pthread_join(threads[1], 0) == 0);
      send_all(far, "x", 1);
      until_received(1);
      IS(write(quiet[1], "x", 1), 1);
      OK(pthread_join(threads[0], 0) == 0);
      SYS(close(place.inner)), SYS(close(quiet[0])), SYS(close(quiet[1]));
    }
  }
}

const struct check CHECKS[] = {
    {"at_the_same", at_the_same},
    {"at_the_same_by_edge", at_the_same_by_edge},
    {"beside_a_pipe", beside_a_pipe},
    {"beside_a_pipe_by_edge", beside_a_pipe_by_edge},
    {"for_one_event", for_one_event},
    {"for_a_moment", for_a_moment},
    {"from_another_instance", from_another_instance},
    {"at_what_is_in_another", at_what_is_in_another},
    {"at_the_other", at_the_other},
    {"by_poll", by_poll},
    {"by_poll_at_the_other", by_poll_at_the_other},
    {"by_poll_at_what_is_in_another", by_poll_at_what_is_in_another},
    {"beside_poll", beside_poll},
    {"by_poll_beside_poll", by_poll_beside_poll},
    {"after_a_fork", after_a_fork},
    {"when_the_first_is_added", when_the_first_is_added},
    {0, 0},
};
