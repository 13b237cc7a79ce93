/* How connections begin and end: what each side is told, what is still delivered, and
 * that nothing is ever shown but what was sent. */
#include "check.h"

/* --- only what was received ---------------------------------------------- */

/* Leaves memory that other connections have filled behind. */
static void fill_and_close(void) {
  static unsigned char secret[1 << 18], got[1 << 18];
  memset(secret, 0xa5, sizeof secret);
  EACH_PAIR(mine, far) {
    pid_t child = SYS(fork());
    if (!child) {
      send_all(far, secret, sizeof secret);
      _exit(0);
    }
    receive_all(mine, got, sizeof got);
    joined(child);
  }
}

static void data_after_shutdown_read(void) {
  fill_and_close();
  EACH_PAIR(mine, far) {
    char buf[64];
    send_all(far, "before", 6);
    OK(ready(mine, POLLIN, 10000) & POLLIN);
    SYS(shutdown(mine, SHUT_RD));
    /* What has come is there, and so is what still comes. */
    IS(recv(mine, buf, sizeof buf, MSG_PEEK), 6);
    OK(memcmp(buf, "before", 6) == 0);
    IS(read(mine, buf, sizeof buf), 6);
    OK(memcmp(buf, "before", 6) == 0);
    IS(read(mine, buf, sizeof buf), 0);
    send_all(far, "after", 5);
    ssize_t n = 0;
    for (int tries = 0; n == 0 && tries < 10000; tries++, sleep_ms(1))
      n = SYS(recv(mine, buf, sizeof buf, MSG_DONTWAIT));
    IS(n, 5);
    OK(memcmp(buf, "after", 5) == 0);
    IS(read(mine, buf, sizeof buf), 0);
    /* The other half works. */
    send_all(mine, "out", 3);
    receive_all(far, buf, 3);
  }
}

/* All calls that read, on memory that was others' before. */
static void recycled_memory_is_not_shown(void) {
  enum { SIZE = 200000 };
  static unsigned char want[SIZE], got[SIZE + 4096];
  pattern(want, SIZE, 0);
  for (int call = 0; call < 6; call++) {
    fill_and_close();
    EACH_PAIR(mine, far) {
      pid_t child = SYS(fork());
      if (!child) {
        send_all(far, want, SIZE);
        SYS(shutdown(far, SHUT_WR));
        _exit(0);
      }
      if (call == 5)
        SYS(shutdown(mine, SHUT_RD));
      size_t at = 0;
      int pipes[2];
      SYS(pipe(pipes));
      for (int idle = 0; at < SIZE && idle < 20000;) {
        struct iovec parts[2] = {{got + at, 1000}, {got + at + 1000, 3096}};
        struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
        ssize_t n = 0;
        if (call == 0)
          n = SYS(read(mine, got + at, sizeof got - at));
        else if (call == 1)
          n = SYS(readv(mine, parts, 2));
        else if (call == 2)
          n = SYS(recvmsg(mine, &m, 0));
        else if (call == 3) {
          n = SYS(recv(mine, got + at, 4096, MSG_PEEK));
          IS(recv(mine, 0, n, MSG_TRUNC), n);
        } else if (call == 4) {
          n = SYS(splice(mine, 0, pipes[1], 0, 4096, 0));
          IS(read(pipes[0], got + at, 4096), n);
        } else
          n = SYS(recv(mine, got + at, 4096, MSG_DONTWAIT));
        at += n;
        if (n == 0) {
          OK(call == 5);
          idle++, sleep_ms(1);
        }
      }
      IS(at, SIZE);
      OK(memcmp(got, want, SIZE) == 0);
      IS(read(mine, got, sizeof got), 0);
      joined(child);
      SYS(close(pipes[0]));
      SYS(close(pipes[1]));
    }
  }
}

/* --- a peer that has gone ------------------------------------------------- */

/* Writes until it is told that nobody reads any more; gives the errno. */
static int write_until_told(int fd) {
  static char piece[16384];
  size_t sent = 0;
  for (int i = 0; i < 4000; i++) {
    ssize_t n = send(fd, piece, sizeof piece, MSG_NOSIGNAL);
    if (n < 0)
      return errno;
    sent += n;
    sleep_ms(i < 20 ? 5 : 0);
  }
  FAIL("%zu bytes were taken, and nobody reads", sent);
}

