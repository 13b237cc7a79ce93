/* What one end of a connection within a host sees right after a call on its other end has
 * returned: each thing that a thread or a child may do to one end, and each call that looks at the
 * other. Nothing is waited for in between. Once on the kernel and once on Longshore, and both are to be
 * the same (tests/seen.rs).
 *
 *     seen TIMES [ONLY]
 *
 * It prints a line for each case: what each of TIMES tries gave, and how often. ONLY is a part of
 * the names of the cases to run. */
#include "seen/looks.h"

enum { MOST_OUTCOMES = 16 };

/* --- what is done to the other end ------------------------------------------------ */

static void close_other(void) {
  close(scene.other);
  scene.other = -1;
}

static void send_some(void) {
  if (send(scene.other, "bytes", BYTES, 0) != BYTES)
    fail("send");
}

static void give_unread(void) {
  if (send(scene.fd, "unread", 6, 0) != 6)
    fail("send");
}

static void linger_0(void) {
  struct linger none = {1, 0};
  setsockopt(scene.other, SOL_SOCKET, SO_LINGER, &none, sizeof none);
}

static void do_nothing(void) {}
static void do_send_and_close(void) { send_some(), close_other(); }
static void do_reset(void) { linger_0(), close_other(); }
static void do_send_and_reset(void) { send_some(), do_reset(); }
/* The end was said before. */
static void do_shut_write_and_reset(void) { shutdown(scene.other, SHUT_WR), do_reset(); }
static void do_send_and_shut_and_reset(void) {
  send_some(), shutdown(scene.other, SHUT_RDWR), do_reset();
}
static void do_shut_and_close_unread(void) {
  give_unread(), shutdown(scene.other, SHUT_WR), close_other();
}
static void do_close_unread(void) { give_unread(), close_other(); }
static void do_send_and_close_unread(void) { give_unread(), send_some(), close_other(); }
static void do_shut_write(void) { shutdown(scene.other, SHUT_WR); }
static void do_send_and_shut_write(void) { send_some(), do_shut_write(); }
static void do_shut_both(void) { shutdown(scene.other, SHUT_RDWR); }
static void do_shut_read(void) { shutdown(scene.other, SHUT_RD); }
static void do_urgent(void) { send(scene.other, "u", 1, MSG_OOB); }
static void do_send_and_urgent(void) { send_some(), do_urgent(); }
static void do_send_twice(void) { send_some(), send_some(); }
static void do_disconnect(void) {
  struct sockaddr none = {.sa_family = AF_UNSPEC};
  connect(scene.other, &none, sizeof none);
}
static void do_close_both_written(void) {
  shutdown(scene.fd, SHUT_WR);
  close_other();
}

static const struct event {
  const char *name;
  void (*run)(void);
} events[] = {
    {"nothing", do_nothing},
    {"send", send_some},
    {"send twice", do_send_twice},
    {"close", close_other},
    {"send and close", do_send_and_close},
    {"reset", do_reset},
    {"send and reset", do_send_and_reset},
    {"shutdown of writing and reset", do_shut_write_and_reset},
    {"send, shutdown of both and reset", do_send_and_shut_and_reset},
    {"shutdown of writing and close with unread bytes", do_shut_and_close_unread},
    {"close with unread bytes", do_close_unread},
    {"send and close with unread bytes", do_send_and_close_unread},
    {"shutdown of writing", do_shut_write},
    {"send and shutdown of writing", do_send_and_shut_write},
    {"shutdown of reading", do_shut_read},
    {"shutdown of both", do_shut_both},
    {"urgent byte", do_urgent},
    {"send and urgent byte", do_send_and_urgent},
    {"connect to AF_UNSPEC", do_disconnect},
    {"close after our shutdown", do_close_both_written},
};

static void look_unsent(void) {
  int n = -1;
  say_result(ioctl(scene.fd, SIOCOUTQ, &n));
  say(" %d", n);
}

