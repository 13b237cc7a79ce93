/* One connection, two processes that wait for it: both are told what happens,
 * and what one of them does the other sees. */
#include "check.h"
#include <sys/ptrace.h>

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

/* Whether a process that enters this system call reads or writes `fd`. */
static int moves(const struct __ptrace_syscall_info *call, int fd) {
  const __uint64_t *args = call->entry.args;
  switch (call->entry.nr) {
  case SYS_read: case SYS_readv: case SYS_pread64: case SYS_preadv: case SYS_preadv2:
  case SYS_write: case SYS_writev:
    return (int)args[0] == fd;
  case SYS_sendfile:
    return (int)args[1] == fd;
  case SYS_splice:
    return (int)args[0] == fd || (int)args[2] == fd;
  default:
    return 0;
  }
}

/* Makes a child that does `work` with the connection and stops where it reads or writes
 * `fd`, before it has. */
static pid_t stopped_at(int fd, void (*work)(int mine, int fd), int mine) {
  pid_t child = SYS(fork());
  if (!child) {
    SYS(ptrace(PTRACE_TRACEME, 0, 0, 0));
    raise(SIGSTOP);
    work(mine, fd);
    _exit(0);
  }
  int status;
  for (;;) {
    SYS(waitpid(child, &status, 0));
    OK(WIFSTOPPED(status));
    SYS(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD));
    struct __ptrace_syscall_info call;
    SYS(ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof call, &call));
    if (call.op == PTRACE_SYSCALL_INFO_ENTRY && moves(&call, fd))
      return child;
    SYS(ptrace(PTRACE_SYSCALL, child, 0, 0));
  }
}

static void file_to_stream(int mine, int file) {
  off_t at = 0;
  IS(sendfile(mine, file, &at, 5), 5);
}
static void pipe_to_stream(int mine, int from) { IS(splice(from, 0, mine, 0, 5, 0), 5); }
static void stream_to_pipe(int mine, int to) { IS(splice(mine, 0, to, 0, 5, 0), 5); }

/* One that is held up by its file or its pipe does not hold up the others. */
static void a_stopped_sender(int fd, void (*work)(int mine, int fd)) {
  EACH_PAIR(mine, far) {
    pid_t child = stopped_at(fd, work, mine);
    send_all(mine, "first", 5);
    char got[5];
    receive_all(far, got, 5);
    OK(!memcmp(got, "first", 5));
    SYS(ptrace(PTRACE_DETACH, child, 0, 0));
    joined(child);
    receive_all(far, got, 5);
    OK(!memcmp(got, "files", 5));
  }
}

static void a_stopped_sendfile_holds_nobody_up(void) {
  char name[] = "/tmp/shared-XXXXXX";
  int file = SYS(mkstemp(name));
  SYS(unlink(name));
  send_all(file, "files", 5);
  a_stopped_sender(file, file_to_stream);
}

static void a_stopped_splice_holds_nobody_up(void) {
  int ends[2];
  SYS(pipe(ends));
  send_all(ends[1], "filesfiles", 10);
  a_stopped_sender(ends[0], pipe_to_stream);
}

static void a_stopped_splice_to_a_pipe_holds_nobody_up(void) {
  EACH_PAIR(mine, far) {
    int ends[2];
    SYS(pipe(ends));
    send_all(far, "bytes", 5);
    pid_t child = stopped_at(ends[1], stream_to_pipe, mine);
    send_all(far, "other", 5);
    char got[5];
    /* On Linux they are the child's in the end, and the first are read here. */
    receive_all(mine, got, 5);
    SYS(ptrace(PTRACE_DETACH, child, 0, 0));
    joined(child);
    char piped[5];
    receive_all(ends[0], piped, 5);
    OK(memcmp(got, piped, 5) != 0);
    close(ends[0]), close(ends[1]);
  }
}

/* --- what one process does, another one sees at once ----------------------- */

enum { TRIES = 300, ROUNDS = 5 };

/* Looks that do not wait. */
static int by_recv(int fd, int ep) {
  char c;
  (void)ep;
  return recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) >= 0;
}
static int by_poll(int fd, int ep) {
  (void)ep;
  return ready(fd, POLLIN, 0) != 0;
}
static int by_epoll(int fd, int ep) {
  struct epoll_event e;
  (void)fd;
  return SYS(epoll_wait(ep, &e, 1, 0));
}
static int by_accept(int fd, int ep) {
  (void)ep;
  int got = accept4(fd, 0, 0, SOCK_NONBLOCK);
  return got >= 0 ? (close(got), 1) : 0;
}
typedef int look(int fd, int ep);