static void writer_learns_that_the_reader_has_closed(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    send_all(mine, "last", 4);
    receive_all(far, buf, 4);
    SYS(close(far));
    IS(read(mine, buf, sizeof buf), 0);
    IS(write_until_told(mine), EPIPE);
    IS(write_until_told(mine), EPIPE);
    OK((ready(mine, POLLIN | POLLOUT, 0) & (POLLHUP | POLLIN | POLLOUT)) ==
       (POLLHUP | POLLIN | POLLOUT));
    IS(read(mine, buf, sizeof buf), 0);
    far = -1;
  }
}

static void writer_learns_that_the_reader_was_killed(void) {
  EACH_PAIR(mine, far) {
    int told[2];
    SYS(pipe(told));
    pid_t child = SYS(fork());
    if (!child) {
      char buf[8];
      receive_all(far, buf, 4);
      SYS(write(told[1], "x", 1));
      pause();
    }
    SYS(close(far));
    send_all(mine, "last", 4);
    char c;
    IS(read(told[0], &c, 1), 1);
    SYS(kill(child, SIGKILL));
    int status;
    IS(waitpid(child, &status, 0), child);
    IS(read(mine, &c, 1), 0);
    IS(write_until_told(mine), EPIPE);
    SYS(close(told[0]));
    SYS(close(told[1]));
    far = -1;
  }
}

/* A writer that waits for room is told, too. */
static void blocked_writer_learns_of_the_close(void) {
  EACH_PAIR(mine, far) {
    pid_t child = SYS(fork());
    if (!child) {
      SYS(close(mine));
      sleep_ms(200);
      SYS(close(far));
      _exit(0);
    }
    SYS(close(far));
    int e = write_until_told(mine);
    OK(e == ECONNRESET || e == EPIPE);
    joined(child);
    far = -1;
  }
}

/* A call that has written a part before says how much: the error is the next call's. */
static void error_after_a_part_is_the_next_calls(void) {
  static char much[64 << 20];
  EACH_PAIR(mine, far) {
    pid_t child = SYS(fork());
    if (!child) {
      SYS(close(mine));
      sleep_ms(300);
      SYS(close(far));
      _exit(0);
    }
    SYS(close(far));
    ssize_t n = SYS(send(mine, much, sizeof much, MSG_NOSIGNAL));
    OK(n > 0 && n < (ssize_t)sizeof much);
    FAILS(send(mine, much, 1, MSG_NOSIGNAL), ECONNRESET);
    FAILS(send(mine, much, 1, MSG_NOSIGNAL), EPIPE);
    joined(child);
    far = -1;
  }
}

/* What comes with the end is read though a write to it has failed before. */
static void *writer(void *arg) {
  while (send(*(int *)arg, "x", 1, MSG_NOSIGNAL) == 1)
    ;
  return 0;
}

static void answer_is_read_after_a_failed_write(void) {
  static char request[1 << 16];
  for (int i = 0; i < 200; i++)
    EACH_PAIR(mine, far) {
      pthread_t thread;
      char answer[20] = "protocol error", got[20];
      IS(pthread_create(&thread, 0, writer, &far), 0);
      OK(read(mine, request, sizeof request) > 0);
      send_all(mine, answer, sizeof answer);
      SYS(close(mine));
      mine = -1;
      IS(pthread_join(thread, 0), 0);
      receive_all(far, got, sizeof got);
      OK(!memcmp(got, answer, sizeof got));
    }
}

/* Both halves shut down, and still held: what comes then is answered by a reset. */
static void shutdown_of_both_halves_is_no_sink(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    SYS(shutdown(far, SHUT_RDWR));
    IS(read(mine, buf, sizeof buf), 0);
    IS(write_until_told(mine), EPIPE);
    IS(read(mine, buf, sizeof buf), 0);
  }
  EACH_PAIR(mine, far) {
    char buf[8];
    SYS(shutdown(mine, SHUT_RDWR));
    IS(read(far, buf, sizeof buf), 0);
    IS(write_until_told(far), EPIPE);
    OK((ready(mine, POLLIN | POLLOUT, 10000) & POLLERR) != 0);
    IS(option(mine, SOL_SOCKET, SO_ERROR), ECONNRESET);
    IS(read(mine, buf, sizeof buf), 0);
    FAILS(send(mine, "x", 1, MSG_NOSIGNAL), EPIPE);
  }
}

/* --- what was sent is delivered though the connection is reset ------------ */

static void answer_before_reset(int far, size_t n) {
  static char got[8192];
  for (size_t at = 0; at < n;) {
    ssize_t r = SYS(read(far, got, sizeof got));
    if (r == 0)
      FAIL("the stream ends %zu bytes too early", n - at);
    at += r;
  }
  FAILS(read(far, got, 1), ECONNRESET);
}

