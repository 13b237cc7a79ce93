/* A socket is a file descriptor: numbers, copies, flags, passing it on. */
#include "check.h"
#include <sys/resource.h>

static void duplicates(void) {
  EACH_PAIR(mine, far) {
    char c;
    int twin = SYS(dup(mine));
    OK(twin != mine);
    send_all(twin, "a", 1);
    receive_all(far, &c, 1);
    SYS(close(mine));
    send_all(far, "b", 1);
    receive_all(twin, &c, 1); /* open as long as one copy is */
    IS(c, 'b');
    SYS(close(twin));
    mine = -1;
    IS(read(far, &c, 1), 0);
  }
}

static void duplicate_onto(void) {
  EACH_PAIR(mine, far) {
    char c;
    int p[2];
    SYS(pipe(p));
    IS(dup2(mine, p[0]), p[0]); /* closes the pipe's end */
    signal(SIGPIPE, SIG_IGN);
    FAILS(write(p[1], "x", 1), EPIPE);
    send_all(p[0], "a", 1);
    receive_all(far, &c, 1);
    IS(dup2(mine, mine), mine);
    IS(dup3(mine, 100, O_CLOEXEC), 100);
    OK(SYS(fcntl(100, F_GETFD)) & FD_CLOEXEC);
    FAILS(dup3(mine, mine, 0), EINVAL);
    FAILS(dup2(999, 100), EBADF);
    send_all(100, "b", 1);
    receive_all(far, &c, 1);
    close(100), close(p[0]), close(p[1]);
  }
}

static void a_file_onto_a_socket(void) {
  EACH_PAIR(mine, far) {
    char c;
    int null = SYS(open("/dev/null", O_RDWR));
    IS(dup2(null, mine), mine); /* closes the connection */
    IS(read(far, &c, 1), 0);
    IS(write(mine, "gone", 4), 4);
    IS(read(mine, &c, 1), 0);
    close(null);
  }
}

static void duplicate_by_fcntl(void) {
  EACH_PAIR(mine, far) {
    char c;
    int high = SYS(fcntl(mine, F_DUPFD, 200));
    OK(high >= 200);
    IS(fcntl(high, F_GETFD) & FD_CLOEXEC, 0);
    int closing = SYS(fcntl(mine, F_DUPFD_CLOEXEC, 0));
    OK(SYS(fcntl(closing, F_GETFD)) & FD_CLOEXEC);
    send_all(high, "a", 1);
    receive_all(far, &c, 1);
    send_all(closing, "b", 1);
    receive_all(far, &c, 1);
    close(high), close(closing);
  }
}

static void flags_belong_to_the_description(void) {
  EACH_PAIR(mine, far) {
    char c;
    int twin = SYS(dup(mine));
    nonblocking(twin);
    OK(SYS(fcntl(mine, F_GETFL)) & O_NONBLOCK);
    FAILS(read(mine, &c, 1), EAGAIN);
    SYS(fcntl(mine, F_SETFL, SYS(fcntl(mine, F_GETFL)) & ~O_NONBLOCK));
    IS(fcntl(twin, F_GETFL) & O_NONBLOCK, 0);
    /* Close-on-exec belongs to the number. */
    SYS(fcntl(mine, F_SETFD, FD_CLOEXEC));
    IS(fcntl(twin, F_GETFD), 0);
    close(twin);
  }
}

static void nonblocking_by_ioctl(void) {
  EACH_PAIR(mine, far) {
    char c;
    int on = 1, off = 0;
    SYS(ioctl(mine, FIONBIO, &on));
    OK(SYS(fcntl(mine, F_GETFL)) & O_NONBLOCK);
    FAILS(read(mine, &c, 1), EAGAIN);
    SYS(ioctl(mine, FIONBIO, &off));
    IS(fcntl(mine, F_GETFL) & O_NONBLOCK, 0);
    SYS(ioctl(mine, FIOCLEX));
    OK(SYS(fcntl(mine, F_GETFD)) & FD_CLOEXEC);
    SYS(ioctl(mine, FIONCLEX));
    IS(fcntl(mine, F_GETFD) & FD_CLOEXEC, 0);
  }
}

