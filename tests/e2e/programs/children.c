/* Children that are made in other ways than by fork(), and programs that are executed: whose
 * socket is it, and which stack do they find themselves on. */
#include "check.h"
#include <linux/sched.h>
#include <sched.h>
#include <spawn.h>

/* glibc has it under this name, too. */
int __clone(int (*)(void *), void *, int, void *, ...);
pid_t _Fork(void);

static int run_child(void *arg) {
  ((void (*)(void))arg)();
  _exit(0);
}

enum { BY_FORK, BY_CLONE, BY_CLONE3, BY__FORK, BY_CLONE_CALL, BY___CLONE, BEHIND_ITS_BACK, WAYS };

/* Makes a child that runs `run` and ends. */
static pid_t child_by(int way, void (*run)(void)) {
  static char stack[1 << 18] __attribute__((aligned(16)));
  struct clone_args args = {.exit_signal = SIGCHLD};
  pid_t child;
  switch (way) {
  case BY_FORK: child = (syscall)(FORK_BY_NUMBER); break;
  case BY_CLONE: child = (syscall)(SYS_clone, SIGCHLD, 0, 0, 0, 0); break;
  case BY_CLONE3: child = (syscall)(SYS_clone3, &args, sizeof args); break;
  case BY__FORK: child = _Fork(); break;
  case BY_CLONE_CALL:
    return SYS(clone(run_child, stack + sizeof stack, SIGCHLD, run));
  case BY___CLONE:
    return SYS(__clone(run_child, stack + sizeof stack, SIGCHLD, run));
  default: child = syscall(FORK_BY_NUMBER); break;
  }
  if (child == 0)
    run_child(run);
  return SYS(child);
}

static int mine_ = -1;

static void close_it(void) { SYS(close(mine_)); }

static void write_and_close(void) {
  send_all(mine_, "hi", 2);
  SYS(close(mine_));
}

static void child_leaves_the_parents_copy(void) {
  for (int way = 0; way < WAYS; way++)
    EACH_PAIR(mine, far) {
      char buf[8];
      mine_ = mine;
      joined(child_by(way, close_it));
      joined(child_by(way, write_and_close));
      receive_all(far, buf, 2);
      IS(memcmp(buf, "hi", 2), 0);
      send_all(mine, "here", 4);
      receive_all(far, buf, 4);
      IS(memcmp(buf, "here", 4), 0);
      send_all(far, "back", 4);
      receive_all(mine, buf, 4);
      IS(memcmp(buf, "back", 4), 0);
    }
}

static int go[2];

static void use_it_late(void) {
  char buf[8];
  receive_all(go[0], buf, 1);
  send_all(mine_, "late", 4);
  receive_all(mine_, buf, 4);
  IS(memcmp(buf, "work", 4), 0);
}

/* The parent's copy is closed before the child has made a single call. */
static void connection_outlives_the_parents_copy(void) {
  for (int way = 0; way < BEHIND_ITS_BACK; way++)
    EACH_PAIR(mine, far) {
      char buf[8];
      mine_ = mine;
      SYS(pipe(go));
      pid_t child = child_by(way, use_it_late);
      SYS(close(mine));
      mine = -1;
      send_all(go[1], "x", 1);
      receive_all(far, buf, 4);
      send_all(far, "work", 4);
      joined(child);
      IS(read(far, buf, 1), 0);
      SYS(close(go[0])), SYS(close(go[1]));
    }
}

static void serve_one(void) {
  int fd = SYS(accept(mine_, 0, 0));
  char c;
  receive_all(fd, &c, 1);
  send_all(fd, &c, 1);
  SYS(close(SYS(socket(AF_INET, SOCK_STREAM, 0))));
}

/* Nothing of the parent's is taken by the child, whatever it does. */
static void child_works_beside_its_parent(void) {
  for (int way = 0; way < WAYS; way++) {
    int listener = my_listener(8);
    mine_ = listener;
    pid_t child = child_by(way, serve_one);
    EACH_PAIR(mine, far) {
      unsigned char buf[1000];
      for (int i = 0; i < 50; i++) {
        pattern(buf, sizeof buf, i * 1000);
        send_all(mine, buf, sizeof buf);
        receive_all(far, buf, sizeof buf);
        check_pattern(buf, sizeof buf, i * 1000);
      }
    }
    int far = far_socket(SOCK_STREAM);
    SYS(far_connect(far, name_of(listener)));
    char c = 'c';
    send_all(far, &c, 1);
    receive_all(far, &c, 1);
    joined(child);
    SYS(close(far)), SYS(close(listener));
  }
}