static void close_with_unread_data_delivers(void) {
  static char answer[8000];
  EACH_PAIR(mine, far) {
    send_all(far, "a long request", 14);
    OK(ready(mine, POLLIN, 10000) & POLLIN);
    send_all(mine, answer, sizeof answer);
    SYS(close(mine));
    answer_before_reset(far, sizeof answer);
    mine = -1;
  }
}

static void linger_zero_delivers(void) {
  static char answer[8000];
  EACH_PAIR(mine, far) {
    struct linger none = {1, 0};
    SYS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &none, sizeof none));
    send_all(mine, answer, sizeof answer);
    SYS(close(mine));
    answer_before_reset(far, sizeof answer);
    mine = -1;
  }
}

/* --- errors, and who is told ----------------------------------------------- */

static void end_of_stream_stays_the_end_after_a_reset(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    SYS(shutdown(far, SHUT_WR));
    IS(read(mine, buf, sizeof buf), 0);
    far_reset(far);
    OK(ready(mine, POLLERR, 10000) & POLLERR);
    IS(read(mine, buf, sizeof buf), 0);
    IS(option(mine, SOL_SOCKET, SO_ERROR), EPIPE);
    IS(read(mine, buf, sizeof buf), 0);
    FAILS(send(mine, "x", 1, MSG_NOSIGNAL), EPIPE);
    far = -1;
  }
}

/* The end of what was sent, which is said before the connection is reset, comes before. */
static void end_comes_before_a_reset_at_once(void) {
  static const struct {
    int how, bytes, unread, linger;
  } CASES[] = {{SHUT_WR, 0, 0, 1}, {SHUT_WR, 8000, 0, 1},   {SHUT_RDWR, 0, 0, 1},
               {SHUT_WR, 0, 5, 0}, {SHUT_WR, 8000, 5, 0}, {SHUT_RDWR, 100, 5, 1}};
  static const struct linger NONE = {1, 0};
  static char sent[8000], got[8001];
  for (size_t at = 0; at < sizeof CASES / sizeof *CASES; at++)
    for (int turned = 0; turned < 2; turned++)
      EACH_PAIR(mine, far) {
        int ends = turned ? far : mine, reads = turned ? mine : far;
        if (CASES[at].linger)
          SYS(setsockopt(ends, SOL_SOCKET, SO_LINGER, &NONE, sizeof NONE));
        if (CASES[at].unread) {
          send_all(reads, sent, CASES[at].unread);
          OK(ready(ends, POLLIN, 10000) & POLLIN);
        }
        send_all(ends, sent, CASES[at].bytes);
        SYS(shutdown(ends, CASES[at].how));
        SYS(close(ends));
        OK(ready(reads, POLLERR, 10000) & POLLERR);
        receive_all(reads, got, CASES[at].bytes);
        IS(read(reads, got, sizeof got), 0);
        IS(option(reads, SOL_SOCKET, SO_ERROR), EPIPE);
        FAILS(send(reads, "x", 1, MSG_NOSIGNAL), EPIPE);
        if (turned)
          far = -1;
        else
          mine = -1;
      }
}

/* --- lingering -------------------------------------------------------------- */

static void lingering_waits_for_the_reader(void) {
  EACH_PAIR(mine, far) {
    static char piece[65536];
    struct linger long_ = {1, 25};
    SYS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &long_, sizeof long_));
    fill(mine, sizeof piece);
    SYS(fcntl(mine, F_SETFL, 0));
    double start = now();
    pid_t child = SYS(fork());
    if (!child) {
      SYS(close(mine));
      sleep_ms(300);
      while (SYS(read(far, piece, sizeof piece)) > 0)
        ;
      _exit(0);
    }
    SYS(close(far));
    /* The child has its own descriptor for a moment. */
    sleep_ms(100);
    SYS(close(mine));
    double took = now() - start;
    if (took < 0.25 || took > 20)
      FAIL("close took %.3f s", took);
    joined(child);
    mine = far = -1;
  }
}

/* That calls on it do not wait is nothing to close. */
static void lingering_waits_though_nothing_else_does(void) {
  EACH_PAIR(mine, far) {
    static char piece[65536];
    struct linger short_ = {1, 1};
    SYS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &short_, sizeof short_));
    fill(mine, sizeof piece);
    OK(SYS(fcntl(mine, F_GETFL)) & O_NONBLOCK);
    double start = now();
    SYS(close(mine));
    OK(now() - start >= 0.9);
    mine = -1;
  }
}

