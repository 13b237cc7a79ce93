/* Epoll instances that a child inherits, however the child is made: by fork(), by libc's
 * other functions, by number, or by a system call that nobody can catch. What it does with
 * its copy its parent does not notice, and each of them is told what it waits for. */
#include "check.h"
#include <sched.h>

pid_t _Fork(void);

static int run_child(void *arg) {
  ((void (*)(void))arg)();
  _exit(0);
}

enum { BY_FORK, BY_VFORK, BY_NUMBER, BY__FORK, BY_CLONE, BEHIND_ITS_BACK, WAYS };
static const char *const WAY[] = {"fork", "vfork", "SYS_clone", "_Fork", "clone", "a raw fork"};

/* Makes a child that runs `run` and ends. A child of vfork may only close, execute and end. */
static pid_t child_by(int way, void (*run)(void)) {
  static char stack[1 << 18] __attribute__((aligned(16)));
  pid_t child;
  switch (way) {
  case BY_FORK: child = fork(); break;
  case BY_VFORK: child = vfork(); break;
  case BY_NUMBER: child = (syscall)(SYS_clone, SIGCHLD, 0, 0, 0, 0); break;
  case BY__FORK: child = _Fork(); break;
  case BY_CLONE: return SYS(clone(run_child, stack + sizeof stack, SIGCHLD, run));
  default: child = syscall(FORK_BY_NUMBER); break;
  }
  if (child == 0)
    run_child(run);
  return SYS(child);
}

/* Two connections, and an instance with both. */
static int ep, mine[2], far[2];

static void set_up(void) {
  ep = SYS(epoll_create1(EPOLL_CLOEXEC));
  for (int i = 0; i < 2; i++) {
    pair(i, &mine[i], &far[i]);
    nonblocking(mine[i]);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = mine[i]};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine[i], &e));
  }
  struct epoll_event e;
  /* So that it has slept once. */
  IS(epoll_wait(ep, &e, 1, 1), 0);
}

static void tear_down(void) {
  SYS(close(ep));
  for (int i = 0; i < 2; i++)
    SYS(close(mine[i])), SYS(close(far[i]));
}

static void close_it(void) { SYS(close(ep)); }
static void close_all(void) { SYS(close_range(3, ~0u, 0)); }
static void exec_true(void) { execlp("true", "true", (char *)0), _exit(9); }
static void look(void) {
  struct epoll_event e;
  IS(epoll_wait(ep, &e, 1, 0), 0);
}
static void wait_for_nothing(void) {
  struct epoll_event e;
  IS(epoll_wait(ep, &e, 1, 30), 0);
  SYS(close(ep));
}
static void replace_it(void) {
  SYS(close(ep));
  ep = SYS(epoll_create1(0));
  struct epoll_event e = {.events = EPOLLIN, .data.fd = mine[0]};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine[0], &e));
  IS(epoll_wait(ep, &e, 1, 1), 0);
}
static void close_sockets(void) { SYS(close(mine[0])), SYS(close(mine[1])); }

static const struct {
  const char *name;
  void (*run)(void);
  int as_vfork; /* on the kernel, too */
} DEEDS[] = {{"close", close_it, 0},      {"close_range", close_all, 0}, {"exec", exec_true, 1},
             {"epoll_wait", look, 0},     {"sleep", wait_for_nothing, 0}, {"replace", replace_it, 0},
             {"close the sockets", close_sockets, 0}};

static void *told(void *seconds) {
  struct epoll_event e = {0};
  leave_children_to_others();
  double start = now();
  int got = epoll_wait(ep, &e, 1, 15000);
  *(double *)seconds = now() - start;
  return (void *)(intptr_t)(got == 1 ? e.data.fd : got == 0 ? 0 : -errno);
}

