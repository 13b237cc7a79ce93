/* How much a receiving call waits for: SO_RCVLOWAT, MSG_WAITALL. */
#include "check.h"

/* What the other end does, one step after the other. */
enum does { SENDS, SENDS_URGENT, SHUTS, RESETS, END };
struct step {
  int after_ms;
  enum does does;
  int bytes;
};
struct peer {
  int fd;
  const struct step *steps;
};

static void *act(void *of) {
  struct peer *peer = of;
  char bytes[1 << 16] = {0};
  for (const struct step *step = peer->steps; step->does != END; step++) {
    sleep_ms(step->after_ms);
    switch (step->does) {
    case SENDS:
      send_all(peer->fd, bytes, step->bytes);
      break;
    case SENDS_URGENT:
      IS(send(peer->fd, bytes, step->bytes, MSG_OOB), step->bytes);
      break;
    case SHUTS:
      SYS(shutdown(peer->fd, SHUT_WR));
      break;
    case RESETS:
      far_reset(peer->fd);
      break;
    case END:
      break;
    }
  }
  return 0;
}

struct found {
  long got;
  int error;
  double seconds;
};

/* Receives while the other end acts; `there` bytes lie there before. */
static struct found receive(int mine, int far, int there, int length, int flags,
                            const struct step *steps) {
  char buf[1 << 16];
  send_all(far, buf, there);
  while (queue(mine, FIONREAD) != there)
    sleep_ms(1);
  struct peer peer = {far, steps};
  pthread_t thread;
  sigset_t alarm_only, before;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm_only, &before);
  OK(pthread_create(&thread, 0, act, &peer) == 0);
  pthread_sigmask(SIG_SETMASK, &before, 0);
  struct found found;
  double start = now();
  found.got = recv(mine, buf, length, flags);
  found.error = found.got < 0 ? errno : 0;
  found.seconds = now() - start;
  OK(pthread_join(thread, 0) == 0);
  return found;
}
#define STEPS (const struct step[])