/* Another process that has it goes on, and nobody waits for that. */
static void who_closes_it_for_others_does_not_linger(void) {
  EACH_PAIR(mine, far) {
    struct linger long_ = {1, 25};
    SYS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &long_, sizeof long_));
    int end[2];
    SYS(pipe(end));
    pid_t child = SYS(fork());
    if (!child) {
      char c;
      SYS(close(end[1]));
      SYS(read(end[0], &c, 1));
      send_all(mine, "child", 5);
      _exit(0);
    }
    SYS(close(end[0]));
    double start = now();
    SYS(close(mine)), mine = -1;
    OK(now() - start < 10);
    SYS(close(end[1]));
    char buf[5];
    receive_all(far, buf, 5);
    joined(child);
  }
}

/* What takes its number closes it, too: it waits, though with the number it is gone, unless it has
 * another. */
static void lingering_waits_when_it_is_replaced(void) {
  EACH_PAIR(mine, far) {
    static char piece[65536];
    struct linger short_ = {1, 1};
    SYS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &short_, sizeof short_));
    fill(mine, sizeof piece);
    int second = SYS(dup(mine));
    double start = now();
    IS(dup2(0, second), second);
    OK(now() - start < 0.9);
    IS(dup2(mine, second), second);
    start = now();
    FAILS(dup2(5000, mine), EBADF);
    IS(dup2(mine, mine), mine);
    IS(dup2(second, mine), mine);
    IS(dup3(0, second, O_CLOEXEC), second);
    OK(now() - start < 0.9);
    start = now();
    IS(dup2(0, mine), mine);
    double took = now() - start;
    if (took < 0.9 || took > 20)
      FAIL("dup2 took %.3f s", took);
    SYS(close(second));
  }
}

/* --- bound to the wildcard, then connected ----------------------------------- */

static void wildcard_then_connect(void) {
  int listener = far_listener(8);
  struct sockaddr_in to = far_name(listener), any = address("0.0.0.0", 0);
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  SYS(bind(fd, A(any)));
  int port = name_of(fd).sin_port;
  SYS(connect(fd, A(to)));
  int far = far_accept(listener);
  IS(name_of(fd).sin_port, port);
  IS(ready(fd, POLLIN | POLLOUT | POLLRDHUP, 0), POLLOUT);
  int set = SYS(epoll_create1(0));
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP};
  SYS(epoll_ctl(set, EPOLL_CTL_ADD, fd, &e));
  IS(epoll_wait(set, &e, 1, 1000), 1);
  IS(e.events, EPOLLOUT);
  fd_set in;
  FD_ZERO(&in);
  FD_SET(fd, &in);
  struct timeval at_once = {0, 0};
  IS(select(fd + 1, &in, 0, 0, &at_once), 0);
  char c;
  send_all(far, "x", 1);
  IS(ready(fd, POLLIN, 10000), POLLIN);
  IS(read(fd, &c, 1), 1);
  SYS(close(far));
  SYS(close(set));
  SYS(close(fd));
  SYS(close(listener));
}