/* --- exec ------------------------------------------------------------------ */

static char number[16];

/* What is executed: the socket is one of the stack under test, or this fails. */
static void exec_child_(void) {
  const char *fd = getenv("EXEC_FD");
  if (!fd)
    return; /* as one of the list */
  char buf[4];
  receive_all(atoi(fd), buf, 4);
  send_all(atoi(fd), buf, 4);
}

#define SELF "/proc/self/exe"
#define ARGS ((char *const[]){"exec", "exec_child_", 0})

static void execute(int how) {
  static char entry[32];
  snprintf(entry, sizeof entry, "EXEC_FD=%s", number);
  char *envp[] = {entry, "A=B", 0};
  int self = SYS(open(SELF, O_RDONLY | O_CLOEXEC));
  char path[256] = {0}, command[300];
  SYS(readlink(SELF, path, sizeof path - 1));
  snprintf(command, sizeof command, "exec %s exec_child_", path);
  switch (how) {
  case 0: execve(SELF, ARGS, envp); break;
  case 1: execle(SELF, "exec", "exec_child_", (char *)0, envp); break;
  case 2: execvpe(SELF, ARGS, envp); break;
  case 3: fexecve(self, ARGS, envp); break;
  case 4: execveat(self, "", ARGS, envp, AT_EMPTY_PATH); break;
  case 5: (syscall)(SYS_execve, SELF, ARGS, envp); break;
  case 6: {
    pid_t child;
    OK(posix_spawn(&child, SELF, 0, 0, ARGS, envp) == 0);
    joined(child);
    _exit(0);
  }
  default:
    clearenv();
    setenv("EXEC_FD", number, 1);
    switch (how) {
    case 7: execv(SELF, ARGS); break;
    case 8: execvp(SELF, ARGS); break;
    case 9: execl(SELF, "exec", "exec_child_", (char *)0); break;
    case 10: execlp(SELF, "exec", "exec_child_", (char *)0); break;
    case 11: _exit(system(command) != 0);
    case 12: {
      FILE *f = popen(command, "w");
      _exit(!f || pclose(f) != 0);
    }
    default: execl(SELF, "exec", "exec_child_", "3", "4", "5", "6", "7", "8", (char *)0);
    }
  }
  FAIL("exec %d: %s", how, strerror(errno));
}

static void exec_with_another_environment(void) {
  for (int how = 0; how < 14; how++) {
    int mine, far;
    char buf[4];
    pair(how % 2, &mine, &far);
    snprintf(number, sizeof number, "%d", mine);
    pid_t child = SYS(fork());
    if (!child) {
      SYS(close(far));
      execute(how);
    }
    SYS(close(mine));
    send_all(far, "exec", 4);
    receive_all(far, buf, 4);
    IS(memcmp(buf, "exec", 4), 0);
    joined(child);
    SYS(close(far));
  }
}

/* A program that has emptied its environment before its first socket. */
static void first_socket_with_no_environment(void) {
  char *addr = strdup(my_ip()), *far_addr = strdup(far_ip()), *far_ = strdup(getenv("FAR") ?: "");
  clearenv();
  setenv("ADDR", addr, 1), setenv("FAR_ADDR", far_addr, 1), setenv("FAR", far_, 1);
  EACH_PAIR(mine, far) {
    char c = 'c';
    send_all(mine, &c, 1);
    receive_all(far, &c, 1);
  }
}

static void sleep_for_long(void) {
  execl("/bin/sleep", "sleep", "15", (char *)0);
  _exit(9);
}

static pid_t __attribute__((noinline)) vfork_to_sleep(char **argv, char **envp) {
  pid_t child = vfork();
  if (child == 0) {
    execve("/bin/sleep", argv, envp);
    _exit(9);
  }
  return SYS(child);
}

/* The program that is executed does not inherit the socket: with the parent's copy the
 * connection is closed, however long that program lives. */
