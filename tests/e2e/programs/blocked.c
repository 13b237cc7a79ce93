/* Each call that may wait, and each thing that may happen meanwhile: what the call gives then, or
 * that it waits on, and what it gives when something comes. Once on the kernel and once on
 * Longshore, and both are to be the same (tests/blocked.rs).
 *
 *     blocked [EXPECTED TIMEOUT] [ONLY]
 *
 * It prints a line for each case. EXPECTED is a file of what was printed elsewhere: with it, what
 * is to end has TIMEOUT milliseconds for it. ONLY is a part of the names of the cases to run. */
#include "blocked/events.h"
#include <sys/syscall.h>

enum {
  /* As many cases at once, which do little but wait. */
  AT_ONCE = 16,
  CASES = 4096,
  NAME = 120,
  LINE = 400,
  /* In milliseconds: how long a call that goes on waiting is watched, and a case at most. */
  WATCHED = 60,
  LONGEST_CASE = 20000,
};

struct one {
  enum kind kind;
  const struct call *call;
  const struct event *event;
  char name[NAME];
  char line[LINE];
  const char *expected;
  pid_t process;
  long started;
};

static struct one *cases;
static int case_count;
static int timeout;

static long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* The call, and whether it has ended. */
static struct outcome outcome;
static volatile int ended;
static volatile pid_t waiting_tid;

static void note_cancelled(void *unused) {
  (void)unused;
  say(&outcome, "cancelled");
  ended = 1;
}

/* What ends a call is the event alone. glibc 2.41 forks with all signals blocked: a child that ends
 * before that is over interrupts a thread that has SIGCHLD not blocked, though nobody handles it. */
static void block_ends_of_children(void) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  pthread_sigmask(SIG_BLOCK, &ends, 0);
}

static void *call(void *one) {
  const struct call *call = ((struct one *)one)->call;
  block_ends_of_children();
  waiting_tid = syscall(SYS_gettid);
  scene.is_next = strncmp(call->name, "epoll", 5) != 0;
  pthread_cleanup_push(note_cancelled, 0);
  call->run(&outcome);
  pthread_cleanup_pop(0);
  __sync_synchronize();
  ended = 1;
  return 0;
}

static int sleeps(void) {
  char path[64], text[256] = "", *after;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", waiting_tid);
  int fd = open(path, O_RDONLY);
  if (fd >= 0) {
    if (read(fd, text, sizeof text - 1) < 0)
      text[0] = 0;
    close(fd);
  }
  after = strrchr(text, ')');
  return after && after[2] == 'S';
}

/* Until the thread has slept for some milliseconds, or has ended. */
static void await_sleep(void) {
  for (int slept = 0, i = 0; slept < 5 && i < 500 && !ended; i++) {
    sleep_for(1);
    slept = scene.is_next && sleeps() ? slept + 1 : 0;
  }
}

static void await_end(long milliseconds) {
  for (long until = now() + milliseconds; !ended && now() < until;)
    sleep_for(1);
}

/* What lets most calls end. */
static void release(void) {
  switch (scene.kind) {
  case FULL:
    if (scene.peer >= 0)
      drain(scene.peer);
    break;
  case LISTENER: {
    /* Not under a number that is free again. */
    int made = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), fd = fcntl(made, F_DUPFD, 100);
    close(made);
    connect(fd, (void *)&scene.at, sizeof scene.at);
    break;
  }
  default:
    if (scene.peer >= 0)
      send(scene.peer, "release", 7, MSG_NOSIGNAL | MSG_DONTWAIT);
  }
}

/* What poll says of the socket at last. */
static void say_state(struct outcome *o) {
  struct pollfd p = {scene.fd, POLLIN | POLLOUT | POLLRDHUP, 0};
  poll(&p, 1, 0);
  say(o, " |");
  /* When there is room again is the stack's affair. */
  say_events(o, scene.kind == FULL ? p.revents & ~POLLOUT : p.revents);
}

static int is_expected(const char *expected, const char *part) {
  return expected && strstr(expected, part);
}