static void wildcard_then_nonblocking_connect(void) {
  int listener = far_listener(8);
  struct sockaddr_in to = far_name(listener), any = address("0.0.0.0", 0);
  int fd = SYS(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  SYS(bind(fd, A(any)));
  if (connect(fd, A(to)) != 0)
    OK(errno == EINPROGRESS);
  int far = far_accept(listener);
  IS(ready(fd, POLLOUT, 10000), POLLOUT);
  IS(ready(fd, POLLIN | POLLOUT, 0), POLLOUT);
  SYS(close(far));
  SYS(close(fd));
  SYS(close(listener));
}

/* --- connect on what is connected -------------------------------------------- */

static void connected_socket_stays_connected(void) {
  EACH_PAIR(mine, far) {
    struct sockaddr_in kernels = address("127.0.0.1", 9), other = address(far_ip(), 9);
    char buf[4];
    FAILS(connect(mine, A(kernels)), EISCONN);
    FAILS(connect(mine, A(other)), EISCONN);
    send_all(far, "x", 1);
    receive_all(mine, buf, 1);
    send_all(mine, "y", 1);
    receive_all(far, buf, 1);
    FAILS(listen(mine, 1), EINVAL);
    struct sockaddr_in any = address("0.0.0.0", 0);
    FAILS(bind(mine, A(any)), EINVAL);
    FAILS(accept(mine, 0, 0), EINVAL);
  }
  int listener = my_listener(2);
  struct sockaddr_in kernels = address("127.0.0.1", 9), other = address(far_ip(), 9);
  FAILS(connect(listener, A(kernels)), EISCONN);
  FAILS(connect(listener, A(other)), EISCONN);
  int client = far_socket(SOCK_STREAM);
  SYS(far_connect(client, name_of(listener)));
  int got = SYS(accept(listener, 0, 0));
  SYS(close(got));
  SYS(close(client));
  SYS(close(listener));
}

static void datagram_sockets_do_not_listen(void) {
  struct sockaddr_in mine = address(my_ip(), 0), far = address(far_ip(), 9);
  for (int kind = 0; kind < 3; kind++) {
    int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
    if (kind == 1)
      SYS(bind(fd, A(mine)));
    if (kind == 2)
      SYS(connect(fd, A(far)));
    FAILS(listen(fd, 1), EOPNOTSUPP);
    FAILS(accept(fd, 0, 0), EOPNOTSUPP);
    SYS(close(fd));
  }
}

/* --- listeners that are shut down -------------------------------------------- */

static void listener_shut_down(void) {
  int listener = my_listener(8);
  struct sockaddr_in at = name_of(listener);
  SYS(close(listener));
  /* By number, so that it keeps its port. */
  listener = SYS(socket(AF_INET, SOCK_STREAM, 0));
  set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  SYS(bind(listener, A(at)));
  SYS(listen(listener, 8));
  for (int how = SHUT_RD; how <= SHUT_RDWR; how += 2) {
    int queued = far_socket(SOCK_STREAM), refused = far_socket(SOCK_STREAM);
    SYS(far_connect(queued, at));
    IS(ready(listener, POLLIN, 10000), POLLIN);
    SYS(shutdown(listener, SHUT_WR));
    IS(ready(listener, POLLIN, 0), POLLIN);
    SYS(shutdown(listener, how));
    char c;
    FAILS(read(queued, &c, 1), ECONNRESET);
    FAILS(far_connect(refused, at), ECONNREFUSED);
    IS(ready(listener, POLLIN | POLLOUT, 1000), POLLOUT | POLLHUP);
    FAILS(accept(listener, 0, 0), EINVAL);
    SYS(close(queued));
    SYS(close(refused));
    /* It listens again when it is told to. */
    SYS(listen(listener, 8));
    IS(ready(listener, POLLIN | POLLOUT, 0), 0);
    int again = far_socket(SOCK_STREAM);
    SYS(far_connect(again, at));
    IS(ready(listener, POLLIN, 10000), POLLIN);
    int got = SYS(accept(listener, 0, 0));
    send_all(got, "x", 1);
    receive_all(again, &c, 1);
    SYS(close(again));
    SYS(close(got));
  }
  SYS(shutdown(listener, SHUT_RDWR));
  FAILS(shutdown(listener, SHUT_RDWR), ENOTCONN);
  SYS(close(listener));
}

/* With SO_LINGER 0 a connection is reset when the last process that has it ends, as when it is closed:
 * whoever had it last, and however that ended. */
static void a_process_that_ends_resets_its_connection(void) {
  static const struct linger NOW = {1, 0};
  for (int how = 0; how < 4; how++) {
    EACH_PAIR(mine, far) {
      SYS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &NOW, sizeof NOW));
      int ends[2];
      SYS(pipe(ends));
      pid_t child = SYS(fork());
      if (!child) {
        char c;
        close(ends[1]);
        close(far);
        SYS(read(ends[0], &c, 1));
        if (how % 2)
          kill(getpid(), SIGKILL);
        _exit(0);
      }
      close(ends[0]);
      send_all(mine, "last", 4);
      /* The child has it last, or has just ended. */
      if (how < 2)
        SYS(close(mine));
      SYS(close(ends[1]));
      SYS(waitpid(child, 0, 0));
      if (how >= 2)
        SYS(close(mine));
      mine = -1;
      OK(ready(far, POLLIN | POLLRDHUP, 10000) & POLLIN);
      char buf[8];
      double end = now() + 10;
      ssize_t got;
      while ((got = read(far, buf, sizeof buf)) > 0)
        OK(now() < end);
      OK(got == -1 && errno == ECONNRESET);
    }
  }
}