static void close_on_exec(void) {
  for (int how = 0; how < 4; how++)
    EACH_PAIR(mine, far) {
      char c, *argv[] = {"sleep", "15", 0}, *envp[] = {0};
      pid_t child;
      SYS(fcntl(mine, F_SETFD, FD_CLOEXEC));
      SYS(fcntl(far, F_SETFD, FD_CLOEXEC));
      switch (how) {
      case 0:
        if (!(child = SYS(fork())))
          sleep_for_long();
        break;
      case 1:
        child = vfork_to_sleep(argv, envp);
        break;
      case 2: OK(posix_spawn(&child, "/bin/sleep", 0, 0, argv, environ) == 0); break;
      default: child = child_by(BY_CLONE, sleep_for_long);
      }
      SYS(close(mine));
      mine = -1;
      IS(read(far, &c, 1), 0);
      IS(waitpid(child, 0, WNOHANG), 0);
      kill(child, SIGKILL);
      waitpid(child, 0, 0);
    }
}

/* Close-on-exec of a socket that nobody else has. */
static void close_on_exec_of_the_only_copy(void) {
  int listener = far_listener(1), up[2];
  struct sockaddr_in a = far_name(listener);
  SYS(pipe(up));
  pid_t child = SYS(fork());
  if (!child) {
    int fd = SYS(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    SYS(close(listener));
    SYS(connect(fd, A(a)));
    send_all(fd, "x", 1);
    sleep_for_long();
  }
  int far = far_accept(listener);
  char c;
  receive_all(far, &c, 1);
  IS(read(far, &c, 1), 0);
  IS(waitpid(child, 0, WNOHANG), 0);
  kill(child, SIGKILL);
}

/* exec that fails only when the kernel has looked at all of it. */
static void execute_what_fails_late(void) {
  char *none[] = {"none", 0}, *long_[] = {"long", malloc(1 << 20), 0};
  memset(long_[1], 'x', (1 << 20) - 1);
  long_[1][(1 << 20) - 1] = 0;
  FAILS(execv("/bin/true", long_), E2BIG);
  static const char *const files[] = {"#!/no/such/interpreter\n", "neither a script nor a program",
                                      "\177ELF", ""};
  static const int errors[] = {ENOENT, ENOEXEC, ENOEXEC, ENOEXEC};
  for (int i = 0; i < 4; i++) {
    char path[32];
    int fd = SYS(syscall(SYS_memfd_create, "file", 0));
    send_all(fd, files[i], strlen(files[i]));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    FAILS(execv(path, none), errors[i]);
    FAILS(fexecve(fd, none, environ), errors[i]);
    SYS(close(fd));
  }
}

/* exec that fails changes nothing. */
static void exec_that_fails(void) {
  EACH_PAIR(mine, far) {
    char buf[4], *none[] = {"none", 0};
    SYS(fcntl(mine, F_SETFD, FD_CLOEXEC));
    pid_t child = SYS(fork());
    if (!child) {
      FAILS(execv("/no/such/program", none), ENOENT);
      FAILS(execvp("no-such-program", none), ENOENT);
      FAILS(execl("/etc/passwd", "passwd", (char *)0), EACCES);
      execute_what_fails_late();
      receive_all(mine, buf, 4);
      send_all(mine, buf, 4);
      _exit(0);
    }
    SYS(close(mine));
    mine = -1;
    sleep_ms(50);
    send_all(far, "work", 4);
    receive_all(far, buf, 4);
    joined(child);
  }
}

/* Children in a namespace of pids of their own that are not made by fork(): the engine knows
 * them by other numbers than they do. */
static void children_in_a_pid_namespace(void) {
  enum { BY_SPAWN = WAYS, ALL };
  static const int ways[] = {BY_SPAWN, BY__FORK, BY_CLONE, BY_CLONE_CALL, BEHIND_ITS_BACK};
  enum { N = sizeof ways / sizeof *ways };
  int mine[N], far[N], gate[2];
  pid_t parents[N];
  char buf[4];
  SYS(pipe(gate));
  for (int i = 0; i < N; i++)
    pair(i % 2, &mine[i], &far[i]);
  for (int i = 0; i < N; i++) {
    if (!(parents[i] = SYS(fork()))) {
      /* Once its first process has died, a namespace takes no others. */
      SYS(unshare(CLONE_NEWPID));
      pid_t child;
      snprintf(number, sizeof number, "%d", mine[i]);
      setenv("EXEC_FD", number, 1);
      for (int j = 0; j < N; j++)
        SYS(close(far[j]));
      for (int j = i + 1; j < N; j++)
        SYS(close(mine[j]));
      if (ways[i] == BY_SPAWN)
        OK(posix_spawn(&child, SELF, 0, 0, ARGS, environ) == 0);
      else
        child = child_by(ways[i], exec_child_);
      /* Behind its back, what the parent closes before the child's first call is lost. */
      if (ways[i] != BEHIND_ITS_BACK)
        SYS(close(mine[i]));
      send_all(gate[1], "r", 1);
      joined(child);
      _exit(0);
    }
    SYS(close(mine[i]));
  }
  for (int i = 0; i < N; i++)
    receive_all(gate[0], buf, 1);
  sleep_ms(300);
  for (int i = 0; i < N; i++) {
    if (recv(far[i], buf, 1, MSG_DONTWAIT) != -1)
      FAIL("way %d: the connection has ended", ways[i]);
    send_all(far[i], "work", 4);
    receive_all(far[i], buf, 4);
    IS(memcmp(buf, "work", 4), 0);
    joined(parents[i]);
    IS(read(far[i], buf, 1), 0);
  }
}

/* --- calls by number --------------------------------------------------------- */

static void socket_calls_by_number(void) {
  int listener = (syscall)(SYS_socket, AF_INET, SOCK_STREAM, 0), one = 1;
  struct sockaddr_in a = address(my_ip(), 0);
  socklen_t n = sizeof a, four = 4;
  SYS((syscall)(SYS_setsockopt, listener, SOL_SOCKET, SO_REUSEADDR, &one, 4));
  SYS((syscall)(SYS_bind, listener, &a, sizeof a));
  SYS((syscall)(SYS_listen, listener, 4));
  SYS((syscall)(SYS_getsockname, listener, &a, &n));
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, a));
  int ep = (syscall)(SYS_epoll_create1, 0);
  struct epoll_event e = {.events = EPOLLIN};
  SYS((syscall)(SYS_epoll_ctl, ep, EPOLL_CTL_ADD, listener, &e));
