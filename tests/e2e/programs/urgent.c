/* Urgent data: MSG_OOB, the mark, SO_OOBINLINE, readiness, SIGURG. */
#include "check.h"

#ifndef FIOSETOWN
#define FIOSETOWN 0x8901
#endif
#ifndef SIOCSPGRP
#define SIOCSPGRP 0x8902
#endif

/* The block that follows runs for a connection of each kind, and for urgent data each
 * way: from `out` to `in`. */
#define EACH_WAY(in, out)                                                      \
  for (int way_ = 0; way_ < 2; way_++)                                         \
    EACH_PAIR(mine_, far_)                                                     \
      for (int once_ = 1, in = way_ ? far_ : mine_, out = way_ ? mine_ : far_; \
           once_; once_ = 0)

static void urgent(int fd, const char *text) {
  IS(send(fd, text, strlen(text), MSG_OOB), strlen(text));
}

static void plain(int fd, const char *text) { send_all(fd, text, strlen(text)); }

/* What one call receives. */
static void gets(int fd, const char *text, int flags) {
  char got[64] = {0};
  ssize_t n = SYS(recv(fd, got, sizeof got - 1, flags));
  if (n != (ssize_t)strlen(text) || strcmp(got, text))
    FAIL("received \"%s\", not \"%s\"", got, text);
}

/* The urgent byte has come. */
static void told(int fd) { IS(ready(fd, POLLPRI, 5000), POLLPRI); }

/* `n` bytes can be read in order, or have come and stop at the mark. */
static void arrives(int fd, int n) {
  double end = now() + 5;
  int have = -1;
  while (now() < end && (SYS(ioctl(fd, FIONREAD, &have)), have < n))
    sleep_ms(1);
  IS(have, n);
}

/* `n` bytes are there, urgent ones among them. */
static void all_arrive(int fd, int n) {
  set(fd, SOL_SOCKET, SO_OOBINLINE, 1);
  arrives(fd, n);
  set(fd, SOL_SOCKET, SO_OOBINLINE, 0);
}

static void the_byte_is_read_apart(void) {
  EACH_WAY(in, out) {
    FAILS(recv(in, &(char){0}, 1, MSG_OOB), EINVAL);
    IS(sockatmark(in), 0);
    plain(out, "ab");
    urgent(out, "cd");
    told(in);
    IS(sockatmark(in), 0);
    gets(in, "d", MSG_OOB);
    FAILS(recv(in, &(char){0}, 1, MSG_OOB), EINVAL);
    gets(in, "abc", 0);
    IS(sockatmark(in), 1);
    plain(out, "ef");
    gets(in, "ef", 0);
    IS(sockatmark(in), 0);
  }
}

static void reading_stops_at_the_mark_and_passes_over_it(void) {
  EACH_WAY(in, out) {
    plain(out, "ab");
    urgent(out, "c");
    plain(out, "de");
    told(in);
    all_arrive(in, 5);
    gets(in, "ab", 0);
    IS(sockatmark(in), 1);
    gets(in, "de", 0);
    IS(sockatmark(in), 0);
    FAILS(recv(in, &(char){0}, 1, MSG_OOB), EINVAL);
    IS(ready(in, POLLPRI, 0), 0);
  }
}

static void inline_it_is_read_in_its_place(void) {
  EACH_WAY(in, out) {
    IS(option(in, SOL_SOCKET, SO_OOBINLINE), 0);
    set(in, SOL_SOCKET, SO_OOBINLINE, 1);
    IS(option(in, SOL_SOCKET, SO_OOBINLINE), 1);
    plain(out, "ab");
    urgent(out, "c");
    plain(out, "de");
    told(in);
    FAILS(recv(in, &(char){0}, 1, MSG_OOB), EINVAL);
    arrives(in, 5);
    gets(in, "ab", 0);
    IS(sockatmark(in), 1);
    IS(ready(in, POLLIN | POLLPRI, 0), POLLIN | POLLPRI);
    gets(in, "cde", 0);
    IS(sockatmark(in), 0);
    IS(ready(in, POLLIN | POLLPRI, 0), 0);
  }
}