/* A listener that is shut down keeps a port that its program has chosen, and gives back any other. */
static void shut_listener_gives_its_port_back(void) {
  for (int is_chosen = 0; is_chosen < 2; is_chosen++) {
    int listener = my_listener(8), other = SYS(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in at = name_of(listener);
    if (is_chosen) {
      SYS(close(listener));
      listener = SYS(socket(AF_INET, SOCK_STREAM, 0));
      SYS(bind(listener, A(at)));
      SYS(listen(listener, 8));
    }
    FAILS(bind(other, A(at)), EADDRINUSE);
    SYS(shutdown(listener, SHUT_RD));
    if (is_chosen) {
      FAILS(bind(other, A(at)), EADDRINUSE);
      SYS(listen(listener, 8));
      OK(same(name_of(listener), at));
    } else {
      SYS(bind(other, A(at)));
      SYS(listen(listener, 8));
      OK(!same(name_of(listener), at));
      SYS(listen(other, 8));
    }
    int far = far_socket(SOCK_STREAM);
    SYS(far_connect(far, name_of(listener)));
    SYS(close(SYS(accept(listener, 0, 0))));
    close(far), close(other), close(listener);
  }
}

static void shutdown_wakes_accept(void) {
  int listener = my_listener(8);
  pid_t child = SYS(fork());
  if (!child) {
    FAILS(accept(listener, 0, 0), EINVAL);
    _exit(0);
  }
  until_it_sleeps(child);
  SYS(shutdown(listener, SHUT_RD));
  joined(child);
  SYS(close(listener));
}

/* --- connections that are being made ------------------------------------------ */

/* A listener that answers no more, as its queue is full. */
struct full {
  int listener, fillers[4];
  struct sockaddr_in at;
};

static struct full full_listener(void) {
  struct full full = {.listener = far_listener(0)};
  full.at = far_name(full.listener);
  for (int i = 0; i < 4; i++) {
    full.fillers[i] = SYS(far_socket(SOCK_STREAM | SOCK_NONBLOCK));
    far_connect(full.fillers[i], full.at);
    /* One after the other: whoever comes before the first is in the queue is let in. */
    if (i == 0)
      IS(ready(full.listener, POLLIN, 10000), POLLIN);
    else
      ready(full.fillers[i], POLLOUT, 100);
  }
  return full;
}

static void close_full(struct full full) {
  for (int i = 0; i < 4; i++)
    SYS(close(full.fillers[i]));
  SYS(close(full.listener));
}

/* It has no connection, and may be used as one that is new. */
static void is_as_new(int fd) {
  IS(ready(fd, POLLIN | POLLOUT | POLLRDHUP, 0), POLLOUT | POLLHUP);
  FAILS(recv(fd, (char[8]){0}, 8, MSG_DONTWAIT), ENOTCONN);
  FAILS(send(fd, "a", 1, MSG_NOSIGNAL), EPIPE);
  FAILS(getpeername(fd, (struct sockaddr *)&(struct sockaddr_in){0}, &(socklen_t){16}), ENOTCONN);
  int listener = far_listener(1);
  struct sockaddr_in at = far_name(listener);
  FAILS(connect(fd, A(at)), EINPROGRESS);
  IS(ready(fd, POLLIN | POLLOUT, 10000), POLLOUT);
  IS(option(fd, SOL_SOCKET, SO_ERROR), 0);
  int far = far_accept(listener);
  IS(send(fd, "a", 1, 0), 1);
  receive_all(far, (char[1]){0}, 1);
  SYS(close(far));
  SYS(close(listener));
}

/* Nothing is sent on a connection that is being made, not even no bytes. */
static void nothing_is_sent_before_it_is_made(void) {
  struct full full = full_listener();
  int fd = SYS(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  FAILS(connect(fd, A(full.at)), EINPROGRESS);
  IS(ready(fd, POLLOUT, 20), 0);
  FAILS(send(fd, "", 0, MSG_NOSIGNAL), EAGAIN);
  FAILS(send(fd, "a", 1, MSG_NOSIGNAL), EAGAIN);
  /* Which it says whatever address it is to be connected to. */
  FAILS(connect(fd, (struct sockaddr *)&full.at, 2), EALREADY);
  FAILS(connect(fd, (struct sockaddr *)&full.at, 15), EALREADY);
  SYS(close(fd));
  close_full(full);
}

static void shutdown_of_a_connection_being_made(void) {
  for (int how = SHUT_RD; how <= SHUT_RDWR; how++) {
    struct full full = full_listener();
    int fd = SYS(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    FAILS(connect(fd, A(full.at)), EINPROGRESS);
    IS(ready(fd, POLLOUT, 20), 0);
    SYS(shutdown(fd, how));
    OK((ready(fd, POLLIN | POLLOUT, 10000) & (POLLERR | POLLHUP)) == (POLLERR | POLLHUP));
    IS(option(fd, SOL_SOCKET, SO_ERROR), ECONNRESET);
    IS(option(fd, SOL_SOCKET, SO_ERROR), 0);
    FAILS(shutdown(fd, how), ENOTCONN);
    SYS(close(fd));
    fd = SYS(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    FAILS(connect(fd, A(full.at)), EINPROGRESS);
    SYS(shutdown(fd, how));
    IS(option(fd, SOL_SOCKET, SO_ERROR), ECONNRESET);
    is_as_new(fd);
    SYS(close(fd));
    close_full(full);
  }
}

/* A thread that has waited to connect, and what it was told. */
struct connecting {
  int fd, errno_;
  struct sockaddr_in to;
  pid_t id;
};

static void *connects_in_a_thread(void *arg) {
  struct connecting *c = arg;
  __atomic_store_n(&c->id, syscall(SYS_gettid), __ATOMIC_RELEASE);
  c->errno_ = connect(c->fd, A(c->to)) ? errno : 0;
  return 0;
}

/* Whether another thread shuts the socket down or takes its peer away: the one that waits is told at once. */
static void connecting_ends_by_another_thread(void) {
  for (int how = SHUT_RD; how <= SHUT_RDWR + 1; how++) {
    struct full full = full_listener();
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    struct connecting c = {.fd = SYS(socket(AF_INET, SOCK_STREAM, 0)), .to = full.at};
    pthread_t thread;
    IS(pthread_create(&thread, 0, connects_in_a_thread, &c), 0);
    while (!__atomic_load_n(&c.id, __ATOMIC_ACQUIRE))
      sleep_ms(1);
    until_it_sleeps(c.id);
    SYS(how <= SHUT_RDWR ? shutdown(c.fd, how) : connect(c.fd, &none, sizeof none));
    IS(pthread_join(thread, 0), 0);
    /* Since Linux 6.7 it is told EPIPE where the peer was taken away. */
    OK(c.errno_ == ECONNRESET || (how > SHUT_RDWR && c.errno_ == EPIPE));
    if (how <= SHUT_RDWR)
      IS(option(c.fd, SOL_SOCKET, SO_ERROR), 0);
    else
      option(c.fd, SOL_SOCKET, SO_ERROR);
    nonblocking(c.fd);
    is_as_new(c.fd);
    SYS(close(c.fd));
    close_full(full);
  }
}

/* Which call has begun to connect shows in what one that waits in vain is told. */
static void connecting_takes_too_long(void) {
  struct full full = full_listener();
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct timeval soon = {0, 100000};
  SYS(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon));
  FAILS(connect(fd, A(full.at)), EINPROGRESS);
  FAILS(connect(fd, A(full.at)), EALREADY);
  SYS(close(fd));
  close_full(full);
}

/* --- ports ---------------------------------------------------------------------- */

/* Between two sockets of one engine there is no TIME-WAIT: no old segment can come. */
static int has_time_wait(void) { return far_in_kernel() || !getenv("LD_PRELOAD"); }

static void port_in_time_wait(void) {
  /* The end that closes first waits. */
  int listener = my_listener(8);
  struct sockaddr_in at = name_of(listener);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, at));
  int mine = SYS(accept(listener, 0, 0));
  SYS(close(listener));
  for (int closed = 0; closed < 1 + has_time_wait(); closed++) {
    int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
    FAILS(bind(fd, A(at)), EADDRINUSE);
    struct sockaddr_in any = address("0.0.0.0", ntohs(at.sin_port));
    FAILS(bind(fd, A(any)), EADDRINUSE);
    /* SO_REUSEADDR on one side alone does not do. */
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    FAILS(bind(fd, A(at)), EADDRINUSE);
    SYS(close(fd));
    if (!closed) {
      char c;
      SYS(shutdown(mine, SHUT_WR));
      IS(read(far, &c, 1), 0);
      SYS(close(far));
      IS(read(mine, &c, 1), 0);
      SYS(close(mine));
      sleep_ms(20);
    }
  }
}

static void port_in_time_wait_is_shared(void) {
  int listener = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in at = address(my_ip(), 0);
  set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  SYS(bind(listener, A(at)));
  SYS(listen(listener, 8));
  at = name_of(listener);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, at));
  int mine = SYS(accept(listener, 0, 0));
  SYS(close(listener));
  for (int closed = 0; closed < 1 + has_time_wait(); closed++) {
    int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
    FAILS(bind(fd, A(at)), EADDRINUSE);
    set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    SYS(bind(fd, A(at)));
    SYS(listen(fd, 8));
    SYS(close(fd));
    if (!closed) {
      char c;
      SYS(shutdown(mine, SHUT_WR));
      IS(read(far, &c, 1), 0);
      SYS(close(far));
      IS(read(mine, &c, 1), 0);
      SYS(close(mine));
      sleep_ms(20);
    }
  }
}