/* What the child does, its parent does not notice, whether it sleeps then or comes later. */
static void childs_copy(void) {
  for (int way = 0; way < WAYS; way++)
    for (size_t deed = 0; deed < sizeof DEEDS / sizeof *DEEDS; deed++) {
      if (way == BY_VFORK && !DEEDS[deed].as_vfork)
        continue;
      set_up();
      for (int sleeps = 0; sleeps < 2; sleeps++) {
        pthread_t sleeper;
        double seconds;
        if (sleeps) {
          pthread_create(&sleeper, 0, told, &seconds);
          sleep_ms(5);
        }
        joined(child_by(way, DEEDS[deed].run));
        if (!sleeps) {
          pthread_create(&sleeper, 0, told, &seconds);
          sleep_ms(5);
        }
        send_all(far[sleeps], "x", 1);
        void *fd;
        pthread_join(sleeper, &fd);
        if ((intptr_t)fd != mine[sleeps] || seconds > 5)
          FAIL("%s in a child of %s: %d after %.1f s", DEEDS[deed].name, WAY[way],
               (int)(intptr_t)fd, seconds);
        char c;
        receive_all(mine[sleeps], &c, 1);
      }
      tear_down();
    }
}

static int report[2];
enum { ROUNDS = 4 };

/* Serves connection `own`; whoever is told of another's leaves it to that one. */
static void serve(int own) {
  for (int served = 0; served < ROUNDS;) {
    struct epoll_event e;
    IS(epoll_wait(ep, &e, 1, 15000), 1);
    char c;
    if (e.data.fd != mine[own] || read(mine[own], &c, 1) != 1) {
      sched_yield();
      continue;
    }
    served++;
    send_all(report[1], &c, 1);
  }
}

static void serve_second(void) { serve(1); }

static void *serve_first(void *arg) {
  (void)arg;
  serve(0);
  return 0;
}

/* Both sleep in the one instance, and each gets what is for it, whoever went to sleep last. */
static void both_wait(void) {
  for (int way = 0; way < WAYS; way++) {
    if (way == BY_VFORK)
      continue;
    for (int first = 0; first < 2; first++) {
      set_up();
      SYS(pipe(report));
      pthread_t parent;
      if (first) {
        /* It sleeps when the child is made. */
        pthread_create(&parent, 0, serve_first, 0);
        sleep_ms(5);
      }
      pid_t child = child_by(way, serve_second);
      if (!first)
        pthread_create(&parent, 0, serve_first, 0);
      for (int round = 0; round < ROUNDS; round++)
        for (int i = 1; i >= 0; i--) {
          if (i == 1)
            until_it_sleeps(child);
          sleep_ms(2);
          char sent = 'a' + i, got;
          send_all(far[i], &sent, 1);
          if (!ready(report[0], POLLIN, 5000))
            FAIL("%s, round %d: nobody serves connection %d", WAY[way], round, i);
          receive_all(report[0], &got, 1);
          IS(got, sent);
        }
      joined(child);
      pthread_join(parent, 0);
      SYS(close(report[0])), SYS(close(report[1]));
      tear_down();
    }
  }
}

/* --- Threads at work while children are made -------------------------------- */

enum { BUSY = 3, CHILDREN = 25 };
static volatile int busy;

static void *look_again(void *arg) {
  (void)arg;
  struct epoll_event e;
  while (busy)
    SYS(epoll_wait(ep, &e, 1, 0));
  return 0;
}

static void *change_again(void *arg) {
  (void)arg;
  struct epoll_event e = {.events = EPOLLIN, .data.fd = mine[0]};
  while (busy)
    SYS(epoll_ctl(ep, EPOLL_CTL_MOD, mine[0], &e));
  return 0;
}

static void *ask_again(void *arg) {
  (void)arg;
  struct tcp_info info;
  while (busy)
    SYS(getsockopt(mine[0], IPPROTO_TCP, TCP_INFO, &info, &(socklen_t){sizeof info}));
  return 0;
}