static void inline_is_inherited_by_accepted_sockets(void) {
  int listener = my_listener(8);
  set(listener, SOL_SOCKET, SO_OOBINLINE, 1);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, name_of(listener)));
  int mine = SYS(accept(listener, 0, 0));
  IS(option(mine, SOL_SOCKET, SO_OOBINLINE), 1);
  IS(option(mine, SOL_SOCKET, SO_LINGER), 0);
  urgent(far, "ab");
  told(mine);
  gets(mine, "a", 0);
  gets(mine, "b", 0);
}

static void inline_set_before_connect(void) {
  int listener = far_listener(8);
  int mine = SYS(socket(AF_INET, SOCK_STREAM, 0));
  set(mine, SOL_SOCKET, SO_OOBINLINE, 1);
  struct sockaddr_in a = far_name(listener);
  SYS(connect(mine, A(a)));
  int far = far_accept(listener);
  urgent(far, "x");
  told(mine);
  gets(mine, "x", 0);
}

static void calls_stop_at_the_mark(void) {
  EACH_WAY(in, out) {
    plain(out, "abc");
    urgent(out, "d");
    plain(out, "efgh");
    told(in);
    all_arrive(in, 8);
    gets(in, "abc", MSG_PEEK);
    char got[8] = {0};
    IS(recv(in, got, 6, MSG_PEEK | MSG_WAITALL), 3);
    IS(recv(in, got, 6, MSG_WAITALL), 3);
    IS(sockatmark(in), 1);
    gets(in, "efgh", MSG_PEEK);
    IS(sockatmark(in), 1);
    gets(in, "d", MSG_OOB | MSG_PEEK);
    gets(in, "d", MSG_OOB);
    IS(recv(in, got, 2, MSG_TRUNC), 2);
    IS(sockatmark(in), 0);
    gets(in, "gh", 0);
  }
}

/* Linux's splice stops at the mark and does not pass over it, wherever the byte is read. */
static void splice_stops_at_the_mark(void) {
  for (int is_inline = 0; is_inline < 2; is_inline++)
    EACH_WAY(in, out) {
      int p[2];
      SYS(pipe(p));
      plain(out, "ab");
      urgent(out, "c");
      plain(out, "de");
      all_arrive(in, 5);
      set(in, SOL_SOCKET, SO_OOBINLINE, is_inline);
      IS(splice(in, 0, p[1], 0, 100, 0), 2);
      IS(sockatmark(in), 1);
      IS(splice(in, 0, p[1], 0, 100, 0), 0);
      if (!is_inline)
        gets(in, "c", MSG_OOB);
      IS(splice(in, 0, p[1], 0, 100, 0), 0);
      nonblocking(in);
      FAILS(splice(in, 0, p[1], 0, 100, 0), EAGAIN);
      char c;
      receive_all(in, &c, 1);
      IS(c, is_inline ? 'c' : 'd');
      IS(splice(in, 0, p[1], 0, 100, 0), is_inline ? 2 : 1);
      close(p[0]), close(p[1]);
    }
}

/* With nothing behind the mark, it says so as well, and does not wait. */
static void splice_does_not_wait_at_the_mark(void) {
  EACH_WAY(in, out) {
    int p[2];
    SYS(pipe(p));
    plain(out, "ab");
    urgent(out, "c");
    told(in);
    all_arrive(in, 3);
    IS(splice(in, 0, p[1], 0, 2, 0), 2);
    TAKES(IS(splice(in, 0, p[1], 0, 100, 0), 0), 0, 1);
    nonblocking(in);
    FAILS(splice(in, 0, p[1], 0, 100, 0), EAGAIN);
    close(p[0]), close(p[1]);
  }
}