static void low_ports_are_for_the_privileged(void) {
  struct sockaddr_in low = address(my_ip(), 97), any = address("0.0.0.0", 97),
                     high = address(my_ip(), 1024);
  for (int type = SOCK_STREAM; type <= SOCK_DGRAM; type++) {
    pid_t child = SYS(fork());
    if (!child) {
      SYS(setuid(65534));
      int fd = SYS(socket(AF_INET, type, 0));
      FAILS(bind(fd, A(low)), EACCES);
      FAILS(bind(fd, A(any)), EACCES);
      SYS(bind(fd, A(high)));
      _exit(0);
    }
    joined(child);
    int fd = SYS(socket(AF_INET, type, 0));
    SYS(bind(fd, A(low)));
    SYS(close(fd));
  }
}

/* --- security options that are not there ------------------------------------------- */

static void signed_segments_are_refused(void) {
  struct tcp_md5sig key = {.tcpm_keylen = 6, .tcpm_key = "secret"};
  struct sockaddr_in peer = address(far_ip(), 0);
  memcpy(&key.tcpm_addr, &peer, sizeof peer);
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  int result = setsockopt(fd, IPPROTO_TCP, TCP_MD5SIG, &key, sizeof key);
  /* The kernel may have been built with it; the engine has not. */
  OK(result == -1 ? errno == ENOPROTOOPT : !getenv("LD_PRELOAD"));
  SYS(close(fd));
}