static void limit(int mine, int ms) {
  struct timeval time = {ms / 1000, ms % 1000 * 1000};
  SYS(setsockopt(mine, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
}

/* With 10 for the mark. */
static void set_mark(int mine) { set(mine, SOL_SOCKET, SO_RCVLOWAT, 10); }

static void waits_for_the_mark(void) {
  EACH_PAIR(mine, far) {
    set_mark(mine);
    struct found found =
        receive(mine, far, 0, 100, 0, STEPS{{50, SENDS, 4}, {50, SENDS, 4}, {50, SENDS, 4}, {0, END, 0}});
    IS(found.got, 12);
    /* The same where the call finds some. */
    found = receive(mine, far, 3, 100, 0, STEPS{{100, SENDS, 10}, {0, END, 0}});
    IS(found.got, 13);
    OK(found.seconds > 0.08 && found.seconds < 10);
    /* All that it asks for is enough. */
    found = receive(mine, far, 4, 4, 0, STEPS{{0, END, 0}});
    IS(found.got, 4);
    found = receive(mine, far, 12, 100, 0, STEPS{{0, END, 0}});
    IS(found.got, 12);
    if (on_longshore()) {
      /* The kernel takes what is there, and wakes nobody before the mark is reached anew. */
      found = receive(mine, far, 3, 100, 0, STEPS{{100, SENDS, 7}, {0, END, 0}});
      IS(found.got, 10);
      OK(found.seconds < 10);
    }
  }
}

static void takes_less_at_the_end(void) {
  EACH_PAIR(mine, far) {
    set_mark(mine);
    struct found found = receive(mine, far, 3, 100, 0, STEPS{{100, SHUTS, 0}, {0, END, 0}});
    IS(found.got, 3);
    OK(found.seconds > 0.08);
    char buf[4];
    IS(recv(mine, buf, 4, 0), 0);
  }
}

static void takes_less_before_a_reset(void) {
  for (int flags = 0; flags <= MSG_WAITALL; flags += MSG_WAITALL) {
    EACH_PAIR(mine, far) {
      set_mark(mine);
      struct found found = receive(mine, far, 3, 100, flags, STEPS{{100, RESETS, 0}, {0, END, 0}});
      IS(found.got, 3);
      OK(found.seconds > 0.08);
      char buf[4];
      FAILS(recv(mine, buf, 4, 0), ECONNRESET);
      IS(recv(mine, buf, 4, 0), 0);
    }
  }
}

static void takes_less_when_time_is_over(void) {
  EACH_PAIR(mine, far) {
    set_mark(mine);
    limit(mine, 200);
    struct found found = receive(mine, far, 3, 100, 0, STEPS{{100, SENDS, 3}, {0, END, 0}});
    IS(found.got, 6);
    OK(found.seconds > 0.18);
    found = receive(mine, far, 3, 100, MSG_PEEK, STEPS{{0, END, 0}});
    IS(found.got, 3);
    OK(found.seconds > 0.18);
    IS(queue(mine, FIONREAD), 3);
    receive_all(mine, (char[4]){0}, 3);
    found = receive(mine, far, 0, 100, 0, STEPS{{0, END, 0}});
    IS(found.error, EAGAIN);
    OK(found.seconds > 0.18);
  }
}

/* The time is that of the call, whatever comes meanwhile. */
static void the_time_of_waitall_is_one(void) {
  EACH_PAIR(mine, far) {
    limit(mine, 400);
    struct found found = receive(mine, far, 3, 100, MSG_WAITALL,
                                 STEPS{{250, SENDS, 3}, {300, SENDS, 3}, {0, END, 0}});
    IS(found.got, 6);
    OK(found.seconds > 0.35);
    receive_all(mine, (char[4]){0}, 3);
  }
}

static void takes_less_if_it_must_not_wait(void) {
  EACH_PAIR(mine, far) {
    set_mark(mine);
    struct found found = receive(mine, far, 3, 100, MSG_DONTWAIT, STEPS{{0, END, 0}});
    IS(found.got, 3);
    nonblocking(mine);
    found = receive(mine, far, 3, 100, 0, STEPS{{0, END, 0}});
    IS(found.got, 3);
    found = receive(mine, far, 0, 100, 0, STEPS{{0, END, 0}});
    IS(found.error, EAGAIN);
  }
}

static void peeks_at_the_mark(void) {
  EACH_PAIR(mine, far) {
    set_mark(mine);
    struct found found = receive(mine, far, 3, 100, MSG_PEEK, STEPS{{100, SENDS, 7}, {0, END, 0}});
    IS(found.got, 10);
    receive_all(mine, (char[10]){0}, 10);
    found = receive(mine, far, 0, 100, MSG_PEEK | MSG_WAITALL, STEPS{{100, SENDS, 100}, {0, END, 0}});
    IS(found.got, 100);
    IS(recv(mine, 0, 100, MSG_TRUNC), 100);
    found = receive(mine, far, 3, 100, MSG_TRUNC, STEPS{{100, SENDS, 10}, {0, END, 0}});
    IS(found.got, 13);
    found = receive(mine, far, 3, 100, MSG_PEEK, STEPS{{100, SHUTS, 0}, {0, END, 0}});
    IS(found.got, 3);
    OK(found.seconds > 0.08);
  }
}

static void stops_before_urgent_data(void) {
  EACH_PAIR(mine, far) {
    set_mark(mine);
    struct found found = receive(mine, far, 3, 100, 0, STEPS{{100, SENDS_URGENT, 1}, {0, END, 0}});
    IS(found.got, 3);
  }
}

static void interrupted(int number) { (void)number; }

static void takes_less_when_interrupted(void) {
  EACH_PAIR(mine, far) {
    set_mark(mine);
    struct sigaction action = {.sa_handler = interrupted};
    SYS(sigaction(SIGALRM, &action, 0));
    ualarm(100000, 0);
    struct found found = receive(mine, far, 3, 100, 0, STEPS{{0, END, 0}});
    IS(found.got, 3);
    OK(found.seconds > 0.05);
    ualarm(100000, 0);
    found = receive(mine, far, 0, 100, 0, STEPS{{0, END, 0}});
    IS(found.error, EINTR);
  }
}

/* One that the buffer could never hold is reached all the same. */
static void a_mark_beyond_the_buffer(void) {
  EACH_PAIR(mine, far) {
    set(mine, SOL_SOCKET, SO_RCVBUF, 16384);
    set(mine, SOL_SOCKET, SO_RCVLOWAT, 1 << 20);
    nonblocking(far);
    char bytes[1 << 16] = {0};
    SYS(send(far, bytes, sizeof bytes, 0));
    IS(ready(mine, POLLIN, 10000), POLLIN);
    OK(recv(mine, bytes, sizeof bytes, 0) > 4096);
  }
}

/* One that is larger than the buffer is reached: by growth, or as far as there is room. A clamp of
 * the window is no bar. */
static void a_mark_beyond_the_window(void) {
  static char bytes[8 << 20];
  static const struct {
    int mark, clamp;
  } cases[] = {{300000, 0}, {1 << 20, 0}, {20 << 20, 0}, {200000, 20000}, {30000, 20000}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    EACH_PAIR(mine, far) {
      if (cases[i].clamp)
        set(mine, IPPROTO_TCP, TCP_WINDOW_CLAMP, cases[i].clamp);
      set(mine, SOL_SOCKET, SO_RCVLOWAT, cases[i].mark);
      nonblocking(far);
      double start = now();
      for (int rounds = 0; rounds < 3; rounds++) {
        while (!ready(mine, POLLIN, 10)) {
          int error = send(far, bytes, sizeof bytes, 0) < 0 ? errno : 0;
          OK(error == 0 || error == EAGAIN);
          OK(now() - start < 20);
        }
        OK(recv(mine, bytes, sizeof bytes, 0) > 4096);
      }
    }
}

static volatile sig_atomic_t told_;
static void note(int number) { told_ += number == SIGIO; }

/* SIGIO is for what may be read. */
static void signals_at_the_mark(void) {
  struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
  SYS(sigaction(SIGIO, &action, 0));
  EACH_PAIR(mine, far) {
    set_mark(mine);
    SYS(fcntl(mine, F_SETOWN, getpid()));
    SYS(fcntl(mine, F_SETFL, fcntl(mine, F_GETFL) | O_ASYNC));
    sleep_ms(50);
    told_ = 0;
    send_all(far, "12345", 5);
    while (queue(mine, FIONREAD) != 5)
      sleep_ms(1);
    sleep_ms(100);
    IS(told_, 0);
    send_all(far, "67890", 5);
    for (int tries = 0; !told_ && tries < 1000; tries++)
      sleep_ms(10);
    OK(told_ >= 1);
  }
}

/* Nothing is asked for, and waited for all the same: within a time limit, which is no error. */
static void nothing_is_asked_for(void) {
  EACH_PAIR(mine, far) {
    char c;
    struct timeval limit = {0, 50000};
    SYS(setsockopt(mine, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit));
    FAILS(recv(mine, &c, 0, MSG_DONTWAIT), EAGAIN);
    TAKES(IS(recv(mine, &c, 0, 0), 0), 0.04, 5);
    IS(recv(mine, &c, 0, MSG_PEEK), 0);
    IS(recv(mine, &c, 0, MSG_WAITALL), 0);
    FAILS(recv(mine, &c, 1, 0), EAGAIN);
  }
}

const struct check CHECKS[] = {
    {"waits_for_the_mark", waits_for_the_mark},
    {"takes_less_at_the_end", takes_less_at_the_end},
    {"takes_less_before_a_reset", takes_less_before_a_reset},
    {"takes_less_when_time_is_over", takes_less_when_time_is_over},
    {"the_time_of_waitall_is_one", the_time_of_waitall_is_one},
    {"takes_less_if_it_must_not_wait", takes_less_if_it_must_not_wait},
    {"peeks_at_the_mark", peeks_at_the_mark},
    {"stops_before_urgent_data", stops_before_urgent_data},
    {"takes_less_when_interrupted", takes_less_when_interrupted},
    {"a_mark_beyond_the_buffer", a_mark_beyond_the_buffer},
    {"a_mark_beyond_the_window", a_mark_beyond_the_window},
    {"signals_at_the_mark", signals_at_the_mark},
    {"nothing_is_asked_for", nothing_is_asked_for},
    {0, 0},
};
