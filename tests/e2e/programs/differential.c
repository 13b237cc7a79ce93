/* Random sequences of socket calls, from seeds. It prints what each call gives, and of which
 * events poll then tells for each socket: once on the kernel and once on Longshore, and both are
 * to be the same (tests/differential.rs).
 *
 *     differential CASES [EXPECTED TIMEOUT]
 *
 * CASES is a file with a line for each case: its seed, and the numbers of the steps to take if
 * not all of them are. EXPECTED has what was printed elsewhere: with it, what a call has set in
 * motion has TIMEOUT milliseconds to arrive, and a case ends with the first line that is not as
 * expected. A line of which it says "?" is not compared. */
#include "differential/generate.h"
#include "differential/perform.h"

/* How long a case may take, in seconds. */
enum { LONGEST_CASE = 30 };

/* How long what is expected may take, in milliseconds. */
static int timeout;

/* What is expected, line by line. */
static char *expected;

/* The line that is expected now, and the next. */
static char *next_expected(void) {
  char *line = expected, *end = line ? strchr(line, '\n') : 0;
  if (!end)
    return 0;
  *end = 0;
  expected = end + 1;
  return line;
}

static int is_as(const char *line) {
  return !line || strcmp(line, "?") == 0 || strcmp(line, shared->line) == 0;
}

/* Of which places an edge was told since the last step; of which nothing is said of that, since
 * none is expected. One edge more does no harm, one less does. */
static int edges[PLACES], needs_no_edge[PLACES];

/* How much there is to be read at a place, in bytes; or how many connections to be accepted. */
static int held_by(int at) {
  struct tcp_info info = {0};
  socklen_t n = sizeof info;
  int held = 0;
  if (!listens(at))
    return ioctl(places[at].fd, FIONREAD, &held) == 0 ? held : 0;
  getsockopt(places[at].fd, IPPROTO_TCP, TCP_INFO, &info, &n);
  return info.tcpi_unacked;
}

/* Whether there is something at a place that was not there after the last step: where Linux tells an
 * edge without that, as whenever a datagram has left, nobody may rely on it. */
static int has_risen(int at, int events, int held) {
  const struct place *p = &places[at];
  return events & ~p->seen.events || held > p->seen.held;
}

/* What is expected of the edges. */
static void expect_edges(const char *should) {
  for (int i = 0; i < PLACES; i++) {
    char place[16];
    int n = snprintf(place, sizeof place, " s%d:", i);
    const char *at = strstr(should, place);
    needs_no_edge[i] = at && at[n + strcspn(at + n, "!s")] != '!';
  }
}

static void gather_edges(void) {
  struct epoll_event e[4 * PLACES];
  int n = epoll_wait(edge_fd, e, 4 * PLACES, 0);
  for (int i = 0; i < n; i++)
    edges[e[i].data.u32] |= e[i].events;
}

/* Which events poll tells of, how much there is to be read, what epoll says where it is
 * something else, and "!" if it has told an edge. */
static void say_states(struct seen *seen) {
  struct pollfd p[PLACES];
  struct epoll_event e[4 * PLACES];
  int told[PLACES] = {0};
  shared->length = 0;
  say(" ");
  for (int i = 0; i < PLACES; i++)
    p[i] = (struct pollfd){places[i].fd, POLLIN | POLLPRI | POLLOUT | POLLRDHUP, 0};
  poll(p, PLACES, 0);
  int n = epoll_wait(epoll_fd, e, 4 * PLACES, 0);
  for (int i = 0; i < n; i++)
    told[e[i].data.u32] = e[i].events;
  gather_edges();
  for (int i = 0; i < PLACES; i++) {
    if (places[i].fd < 0)
      continue;
    say(" s%d:", i);
    say_mask(p[i].revents, POLL_EVENTS, "-");
    int held = 0;
    if (p[i].revents & POLLIN && (held = held_by(i)) != 0)
      say("/%d", held);
    if (told[i] != p[i].revents) {
      say(" but epoll:");
      say_mask(told[i], POLL_EVENTS, "-");
    }
    if (edges[i] && !needs_no_edge[i] && has_risen(i, p[i].revents, held))
      say("!");
    seen[i] = (struct seen){p[i].revents, held};
  }
  say_sets();
}

/* Prints a line. Whether it is as expected. */
static int put_line(void) {
  const char *line = next_expected();
  printf("%s\n", shared->line);
  return is_as(line);
}

/* Prints the states, once they are as expected. */
static int put_states(void) {
  struct seen seen[PLACES] = {0};
  const char *line = expected;
  char should[LINE] = "?";
  if (line) {
    size_t n = strcspn(line, "\n");
    snprintf(should, sizeof should, "%.*s", (int)n, line);
  }
  memset(edges, 0, sizeof edges);
  expect_edges(should);
  say_states(seen);
  for (int i = 0; i < timeout && !is_as(should); i++) {
    nanosleep(&(struct timespec){0, 1000000}, 0);
    say_states(seen);
  }
  for (int i = 0; i < PLACES; i++)
    places[i].seen = seen[i];
  return put_line();
}