#ifdef SYS_epoll_wait
  IS((syscall)(SYS_epoll_wait, ep, &e, 1, 5000), 1);
#endif
  IS((syscall)(SYS_epoll_pwait, ep, &e, 1, 5000, 0, 8), 1);
  int mine = (syscall)(SYS_accept4, listener, 0, 0, 0);
  OK(mine >= 0);
  char buf[16] = {0};
  struct iovec v = {buf, 4};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
  IS((syscall)(SYS_write, mine, "1234", 4), 4);
  IS((syscall)(SYS_sendto, mine, "5678", 4, 0, 0, 0), 4);
  memcpy(buf, "9abc", 4);
  IS((syscall)(SYS_sendmsg, mine, &m, 0), 4);
  IS((syscall)(SYS_writev, mine, &v, 1), 4);
  receive_all(far, buf, 16);
  IS(memcmp(buf, "123456789abc9abc", 16), 0);
  struct pollfd p = {.fd = mine, .events = POLLIN};
  fd_set set;
  FD_ZERO(&set);
  FD_SET(mine, &set);
  send_all(far, "wxyzWXYZ1234", 12);
#ifdef SYS_poll
  IS((syscall)(SYS_poll, &p, 1, 5000), 1);
#endif
  IS((syscall)(SYS_ppoll, &p, 1, 0, 0, 8), 1);
#ifdef SYS_select
  IS((syscall)(SYS_select, mine + 1, &set, 0, 0, 0), 1);
