/* fork, exec and threads: whose socket is it. */
#include "check.h"
#include <sched.h>
#include <spawn.h>
#if __GLIBC_PREREQ(2, 39)
#include <sys/pidfd.h>
#endif

static void child_uses_a_connection(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    pid_t child = SYS(fork());
    if (!child) {
      receive_all(mine, buf, 4);
      send_all(mine, "done", 4);
      _exit(0);
    }
    send_all(far, "work", 4);
    receive_all(far, buf, 4);
    joined(child);
    /* The parent's copy is as open as before. */
    send_all(mine, "more", 4);
    receive_all(far, buf, 4);
    send_all(far, "more", 4);
    receive_all(mine, buf, 4);
  }
}

static void connection_outlives_the_parents_copy(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    pid_t child = SYS(fork());
    if (!child) {
      receive_all(mine, buf, 4);
      send_all(mine, "bye.", 4);
      _exit(0);
    }
    SYS(close(mine));
    mine = -1;
    sleep_ms(50);
    send_all(far, "late", 4);
    receive_all(far, buf, 4);
    IS(read(far, buf, 1), 0); /* with the child, the last copy is gone */
    joined(child);
  }
}

static void connection_outlives_the_child(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    pid_t child = SYS(fork());
    if (!child) {
      SYS(close(mine));
      _exit(0);
    }
    joined(child);
    sleep_ms(50);
    IS(ready(far, POLLIN, 0), 0);
    send_all(mine, "here", 4);
    receive_all(far, buf, 4);
  }
}

static void killed_child_leaves_the_parents_copy(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    pid_t child = SYS(fork());
    if (!child) {
      for (;;)
        pause();
    }
    kill(child, SIGKILL);
    waitpid(child, 0, 0);
    sleep_ms(100);
    send_all(mine, "here", 4);
    receive_all(far, buf, 4);
    send_all(far, "here", 4);
    receive_all(mine, buf, 4);
  }
}

static void exit_closes(void) {
  EACH_PAIR(mine, far) {
    char c;
    pid_t child = SYS(fork());
    if (!child) {
      send_all(mine, "x", 1);
      exit(0); /* without close() */
    }
    SYS(close(mine));
    mine = -1;
    receive_all(far, &c, 1);
    IS(read(far, &c, 1), 0);
    joined(child);
  }
}

static void children_share_a_listener(void) {
  enum { WORKERS = 3, N = 60 };
  int listener = my_listener(N);
  struct sockaddr_in a = name_of(listener);
  pid_t workers[WORKERS];
  for (int w = 0; w < WORKERS; w++) {
    if (!(workers[w] = SYS(fork()))) {
      for (;;) {
        int fd = SYS(accept(listener, 0, 0));
        char c;
        receive_all(fd, &c, 1);
        if (c == 'q')
          _exit(0);
        send_all(fd, &c, 1);
        SYS(close(fd));
      }
    }
  }
  SYS(close(listener));
  for (int i = 0; i < N; i++) {
    int far = far_socket(SOCK_STREAM);
    SYS(far_connect(far, a));
    char c = 'a' + i % 16, back;
    send_all(far, &c, 1);
    receive_all(far, &back, 1);
    IS(back, c);
    SYS(close(far));
  }
  for (int w = 0; w < WORKERS; w++) {
    int far = far_socket(SOCK_STREAM);
    SYS(far_connect(far, a));
    send_all(far, "q", 1);
    char c;
    IS(read(far, &c, 1), 0);
    SYS(close(far));
  }
  for (int w = 0; w < WORKERS; w++)
    joined(workers[w]);
  /* The last of them gone, nobody listens. */
  sleep_ms(100);
  int far = far_socket(SOCK_STREAM);
  FAILS(far_connect(far, a), ECONNREFUSED);
}

/* Sends the byte that comes back, closes the connection, and says which byte it was. */
static char answer(int fd) {
  char c;
  receive_all(fd, &c, 1);
  send_all(fd, &c, 1);
  SYS(close(fd));
  return c;
}

static void children_share_a_listener_by_epoll(void) {
  enum { WORKERS = 3, N = 60 };
  int listener = my_listener(N);
  nonblocking(listener);
  struct sockaddr_in a = name_of(listener);
  pid_t workers[WORKERS];
  for (int w = 0; w < WORKERS; w++) {
    if (!(workers[w] = SYS(fork()))) {
      int ep = SYS(epoll_create1(0));
      struct epoll_event e = {.events = EPOLLIN | EPOLLEXCLUSIVE};
      SYS(epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e));
      for (;;) {
        SYS(epoll_wait(ep, &e, 1, -1));
        int fd = accept(listener, 0, 0);
        if (fd < 0) {
          OK(errno == EAGAIN);
          continue;
        }
        answer(fd);
      }
    }
  }
  for (int i = 0; i < N; i++) {
    int far = far_socket(SOCK_STREAM);
    SYS(far_connect(far, a));
    char c = i, back;
    send_all(far, &c, 1);
    receive_all(far, &back, 1);
    IS(back, c);
    SYS(close(far));
  }
  for (int w = 0; w < WORKERS; w++) {
    kill(workers[w], SIGTERM);
    waitpid(workers[w], 0, 0);
  }
}