/* Ends of itself if it is not told: nobody waits for it longer than that. */
static void serve_once(void) {
  struct epoll_event e;
  struct tcp_info info;
  SYS(getsockopt(mine[1], IPPROTO_TCP, TCP_INFO, &info, &(socklen_t){sizeof info}));
  IS(epoll_wait(ep, &e, 1, 15000), 1);
  IS(e.data.fd, mine[1]);
  receive_all(mine[1], &(char){0}, 1);
  SYS(write(report[1], "", 1));
}

/* A child has what its parent's other threads have just taken or changed, whole and free. */
static void beside_busy_threads(void) {
  void *(*const WORK[BUSY])(void *) = {look_again, change_again, ask_again};
  for (int way = 0; way < WAYS; way++) {
    /* Behind its back nothing can be held for the child. */
    if (way == BY_VFORK || way == BEHIND_ITS_BACK)
      continue;
    set_up();
    SYS(pipe(report));
    pthread_t threads[BUSY];
    busy = 1;
    for (int i = 0; i < BUSY; i++)
      pthread_create(&threads[i], 0, WORK[i], 0);
    for (int i = 0; i < CHILDREN; i++) {
      pid_t child = child_by(way, serve_once);
      send_all(far[1], "x", 1);
      if (!ready(report[0], POLLIN, 5000))
        FAIL("child %d of %s is not told", i, WAY[way]);
      receive_all(report[0], &(char){0}, 1);
      joined(child);
    }
    busy = 0;
    for (int i = 0; i < BUSY; i++)
      pthread_join(threads[i], 0);
    SYS(close(report[0])), SYS(close(report[1]));
    tear_down();
  }
}

/* --- What a child does with what is registered ------------------------------- */

static int unbound, quiet[2];

static void bind_for_all(void) {
  struct sockaddr_in any = address("0.0.0.0", 0);
  SYS(bind(unbound, A(any)));
}

/* It is bound for the kernel's addresses, too, by the child: still one is told once of it. */
static void a_child_binds(void) {
  for (int way = 0; way < WAYS; way++) {
    if (way == BY_VFORK)
      continue;
    struct sockaddr_in nobody = unserved_address();
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT}, told[4];
    ep = SYS(epoll_create1(EPOLL_CLOEXEC));
    unbound = SYS(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, unbound, &e));
    FAILS(connect(unbound, A(nobody)), EINPROGRESS);
    OK(ready(unbound, POLLIN, 5000) & POLLERR);
    joined(child_by(way, bind_for_all));
    int n = SYS(epoll_wait(ep, told, 4, 5000));
    if (n != 1)
      FAIL("%s: %d events", WAY[way], n);
    OK(told[0].events & EPOLLERR);
    SYS(close(ep)), SYS(close(unbound));
  }
}

static void register_pipe(void) {
  struct epoll_event e = {.events = EPOLLIN, .data.fd = quiet[0]};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, quiet[0], &e));
}

/* Its parent is told of that, too, beside a connection that stays ready. */
static void a_child_registers(void) {
  for (int way = 0; way < WAYS; way++) {
    if (way == BY_VFORK)
      continue;
    set_up();
    SYS(pipe(quiet));
    SYS(write(quiet[1], "", 1));
    send_all(far[0], "x", 1);
    OK(ready(mine[0], POLLIN, 5000));
    joined(child_by(way, register_pipe));
    struct epoll_event e = {0};
    for (int waits = 0; e.data.fd != quiet[0]; waits++) {
      if (waits == 100)
        FAIL("%s: the pipe is not reported", WAY[way]);
      IS(epoll_wait(ep, &e, 1, 5000), 1);
    }
    SYS(close(quiet[0])), SYS(close(quiet[1]));
    tear_down();
  }
}

const struct check CHECKS[] = {
    {"a_child_binds", a_child_binds},
    {"a_child_registers", a_child_registers},
    {"childs_copy", childs_copy},
    {"both_wait", both_wait},
    {"beside_busy_threads", beside_busy_threads},
    {0, 0},
};