/* The byte of a connection that was reset is not read any more, whatever this end has shut down. */
static void not_read_after_a_reset(void) {
  for (int how = 0; how < 3; how++)
    EACH_PAIR(mine, far) {
      if (how == 2)
        SYS(shutdown(mine, SHUT_WR));
      urgent(far, "ab");
      IS(ready(mine, POLLPRI, 10000), POLLPRI);
      if (how == 1)
        SYS(shutdown(mine, SHUT_RD));
      far_reset(far);
      far = -1;
      IS(ready(mine, 0, 10000) & POLLHUP, POLLHUP);
      FAILS(recv(mine, &(char){0}, 1, MSG_OOB), ENOTCONN);
    }
}

/* At the mark of a stream that has ended, it says so too where it may not wait. */
static void splice_at_the_mark_of_an_ended_stream(void) {
  EACH_WAY(in, out) {
    int p[2];
    SYS(pipe(p));
    plain(out, "ab");
    urgent(out, "c");
    plain(out, "d");
    all_arrive(in, 4);
    SYS(shutdown(out, SHUT_WR));
    IS(ready(in, POLLRDHUP, 10000), POLLRDHUP);
    nonblocking(in);
    IS(splice(in, 0, p[1], 0, 2, 0), 2);
    IS(splice(in, 0, p[1], 0, 100, 0), 0);
    close(p[0]), close(p[1]);
  }
}

static void a_vector_stops_at_the_mark(void) {
  EACH_WAY(in, out) {
    plain(out, "abc");
    urgent(out, "d");
    plain(out, "ef");
    told(in);
    all_arrive(in, 6);
    char a[2], b[4];
    struct iovec v[2] = {{a, 2}, {b, 4}};
    IS(readv(in, v, 2), 3);
    IS(memcmp(a, "ab", 2) || b[0] != 'c', 0);
    IS(readv(in, v, 2), 2);
    IS(memcmp(a, "ef", 2), 0);
  }
}

static void messages_say_so(void) {
  EACH_WAY(in, out) {
    urgent(out, "x");
    told(in);
    char c = 0;
    struct iovec v = {&c, 1};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    IS(recvmsg(in, &m, MSG_OOB | MSG_PEEK), 1);
    IS(c, 'x');
    IS(m.msg_flags & (MSG_OOB | MSG_TRUNC), MSG_OOB);
    m.msg_iovlen = 0;
    IS(recvmsg(in, &m, MSG_OOB), 0);
    IS(m.msg_flags & (MSG_OOB | MSG_TRUNC), MSG_OOB | MSG_TRUNC);
    FAILS(recv(in, &c, 1, MSG_OOB), EINVAL);
    struct msghdr to = {.msg_iov = &v, .msg_iovlen = 1};
    c = 'y';
    IS(sendmsg(out, &to, MSG_OOB), 1);
    told(in);
    IS(recv(in, &c, 1, MSG_OOB | MSG_TRUNC), 1);
    FAILS(recv(in, &c, 1, MSG_OOB), EINVAL);
  }
}

static void fionread_counts_up_to_the_mark(void) {
  EACH_WAY(in, out) {
    plain(out, "abc");
    urgent(out, "d");
    plain(out, "ef");
    told(in);
    all_arrive(in, 6);
    arrives(in, 3);
    gets(in, "abc", 0);
    arrives(in, 0);
    set(in, SOL_SOCKET, SO_OOBINLINE, 1);
    arrives(in, 3);
    set(in, SOL_SOCKET, SO_OOBINLINE, 0);
    gets(in, "ef", 0);
  }
}