static void server_forks_for_each_connection(void) {
  int listener = my_listener(16);
  struct sockaddr_in a = name_of(listener);
  for (int i = 0; i < 20; i++) {
    int far = far_socket(SOCK_STREAM);
    SYS(far_connect(far, a));
    int mine = SYS(accept(listener, 0, 0));
    pid_t child = SYS(fork());
    if (!child) {
      SYS(close(listener));
      char buf[4];
      receive_all(mine, buf, 4);
      send_all(mine, buf, 4);
      exit(0);
    }
    SYS(close(mine));
    char buf[4];
    send_all(far, "echo", 4);
    receive_all(far, buf, 4);
    IS(read(far, buf, 1), 0);
    SYS(close(far));
    joined(child);
  }
}

static void grandchildren(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    pid_t child = SYS(fork());
    if (!child) {
      pid_t grandchild = SYS(fork());
      if (!grandchild) {
        receive_all(mine, buf, 4);
        send_all(mine, "deep", 4);
        _exit(0);
      }
      joined(grandchild);
      _exit(0);
    }
    send_all(far, "hey!", 4);
    receive_all(far, buf, 4);
    joined(child);
  }
}

static void both_write(void) {
  EACH_PAIR(mine, far) {
    pid_t child = SYS(fork());
    if (!child) {
      for (int i = 0; i < 500; i++)
        send_all(mine, "a", 1);
      _exit(0);
    }
    for (int i = 0; i < 500; i++)
      send_all(mine, "b", 1);
    int count[2] = {0, 0};
    for (int i = 0; i < 1000; i++) {
      char c;
      receive_all(far, &c, 1);
      count[c == 'b']++;
    }
    IS(count[0], 500);
    IS(count[1], 500);
    joined(child);
  }
}

static void both_read(void) {
  EACH_PAIR(mine, far) {
    pid_t child = SYS(fork());
    if (!child) {
      char c;
      for (int i = 0; i < 300; i++)
        receive_all(mine, &c, 1);
      _exit(0);
    }
    static char some[600];
    send_all(far, some, sizeof some);
    char c;
    for (int i = 0; i < 300; i++)
      receive_all(mine, &c, 1);
    joined(child);
    FAILS(recv(mine, &c, 1, MSG_DONTWAIT), EAGAIN);
  }
}

/* Run as "exec_child": speaks over the descriptor named in EXEC_FD. */
static void exec_child(void) {
  if (!getenv("EXEC_FD")) /* listed with the others, useful only when executed */
    return;
  int fd = atoi(getenv("EXEC_FD"));
  char buf[4];
  receive_all(fd, buf, 4);
  OK(memcmp(buf, "exec", 4) == 0);
  int type = option(fd, SOL_SOCKET, SO_TYPE);
  IS(type, SOCK_STREAM);
  send_all(fd, "okay", 4);
}

static void exec_with(int fd) {
  char number[16];
  snprintf(number, sizeof number, "%d", fd);
  setenv("EXEC_FD", number, 1);
  execl("/proc/self/exe", "exec", "exec_child", (char *)0);
  _exit(9);
}

static void exec_keeps_it(void) {
  EACH_PAIR(mine, far) {
    char buf[4];
    pid_t child = SYS(fork());
    if (!child)
      exec_with(mine);
    SYS(close(mine));
    mine = -1;
    send_all(far, "exec", 4);
    receive_all(far, buf, 4);
    OK(memcmp(buf, "okay", 4) == 0);
    joined(child);
    IS(read(far, buf, 1), 0);
  }
}

static void exec_without_fork(void) {
  /* A process that replaces itself, its pid and its connection staying. */
  EACH_PAIR(mine, far) {
    char buf[4];
    pid_t child = SYS(fork());
    if (!child) {
      SYS(close(far));
      send_all(mine, "soon", 4);
      exec_with(mine);
    }
    receive_all(far, buf, 4);
    send_all(far, "exec", 4);
    receive_all(far, buf, 4);
    joined(child);
  }
}

/* Run as "exec_server": serves who waits at the listener named in EXEC_FD. */
static void exec_server(void) {
  if (!getenv("EXEC_FD"))
    return;
  int listener = atoi(getenv("EXEC_FD"));
  for (int i = 0; i < 3; i++) {
    char buf[4];
    int fd = SYS(accept(listener, 0, 0));
    receive_all(fd, buf, i == 2 ? 4 : i);
    if (i < 2)
      IS(read(fd, buf, 1), 0);
    send_all(fd, "okay", 4);
    SYS(close(fd));
  }
}

/* A process that replaces itself when somebody has connected, as inetd and systemd do it:
 * what has come on connections that nobody has accepted is told to the program that comes after. */