static void looks_like_a_socket(void) {
  EACH_PAIR(mine, far) {
    struct stat s;
    char link[64], name[64] = {0};
    SYS(fstat(mine, &s));
    OK(S_ISSOCK(s.st_mode));
    FAILS(lseek(mine, 0, SEEK_SET), ESPIPE);
    char c;
    FAILS(pread(mine, &c, 1, 0), ESPIPE);
    FAILS(pwrite(mine, &c, 1, 0), ESPIPE);
    FAILS(ftruncate(mine, 0), EINVAL);
    snprintf(link, sizeof link, "/proc/self/fd/%d", mine);
    SYS(readlink(link, name, sizeof name - 1));
    OK(strncmp(name, "socket:", 7) == 0);
    IS(isatty(mine), 0);
  }
}

static void no_descriptor(void) {
  EACH_PAIR(mine, far) {
    char c;
    int old = mine;
    SYS(close(mine));
    mine = -1;
    FAILS(read(old, &c, 1), EBADF);
    FAILS(write(old, &c, 1), EBADF);
    FAILS(close(old), EBADF);
    FAILS(send(old, &c, 1, 0), EBADF);
    FAILS(listen(old, 1), EBADF);
    FAILS(shutdown(old, SHUT_WR), EBADF);
  }
}

static void not_a_socket(void) {
  int null = SYS(open("/dev/null", O_RDWR));
  struct sockaddr_in a = address(my_ip(), 1);
  char c;
  FAILS(connect(null, A(a)), ENOTSOCK);
  FAILS(bind(null, A(a)), ENOTSOCK);
  FAILS(listen(null, 1), ENOTSOCK);
  FAILS(accept(null, 0, 0), ENOTSOCK);
  FAILS(send(null, &c, 1, 0), ENOTSOCK);
  FAILS(recv(null, &c, 1, 0), ENOTSOCK);
  FAILS(shutdown(null, SHUT_WR), ENOTSOCK);
}

static void lowest_number_is_taken(void) {
  int a = SYS(socket(AF_INET, SOCK_STREAM, 0));
  int b = SYS(socket(AF_INET, SOCK_STREAM, 0));
  IS(b, a + 1);
  SYS(close(a));
  IS(socket(AF_INET, SOCK_DGRAM, 0), a);
  SYS(close(a));
  IS(open("/dev/null", O_RDONLY), a);
}

static void numbers_are_reused(void) {
  /* What a number meant before must not shine through. */
  for (int i = 0; i < 200; i++) {
    int mine, far, p[2];
    char c;
    pair(i & 1, &mine, &far);
    SYS(close(mine));
    SYS(close(far));
    SYS(pipe(p));
    send_all(p[1], "x", 1);
    receive_all(p[0], &c, 1);
    SYS(close(p[0]));
    SYS(close(p[1]));
  }
}

static void stdio(void) {
  EACH_PAIR(mine, far) {
    int fd = SYS(dup(mine));
    FILE *f = fdopen(fd, "r+");
    OK(f);
    IS(fileno(f), fd);
    OK(fprintf(f, "line %d\n", 1) > 0);
    OK(fflush(f) == 0);
    char buf[32] = {0};
    receive_all(far, buf, 7);
    OK(strcmp(buf, "line 1\n") == 0);
    send_all(far, "first\nsecond\n", 13);
    OK(fgets(buf, sizeof buf, f) && strcmp(buf, "first\n") == 0);
    OK(fgets(buf, sizeof buf, f) && strcmp(buf, "second\n") == 0);
    OK(fclose(f) == 0);
    FAILS(fcntl(fd, F_GETFD), EBADF);
    send_all(mine, "still open", 10);
    receive_all(far, buf, 10);
  }
}

static void formatted_onto_it(void) {
  EACH_PAIR(mine, far) {
    char buf[64] = {0};
    IS(dprintf(mine, "%s %d", "number", 7), 8);
    receive_all(far, buf, 8);
    OK(strcmp(buf, "number 7") == 0);
    /* More arguments than there are registers, of either kind. */
    int n = dprintf(mine, "%d%s%g%ld%c%d%g%d%g%s%g%g%g%g%g%g%d\n", 1, "two", 3.5, 4L, '5', 6, 7.5,
                    8, 9.5, "ten", .1, .2, .3, .4, .5, .6, 11);
    IS(n, 41);
    receive_all(far, buf, n);
    OK(memcmp(buf, "1two3.54567.589.5ten0.10.20.30.40.50.611\n", n) == 0);
  }
}