static const struct call {
  const char *name;
  void (*run)(void);
} calls[] = {
    {"recv", look_recv},
    {"recv thrice", look_recv_twice},
    {"MSG_PEEK", look_peek},
    {"MSG_OOB", look_urgent},
    {"getpeername", look_getpeername},
    {"getsockname", look_getsockname},
    {"send", look_send},
    {"send twice", look_send_twice},
    {"write of nothing", look_write_0},
    {"SO_ERROR", look_error},
    {"shutdown of writing", look_shut_write},
    {"shutdown of both", look_shut_both},
    {"poll", look_poll},
    {"poll for room", look_poll_out},
    {"select", look_select},
    {"epoll", look_epoll},
    {"new epoll", look_new_epoll},
    {"FIONREAD", look_unread},
    {"SIOCOUTQ", look_unsent},
    {"SIOCATMARK", look_mark},
    {"TCP_INFO", look_state},
    {"connect", look_connect},
    {"shutdown of reading", look_close_at_last},
};

/* --- all of them ------------------------------------------------------------------ */

static struct {
  char said[OUTCOME];
  int times;
} outcomes[MOST_OUTCOMES];

static int by_name(const void *one, const void *other) { return strcmp(one, other); }

static void note(void) {
  for (int i = 0; i < MOST_OUTCOMES; i++) {
    if (!outcomes[i].times)
      strcpy(outcomes[i].said, said);
    if (!strcmp(outcomes[i].said, said)) {
      outcomes[i].times++;
      return;
    }
  }
}

static void end_scene(void) {
  close(scene.epoll);
  close(scene.fd);
  if (scene.other >= 0)
    close(scene.other);
}

static const struct event *event;

static void *do_event(void *unused) {
  event->run();
  return unused;
}

enum by { BY_SELF, BY_THREAD, BY_CHILD, WAYS };

static const char *const way_names[WAYS] = {"", " by a thread", " by a child"};

/* The child begins when this process has left the other end to it, and keeps what it has until the
 * descriptor that is returned is closed. */
static int begin_child(pid_t *child) {
  int done[2], go[2];
  char byte = 0;
  if (pipe(done) || pipe(go) || (*child = fork()) < 0)
    fail("fork");
  if (!*child) {
    close(go[1]);
    if (read(go[0], &byte, 1) != 1)
      _exit(1);
    event->run();
    _exit(write(done[1], "", 1) != 1 || read(go[0], &byte, 1) != 0);
  }
  close(scene.other);
  scene.other = -1;
  close(go[0]);
  close(done[1]);
  if (write(go[1], "", 1) != 1 || read(done[0], &byte, 1) != 1)
    fail("child");
  close(done[0]);
  return go[1];
}

static void run_case(const struct call *call, int times, enum by by) {
  memset(outcomes, 0, sizeof outcomes);
  for (int i = 0; i < times; i++) {
    make_scene();
    pthread_t thread;
    pid_t child = 0;
    int go = -1;
    if (by == BY_SELF)
      event->run();
    else if (by == BY_CHILD)
      go = begin_child(&child);
    else if (pthread_create(&thread, 0, do_event, 0) || pthread_join(thread, 0))
      fail("pthread_create");
    said[0] = 0;
    call->run();
    note();
    end_scene();
    if (child) {
      close(go);
      waitpid(child, 0, 0);
    }
  }
  qsort(outcomes, MOST_OUTCOMES, sizeof *outcomes, by_name);
}

int main(int argc, char **argv) {
  int times = argc > 1 ? atoi(argv[1]) : 10;
  const char *only = argc > 2 ? argv[2] : "";
  signal(SIGPIPE, SIG_IGN);
  for (enum by by = BY_SELF; by < WAYS; by++)
    for (size_t e = 0; e < sizeof events / sizeof *events; e++)
      for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        char name[200];
        event = &events[e];
        snprintf(name, sizeof name, "%s%s, then %s", event->name, way_names[by], calls[c].name);
        if (!strstr(name, only))
          continue;
        run_case(&calls[c], times, by);
        printf("%s:", name);
        for (int i = 0; i < MOST_OUTCOMES; i++)
          if (outcomes[i].times)
            printf("%s%s", outcomes[i].said, " ;");
        printf("\n");
        fflush(stdout);
      }
  return 0;
}