static void exec_with_connections_that_wait(void) {
  for (int how = 0; how < 2; how++) {
    int listener = my_listener(8), far[3];
    struct sockaddr_in a = name_of(listener);
    for (int i = 0; i < 3; i++) {
      far[i] = far_socket(SOCK_STREAM);
      SYS(far_connect(far[i], a));
    }
    /* Nothing and one byte, both with the end behind them; and four bytes. */
    SYS(shutdown(far[0], SHUT_WR));
    send_all(far[1], "x", 1);
    SYS(shutdown(far[1], SHUT_WR));
    send_all(far[2], "exec", 4);
    sleep_ms(50);
    pid_t child = SYS(fork());
    if (!child) {
      /* How the image before the other looks, or that it does not. */
      if (how == 1)
        IS(ready(listener, POLLIN, 5000), POLLIN);
      char number[16];
      snprintf(number, sizeof number, "%d", listener);
      setenv("EXEC_FD", number, 1);
      execl("/proc/self/exe", "exec", "exec_server", (char *)0);
      _exit(9);
    }
    SYS(close(listener));
    for (int i = 0; i < 3; i++) {
      char buf[4];
      receive_all(far[i], buf, 4);
      SYS(close(far[i]));
    }
    joined(child);
  }
}

/* A process that replaces itself and has made the listener, so that it was told of them already. */
static void exec_of_who_listens(void) {
  int from_child[2];
  SYS(pipe(from_child));
  pid_t child = SYS(fork());
  if (!child) {
    int listener = my_listener(8);
    struct sockaddr_in a = name_of(listener);
    SYS(write(from_child[1], &a, sizeof a));
    sleep_ms(500); /* in which all comes, and is not looked at */
    char number[16];
    snprintf(number, sizeof number, "%d", listener);
    setenv("EXEC_FD", number, 1);
    execl("/proc/self/exe", "exec", "exec_server", (char *)0);
    _exit(9);
  }
  struct sockaddr_in a;
  receive_all(from_child[0], &a, sizeof a);
  int far[3];
  for (int i = 0; i < 3; i++) {
    far[i] = far_socket(SOCK_STREAM);
    SYS(far_connect(far[i], a));
    send_all(far[i], "exec", i == 2 ? 4 : i);
    if (i < 2)
      SYS(shutdown(far[i], SHUT_WR));
  }
  for (int i = 0; i < 3; i++) {
    char buf[4];
    receive_all(far[i], buf, 4);
    SYS(close(far[i]));
  }
  joined(child);
}

/* One thread of a program with an epoll instance for each thread: it accepts one connection each time it
 * is told of the listener, whatever else waits there. 'e' ends the program. */
static void *watch_and_serve(void *arg) {
  int listener = *(int *)arg, ep = SYS(epoll_create1(0));
  struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e));
  for (;;) {
    IS(epoll_wait(ep, &e, 1, -1), 1);
    int fd = accept4(listener, 0, 0, SOCK_CLOEXEC);
    if (fd < 0) {
      OK(errno == EAGAIN);
      continue;
    }
    if (answer(fd) == 'e')
      _exit(0);
  }
}

/* Run as "exec_watchers": two threads watch the listener named in EXEC_FD. */
static void exec_watchers(void) {
  if (!getenv("EXEC_FD"))
    return;
  int listener = atoi(getenv("EXEC_FD"));
  nonblocking(listener);
  pthread_t other;
  OK(!pthread_create(&other, 0, watch_and_serve, &listener));
  watch_and_serve(&listener);
}

/* Some connections at once, which the child's threads, or this process, answer. */
static void connect_some(struct sockaddr_in a, int some, char c, const char *when) {
  int far[4];
  for (int i = 0; i < some; i++) {
    far[i] = far_socket(SOCK_STREAM);
    SYS(far_connect(far[i], a));
    send_all(far[i], &c, 1);
  }
  for (int i = 0; i < some; i++) {
    if (!ready(far[i], POLLIN, 8000))
      FAIL("connection %d of %d waits, and nobody is told (%s)", i, some, when);
    char back;
    receive_all(far[i], &back, 1);
    IS(back, c);
    SYS(close(far[i]));
  }
}

/* A listener that is watched by two threads of a program that has inherited it, as with HAProxy and
 * whoever starts it, and by a thread of this process, too, or by nobody here. */
static void threads_of_another_program_watch_a_listener(void) {
  for (int too = 0; too < 2; too++) {
    int listener = my_listener(8);
    struct sockaddr_in a = name_of(listener);
    pid_t child = SYS(fork());
    if (!child) {
      char number[16];
      snprintf(number, sizeof number, "%d", listener);
      setenv("EXEC_FD", number, 1);
      execl("/proc/self/exe", "exec", "exec_watchers", (char *)0);
      _exit(9);
    }
    connect_some(a, 1, 'a', "the child begins");
    pthread_t here;
    if (too) {
      nonblocking(listener);
      OK(!pthread_create(&here, 0, watch_and_serve, &listener));
    }
    for (int round = 0; round < 60; round++) {
      /* All sleep, or have just served. */
      if (round % 3 == 0)
        until_it_sleeps(child);
      connect_some(a, 1 + round % 4, 'b', round % 3 ? "just served" : "they sleep");
    }
    if (too) {
      SYS(kill(child, SIGKILL)), SYS(waitpid(child, 0, 0));
      /* Who is left goes on. */
      connect_some(a, 3, 'c', "the child is gone");
    } else {
      connect_some(a, 1, 'e', "the last");
      joined(child);
      SYS(close(listener));
    }
  }
}

