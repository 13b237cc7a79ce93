/* What a step does. A call that would wait is made so that it does not, unless a time limit
 * ends it. */
#ifndef PERFORM_H
#define PERFORM_H
#include "sets.h"
#include "transfer_many.h"

/* --- binding, connecting --------------------------------------------------- */

static void bind_it(const struct step *s, int fd) {
  struct sockaddr_storage a;
  int port = 0, how = s->draw[1] % 8;
  if (how >= 3 && how < 6)
    port = first_fixed_port + s->draw[2] % FIXED_PORTS;
  else if (how >= 6)
    port = port_of(s->b);
  if (is_stream(s->a) && port && is_kept(port)) {
    say("bind left out");
    return;
  }
  socklen_t n = make_address(&a, places[s->a].domain, s->draw[0], port);
  if (s->draw[3] % 32 == 0)
    n = ONE_OF(s->draw[4], 0, 2, 15, 16, 24, 27);
  if (s->draw[3] % 32 == 1)
    a.ss_family = AF_UNSPEC;
  say("bind(");
  say_address(&a, n);
  say(")");
  say_result(bind(fd, (void *)&a, n));
}

static void connect_it(const struct step *s, int fd) {
  struct sockaddr_storage a;
  socklen_t n = make_target(&a, s);
  if (is_no_target(s, fd, &a)) {
    say("connect left out");
    return;
  }
  say("connect(");
  say_address(&a, n);
  say(")");
  int flags = fcntl(fd, F_GETFL);
  /* Half of them do not wait; what waits is ended by the time limit of a step. */
  int changes = is_stream(s->a) && s->draw[4] % 2;
  if (changes)
    fcntl(fd, F_SETFL, flags | O_NONBLOCK);
  say("%s", fcntl(fd, F_GETFL) & O_NONBLOCK ? " nonblocking" : "");
  /* It listens no more then. */
  if (a.ss_family == AF_UNSPEC && listens(s->a))
    note_socket(s->a, &shared->listened);
  say_result(connect(fd, (void *)&a, n));
  if (changes)
    fcntl(fd, F_SETFL, flags);
}

static void accept_it(const struct step *s, int fd) {
  struct sockaddr_storage a = {0};
  int kind = s->draw[1] % 8;
  int flags = ONE_OF(s->draw[2], 0, 0, 0, SOCK_NONBLOCK, SOCK_CLOEXEC, 1);
  socklen_t n = kind == 0 ? 8 : sizeof a;
  int old = fcntl(fd, F_GETFL);
  if (would_wait(fd, POLLIN))
    fcntl(fd, F_SETFL, old | O_NONBLOCK);
  say("accept4(%#x)", flags);
  int got = accept4(fd, kind == 1 ? 0 : (void *)&a, kind == 1 ? 0 : &n, flags);
  say_result(got < 0 ? got : 0);
  fcntl(fd, F_SETFL, old);
  if (got < 0)
    return;
  if (kind > 1) {
    say(" from ");
    say_address(&a, n);
  } else if (kind == 0) {
    say(" from /%u", (unsigned)n);
  }
  say(" flags %#x %#x", fcntl(got, F_GETFL) & O_NONBLOCK, fcntl(got, F_GETFD));
  put_in(s->b, got, places[s->a].domain, SOCK_STREAM);
}

static void make_socket(const struct step *s) {
  uint32_t kind = s->draw[0] % 8;
  int v6 = s->draw[0] / 8 % 2;
  int domain = v6 ? AF_INET6 : AF_INET, type = kind < 5 ? SOCK_STREAM : SOCK_DGRAM;
  int flags = ONE_OF(s->draw[1], 0, 0, SOCK_NONBLOCK, SOCK_CLOEXEC);
  int protocol = ONE_OF(s->draw[2] % 32, 0, 0, IPPROTO_TCP, IPPROTO_UDP, 0, 0);
  say("socket(%s, %s, %#x, %d)", v6 ? "v6" : "v4", type == SOCK_STREAM ? "stream" : "dgram", flags,
      protocol);
  int fd = socket(domain, type | flags, protocol);
  say_result(fd < 0 ? fd : 0);
  if (fd < 0)
    return;
  /* What is held back for an acknowledgment depends on timers; and so does whether an end that was
   * closed waits for the peer's: Linux leaves that to TIME-WAIT unless it may take longer, and where
   * it is told to keep none (tests/differential.rs), it forgets the end once the peer has acknowledged
   * it, and answers what ends the peer with a reset. */
  if (type == SOCK_STREAM) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    setsockopt(fd, IPPROTO_TCP, TCP_LINGER2, &(int){120}, sizeof(int));
  }
  if (v6 && type == SOCK_STREAM && s->draw[3] % 8 == 0) {
    say(" for IPv6 alone");
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &(int){1}, sizeof(int));
  }
  put_in(s->a, fd, domain, type);
}