static void note_broken_pipe(int signal) {
  (void)signal;
  broken_pipes++;
}

static void interrupt(int signal) {
  (void)signal;
}

static void set_up(void) {
  struct sigaction action = {.sa_handler = note_broken_pipe, .sa_flags = SA_RESTART};
  sigaction(SIGPIPE, &action, 0);
  /* A call that waits is ended by the time limit of its step. */
  action = (struct sigaction){.sa_handler = interrupt};
  sigaction(SIGALRM, &action, 0);
  epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  edge_fd = epoll_create1(EPOLL_CLOEXEC);
  make_sets();
  file_fd = memfd_create("sent", MFD_CLOEXEC);
  unsigned char bytes[10000];
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = i * 2654435761u >> 16;
  if (write(file_fd, bytes, sizeof bytes) != sizeof bytes)
    exit(1);
  for (int i = 0; i < PLACES; i++)
    places[i].fd = -1;
}

static void run_case(const char *taken, const struct step *steps) {
  struct itimerval limit = {.it_interval = {0, 100000}, .it_value = {1, 0}}, none = {0};
  set_up();
  for (int i = 0; i < STEPS; i++) {
    if (!taken[i])
      continue;
    shared->length = 0;
    say("%d ", i);
    setitimer(ITIMER_REAL, &limit, 0);
    perform(&steps[i]);
    setitimer(ITIMER_REAL, &none, 0);
    int goes_on = put_line() && put_states();
    if (child >= 0) {
      end_child();
      goes_on = goes_on && put_states();
    }
    if (!goes_on)
      break;
  }
  fflush(stdout);
}

/* Each case is a process of its own. */
static void run_in_child(const char *taken, const struct step *steps) {
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    run_case(taken, steps);
    _exit(0);
  }
  int status, waited = 0;
  while (waitpid(child, &status, WNOHANG) == 0 && waited++ < LONGEST_CASE * 1000)
    nanosleep(&(struct timespec){0, 1000000}, 0);
  if (waited >= LONGEST_CASE * 1000) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    printf("it hangs\n");
  } else if (status) {
    printf("it ends with status %#x\n", status);
  }
}

/* The whole of a file. */
static char *contents(const char *path) {
  FILE *file = fopen(path, "r");
  char *text = 0;
  size_t n = 0;
  if (!file || getdelim(&text, &n, 0, file) < 0) {
    perror(path);
    exit(1);
  }
  fclose(file);
  return text;
}

/* Where what is expected of the case of this line begins. */
static char *find_expected(char *all, const char *heading) {
  char *at = all ? strstr(all, heading) : 0;
  return at ? at + strlen(heading) : 0;
}

/* Sends a byte from a socket to another: a case may carry nothing, and whether the stack that is
 * asked for was at work is told by what it has carried. */
static void carry_something(void) {
  struct sockaddr_storage a;
  socklen_t n = make_v4(&a, "127.0.0.1", 0);
  int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0), server;
  char c;
  if (bind(listener, (void *)&a, n) || listen(listener, 1) ||
      getsockname(listener, (void *)&a, &n) || connect(client, (void *)&a, n) ||
      (server = accept(listener, 0, 0)) < 0 || send(client, "x", 1, 0) != 1 ||
      recv(server, &c, 1, 0) != 1) {
    perror("a byte by the loopback");
    exit(1);
  }
  close(client);
  close(server);
  close(listener);
}

int main(int argc, char **argv) {
  static char line[4096], heading[4200];
  static struct step steps[STEPS];
  if (argc < 2)
    return 2;
  FILE *cases = fopen(argv[1], "r");
  if (!cases) {
    perror(argv[1]);
    return 1;
  }
  setvbuf(stdout, 0, _IOLBF, 0);
  char *all = argc > 2 ? contents(argv[2]) : 0;
  timeout = argc > 3 ? atoi(argv[3]) : 0;
  shared = mmap(0, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  carry_something();
  for (int number = 0; fgets(line, sizeof line, cases); number++) {
    char *rest = line, taken[STEPS] = {0};
    int some = 0;
    uint64_t seed = strtoull(rest, &rest, 10);
    for (char *after; ; rest = after, some = 1) {
      long step = strtol(rest, &after, 10);
      if (after == rest)
        break;
      if (step >= 0 && step < STEPS)
        taken[step] = 1;
    }
    if (!some)
      memset(taken, 1, sizeof taken);
    snprintf(heading, sizeof heading, "CASE %s", line);
    printf("%s", heading);
    generate(seed, steps);
    first_fixed_port = 10000 + number * FIXED_PORTS % 20000;
    memset(shared, 0, sizeof *shared);
    expected = find_expected(all, heading);
    run_in_child(taken, steps);
  }
  return 0;
}