static void readiness_tells_of_it(void) {
  EACH_WAY(in, out) {
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN | EPOLLPRI | EPOLLRDHUP};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, in, &e));
    IS(epoll_wait(ep, &e, 1, 0), 0);
    urgent(out, "x");
    IS(epoll_wait(ep, &e, 1, 5000), 1);
    /* The byte is nothing for those who read in order. */
    IS(e.events, EPOLLPRI);
    IS(ready(in, POLLIN | POLLPRI, 0), POLLPRI);
    fd_set r, x;
    FD_ZERO(&r);
    FD_ZERO(&x);
    FD_SET(in, &r);
    FD_SET(in, &x);
    IS(select(in + 1, &r, 0, &x, &(struct timeval){5, 0}), 1);
    OK(!FD_ISSET(in, &r) && FD_ISSET(in, &x));
    plain(out, "y");
    IS(ready(in, POLLIN, 5000), POLLIN);
    IS(epoll_wait(ep, &e, 1, 0), 1);
    IS(e.events, EPOLLIN | EPOLLPRI);
    gets(in, "x", MSG_OOB);
    IS(epoll_wait(ep, &e, 1, 0), 1);
    IS(e.events, EPOLLIN);
    gets(in, "y", 0);
    IS(epoll_wait(ep, &e, 1, 0), 0);
    close(ep);
  }
}

static void by_edge_each_is_told_of(void) {
  EACH_WAY(in, out) {
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLPRI | EPOLLET};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, in, &e));
    for (int i = 0; i < 3; i++) {
      IS(epoll_wait(ep, &e, 1, 0), 0);
      urgent(out, "x");
      IS(epoll_wait(ep, &e, 1, 5000), 1);
      IS(e.events, EPOLLPRI);
      gets(in, "x", MSG_OOB);
      plain(out, "y");
      gets(in, "y", 0);
    }
    close(ep);
  }
}

static void it_does_not_wake_who_reads_in_order(void) {
  EACH_WAY(in, out) {
    set(in, SOL_SOCKET, SO_OOBINLINE, 0);
    SYS(setsockopt(in, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){0, 200000},
                   sizeof(struct timeval)));
    urgent(out, "x");
    told(in);
    FAILS(recv(in, &(char){0}, 1, 0), EAGAIN);
    /* And the call that waited has thrown the byte away. */
    FAILS(recv(in, &(char){0}, 1, MSG_OOB), EINVAL);
    IS(sockatmark(in), 0);
    plain(out, "y");
    gets(in, "y", 0);
  }
}

static void the_next_takes_the_place_of_the_last(void) {
  EACH_WAY(in, out) {
    plain(out, "a");
    urgent(out, "b");
    told(in);
    plain(out, "c");
    urgent(out, "d");
    all_arrive(in, 4);
    gets(in, "d", MSG_OOB);
    /* The first is an ordinary byte now. */
    gets(in, "abc", 0);
    IS(sockatmark(in), 1);
    plain(out, "e");
    gets(in, "e", 0);
  }
}

static void the_last_is_gone_for_who_stood_before_it(void) {
  EACH_WAY(in, out) {
    plain(out, "a");
    urgent(out, "b");
    told(in);
    gets(in, "a", 0);
    IS(sockatmark(in), 1);
    gets(in, "b", MSG_OOB);
    urgent(out, "cd");
    told(in);
    gets(in, "c", 0);
    IS(sockatmark(in), 1);
    gets(in, "d", MSG_OOB);
  }
}

static void the_end_comes_after_it(void) {
  EACH_WAY(in, out) {
    plain(out, "a");
    urgent(out, "b");
    SYS(shutdown(out, SHUT_WR));
    told(in);
    IS(ready(in, POLLRDHUP, 5000), POLLRDHUP);
    gets(in, "a", 0);
    gets(in, "b", MSG_OOB);
    gets(in, "", 0);
  }
}

static void it_waits_for_nothing(void) {
  EACH_WAY(in, out) {
    set(out, IPPROTO_TCP, TCP_CORK, 1);
    for (int at_once = 0, tries = 0; !at_once; tries++) {
      OK(tries < 50);
      double start = now();
      plain(out, "a");
      int held = is_held_back(in, start);
      urgent(out, "b");
      told(in);
      /* Before it would have been sent in any case. */
      at_once = held && now() - start < 0.19;
      gets(in, "a", 0);
      gets(in, "b", MSG_OOB);
    }
  }
}