static void exec_closes_what_is_marked(void) {
  EACH_PAIR(mine, far) {
    pid_t child = SYS(fork());
    if (!child) {
      SYS(fcntl(mine, F_SETFD, FD_CLOEXEC));
      execl("/bin/sleep", "sleep", "1000", (char *)0);
      _exit(9);
    }
    SYS(close(mine));
    mine = -1;
    char c;
    IS(read(far, &c, 1), 0); /* at the exec, not when sleep ends */
    int status;
    IS(waitpid(child, &status, WNOHANG), 0);
    kill(child, SIGKILL);
    IS(waitpid(child, &status, 0), child);
  }
}

static void another_program_gets_it_as_stdio(void) {
  EACH_PAIR(mine, far) {
    pid_t child = SYS(fork());
    if (!child) {
      SYS(dup2(mine, 0));
      SYS(dup2(mine, 1));
      execl("/bin/cat", "cat", (char *)0);
      _exit(9);
    }
    SYS(close(mine));
    mine = -1;
    char buf[6];
    send_all(far, "meow!\n", 6);
    receive_all(far, buf, 6);
    OK(memcmp(buf, "meow!\n", 6) == 0);
    SYS(shutdown(far, SHUT_WR));
    IS(read(far, buf, 1), 0);
    joined(child);
  }
}

/* Run as "exec_new": binds the new socket in EXEC_FD, and another to the same port. */
static void exec_new(void) {
  struct sockaddr_in a = address(my_ip(), 0);
  if (!getenv("EXEC_FD"))
    return;
  int fd = atoi(getenv("EXEC_FD")), beside = SYS(socket(AF_INET, SOCK_STREAM, 0));
  SYS(bind(fd, A(a)));
  SYS(listen(fd, 1));
  set(beside, SOL_SOCKET, SO_REUSEPORT, 1);
  a = name_of(fd);
  SYS(bind(beside, A(a)));
  while (option(fd, SOL_SOCKET, SO_ACCEPTCONN)) /* until its parent has shut it down */
    sleep_ms(5);
}

/* What was set before counts, and what one of them does the other finds. */
static void exec_of_a_new_one(void) {
  char number[16];
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  snprintf(number, sizeof number, "%d", fd);
  setenv("EXEC_FD", number, 1);
  pid_t child = SYS(fork());
  if (!child) {
    execl("/proc/self/exe", "exec", "exec_new", (char *)0);
    _exit(9);
  }
  while (option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 0)
    sleep_ms(5);
  SYS(shutdown(fd, SHUT_RDWR));
  joined(child);
}

/* What a child does that was made with a connection as its standard input and
 * output, by the means that libc has for them. */
static void exec_stdio(void) {
  char line[32];
  if (!getenv("EXEC_STDIO"))
    return;
  OK(fgets(line, sizeof line, stdin));
  printf("you said %s", line);
}

static void stdio_on_an_inherited_socket(void) {
  EACH_PAIR(mine, far) {
    char buf[15];
    pid_t child = SYS(fork());
    if (!child) {
      SYS(dup2(mine, 0));
      SYS(dup2(mine, 1));
      setenv("EXEC_STDIO", "1", 1);
      execl("/proc/self/exe", "exec", "exec_stdio", (char *)0);
      _exit(9);
    }
    SYS(close(mine));
    mine = -1;
    send_all(far, "hello\n", 6);
    receive_all(far, buf, 15);
    OK(memcmp(buf, "you said hello\n", 15) == 0);
    joined(child);
  }
}

/* The functions that spawn: those that leave a descriptor came with glibc 2.39. */
#if __GLIBC_PREREQ(2, 39)
enum { POSIX_SPAWN, POSIX_SPAWNP, PIDFD_SPAWN, PIDFD_SPAWNP, SPAWNS };
#else
enum { POSIX_SPAWN, POSIX_SPAWNP, SPAWNS };
#endif

static pid_t spawn_cat(int how, const posix_spawn_file_actions_t *actions) {
  char *argv[] = {"cat", 0};
  pid_t child = -1;
  if (how == POSIX_SPAWN) {
    IS(posix_spawn(&child, "/bin/cat", actions, 0, argv, environ), 0);
  } else if (how == POSIX_SPAWNP) {
    IS(posix_spawnp(&child, "cat", actions, 0, argv, environ), 0);
#if __GLIBC_PREREQ(2, 39)
  } else {
    int fd = -1;
    if (how == PIDFD_SPAWN)
      IS(pidfd_spawn(&fd, "/bin/cat", actions, 0, argv, environ), 0);
    else
      IS(pidfd_spawnp(&fd, "cat", actions, 0, argv, environ), 0);
    child = SYS(pidfd_getpid(fd));
    SYS(close(fd));
#endif
  }
  return child;
}

static void spawned(void) {
  for (int how = 0; how < SPAWNS; how++)
    EACH_PAIR(mine, far) {
      posix_spawn_file_actions_t actions;
      posix_spawn_file_actions_init(&actions);
      posix_spawn_file_actions_adddup2(&actions, mine, 0);
      posix_spawn_file_actions_adddup2(&actions, mine, 1);
      pid_t child = spawn_cat(how, &actions);
      posix_spawn_file_actions_destroy(&actions);
      SYS(close(mine));
      mine = -1;
      char buf[4];
      send_all(far, "pop\n", 4);
      receive_all(far, buf, 4);
      SYS(shutdown(far, SHUT_WR));
      IS(read(far, buf, 1), 0);
      joined(child);
    }
}