static void closed_in_a_range(void) {
  EACH_PAIR(mine, far) {
    char c;
    int high = SYS(fcntl(mine, F_DUPFD, 300));
    SYS(close(mine));
    mine = -1;
    SYS(close_range(high, high + 10, 0));
    FAILS(write(high, &c, 1), EBADF);
    IS(read(far, &c, 1), 0);
  }
}

/* Passes a descriptor over a Unix socket. */
static void pass(int over, int fd) {
  char space[CMSG_SPACE(sizeof fd)] = {0};
  struct iovec v = {"f", 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(c), &fd, sizeof fd);
  IS(sendmsg(over, &m, 0), 1);
}

static int passed(int over) {
  int fd;
  char space[CMSG_SPACE(sizeof fd)], byte;
  struct iovec v = {&byte, 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  IS(recvmsg(over, &m, 0), 1);
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  OK(c && c->cmsg_type == SCM_RIGHTS);
  memcpy(&fd, CMSG_DATA(c), sizeof fd);
  return fd;
}

static void passed_within_a_process(void) {
  EACH_PAIR(mine, far) {
    int u[2];
    char buf[4];
    SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
    pass(u[0], mine);
    int got = passed(u[1]);
    send_all(got, "past", 4);
    receive_all(far, buf, 4);
    send_all(far, "back", 4);
    receive_all(got, buf, 4);
    close(got), close(u[0]), close(u[1]);
  }
}

static void passed_to_another_process(void) {
  int u[2];
  SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
  pid_t child = SYS(fork()); /* before the connection exists */
  if (!child) {
    int fd = passed(u[1]);
    char buf[8];
    receive_all(fd, buf, 4);
    send_all(fd, "pong", 4);
    _exit(0);
  }
  int mine, far;
  char buf[4];
  pair(0, &mine, &far);
  pass(u[0], mine);
  SYS(close(mine));
  send_all(far, "ping", 4);
  receive_all(far, buf, 4);
  OK(memcmp(buf, "pong", 4) == 0);
  joined(child);
  IS(read(far, buf, 1), 0);
}

/* The one who passes it is gone before the other looks. */
static void passed_by_a_process_that_ends(void) {
  int u[2];
  char buf[4];
  SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
  int listener = my_listener(1);
  struct sockaddr_in a = name_of(listener);
  pid_t passer = SYS(fork());
  if (!passer) {
    int mine = SYS(accept(listener, 0, 0));
    pass(u[0], mine);
    _exit(0);
  }
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, a));
  joined(passer);
  sleep_ms(100);
  send_all(far, "ping", 4);
  int got = passed(u[1]);
  receive_all(got, buf, 4);
  send_all(got, "pong", 4);
  receive_all(far, buf, 4);
  SYS(close(got));
  IS(read(far, buf, 1), 0);
}

static void passed_to_nobody(void) {
  int u[2], mine, far;
  char buf[4];
  SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
  pair(0, &mine, &far);
  SYS(close(u[1]));
  int fd = mine;
  char space[CMSG_SPACE(sizeof fd)], byte = 'x';
  struct iovec v = {&byte, 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof space};
  struct cmsghdr *c = CMSG_FIRSTHDR(&m);
  c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof fd);
  memcpy(CMSG_DATA(c), &fd, sizeof fd);
  FAILS(sendmsg(u[0], &m, MSG_NOSIGNAL), EPIPE);
  SYS(close(mine));
  IS(read(far, buf, 1), 0); /* it is nowhere else */
}

/* A process that gets a descriptor, does what `has_it` says with it, and ends. */
static pid_t give_to_another(int fd, void (*has_it)(int fd, const void *with), const void *with) {
  int u[2];
  SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
  pid_t child = SYS(fork());
  if (!child) {
    IS(write(u[1], "r", 1), 1);
    has_it(passed(u[1]), with);
    _exit(0);
  }
  char ready;
  receive_all(u[0], &ready, 1);
  pass(u[0], fd);
  close(u[0]), close(u[1]);
  return child;
}