static void much_with_a_mark_in_it(void) {
  enum { N = 300000, AT = 1234567 % N };
  for (int keep = 0; keep < 2; keep++)
    EACH_WAY(in, out) {
      static unsigned char all[N], got[N];
      pattern(all, N, 0);
      if (keep)
        set(in, SOL_SOCKET, SO_OOBINLINE, 1);
      pid_t child = SYS(fork());
      if (!child) {
        for (size_t at = 0; at < AT;)
          at += SYS(send(out, all + at, AT - at, 0));
        IS(send(out, all + AT, 1, MSG_OOB), 1);
        send_all(out, all + AT + 1, N - AT - 1);
        SYS(shutdown(out, SHUT_WR));
        _exit(0);
      }
      told(in);
      size_t n = 0;
      while (n < AT)
        n += SYS(recv(in, got + n, N - n, 0));
      IS(n, AT);
      IS(sockatmark(in), 1);
      for (ssize_t more; (more = SYS(recv(in, got + n, N - n, 0)));)
        n += more;
      IS(n, keep ? N : N - 1);
      check_pattern(got, AT, 0);
      if (keep)
        check_pattern(got + AT, N - AT, AT);
      else
        check_pattern(got + AT, N - AT - 1, AT + 1);
      joined(child);
    }
}

static void datagrams_have_none(void) {
  int mine = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(mine, A(a)));
  a = name_of(mine);
  FAILS(sendto(mine, "x", 1, MSG_OOB, A(a)), EOPNOTSUPP);
  FAILS(sockatmark(mine), ENOTTY);
}

static void listeners_have_none(void) {
  int listener = my_listener(8);
  FAILS(recv(listener, &(char){0}, 1, MSG_OOB), ENOTCONN);
  IS(sockatmark(listener), 0);
}

static void nothing_is_sent_of_nothing(void) {
  EACH_WAY(in, out) {
    IS(send(out, "", 0, MSG_OOB), 0);
    plain(out, "a");
    gets(in, "a", 0);
    FAILS(recv(in, &(char){0}, 1, MSG_OOB), EINVAL);
  }
}

/* --- SIGURG ---------------------------------------------------------------- */

static volatile sig_atomic_t urged;
static int handled_fd = -1;
static volatile char handled;

static void on_urgent(int signal) {
  IS(signal, SIGURG);
  urged++;
  char c;
  if (handled_fd >= 0 && recv(handled_fd, &c, 1, MSG_OOB) == 1)
    handled = c;
}

static void catch_urgent(void) {
  urged = 0, handled = 0, handled_fd = -1;
  struct sigaction a = {.sa_handler = on_urgent, .sa_flags = SA_RESTART};
  SYS(sigaction(SIGURG, &a, 0));
}

static void is_urged(int times) {
  for (double end = now() + 5; urged < times && now() < end;)
    sleep_ms(1);
  sleep_ms(20);
  IS(urged, times);
}

static void the_owner_gets_a_signal(void) {
  EACH_PAIR(mine, far) {
    catch_urgent();
    urgent(far, "a");
    told(mine);
    /* Nobody owns it yet. */
    is_urged(0);
    IS(fcntl(mine, F_GETOWN), 0);
    SYS(fcntl(mine, F_SETOWN, getpid()));
    IS(fcntl(mine, F_GETOWN), getpid());
    is_urged(0);
    urgent(far, "b");
    is_urged(1);
    gets(mine, "b", MSG_OOB);
    urgent(far, "c");
    is_urged(2);
    plain(far, "d");
    IS(ready(mine, POLLIN, 5000), POLLIN);
    SYS(fcntl(mine, F_SETOWN, 0));
    urgent(far, "e");
    told(mine);
    sleep_ms(50);
    is_urged(2);
  }
}

static void a_handler_finds_the_byte(void) {
  EACH_PAIR(mine, far) {
    catch_urgent();
    handled_fd = mine;
    SYS(fcntl(mine, F_SETOWN, getpid()));
    for (char c = 'a'; c <= 'z'; c++) {
      /* Another process sends, so that the handler interrupts nothing but sleeping, or
       * the fork itself. */
      pid_t child = SYS(fork());
      if (!child) {
        IS(send(far, &c, 1, MSG_OOB), 1);
        _exit(0);
      }
      joined(child);
      for (double end = now() + 5; handled != c && now() < end;)
        sleep_ms(1);
      IS(handled, c);
    }
    IS(urged, 26);
  }
}