static pid_t __attribute__((noinline)) vfork_and_exec(int fd) {
  char number[16], *argv[] = {"exec", "exec_child", 0};
  snprintf(number, sizeof number, "%d", fd);
  setenv("EXEC_FD", number, 1);
  pid_t child = vfork();
  if (child == 0) {
    execv("/proc/self/exe", argv);
    _exit(9);
  }
  OK(child > 0);
  return child;
}

static void vforked(void) {
  EACH_PAIR(mine, far) {
    pid_t child = vfork_and_exec(mine);
    char buf[4];
    send_all(far, "exec", 4);
    receive_all(far, buf, 4);
    joined(child);
    /* The parent's memory was borrowed; its socket must be as before. */
    send_all(mine, "same", 4);
    receive_all(far, buf, 4);
  }
}

static void fork_storm(void) {
  EACH_PAIR(mine, far) {
    for (int i = 0; i < 50; i++) {
      pid_t child = SYS(fork());
      if (!child) {
        send_all(mine, "x", 1);
        _exit(0);
      }
      joined(child);
    }
    char buf[50];
    receive_all(far, buf, 50);
    FAILS(recv(far, buf, 1, MSG_DONTWAIT), EAGAIN);
  }
}

struct job {
  int fd, times;
};

static void *reads(void *arg) {
  struct job *j = arg;
  unsigned char buf[1000];
  for (int i = 0; i < j->times; i++) {
    receive_all(j->fd, buf, sizeof buf);
    check_pattern(buf, sizeof buf, i * 1000);
  }
  return 0;
}

static void *writes(void *arg) {
  struct job *j = arg;
  unsigned char buf[1000];
  for (int i = 0; i < j->times; i++) {
    pattern(buf, sizeof buf, i * 1000);
    send_all(j->fd, buf, sizeof buf);
  }
  return 0;
}

static void threads_read_and_write(void) {
  EACH_PAIR(mine, far) {
    pthread_t t[4];
    struct job a = {mine, 2000}, b = {far, 2000};
    OK(!pthread_create(&t[0], 0, reads, &a));
    OK(!pthread_create(&t[1], 0, writes, &a));
    OK(!pthread_create(&t[2], 0, reads, &b));
    OK(!pthread_create(&t[3], 0, writes, &b));
    for (int i = 0; i < 4; i++)
      OK(!pthread_join(t[i], 0));
  }
}

static void *accepts(void *arg) {
  int listener = *(int *)arg;
  for (;;) {
    int fd = SYS(accept(listener, 0, 0));
    char c;
    receive_all(fd, &c, 1);
    if (c == 'q')
      return 0;
    send_all(fd, &c, 1);
    SYS(close(fd));
  }
}

static void threads_accept(void) {
  /* Listened in one thread, accepted in others. */
  enum { THREADS = 4, N = 80 };
  int listener = my_listener(N);
  struct sockaddr_in a = name_of(listener);
  pthread_t t[THREADS];
  for (int i = 0; i < THREADS; i++)
    OK(!pthread_create(&t[i], 0, accepts, &listener));
  for (int i = 0; i < N + THREADS; i++) {
    int far = far_socket(SOCK_STREAM);
    SYS(far_connect(far, a));
    char c = i < N ? 'x' : 'q', back;
    send_all(far, &c, 1);
    if (i < N)
      receive_all(far, &back, 1);
    SYS(close(far));
  }
  for (int i = 0; i < THREADS; i++)
    OK(!pthread_join(t[i], 0));
}

static void *wait_then_shut(void *arg) {
  sleep_ms(100);
  SYS(shutdown(*(int *)arg, SHUT_RDWR));
  return 0;
}

static void shutdown_from_another_thread(void) {
  EACH_PAIR(mine, far) {
    pthread_t t;
    char c;
    OK(!pthread_create(&t, 0, wait_then_shut, &mine));
    IS(read(mine, &c, 1), 0);
    OK(!pthread_join(t, 0));
  }
}

static void *many_connections(void *arg) {
  struct sockaddr_in at = *(struct sockaddr_in *)arg;
  for (int i = 0; i < 100; i++) {
    int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
    SYS(connect(fd, A(at)));
    char c = i, back;
    send_all(fd, &c, 1);
    receive_all(fd, &back, 1);
    IS(back, c);
    SYS(close(fd));
  }
  return 0;
}

static void threads_connect(void) {
  int listener = far_listener(64);
  struct sockaddr_in a = far_name(listener);
  pid_t server = SYS(fork());
  if (!server) {
    for (;;) {
      int fd = far_accept(listener);
      char c;
      if (read(fd, &c, 1) == 1)
        send_all(fd, &c, 1);
      close(fd);
    }
  }
  pthread_t t[4];
  for (int i = 0; i < 4; i++)
    OK(!pthread_create(&t[i], 0, many_connections, &a));
  for (int i = 0; i < 4; i++)
    OK(!pthread_join(t[i], 0));
  kill(server, SIGTERM);
  waitpid(server, 0, 0);
}

static void *forks(void *unused) {
  (void)unused;
  for (int i = 0; i < 20; i++) {
    pid_t child = SYS(fork());
    if (!child) {
      int fd = SYS(socket(AF_INET, SOCK_STREAM, 0)); /* must find no lock held */
      _exit(fd < 0);
    }
    joined(child);
  }
  return 0;
}