/* As a server does that makes the sockets of its clients. */
static pid_t make_for_another(int kind, void (*has_it)(int fd, const void *with), const void *with) {
  int u[2];
  SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
  pid_t child = SYS(fork()); /* before the socket exists */
  if (!child) {
    has_it(passed(u[1]), with);
    _exit(0);
  }
  int fd = SYS(socket(AF_INET, kind, 0));
  pass(u[0], fd);
  close(fd), close(u[0]), close(u[1]);
  return child;
}

static void connects(int fd, const void *to) {
  char buf[4];
  SYS(connect(fd, to, sizeof(struct sockaddr_in)));
  send_all(fd, "ping", 4);
  receive_all(fd, buf, 4);
  OK(memcmp(buf, "pong", 4) == 0);
}

static void a_new_one_is_passed_and_connected(void) {
  char buf[4];
  int listener = far_listener(1);
  struct sockaddr_in a = far_name(listener);
  pid_t child = make_for_another(SOCK_STREAM, connects, &a);
  int far = SYS(far_accept(listener));
  receive_all(far, buf, 4);
  OK(strcmp(inet_ntoa(peer_of(far).sin_addr), my_ip()) == 0);
  send_all(far, "pong", 4);
  joined(child);
  IS(read(far, buf, 1), 0);
}

static void sends(int fd, const void *to) {
  IS(sendto(fd, "ping", 4, 0, to, sizeof(struct sockaddr_in)), 4);
  char buf[5];
  IS(recv(fd, buf, 5, 0), 4);
}

static void a_new_one_is_passed_and_sent_from(void) {
  int far = far_socket(SOCK_DGRAM);
  SYS(far_bind(far, address(far_ip(), 0)));
  struct sockaddr_in a = far_name(far), from;
  socklen_t len = sizeof from;
  pid_t child = make_for_another(SOCK_DGRAM, sends, &a);
  char buf[5];
  IS(recvfrom(far, buf, 5, 0, (struct sockaddr *)&from, &len), 4);
  OK(strcmp(inet_ntoa(from.sin_addr), my_ip()) == 0);
  IS(sendto(far, "pong", 4, 0, (struct sockaddr *)&from, len), 4);
  joined(child);
}

static void listens(int fd, const void *nothing) {
  struct sockaddr_in a = address(my_ip(), 0);
  (void)nothing;
  SYS(bind(fd, A(a)));
  SYS(listen(fd, 1));
  int mine = SYS(accept(fd, 0, 0));
  send_all(mine, "past", 4);
}

/* What one does with it the other finds, as after a fork. */
static void a_new_one_that_is_passed_is_shared(void) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  pid_t child = give_to_another(fd, listens, 0);
  while (option(fd, SOL_SOCKET, SO_ACCEPTCONN) == 0)
    sleep_ms(5);
  struct sockaddr_in a = name_of(fd);
  OK(a.sin_port != 0);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, a));
  char buf[4];
  receive_all(far, buf, 4);
  joined(child);
}

static void has_options(int fd, const void *nothing) {
  struct sockaddr_in a = address(my_ip(), 0);
  (void)nothing;
  SYS(bind(fd, A(a)));
  SYS(listen(fd, 1));
  int beside = SYS(socket(AF_INET, SOCK_STREAM, 0));
  set(beside, SOL_SOCKET, SO_REUSEPORT, 1);
  a = name_of(fd);
  SYS(bind(beside, A(a)));
  IS(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
  IS(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 77);
}

/* Where the kernel has UDP-Lite, its sockets are datagram sockets, too, and none of UDP hears them. */
static void a_new_one_of_another_protocol_is_passed(void) {
  int pair[2], made = socket(AF_INET, SOCK_DGRAM, IPPROTO_UDPLITE);
  if (made < 0) {
    IS(errno, EPROTONOSUPPORT);
    return;
  }
  SYS(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair));
  pass(pair[0], made);
  int lite = passed(pair[1]), udp = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  int far = far_socket(SOCK_DGRAM);
  SYS(far_bind(far, address(far_ip(), 0)));
  struct sockaddr_in to = far_name(far);
  IS(sendto(lite, "lite", 4, 0, A(to)), 4);
  IS(sendto(udp, "full", 4, 0, A(to)), 4);
  char buf[4];
  IS(recv(far, buf, 4, 0), 4);
  OK(memcmp(buf, "full", 4) == 0);
}