static void dup_it(const struct step *s, int fd) {
  struct place p = places[s->a];
  if (s->a == s->b) {
    say("dup2 onto itself");
    say_result(dup2(fd, fd) == fd);
    return;
  }
  int got, onto = places[s->b].fd;
  switch (s->draw[0] % 4) {
  case 0:
    say("fcntl(F_DUPFD_CLOEXEC) to %d", s->b);
    got = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    break;
  case 1:
    say("dup to %d", s->b);
    got = dup(fd);
    break;
  default:
    /* In the place of what is there. */
    if (onto < 0)
      onto = 100 + s->b;
    else
      forget_place(s->b);
    say(s->draw[0] % 4 == 2 ? "dup2 onto %d" : "dup3 onto %d", s->b);
    got = s->draw[0] % 4 == 2 ? dup2(fd, onto) : dup3(fd, onto, O_CLOEXEC);
    if (got < 0)
      places[s->b].fd = -1;
  }
  say_result(got < 0 ? got : 0);
  put_in(s->b, got, p.domain, p.type);
  say(" flags %#x", fcntl(got, F_GETFD));
}

/* --- the others ----------------------------------------------------------- */

static void name_of(const struct step *s, int fd) {
  struct sockaddr_storage a = {0};
  socklen_t n = s->draw[0] % 8 ? (int)sizeof a : ONE_OF(s->draw[1], 0, 2, 8, 16);
  say(s->op == NAME ? "getsockname(%u)" : "getpeername(%u)", (unsigned)n);
  int result = (s->op == NAME ? getsockname : getpeername)(fd, (void *)&a, &n);
  say_result(result);
  if (result == 0) {
    say(" ");
    say_address(&a, n);
  }
}

static void control_it(const struct step *s, int fd) {
  static const struct {
    unsigned long request;
    const char *name;
  } ASKED[] = {{FIONREAD, "FIONREAD"}, {FIONREAD, "FIONREAD"}, {SIOCATMARK, "SIOCATMARK"},
               {SIOCOUTQ, "SIOCOUTQ"}, {SIOCOUTQNSD, "SIOCOUTQNSD"}};
  int which = s->draw[0] % 5, n = -1;
  say("ioctl(%s)", ASKED[which].name);
  int result = ioctl(fd, ASKED[which].request, &n);
  say_result(result);
  struct tcp_info info = {0};
  socklen_t length = sizeof info;
  /* Without a connection, what is queued is the difference of numbers that mean nothing; and
   * an end that is not acknowledged counts for Linux. */
  getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length);
  if (is_stream(s->a) && which >= 3 && info.tcpi_state != TCP_ESTABLISHED)
    return;
  /* Between two sockets of an engine nothing waits for an acknowledgment; Linux's comes late, and
   * of a datagram that was begun it counts its own memory. */
  if (which == 3)
    return;
  if (result == 0)
    say(" %d", n);
}

static void switch_blocking(const struct step *s, int fd) {
  int on = s->draw[0] % 2;
  if (s->draw[1] % 2) {
    say("ioctl(FIONBIO, %d)", on);
    say_result(ioctl(fd, FIONBIO, &on));
  } else {
    int flags = fcntl(fd, F_GETFL);
    say("fcntl(F_SETFL, %s)", on ? "O_NONBLOCK" : "0");
    say_result(fcntl(fd, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK));
  }
  say(" flags %#x", fcntl(fd, F_GETFL));
}