static void fork_while_other_threads_talk(void) {
  EACH_PAIR(mine, far) {
    pthread_t t[3];
    struct job a = {mine, 3000}, b = {far, 3000};
    OK(!pthread_create(&t[0], 0, writes, &a));
    OK(!pthread_create(&t[1], 0, reads, &b));
    OK(!pthread_create(&t[2], 0, forks, 0));
    for (int i = 0; i < 3; i++)
      OK(!pthread_join(t[i], 0));
  }
}

/* A process whose children begin a namespace of pids: their numbers say nothing to others,
 * and are those of others. */
static void in_a_pid_namespace_of_its_own(int kind) {
  int mine, far, its, its_far;
  pair(kind, &mine, &far);
  pair(kind, &its, &its_far);
  SYS(unshare(CLONE_NEWPID));
  int up[2];
  SYS(pipe(up));
  pid_t child = SYS(fork());
  if (!child) {
    IS(getpid(), 1);
    SYS(close(far)), SYS(close(its_far));
    pid_t grandchild = SYS(fork());
    if (!grandchild) {
      SYS(close(mine));
      send_all(its, "x", 1);
      pause();
    }
    SYS(close(its));
    send_all(mine, "y", 1);
    send_all(up[1], "r", 1);
    char c;
    receive_all(mine, &c, 1);
    SYS(kill(grandchild, SIGKILL));
    int status;
    IS(waitpid(grandchild, &status, 0), grandchild);
    pause();
  }
  SYS(close(mine)), SYS(close(its));
  char c;
  receive_all(up[0], &c, 1);
  receive_all(far, &c, 1);
  receive_all(its_far, &c, 1);
  /* Longer than it takes to find out that somebody has died. */
  sleep_ms(1500);
  IS(recv(far, &c, 1, MSG_DONTWAIT), -1);
  IS(recv(its_far, &c, 1, MSG_DONTWAIT), -1);
  send_all(far, "k", 1);
  IS(read(its_far, &c, 1), 0);
  IS(recv(far, &c, 1, MSG_DONTWAIT), -1);
  SYS(kill(child, SIGKILL));
  int status;
  IS(waitpid(child, &status, 0), child);
  IS(read(far, &c, 1), 0);
}

static void children_in_a_pid_namespace(void) {
  for (int kind = 0; kind < 2; kind++) {
    /* Once its first process has died, a namespace takes no others. */
    pid_t child = SYS(fork());
    if (!child) {
      in_a_pid_namespace_of_its_own(kind);
      _exit(0);
    }
    joined(child);
  }
}

/* A parent that has waited for a process finds what it alone held let go: supervisors make a
 * dead worker's listener anew. */
static void free_once_its_holder_was_waited_for(void) {
  struct sockaddr_in a = address(my_ip(), 0);
  for (int i = 0; i < 30; i++) {
    int listener = SYS(socket(AF_INET, SOCK_STREAM, 0));
    SYS(bind(listener, A(a)));
    SYS(listen(listener, 4));
    a = name_of(listener);
    int gate[2];
    SYS(pipe(gate));
    pid_t child = SYS(fork());
    if (child == 0) {
      fcntl(listener, F_GETFL);
      struct pollfd nobody = {.fd = listener, .events = POLLIN};
      poll(&nobody, 1, 0);
      SYS(write(gate[1], "x", 1));
      if (i % 2)
        _exit(0);
      pause();
    }
    char c;
    IS(read(gate[0], &c, 1), 1);
    SYS(close(listener));
    if (i % 2 == 0)
      SYS(kill(child, SIGKILL));
    IS(waitpid(child, 0, 0), child);
    close(gate[0]);
    close(gate[1]);
  }
}

/* What a child may do with an epoll instance that it has inherited, before anything else. */
static void closes_it(int ep) { SYS(close(ep)); }

static void closes_all_by_range(int ep) {
  (void)ep;
  SYS(close_range(3, ~0u, 0));
}

static void closes_a_copy_too(int ep) {
  int copy = SYS(dup(ep));
  SYS(close(ep));
  SYS(close(copy));
}

/* As libevent's event_reinit. */
static void makes_its_own(int ep) {
  SYS(close(ep));
  SYS(close(SYS(epoll_create1(0))));
}

static void looks_at_it(int ep) {
  struct epoll_event e;
  IS(epoll_wait(ep, &e, 1, 0), 0);
}

static void execs(int ep) {
  (void)ep;
  execlp("true", "true", (char *)0);
}

static void *wait_in_epoll(void *arg) {
  struct epoll_event e = {0};
  leave_children_to_others();
  int got = epoll_wait(*(int *)arg, &e, 1, 15000);
  return (void *)(intptr_t)(got == 1 ? (int)e.events : got == 0 ? 0 : -errno);
}