static void a_new_one_is_passed_with_its_options(void) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 77);
  joined(give_to_another(fd, has_options, 0));
}

/* What a child has set before anybody binds it counts as what its parent has. */
static void a_new_one_has_what_each_has_set(void) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 77);
  pid_t child = SYS(fork());
  if (!child) {
    set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    _exit(0);
  }
  joined(child);
  has_options(fd, 0);
}

static void allow_numbers_below(int n) {
  struct rlimit limit;
  SYS(getrlimit(RLIMIT_NOFILE, &limit));
  limit.rlim_cur = n;
  SYS(setrlimit(RLIMIT_NOFILE, &limit));
}

/* Nothing that the program has not opened stands in its way. */
static void takes_every_number(int end) {
  struct rlimit limit;
  SYS(getrlimit(RLIMIT_NOFILE, &limit));
  EACH_PAIR(mine, far) {
    char c;
    IS(ready(mine, POLLIN, 30), 0);
    for (int n = 3; n < end; n++)
      if (n != mine && n != far)
        IS(dup2(0, n), n);
    for (int n = limit.rlim_cur; n < 1100; n++)
      FAILS(dup2(0, n), EBADF);
    send_all(far, "a", 1);
    OK(ready(mine, POLLIN, 5000));
    receive_all(mine, &c, 1);
    send_all(mine, "b", 1);
    receive_all(far, &c, 1);
    for (int n = 3; n < end; n++)
      if (n != mine && n != far)
        SYS(close(n));
  }
}

static void every_number_is_the_programs(void) {
  allow_numbers_below(256);
  takes_every_number(256);
}

/* Where the limit is the hard one, a few numbers at its end are the shim's, unless it may allow
 * itself more. */
static void every_number_is_the_programs_at_a_hard_limit(void) {
  struct rlimit more, hard = {256, 256}, after;
  SYS(getrlimit(RLIMIT_NOFILE, &more));
  more.rlim_max++;
  int may = setrlimit(RLIMIT_NOFILE, &more) == 0;
  SYS(setrlimit(RLIMIT_NOFILE, &hard));
  takes_every_number(may ? 256 : 256 - 64);
  SYS(getrlimit(RLIMIT_NOFILE, &after));
  OK(after.rlim_cur == hard.rlim_cur && after.rlim_max == hard.rlim_max);
}

/* Under a limit as shells and containers have it, hard and soft: those that programs go through. */
static void every_number_is_the_programs_at_a_high_limit(void) {
  SYS(setrlimit(RLIMIT_NOFILE, &(struct rlimit){20000, 20000}));
  takes_every_number(4000);
}

/* A process's first socket may take the last number that there is. */
static void the_first_takes_the_last_number(void) {
  int last = SYS(dup(0));
  SYS(close(last));
  allow_numbers_below(last + 1);
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  IS(fd, last);
  FAILS(dup(0), EMFILE);
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(fd, A(a)));
  a = name_of(fd);
  char c;
  IS(ready(fd, POLLIN, 30), 0);
  for (int i = 0; i < 3; i++) {
    IS(sendto(fd, "x", 1, 0, A(a)), 1);
    IS(recv(fd, &c, 1, 0), 1);
  }
  struct timeval little = {0, 30000};
  SYS(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &little, sizeof little));
  FAILS(recv(fd, &c, 1, 0), EAGAIN);
  SYS(close(fd));
}

/* A process that has no number left for its first socket, and may not have more, is told so, and
 * gets one as soon as it has closed others. */
static void no_number_for_the_first(void) {
  SYS(setrlimit(RLIMIT_NOFILE, &(struct rlimit){64, 64}));
  while (dup(0) >= 0)
    ;
  for (int i = 0; i < 3; i++)
    FAILS(socket(AF_INET, SOCK_STREAM, 0), EMFILE);
  for (int fd = 40; fd < 64; fd++)
    SYS(close(fd));
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(fd, A(a)));
  SYS(listen(fd, 1));
  SYS(close(fd));
}