/* A child does `act`, says so by a pipe, and this process looks at `fd`. Says how many of
 * TRIES looks came too early. A connection is accepted, and all else read, after each. */
static int late_looks(int fd, look *looks, void (*act)(int from, struct sockaddr_in to), int from,
                      struct sockaddr_in to) {
  int up[2], down[2], late = 0, ep = epoll_with(fd, EPOLLIN);
  SYS(pipe(up)), SYS(pipe(down));
  pid_t child = SYS(fork());
  char c;
  if (!child) {
    SYS(close(down[1]));
    while (read(down[0], &c, 1) == 1) {
      act(from, to);
      send_all(up[1], "d", 1);
    }
    _exit(0);
  }
  SYS(close(down[0]));
  for (int i = 0; i < TRIES; i++) {
    send_all(down[1], "g", 1);
    receive_all(up[0], &c, 1);
    int sees = looks(fd, ep);
    late += !sees;
    if (looks != by_accept)
      IS(recv(fd, &c, 1, 0), 1);
    else if (!sees) {
      IS(ready(fd, POLLIN, 5000), POLLIN);
      SYS(close(SYS(accept(fd, 0, 0))));
    }
  }
  SYS(close(down[1])), SYS(close(up[0])), SYS(close(up[1])), SYS(close(ep));
  joined(child);
  return late;
}

/* None does, but for the few that a processor which others want holds up for longer than is
 * waited for. */
static void none_is_late(int fd, look *looks, void (*act)(int from, struct sockaddr_in to),
                         int from, struct sockaddr_in to) {
  int late, rounds = 0;
  while ((late = late_looks(fd, looks, act, from, to)) != 0)
    if (++rounds == ROUNDS)
      FAIL("%d of %d were late", late, TRIES);
}

static void sends(int from, struct sockaddr_in to) {
  (void)to;
  send_all(from, "x", 1);
}
static void sends_to(int from, struct sockaddr_in to) { IS(sendto(from, "x", 1, 0, A(to)), 1); }
static void connects(int from, struct sockaddr_in to) {
  (void)from;
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  SYS(connect(fd, A(to)));
  SYS(close(fd));
}

static look *const LOOKS[] = {by_recv, by_poll, by_epoll};
enum { WAYS = sizeof LOOKS / sizeof *LOOKS };

static void bytes_of_another_process_are_seen_at_once(void) {
  if (far_in_kernel())
    return;
  EACH_PAIR(mine, far)
    for (int way = 0; way < WAYS; way++)
      none_is_late(mine, LOOKS[way], sends, far, (struct sockaddr_in){0});
}

static void datagrams_of_another_process_are_seen_at_once(void) {
  if (far_in_kernel())
    return;
  int udp = SYS(socket(AF_INET, SOCK_DGRAM, 0)), from = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in any = address(my_ip(), 0);
  SYS(bind(udp, A(any)));
  for (int way = 0; way < WAYS; way++)
    none_is_late(udp, LOOKS[way], sends_to, from, name_of(udp));
  SYS(close(udp)), SYS(close(from));
}

static void connections_of_another_process_are_seen_at_once(void) {
  if (far_in_kernel())
    return;
  int listener = my_listener(8);
  SYS(fcntl(listener, F_SETFL, O_NONBLOCK));
  none_is_late(listener, by_accept, connects, -1, name_of(listener));
  SYS(close(listener));
}

const struct check CHECKS[] = {
    {"a_stopped_sendfile_holds_nobody_up", a_stopped_sendfile_holds_nobody_up},
    {"a_stopped_splice_holds_nobody_up", a_stopped_splice_holds_nobody_up},
    {"a_stopped_splice_to_a_pipe_holds_nobody_up", a_stopped_splice_to_a_pipe_holds_nobody_up},
    {"all_see_data", all_see_data},
    {"all_see_data_by_edge", all_see_data_by_edge},
    {"all_see_a_reset", all_see_a_reset},
    {"all_see_room", all_see_room},
    {"all_see_a_shutdown_by_one", all_see_a_shutdown_by_one},
    {"a_reader_is_woken_by_anothers_shutdown", a_reader_is_woken_by_anothers_shutdown},
    {"bytes_of_another_process_are_seen_at_once", bytes_of_another_process_are_seen_at_once},
    {"datagrams_of_another_process_are_seen_at_once",
     datagrams_of_another_process_are_seen_at_once},
    {"connections_of_another_process_are_seen_at_once",
     connections_of_another_process_are_seen_at_once},
    {0, 0},
};