static void a_blocked_reader_is_interrupted(void) {
  EACH_PAIR(mine, far) {
    catch_urgent();
    struct sigaction a = {.sa_handler = on_urgent};
    SYS(sigaction(SIGURG, &a, 0));
    SYS(fcntl(mine, F_SETOWN, getpid()));
    pid_t parent = getpid(), child = SYS(fork());
    if (!child) {
      until_it_sleeps(parent);
      urgent(far, "x");
      _exit(0);
    }
    FAILS(recv(mine, &(char){0}, 1, 0), EINTR);
    IS(urged, 1);
    joined(child);
  }
}

static void a_poll_is_interrupted(void) {
  EACH_PAIR(mine, far) {
    catch_urgent();
    SYS(fcntl(mine, F_SETOWN, getpid()));
    pid_t parent = getpid(), child = SYS(fork());
    if (!child) {
      until_it_sleeps(parent);
      urgent(far, "x");
      _exit(0);
    }
    struct pollfd p = {.fd = mine, .events = POLLIN};
    FAILS(poll(&p, 1, 5000), EINTR);
    IS(urged, 1);
    joined(child);
  }
}

static void an_epoll_wait_is_interrupted(void) {
  EACH_PAIR(mine, far) {
    catch_urgent();
    SYS(fcntl(mine, F_SETOWN, getpid()));
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    for (int i = 1; i <= 5; i++) {
      pid_t parent = getpid(), child = SYS(fork());
      if (!child) {
        until_it_sleeps(parent);
        urgent(far, "x");
        _exit(0);
      }
      FAILS(epoll_wait(ep, &e, 1, 5000), EINTR);
      IS(urged, i);
      joined(child);
    }
    SYS(close(ep));
  }
}

/* The handler runs in the midst of calls, on the same socket and on others. */
static void a_handler_in_a_call_finds_the_byte(void) {
  enum { TIMES = 200 };
  EACH_PAIR(mine, far) {
    int other, its_far;
    pair(kind_, &other, &its_far);
    catch_urgent();
    handled_fd = mine;
    SYS(fcntl(mine, F_SETOWN, getpid()));
    int up[2];
    SYS(pipe(up));
    pid_t child = SYS(fork());
    if (!child) {
      for (int i = 0; i < TIMES; i++) {
        char c = 'a' + i % 26;
        IS(send(far, &c, 1, MSG_OOB), 1);
        receive_all(up[0], &c, 1);
      }
      _exit(0);
    }
    char buf[16] = {0};
    for (int i = 0; i < TIMES; i++) {
      for (double end = now() + 10; urged <= i && now() < end;) {
        IS(recv(mine, buf, sizeof buf, MSG_DONTWAIT | MSG_PEEK), -1);
        IS(send(other, buf, 1, 0), 1);
        IS(recv(its_far, buf, 1, 0), 1);
        struct pollfd p = {.fd = mine, .events = POLLIN};
        OK(poll(&p, 1, 0) == 0 || errno == EINTR);
      }
      IS(urged, i + 1);
      IS(handled, 'a' + i % 26);
      handled = 0;
      send_all(up[1], buf, 1);
    }
    joined(child);
    close(up[0]), close(up[1]), close(other), close(its_far);
  }
}

static void an_owner_by_ioctl_before_connect(void) {
  catch_urgent();
  int listener = far_listener(8);
  int mine = SYS(socket(AF_INET, SOCK_STREAM, 0));
  int self = getpid();
  SYS(ioctl(mine, FIOSETOWN, &self));
  struct sockaddr_in a = far_name(listener);
  SYS(connect(mine, A(a)));
  int far = far_accept(listener);
  urgent(far, "x");
  is_urged(1);
  int none = 0;
  SYS(ioctl(mine, SIOCSPGRP, &none));
  urgent(far, "y");
  sleep_ms(50);
  is_urged(1);
}