#endif
  IS((syscall)(SYS_pselect6, mine + 1, &set, 0, 0, 0, 0), 1);
  IS((syscall)(SYS_read, mine, buf, 4), 4);
  IS(memcmp(buf, "wxyz", 4), 0);
  IS((syscall)(SYS_recvfrom, mine, buf, 4, MSG_WAITALL, 0, 0), 4);
  IS((syscall)(SYS_recvmsg, mine, &m, MSG_WAITALL), 4);
  IS(memcmp(buf, "1234", 4), 0);
  IS((syscall)(SYS_getsockopt, mine, SOL_SOCKET, SO_TYPE, &one, &four), 0);
  IS(one, SOCK_STREAM);
  int other = (syscall)(SYS_dup, mine), third = (syscall)(SYS_fcntl, mine, F_DUPFD_CLOEXEC, 100);
  SYS((syscall)(SYS_close, mine));
  SYS((syscall)(SYS_dup3, other, third, O_CLOEXEC));
  SYS((syscall)(SYS_close, other));
  send_all(third, "dup", 3);
  receive_all(far, buf, 3);
  SYS((syscall)(SYS_shutdown, third, SHUT_WR));
  IS(read(far, buf, 1), 0);
  SYS((syscall)(SYS_close, third));
  /* connect */
  int l = far_listener(1), c = (syscall)(SYS_socket, AF_INET, SOCK_STREAM, 0);
  a = far_name(l);
  SYS((syscall)(SYS_connect, c, &a, sizeof a));
  SYS((syscall)(SYS_getpeername, c, &a, &n));
  OK(same(a, far_name(l)));
  close(far_accept(l));
}

static void at_no_offset(void) {
  EACH_PAIR(mine, far) {
    char buf[8] = "12345678";
    struct iovec v = {buf, 4};
    IS(pwritev2(mine, &v, 1, -1, 0), 4);
    receive_all(far, buf, 4);
    FAILS(preadv2(mine, &v, 1, -1, RWF_NOWAIT), EAGAIN);
    send_all(far, "data", 4);
    OK(ready(mine, POLLIN, 5000) & POLLIN);
    IS(preadv2(mine, &v, 1, -1, 0), 4);
    IS(memcmp(buf, "data", 4), 0);
    FAILS(preadv2(mine, &v, 1, -1, 0x4000), EOPNOTSUPP);
    /* What moves nothing is asked no more. */
    struct iovec none = {buf, 0};
    int new = SYS(socket(AF_INET, SOCK_STREAM, 0)), datagrams = SYS(socket(AF_INET, SOCK_DGRAM, 0));
    for (int flags = 0; flags < 0x80000; flags = flags ? 2 * flags : 1) {
      IS(pwritev2(mine, &none, 1, -1, flags), 0);
      IS(preadv2(mine, &none, 1, -1, flags), 0);
      IS(pwritev2(new, &none, 1, -1, flags), 0);
      IS(preadv2(datagrams, &none, 0, -1, flags), 0);
      IS(pwritev2(datagrams, &none, 1, -1, flags), 0);
    }
    close(new);
    close(datagrams);
    struct iovec many[1025] = {{buf, 1}};
    FAILS(preadv2(mine, many, 1025, -1, 0x4000), EINVAL);
    FAILS(pwritev2(mine, &v, -1, -1, 0x4000), EINVAL);
    FAILS(preadv2(mine, &v, 1, 0, 0), ESPIPE);
    FAILS(pwritev2(mine, &v, 1, 0, 0), ESPIPE);
    FAILS(preadv(mine, &v, 1, 0), ESPIPE);
    FAILS(pwritev(mine, &v, 1, 0), ESPIPE);
    FAILS(pread(mine, buf, 1, 0), ESPIPE);
    FAILS(pwrite(mine, buf, 1, 0), ESPIPE);
  }
}

const struct check CHECKS[] = {
    {"child_leaves_the_parents_copy", child_leaves_the_parents_copy},
    {"connection_outlives_the_parents_copy", connection_outlives_the_parents_copy},
    {"child_works_beside_its_parent", child_works_beside_its_parent},
    {"exec_child_", exec_child_},
    {"exec_with_another_environment", exec_with_another_environment},
    {"first_socket_with_no_environment", first_socket_with_no_environment},
    {"close_on_exec", close_on_exec},
    {"close_on_exec_of_the_only_copy", close_on_exec_of_the_only_copy},
    {"exec_that_fails", exec_that_fails},
    {"children_in_a_pid_namespace", children_in_a_pid_namespace},
    {"socket_calls_by_number", socket_calls_by_number},
    {"at_no_offset", at_no_offset},
    {0, 0},
};