/* None of which the parent notices, whether it sleeps at the time or comes later. */
static void childs_copy_of_an_epoll_instance(void) {
  void (*const ways[])(int) = {closes_it,     closes_all_by_range, closes_a_copy_too,
                               makes_its_own, looks_at_it,         execs};
  int mine, far, other, far_other;
  pair(0, &mine, &far);
  pair(0, &other, &far_other);
  int ep = SYS(epoll_create1(EPOLL_CLOEXEC));
  int fds[] = {mine, other};
  for (int i = 0; i < 2; i++) {
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fds[i]};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e));
  }
  struct epoll_event e;
  for (size_t way = 0; way < sizeof ways / sizeof *ways; way++)
    for (int sleeps = 0; sleeps < 2; sleeps++) {
      /* So that it has slept once. */
      IS(epoll_wait(ep, &e, 1, 1), 0);
      pthread_t sleeper;
      if (sleeps) {
        pthread_create(&sleeper, 0, wait_in_epoll, &ep);
        sleep_ms(20);
      }
      pid_t child = SYS(fork());
      if (!child) {
        ways[way](ep);
        _exit(0);
      }
      joined(child);
      if (!sleeps)
        pthread_create(&sleeper, 0, wait_in_epoll, &ep);
      sleep_ms(20);
      send_all(far, "x", 1);
      void *events;
      pthread_join(sleeper, &events);
      IS((intptr_t)events, EPOLLIN);
      char c;
      receive_all(mine, &c, 1);
      IS(epoll_wait(ep, &e, 1, 0), 0);
    }
}

/* The child goes on with the sockets, in a set of its own and in the one it inherited. */
static void child_waits_in_epoll_too(void) {
  int mine, far;
  pair(0, &mine, &far);
  int ep = SYS(epoll_create1(0));
  struct epoll_event e = {.events = EPOLLIN, .data.fd = mine};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
  IS(epoll_wait(ep, &e, 1, 1), 0);
  pid_t child = SYS(fork());
  if (!child) {
    IS(epoll_wait(ep, &e, 1, 15000), 1);
    IS(e.events, EPOLLIN);
    SYS(close(ep));
    int own = SYS(epoll_create1(0));
    e.events = EPOLLIN;
    SYS(epoll_ctl(own, EPOLL_CTL_ADD, mine, &e));
    IS(epoll_wait(own, &e, 1, 15000), 1);
    _exit(0);
  }
  until_it_sleeps(child);
  send_all(far, "x", 1);
  joined(child);
  IS(epoll_wait(ep, &e, 1, 15000), 1);
  char c;
  receive_all(mine, &c, 1);
  IS(epoll_wait(ep, &e, 1, 10), 0);
  send_all(far, "y", 1);
  IS(epoll_wait(ep, &e, 1, 15000), 1);
}

/* What a process that sleeps in an inherited epoll instance is told. The instance is shared:
 * whoever is told of a connection that is another's leaves it to that one. */
static void serve(int ep, int own, int report, int rounds) {
  nonblocking(own);
  for (int served = 0; served < rounds;) {
    struct epoll_event e;
    IS(epoll_wait(ep, &e, 1, 15000), 1);
    char c;
    if (e.data.fd != own || read(own, &c, 1) != 1) {
      sched_yield();
      continue;
    }
    served++;
    send_all(report, &c, 1);
  }
}

struct served {
  int ep, own, report, rounds;
};

static void *serve_in_thread(void *arg) {
  struct served *s = arg;
  serve(s->ep, s->own, s->report, s->rounds);
  return 0;
}

/* Two sleep in one epoll instance, a parent and a child or two children, and each gets what
 * is for it, whoever went to sleep last. `apart` is that neither has the other's connection. */
static void both_sleep_in_one(int siblings, int apart) {
  enum { ROUNDS = 12 };
  int mine[2], far[2], report[2];
  SYS(pipe(report));
  int ep = SYS(epoll_create1(0));
  for (int i = 0; i < 2; i++) {
    pair(i, &mine[i], &far[i]);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = mine[i]};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine[i], &e));
  }
  struct epoll_event e;
  IS(epoll_wait(ep, &e, 1, 1), 0);
  pid_t children[2] = {0, 0};
  for (int i = !siblings; i < 2; i++) {
    if (!(children[i] = SYS(fork()))) {
      if (apart)
        SYS(close(mine[!i]));
      serve(ep, mine[i], report[1], ROUNDS);
      _exit(0);
    }
  }
  pthread_t parent;
  struct served own = {ep, mine[0], report[1], ROUNDS};
  if (apart)
    SYS(close(mine[1]));
  if (!siblings)
    pthread_create(&parent, 0, serve_in_thread, &own);
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < 2; i++) {
      if (children[i])
        until_it_sleeps(children[i]);
      sleep_ms(5);
      char sent = 'a' + i, got;
      send_all(far[i], &sent, 1);
      if (!ready(report[0], POLLIN, 10000))
        FAIL("round %d: nobody serves connection %d", round, i);
      receive_all(report[0], &got, 1);
      IS(got, sent);
    }
  for (int i = 0; i < 2; i++)
    if (children[i])
      joined(children[i]);
  if (!siblings)
    pthread_join(parent, 0);
}

static void parent_and_child_sleep_in_one_epoll_instance(void) {
  both_sleep_in_one(0, 0);
  both_sleep_in_one(0, 1);
}

static void siblings_sleep_in_one_epoll_instance(void) {
  both_sleep_in_one(1, 0);
  both_sleep_in_one(1, 1);
}

/* One thread sleeps in an instance while another forks, and afterwards in poll and in an
 * outer instance: it is told there what comes. */