/* Who has no number left for a connection is told so before there is one, whether the call waits
 * or not. */
static void no_number_to_accept(void) {
  struct sockaddr_in any = {.sin_family = AF_INET}, here = address(my_ip(), 0);
  for (int wildcard = 0; wildcard < 2; wildcard++) {
    int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
    SYS(bind(fd, wildcard ? (void *)&any : (void *)&here, sizeof any));
    SYS(listen(fd, 5));
    struct timeval soon = {0, 30000};
    SYS(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof soon));
    int last = SYS(dup(0));
    SYS(close(last));
    struct rlimit before;
    SYS(getrlimit(RLIMIT_NOFILE, &before));
    for (int waits = 0; waits < 2; waits++) {
      SYS(fcntl(fd, F_SETFL, waits ? 0 : O_NONBLOCK));
      FAILS(accept(fd, 0, 0), EAGAIN);
      SYS(setrlimit(RLIMIT_NOFILE, &(struct rlimit){last, before.rlim_max}));
      FAILS(accept(fd, 0, 0), EMFILE);
      SYS(setrlimit(RLIMIT_NOFILE, &before));
    }
    SYS(close(fd));
  }
}

static void descriptor_limit(void) {
  int last = -1, fd;
  while ((fd = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && fd < 4096)
    last = fd;
  if (fd < 0)
    OK(errno == EMFILE);
  OK(last > 0);
  /* Closing one makes room for one. */
  SYS(close(last));
  SYS(socket(AF_INET, SOCK_STREAM, 0));
}

/* How many bytes wait to be acknowledged, and to be sent. */
static void bytes_on_their_way(void) {
  EACH_PAIR(mine, far) {
    IS(queue(mine, SIOCOUTQ), 0);
    IS(queue(mine, SIOCOUTQNSD), 0);
    send_all(mine, "some", 4);
    char buf[4];
    receive_all(far, buf, 4);
    while (queue(mine, SIOCOUTQ))
      ; /* the far end takes its time to acknowledge */
    IS(queue(mine, SIOCOUTQNSD), 0);
    nonblocking(mine);
    static char big[1 << 16];
    size_t sent = 0;
    /* Until the far end, where nobody reads, takes no more. */
    int unacked, unsent;
    do {
      ssize_t n;
      while ((n = write(mine, big, sizeof big)) > 0)
        sent += n;
      unacked = queue(mine, SIOCOUTQ);
      unsent = queue(mine, SIOCOUTQNSD);
      OK(unacked >= unsent);
      OK((size_t)unsent < sent);
    } while (!unsent);
    pid_t child = SYS(fork());
    if (!child) {
      while (sent) {
        ssize_t n = SYS(read(far, big, sizeof big));
        OK(n > 0);
        sent -= n;
      }
      _exit(0);
    }
    joined(child);
    SYS(shutdown(mine, SHUT_WR));
    while (queue(mine, SIOCOUTQ))
      ;
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    SYS(getsockopt(mine, IPPROTO_TCP, TCP_INFO, &info, &n));
    IS(info.tcpi_unacked, 0);
    IS(queue(mine, SIOCOUTQNSD), 0);
  }
  int listener = my_listener(8), n;
  FAILS(ioctl(listener, FIONREAD, &n), EINVAL);
  FAILS(ioctl(listener, SIOCOUTQ, &n), EINVAL);
  FAILS(ioctl(listener, SIOCOUTQNSD, &n), EINVAL);
  int datagrams = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(datagrams, A(a)));
  a = name_of(datagrams);
  SYS(sendto(datagrams, "x", 1, 0, A(a)));
  while (queue(datagrams, SIOCOUTQ))
    ;
  FAILS(ioctl(datagrams, SIOCOUTQNSD, &n), ENOTTY);
}

/* As libuv closes, and programs made for a libc without close_range. */
static void closed_by_number(void) {
  for (int in_a_range = 0; in_a_range < 2; in_a_range++) {
    EACH_PAIR(mine, far) {
      if (in_a_range)
        IS((syscall)(SYS_close_range, mine, mine, 0), 0);
      else
        IS((syscall)(SYS_close, mine), 0);
      FAILS(send(mine, "x", 1, 0), EBADF);
      OK(ready(far, POLLIN, 10000));
      char c;
      IS(recv(far, &c, 1, 0), 0);
    }
  }
}