static void take(const struct step *s) {
  int fd = places[s->a].fd;
  say("s%d ", s->a);
  if (s->op != SOCKET && s->op != ASK_SET && s->op != RENEW_SET && fd < 0) {
    say("nothing");
    return;
  }
  if (is_left_out(s)) {
    say("left out");
    return;
  }
  switch (s->op) {
  case SOCKET:
    make_socket(s);
    break;
  case BIND:
    bind_it(s, fd);
    break;
  case LISTEN: {
    /* With room for all: where there is none, Linux tries again after a second. */
    int backlog = ONE_OF(s->draw[1], 8, 8, 128, -1, 16, 5);
    say("listen(%d)", backlog);
    say_result(listen(fd, backlog));
    break;
  }
  case CONNECT:
    connect_it(s, fd);
    break;
  case ACCEPT:
    say("to %d ", s->b);
    accept_it(s, fd);
    break;
  case SEND:
  case SENDTO:
  case SENDMSG:
  case WRITE:
    send_it(s, fd);
    break;
  case RECV:
  case RECVFROM:
  case RECVMSG:
  case READ:
    receive_it(s, fd);
    break;
  case SHUTDOWN: {
    int how = ONE_OF(s->draw[0], SHUT_RD, SHUT_WR, SHUT_WR, SHUT_RDWR, SHUT_RD, 3, -1);
    if (listens(s->a) && how != SHUT_WR)
      note_socket(s->a, &shared->listened);
    say("shutdown(%d)", how);
    int result = shutdown(fd, how);
    if ((result < 0 && errno == ENOTCONN) || !is_stream(s->a))
      note_socket(s->a, &shared->shut);
    errno = result < 0 ? errno : 0;
    say_result(result);
    break;
  }
  case CLOSE:
    forget_place(s->a);
    places[s->a].fd = -1;
    say("close");
    say_result(close(fd));
    break;
  case DUP:
    dup_it(s, fd);
    break;
  case GETOPT:
    get_option(s, fd);
    break;
  case ASK:
    ask_all(s, fd);
    break;
  case BUFFER:
    set_buffer(s, fd);
    break;
  case SETOPT:
    set_option(s, fd);
    break;
  case NAME:
  case PEER:
    name_of(s, fd);
    break;
  case IOCTL:
    control_it(s, fd);
    break;
  case FCNTL:
    switch_blocking(s, fd);
    break;
  case SENDFILE:
    send_file(s, fd);
    break;
  case SENDMMSG:
    send_many(s, fd);
    break;
  case RECVMMSG:
    receive_many(s, fd);
    break;
  case SPLICE_IN:
    splice_in(s, fd);
    break;
  case SPLICE_OUT:
    splice_out(s, fd);
    break;
  case CHANGE_SET:
    change_set(s, fd);
    break;
  case ASK_SET:
    ask_set(s);
    break;
  case RENEW_SET:
    renew_set(s);
    break;
  }
}

static void *take_in_thread(void *step) {
  take(step);
  return 0;
}

/* The child that has taken the step; -1: there is none. */
static pid_t child = -1;

static void await(volatile int *word) {
  while (!*word)
    nanosleep(&(struct timespec){0, 100000}, 0);
}

static void end_child(void) {
  shared->may_end = 1;
  while (waitpid(child, 0, 0) < 0 && errno == EINTR)
    ;
  child = -1;
}

/* Takes a step, in the thread or process that it says. A child takes it with the descriptors that it inherits, and
 * lives on until it may end. */
static void perform(const struct step *s) {
  static const char *const BY[] = {"", "thread: ", "child: "};
  say("%s", BY[s->by]);
  if (s->by == ITSELF) {
    take(s);
  } else if (s->by == A_THREAD) {
    pthread_t thread;
    if (pthread_create(&thread, 0, take_in_thread, (void *)s) == 0)
      pthread_join(thread, 0);
  } else {
    shared->is_taken = shared->may_end = 0;
    child = fork();
    if (child == 0) {
      /* Descriptors that it gets are its own. */
      epoll_fd = edge_fd = -1;
      take(s);
      shared->is_taken = 1;
      await(&shared->may_end);
      _exit(0);
    }
    await(&shared->is_taken);
  }
}

#endif