static void sleeps_through_a_fork(void) {
  for (int how = 0; how < 3; how++) {
    int mine, far;
    pair(0, &mine, &far);
    nonblocking(mine);
    int ep = SYS(epoll_create1(0)), outer = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN, .data.fd = mine};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    e.data.fd = ep;
    SYS(epoll_ctl(outer, EPOLL_CTL_ADD, ep, &e));
    int stop[2];
    SYS(pipe(stop));
    for (int round = 0; round < 6; round++) {
      pid_t sleeper = 0;
      if (round % 2) {
        /* A child that sleeps in the inherited one all the while. */
        if (!(sleeper = SYS(fork()))) {
          struct pollfd p[] = {{ep, POLLIN, 0}, {stop[0], POLLIN, 0}};
          while (!(p[1].revents & POLLIN))
            SYS(how == 1 ? (epoll_wait(ep, &e, 1, 20), poll(p + 1, 1, 0)) : poll(p, 2, 5000)), sched_yield();
          _exit(0);
        }
        until_it_sleeps(sleeper);
      }
      pid_t sender = SYS(fork());
      if (!sender) {
        sleep_ms(60);
        send_all(far, "x", 1);
        _exit(0);
      }
      struct pollfd p = {ep, POLLIN, 0};
      double start = now();
      IS(how == 0 ? epoll_wait(ep, &e, 1, 10000)
                  : how == 1 ? poll(&p, 1, 10000) : epoll_wait(outer, &e, 1, 10000), 1);
      if (now() - start > 5)
        FAIL("told after %.1f s", now() - start);
      char c;
      IS(read(mine, &c, 1), 1);
      joined(sender);
      if (sleeper) {
        send_all(stop[1], "s", 1);
        joined(sleeper);
        receive_all(stop[0], &c, 1);
      }
    }
    close(mine), close(far), close(ep), close(outer), close(stop[0]), close(stop[1]);
  }
}

/* A child that has ended keeps no connection: what its parent closes then is closed, and the peer told
 * at once, though the child has ended as soon as it was made. */
static void closed_after_a_short_child(void) {
  int late = 0;
  for (int i = 0; i < 40; i++) {
    EACH_PAIR(mine, far) {
      pid_t child = SYS(fork());
      if (!child) {
        char c;
        if (i % 2)
          recv(mine, &c, 1, MSG_DONTWAIT);
        _exit(0);
      }
      SYS(waitpid(child, 0, 0));
      SYS(close(mine));
      mine = -1;
      double since = now();
      IS(ready(far, POLLIN, 10000), POLLIN);
      late += now() - since > 0.5;
    }
  }
  /* A busy machine may hold one up. */
  OK(late < 3);
}

const struct check CHECKS[] = {
    {"child_uses_a_connection", child_uses_a_connection},
    {"connection_outlives_the_parents_copy", connection_outlives_the_parents_copy},
    {"connection_outlives_the_child", connection_outlives_the_child},
    {"killed_child_leaves_the_parents_copy", killed_child_leaves_the_parents_copy},
    {"exit_closes", exit_closes},
    {"children_share_a_listener", children_share_a_listener},
    {"children_share_a_listener_by_epoll", children_share_a_listener_by_epoll},
    {"server_forks_for_each_connection", server_forks_for_each_connection},
    {"grandchildren", grandchildren},
    {"both_write", both_write},
    {"both_read", both_read},
    {"exec_child", exec_child},
    {"exec_keeps_it", exec_keeps_it},
    {"exec_without_fork", exec_without_fork},
    {"exec_new", exec_new},
    {"exec_of_a_new_one", exec_of_a_new_one},
    {"exec_server", exec_server},
    {"exec_watchers", exec_watchers},
    {"threads_of_another_program_watch_a_listener", threads_of_another_program_watch_a_listener},
    {"exec_with_connections_that_wait", exec_with_connections_that_wait},
    {"exec_of_who_listens", exec_of_who_listens},
    {"exec_closes_what_is_marked", exec_closes_what_is_marked},
    {"another_program_gets_it_as_stdio", another_program_gets_it_as_stdio},
    {"exec_stdio", exec_stdio},
    {"stdio_on_an_inherited_socket", stdio_on_an_inherited_socket},
    {"spawned", spawned},
    {"vforked", vforked},
    {"fork_storm", fork_storm},
    {"threads_read_and_write", threads_read_and_write},
    {"threads_accept", threads_accept},
    {"shutdown_from_another_thread", shutdown_from_another_thread},
    {"threads_connect", threads_connect},
    {"fork_while_other_threads_talk", fork_while_other_threads_talk},
    {"children_in_a_pid_namespace", children_in_a_pid_namespace},
    {"free_once_its_holder_was_waited_for", free_once_its_holder_was_waited_for},
    {"childs_copy_of_an_epoll_instance", childs_copy_of_an_epoll_instance},
    {"child_waits_in_epoll_too", child_waits_in_epoll_too},
    {"parent_and_child_sleep_in_one_epoll_instance",
     parent_and_child_sleep_in_one_epoll_instance},
    {"siblings_sleep_in_one_epoll_instance", siblings_sleep_in_one_epoll_instance},
    {"sleeps_through_a_fork", sleeps_through_a_fork},
    {"closed_after_a_short_child", closed_after_a_short_child},
    {0, 0},
};