const struct check CHECKS[] = {
    {"data_after_shutdown_read", data_after_shutdown_read},
    {"recycled_memory_is_not_shown", recycled_memory_is_not_shown},
    {"writer_learns_that_the_reader_has_closed", writer_learns_that_the_reader_has_closed},
    {"writer_learns_that_the_reader_was_killed", writer_learns_that_the_reader_was_killed},
    {"blocked_writer_learns_of_the_close", blocked_writer_learns_of_the_close},
    {"error_after_a_part_is_the_next_calls", error_after_a_part_is_the_next_calls},
    {"answer_is_read_after_a_failed_write", answer_is_read_after_a_failed_write},
    {"shutdown_of_both_halves_is_no_sink", shutdown_of_both_halves_is_no_sink},
    {"close_with_unread_data_delivers", close_with_unread_data_delivers},
    {"linger_zero_delivers", linger_zero_delivers},
    {"end_of_stream_stays_the_end_after_a_reset", end_of_stream_stays_the_end_after_a_reset},
    {"end_comes_before_a_reset_at_once", end_comes_before_a_reset_at_once},
    {"lingering_waits_for_the_reader", lingering_waits_for_the_reader},
    {"lingering_waits_though_nothing_else_does", lingering_waits_though_nothing_else_does},
    {"who_closes_it_for_others_does_not_linger", who_closes_it_for_others_does_not_linger},
    {"lingering_waits_when_it_is_replaced", lingering_waits_when_it_is_replaced},
    {"wildcard_then_connect", wildcard_then_connect},
    {"wildcard_then_nonblocking_connect", wildcard_then_nonblocking_connect},
    {"connected_socket_stays_connected", connected_socket_stays_connected},
    {"datagram_sockets_do_not_listen", datagram_sockets_do_not_listen},
    {"listener_shut_down", listener_shut_down},
    {"a_process_that_ends_resets_its_connection", a_process_that_ends_resets_its_connection},
    {"shut_listener_gives_its_port_back", shut_listener_gives_its_port_back},
    {"shutdown_wakes_accept", shutdown_wakes_accept},
    {"nothing_is_sent_before_it_is_made", nothing_is_sent_before_it_is_made},
    {"shutdown_of_a_connection_being_made", shutdown_of_a_connection_being_made},
    {"connecting_ends_by_another_thread", connecting_ends_by_another_thread},
    {"connecting_takes_too_long", connecting_takes_too_long},
    {"port_in_time_wait", port_in_time_wait},
    {"port_in_time_wait_is_shared", port_in_time_wait_is_shared},
    {"low_ports_are_for_the_privileged", low_ports_are_for_the_privileged},
    {"signed_segments_are_refused", signed_segments_are_refused},
    {0, 0},
};