static void run_case(struct one *one) {
  struct outcome said = {0};
  make_scene(one->kind);
  pthread_create(&waiting_thread, 0, call, one);
  await_sleep();
  if (ended) {
    say(&said, "at once ");
  } else {
    one->event->run();
    await_end(!one->expected || is_expected(one->expected, "waits") ? WATCHED : timeout);
    if (!ended) {
      say(&said, "waits; ");
      release();
      await_end(!one->expected || is_expected(one->expected, "on;") ? WATCHED : timeout);
      if (!ended) {
        say(&said, "on; ");
        pthread_cancel(waiting_thread);
        await_end(one->expected ? timeout : 1000);
      }
    }
  }
  __sync_synchronize();
  if (ended)
    say(&said, "%s", outcome.text);
  else
    say(&said, "without end");
  sleep_for(one->expected ? 0 : 5);
  long until = now() + timeout;
  for (;;) {
    struct outcome all = said;
    if (!one->call->without_state)
      say_state(&all);
    snprintf(one->line, LINE, "%s: %s", one->name, all.text);
    if (!one->expected || !strcmp(one->expected, one->line) || now() >= until)
      break;
    sleep_for(1);
  }
  _exit(0);
}

static void begin(struct one *one) {
  one->started = now();
  snprintf(one->line, LINE, "%s: no word", one->name);
  pid_t process = fork();
  if (process < 0)
    give_up("fork");
  if (process == 0) {
    setpgid(0, 0);
    signal(SIGPIPE, SIG_IGN);
    run_case(one);
  }
  one->process = process;
}

/* Whether it is over. */
static int look_at(struct one *one) {
  int status;
  if (waitpid(one->process, &status, WNOHANG) == one->process) {
    if (WIFSIGNALED(status))
      snprintf(one->line, LINE, "%s: killed by %s", one->name, sigabbrev_np(WTERMSIG(status)));
    else if (status)
      snprintf(one->line, LINE, "%s: status %d", one->name, WEXITSTATUS(status));
  } else if (now() - one->started > LONGEST_CASE) {
    kill(-one->process, SIGKILL);
    kill(one->process, SIGKILL);
    waitpid(one->process, &status, 0);
    snprintf(one->line, LINE, "%s: hangs", one->name);
  } else {
    return 0;
  }
  one->process = 0;
  return 1;
}

static void run_all(void) {
  struct one *running[AT_ONCE] = {0};
  int next = 0, left = case_count;
  while (left > 0) {
    for (int i = 0; i < AT_ONCE; i++) {
      if (running[i] && look_at(running[i])) {
        running[i] = 0;
        left--;
      }
      if (!running[i] && next < case_count) {
        running[i] = &cases[next++];
        begin(running[i]);
      }
    }
    sleep_for(1);
  }
}

static void list_cases(const char *only) {
  for (int k = 0; k < KIND_COUNT; k++)
    for (int c = 0; c < CALL_COUNT; c++)
      for (int e = 0; e < EVENT_COUNT; e++) {
        enum kind kind = KINDS[k].kind;
        if (!(CALLS[c].kinds & kind) || !(EVENTS[e].kinds & kind) || case_count == CASES)
          continue;
        const char *with = EVENTS[e].with;
        if (with && strncmp(CALLS[c].name, with, strlen(with)))
          continue;
        if (is_left_out(&CALLS[c], &EVENTS[e]))
          continue;
        struct one *one = &cases[case_count];
        one->kind = kind;
        one->call = &CALLS[c];
        one->event = &EVENTS[e];
        snprintf(one->name, NAME, "%s, %s, %s", KINDS[k].name, CALLS[c].name, EVENTS[e].name);
        if (!only || strstr(one->name, only))
          case_count++;
        else
          memset(one, 0, sizeof *one);
      }
}

/* What is expected of each case: the line that begins with its name. */
static void read_expected(const char *path) {
  FILE *file = fopen(path, "r");
  char *line = 0;
  size_t size = 0;
  if (!file)
    give_up(path);
  for (ssize_t n; (n = getline(&line, &size, file)) > 0;) {
    line[n - 1] = 0;
    for (int i = 0; i < case_count; i++) {
      size_t length = strlen(cases[i].name);
      if (!strncmp(line, cases[i].name, length) && line[length] == ':')
        cases[i].expected = strdup(line);
    }
  }
  fclose(file);
}

int main(int argc, char **argv) {
  const char *expected = argc > 2 ? argv[1] : 0;
  const char *only = argc == 2 ? argv[1] : argc == 4 ? argv[3] : 0;
  cases = mmap(0, CASES * sizeof *cases, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
               0);
  timeout = expected ? atoi(argv[2]) : 0;
  list_cases(only);
  if (expected)
    read_expected(expected);
  run_all();
  for (int i = 0; i < case_count; i++)
    puts(cases[i].line);
  return 0;
}