static void a_group_and_another_process_can_own_it(void) {
  for (int group = 0; group < 2; group++)
    EACH_PAIR(mine, far) {
      catch_urgent();
      int up[2];
      SYS(pipe(up));
      pid_t child = SYS(fork());
      if (!child) {
        SYS(setpgid(0, 0));
        send_all(up[1], "r", 1);
        is_urged(1);
        _exit(0);
      }
      char c;
      receive_all(up[0], &c, 1);
      SYS(fcntl(mine, F_SETOWN, group ? -child : child));
      urgent(far, "x");
      joined(child);
      IS(urged, 0);
      close(up[0]), close(up[1]);
    }
}

static void an_owner_outlives_a_fork_and_goes_with_the_socket(void) {
  EACH_PAIR(mine, far) {
    catch_urgent();
    SYS(fcntl(mine, F_SETOWN, getpid()));
    pid_t child = SYS(fork());
    if (!child) {
      SYS(close(mine));
      urgent(far, "x");
      _exit(0);
    }
    joined(child);
    is_urged(1);
    gets(mine, "x", MSG_OOB);
  }
}

const struct check CHECKS[] = {
    {"the_byte_is_read_apart", the_byte_is_read_apart},
    {"reading_stops_at_the_mark_and_passes_over_it",
     reading_stops_at_the_mark_and_passes_over_it},
    {"inline_it_is_read_in_its_place", inline_it_is_read_in_its_place},
    {"inline_is_inherited_by_accepted_sockets", inline_is_inherited_by_accepted_sockets},
    {"inline_set_before_connect", inline_set_before_connect},
    {"calls_stop_at_the_mark", calls_stop_at_the_mark},
    {"splice_stops_at_the_mark", splice_stops_at_the_mark},
    {"not_read_after_a_reset", not_read_after_a_reset},
    {"splice_at_the_mark_of_an_ended_stream", splice_at_the_mark_of_an_ended_stream},
    {"splice_does_not_wait_at_the_mark", splice_does_not_wait_at_the_mark},
    {"a_vector_stops_at_the_mark", a_vector_stops_at_the_mark},
    {"messages_say_so", messages_say_so},
    {"fionread_counts_up_to_the_mark", fionread_counts_up_to_the_mark},
    {"readiness_tells_of_it", readiness_tells_of_it},
    {"by_edge_each_is_told_of", by_edge_each_is_told_of},
    {"it_does_not_wake_who_reads_in_order", it_does_not_wake_who_reads_in_order},
    {"the_next_takes_the_place_of_the_last", the_next_takes_the_place_of_the_last},
    {"the_last_is_gone_for_who_stood_before_it", the_last_is_gone_for_who_stood_before_it},
    {"the_end_comes_after_it", the_end_comes_after_it},
    {"it_waits_for_nothing", it_waits_for_nothing},
    {"much_with_a_mark_in_it", much_with_a_mark_in_it},
    {"datagrams_have_none", datagrams_have_none},
    {"listeners_have_none", listeners_have_none},
    {"nothing_is_sent_of_nothing", nothing_is_sent_of_nothing},
    {"the_owner_gets_a_signal", the_owner_gets_a_signal},
    {"a_handler_finds_the_byte", a_handler_finds_the_byte},
    {"a_blocked_reader_is_interrupted", a_blocked_reader_is_interrupted},
    {"a_poll_is_interrupted", a_poll_is_interrupted},
    {"an_epoll_wait_is_interrupted", an_epoll_wait_is_interrupted},
    {"a_handler_in_a_call_finds_the_byte", a_handler_in_a_call_finds_the_byte},
    {"an_owner_by_ioctl_before_connect", an_owner_by_ioctl_before_connect},
    {"a_group_and_another_process_can_own_it", a_group_and_another_process_can_own_it},
    {"an_owner_outlives_a_fork_and_goes_with_the_socket",
     an_owner_outlives_a_fork_and_goes_with_the_socket},
    {0, 0},
};