/* As inetd starts its programs, but for the exec: FILEs that libc has made already. */
static void stdio_on_a_duplicate(void) {
  EACH_PAIR(mine, far) {
    char buf[64] = {0};
    pid_t child = SYS(fork());
    if (!child) {
      char line[64];
      SYS(dup2(mine, 0)), SYS(dup2(mine, 1)), SYS(dup2(mine, 2));
      SYS(close(mine)), SYS(close(far));
      OK(fgets(line, sizeof line, stdin) == line);
      OK(strcmp(line, "hello\n") == 0);
      printf("one %s", line);
      OK(fflush(stdout) == 0);
      fprintf(stderr, "two\n");
      puts("three");
      exit(0);
    }
    SYS(close(mine));
    mine = -1;
    send_all(far, "hello\n", 6);
    receive_all(far, buf, 20);
    IS(memcmp(buf, "one hello\ntwo\nthree\n", 20), 0);
    IS(read(far, buf, 1), 0);
    joined(child);
  }
}

/* The first socket is made where the files of the program's start are not. */
static void after_chroot(void) {
  char path[] = "/tmp/root-XXXXXX";
  OK(mkdtemp(path) == path);
  pid_t child = SYS(fork());
  if (!child) {
    char buf[4];
    SYS(chroot(path));
    SYS(chdir("/"));
    EACH_PAIR(mine, far) {
      send_all(mine, "here", 4);
      receive_all(far, buf, 4);
    }
    _exit(0);
  }
  joined(child);
  SYS(rmdir(path));
}

const struct check CHECKS[] = {
    {"duplicates", duplicates},
    {"duplicate_onto", duplicate_onto},
    {"a_file_onto_a_socket", a_file_onto_a_socket},
    {"duplicate_by_fcntl", duplicate_by_fcntl},
    {"flags_belong_to_the_description", flags_belong_to_the_description},
    {"nonblocking_by_ioctl", nonblocking_by_ioctl},
    {"looks_like_a_socket", looks_like_a_socket},
    {"bytes_on_their_way", bytes_on_their_way},
    {"no_descriptor", no_descriptor},
    {"not_a_socket", not_a_socket},
    {"lowest_number_is_taken", lowest_number_is_taken},
    {"numbers_are_reused", numbers_are_reused},
    {"stdio", stdio},
    {"formatted_onto_it", formatted_onto_it},
    {"closed_in_a_range", closed_in_a_range},
    {"closed_by_number", closed_by_number},
    {"passed_within_a_process", passed_within_a_process},
    {"passed_to_another_process", passed_to_another_process},
    {"passed_by_a_process_that_ends", passed_by_a_process_that_ends},
    {"passed_to_nobody", passed_to_nobody},
    {"a_new_one_is_passed_and_connected", a_new_one_is_passed_and_connected},
    {"a_new_one_is_passed_and_sent_from", a_new_one_is_passed_and_sent_from},
    {"a_new_one_that_is_passed_is_shared", a_new_one_that_is_passed_is_shared},
    {"a_new_one_of_another_protocol_is_passed", a_new_one_of_another_protocol_is_passed},
    {"a_new_one_is_passed_with_its_options", a_new_one_is_passed_with_its_options},
    {"a_new_one_has_what_each_has_set", a_new_one_has_what_each_has_set},
    {"every_number_is_the_programs", every_number_is_the_programs},
    {"every_number_is_the_programs_at_a_hard_limit", every_number_is_the_programs_at_a_hard_limit},
    {"every_number_is_the_programs_at_a_high_limit", every_number_is_the_programs_at_a_high_limit},
    {"the_first_takes_the_last_number", the_first_takes_the_last_number},
    {"no_number_for_the_first", no_number_for_the_first},
    {"no_number_to_accept", no_number_to_accept},
    {"descriptor_limit", descriptor_limit},
    {"stdio_on_a_duplicate", stdio_on_a_duplicate},
    {"after_chroot", after_chroot},
    {0, 0},
};
