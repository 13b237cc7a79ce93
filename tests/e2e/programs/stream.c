/* Bytes over a connection: every call that moves them, and how it ends. */
#include "check.h"
#include "nowhere.h"

static void read_write(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    IS(write(mine, "hello", 5), 5);
    IS(read(far, buf, sizeof buf), 5);
    OK(memcmp(buf, "hello", 5) == 0);
    IS(write(far, "again", 5), 5);
    IS(read(mine, buf, 2), 2);
    IS(read(mine, buf + 2, sizeof buf - 2), 3);
    OK(memcmp(buf, "again", 5) == 0);
    IS(write(mine, "", 0), 0);
    IS(read(mine, buf, 0), 0);
  }
}

static void send_recv(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    struct sockaddr_in from;
    socklen_t n = sizeof from;
    IS(send(mine, "abc", 3, 0), 3);
    IS(recv(far, buf, sizeof buf, 0), 3);
    IS(sendto(mine, "def", 3, 0, 0, 0), 3);
    IS(recv(far, buf, sizeof buf, 0), 3);
    IS(send(far, "ghi", 3, 0), 3);
    /* A connection has no use for an address: it is left alone. */
    IS(recvfrom(mine, buf, sizeof buf, 0, (struct sockaddr *)&from, &n), 3);
    OK(memcmp(buf, "ghi", 3) == 0);
  }
}

static void message_peek(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    send_all(far, "peekaboo", 8);
    OK(ready(mine, POLLIN, 10000) == POLLIN);
    IS(recv(mine, buf, 4, MSG_PEEK), 4);
    IS(recv(mine, buf, 16, MSG_PEEK), 8);
    OK(memcmp(buf, "peekaboo", 8) == 0);
    IS(recv(mine, buf, 4, 0), 4);
    IS(recv(mine, buf, 16, MSG_PEEK), 4);
    OK(memcmp(buf, "aboo", 4) == 0);
    IS(recv(mine, buf, 16, 0), 4);
    FAILS(recv(mine, buf, 16, MSG_PEEK | MSG_DONTWAIT), EAGAIN);
  }
}

static void message_waitall(void) {
  EACH_PAIR(mine, far) {
    char buf[16] = {0};
    send_all(far, "12", 2);
    pid_t child = SYS(fork());
    if (!child) {
      sleep_ms(100);
      send_all(far, "345678", 6);
      _exit(0);
    }
    IS(recv(mine, buf, 8, MSG_WAITALL), 8);
    OK(memcmp(buf, "12345678", 8) == 0);
    joined(child);
    /* The end of the stream ends the wait, too. */
    send_all(far, "xyz", 3);
    SYS(shutdown(far, SHUT_WR));
    IS(recv(mine, buf, 8, MSG_WAITALL), 3);
    IS(recv(mine, buf, 8, MSG_WAITALL), 0);
  }
}

static void message_dontwait(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    FAILS(recv(mine, buf, sizeof buf, MSG_DONTWAIT), EAGAIN);
    send_all(far, "x", 1);
    OK(ready(mine, POLLIN, 10000) == POLLIN);
    IS(recv(mine, buf, sizeof buf, MSG_DONTWAIT), 1);
    FAILS(recv(mine, buf, sizeof buf, MSG_DONTWAIT), EAGAIN);
    /* Sending without waiting fills what there is, then says so. */
    static char big[1 << 20];
    ssize_t sent = 0, n;
    while ((n = send(mine, big, sizeof big, MSG_DONTWAIT)) > 0) {
      sent += n;
      OK(sent < 1 << 28);
    }
    OK(n == -1 && errno == EAGAIN);
    OK(sent > 0);
  }
}

static void nonblocking_errors(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    nonblocking(mine);
    FAILS(read(mine, buf, sizeof buf), EAGAIN);
    struct iovec v = {buf, sizeof buf};
    FAILS(readv(mine, &v, 1), EAGAIN);
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    FAILS(recvmsg(mine, &m, 0), EAGAIN);
    static char big[1 << 20];
    fill(mine, 1 << 16);
    IS(ready(mine, POLLOUT, 0), 0);
    /* Room again as soon as the far end reads. */
    size_t got = 0;
    ssize_t n;
    while ((n = recv(far, big, sizeof big, MSG_DONTWAIT)) > 0 || !ready(mine, POLLOUT, 10))
      got += n > 0 ? n : 0;
    OK(got > 0);
    IS(ready(mine, POLLOUT, 0), POLLOUT);
    OK(write(mine, big, 1000) > 0);
  }
}

static void shutdown_write(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    send_all(mine, "last", 4);
    SYS(shutdown(mine, SHUT_WR));
    receive_all(far, buf, 4);
    IS(read(far, buf, sizeof buf), 0);
    IS(read(far, buf, sizeof buf), 0);
    signal(SIGPIPE, SIG_IGN);
    FAILS(write(mine, "x", 1), EPIPE);
    /* The other half still works. */
    send_all(far, "reply", 5);
    receive_all(mine, buf, 5);
    SYS(close(far));
    IS(read(mine, buf, sizeof buf), 0);
    far = -1;
  }
}

static void shutdown_read(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    SYS(shutdown(mine, SHUT_RD));
    IS(read(mine, buf, sizeof buf), 0);
    OK(ready(mine, POLLIN, 0) & POLLIN);
    send_all(mine, "out", 3);
    receive_all(far, buf, 3);
  }
}

static void shutdown_both(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    SYS(shutdown(mine, SHUT_RDWR));
    IS(read(mine, buf, sizeof buf), 0);
    IS(read(far, buf, sizeof buf), 0);
    FAILS(send(mine, "x", 1, MSG_NOSIGNAL), EPIPE);
    OK((ready(mine, POLLIN | POLLOUT, 0) & (POLLIN | POLLHUP)) != 0);
  }
}

static void shutdown_wakes_a_reader(void) {
  EACH_PAIR(mine, far) {
    pid_t child = SYS(fork());
    if (!child) {
      sleep_ms(100);
      SYS(shutdown(mine, SHUT_RD));
      _exit(0);
    }
    char buf[16];
    IS(read(mine, buf, sizeof buf), 0);
    joined(child);
  }
}

static void end_of_stream_after_data(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    send_all(far, "bye", 3);
    SYS(close(far));
    far = -1;
    sleep_ms(20);
    IS(read(mine, buf, sizeof buf), 3);
    IS(read(mine, buf, sizeof buf), 0);
  }
}

static void reset_is_told(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    far_reset(far);
    far = -1;
    OK(ready(mine, POLLIN, 10000) & (POLLERR | POLLHUP));
    FAILS(read(mine, buf, sizeof buf), ECONNRESET);
    /* Told once; then it is the end. */
    IS(read(mine, buf, sizeof buf), 0);
    FAILS(send(mine, "x", 1, MSG_NOSIGNAL), EPIPE);
  }
}

static void reset_shows_in_so_error(void) {
  EACH_PAIR(mine, far) {
    char buf[4];
    far_reset(far);
    far = -1;
    OK(ready(mine, POLLIN, 10000) & POLLERR);
    IS(option(mine, SOL_SOCKET, SO_ERROR), ECONNRESET);
    IS(option(mine, SOL_SOCKET, SO_ERROR), 0);
    IS(read(mine, buf, sizeof buf), 0);
  }
}

static void close_with_unread_data_resets(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    send_all(far, "unread", 6);
    OK(ready(mine, POLLIN, 10000) & POLLIN);
    SYS(close(mine));
    mine = -1;
    OK(ready(far, POLLIN, 10000) & (POLLERR | POLLHUP));
    FAILS(read(far, buf, sizeof buf), ECONNRESET);
  }
}

static void linger_zero_resets(void) {
  EACH_PAIR(mine, far) {
    char buf[16];
    struct linger l = {1, 0};
    SYS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &l, sizeof l));
    SYS(close(mine));
    mine = -1;
    FAILS(read(far, buf, sizeof buf), ECONNRESET);
  }
}

static void linger_waits_for_delivery(void) {
  EACH_PAIR(mine, far) {
    struct linger l = {1, 25};
    SYS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &l, sizeof l));
    int up[2];
    SYS(pipe(up));
    pid_t child = SYS(fork());
    if (!child) {
      SYS(close(mine));
      send_all(up[1], "c", 1);
      receive_pattern(far, 300000);
      _exit(0);
    }
    SYS(close(far));
    far = -1;
    char c;
    receive_all(up[0], &c, 1); /* ours is the last that is closed */
    close(up[0]), close(up[1]);
    static unsigned char big[300000];
    pattern(big, sizeof big, 0);
    send_all(mine, big, sizeof big);
    double start = now();
    SYS(close(mine));
    mine = -1;
    OK(now() - start < 20);
    joined(child);
  }
}

static void linger_ends_when_all_is_delivered(void) {
  EACH_PAIR(mine, far) {
    struct linger l = {1, 15};
    SYS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &l, sizeof l));
    send_all(mine, "little", 6);
    char buf[6];
    receive_all(far, buf, 6);
    double start = now();
    SYS(close(mine));
    mine = -1;
    OK(now() - start < 14);
  }
}

static void close_delivers_what_was_sent(void) {
  EACH_PAIR(mine, far) {
    static unsigned char big[200000];
    pattern(big, sizeof big, 0);
    pid_t child = SYS(fork());
    if (!child) {
      SYS(close(mine));
      sleep_ms(50);
      receive_pattern(far, sizeof big);
      _exit(0);
    }
    send_all(mine, big, sizeof big);
    SYS(close(mine));
    SYS(close(far));
    mine = far = -1;
    joined(child);
  }
}

static volatile sig_atomic_t pipes;
static void on_pipe(int signal) {
  (void)signal;
  pipes++;
}

static void sigpipe(void) {
  EACH_PAIR(mine, far) {
    pipes = 0;
    signal(SIGPIPE, on_pipe);
    SYS(shutdown(mine, SHUT_WR));
    FAILS(send(mine, "x", 1, MSG_NOSIGNAL), EPIPE);
    IS(pipes, 0);
    FAILS(write(mine, "x", 1), EPIPE);
    IS(pipes, 1);
    FAILS(send(mine, "x", 1, 0), EPIPE);
    IS(pipes, 2);
    struct iovec v = {"x", 1};
    FAILS(writev(mine, &v, 1), EPIPE);
    IS(pipes, 3);
  }
}

static void sigpipe_kills(void) {
  EACH_PAIR(mine, far) {
    pid_t child = SYS(fork());
    if (!child) {
      SYS(shutdown(mine, SHUT_WR));
      if (write(mine, "x", 1)) {
      }
      _exit(0);
    }
    int status;
    IS(waitpid(child, &status, 0), child);
    OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
  }
}

static void readv_writev(void) {
  EACH_PAIR(mine, far) {
    struct iovec out[4] = {{"ab", 2}, {"", 0}, {"cdef", 4}, {"g", 1}};
    IS(writev(mine, out, 4), 7);
    char a[3] = {0}, b[10] = {0};
    receive_all(far, b, 7);
    OK(memcmp(b, "abcdefg", 7) == 0);
    send_all(far, "0123456789", 10);
    OK(ready(mine, POLLIN, 10000));
    sleep_ms(20);
    struct iovec in[3] = {{a, 3}, {0, 0}, {b, 10}};
    IS(readv(mine, in, 3), 10);
    OK(memcmp(a, "012", 3) == 0 && memcmp(b, "3456789", 7) == 0);
    volatile int negative = -1, too_many = 2000;
    FAILS(writev(mine, out, negative), EINVAL);
    FAILS(readv(mine, in, too_many), EINVAL);
  }
}

static void sendmsg_recvmsg(void) {
  EACH_PAIR(mine, far) {
    struct iovec out[2] = {{"scatter", 7}, {"gather", 6}};
    struct msghdr m = {.msg_iov = out, .msg_iovlen = 2};
    IS(sendmsg(mine, &m, 0), 13);
    char buf[32] = {0};
    receive_all(far, buf, 13);
    OK(memcmp(buf, "scattergather", 13) == 0);
    send_all(far, "headbody", 8);
    OK(ready(mine, POLLIN, 10000));
    struct sockaddr_in from;
    char head[4], control[64];
    struct iovec in[2] = {{head, 4}, {buf, sizeof buf}};
    struct msghdr r = {.msg_name = &from, .msg_namelen = sizeof from,
                       .msg_iov = in, .msg_iovlen = 2,
                       .msg_control = control, .msg_controllen = sizeof control};
    IS(recvmsg(mine, &r, 0), 8);
    OK(memcmp(head, "head", 4) == 0 && memcmp(buf, "body", 4) == 0);
    IS(r.msg_namelen, 0);
    IS(r.msg_controllen, 0);
    IS(r.msg_flags & MSG_TRUNC, 0);
  }
}

static void bulk(int from_mine) {
  enum { N = 6000000 };
  EACH_PAIR(mine, far) {
    int to = from_mine ? far : mine, from = from_mine ? mine : far;
    pid_t child = send_in_background(from, N);
    receive_pattern(to, N);
    joined(child);
  }
}

static void bulk_out(void) { bulk(1); }
static void bulk_in(void) { bulk(0); }

static void both_ways_at_once(void) {
  enum { N = 3000000 };
  EACH_PAIR(mine, far) {
    pid_t out = send_in_background(mine, N);
    pid_t back = send_in_background(far, N);
    pid_t reader = SYS(fork());
    if (!reader) {
      receive_pattern(far, N);
      _exit(0);
    }
    receive_pattern(mine, N);
    joined(out);
    joined(back);
    joined(reader);
  }
}

static void one_byte_at_a_time(void) {
  EACH_PAIR(mine, far) {
    set(mine, IPPROTO_TCP, TCP_NODELAY, 1);
    for (int i = 0; i < 2000; i++) {
      unsigned char out, in;
      pattern(&out, 1, i);
      IS(write(mine, &out, 1), 1);
      IS(read(far, &in, 1), 1);
      IS(in, out);
      IS(write(far, &in, 1), 1);
      IS(read(mine, &out, 1), 1);
      IS(in, out);
    }
  }
}

static void bytes_waiting(void) {
  EACH_PAIR(mine, far) {
    int n = -1;
    SYS(ioctl(mine, FIONREAD, &n));
    IS(n, 0);
    send_all(far, "12345", 5);
    OK(ready(mine, POLLIN, 10000));
    SYS(ioctl(mine, FIONREAD, &n));
    IS(n, 5);
    char buf[2];
    receive_all(mine, buf, 2);
    SYS(ioctl(mine, FIONREAD, &n));
    IS(n, 3);
  }
}

static int temporary_file(size_t n) {
  char name[] = "/tmp/longshore-check-XXXXXX";
  int fd = SYS(mkstemp(name));
  unlink(name);
  static unsigned char piece[65536];
  for (size_t at = 0; at < n;) {
    size_t now_ = n - at < sizeof piece ? n - at : sizeof piece;
    pattern(piece, now_, at);
    send_all(fd, piece, now_);
    at += now_;
  }
  return fd;
}

static void sendfile_whole(void) {
  enum { N = 3000000 };
  int file = temporary_file(N);
  EACH_PAIR(mine, far) {
    pid_t child = SYS(fork());
    if (!child) {
      receive_pattern(far, N);
      _exit(0);
    }
    off_t at = 0;
    while (at < N)
      OK(sendfile(mine, file, &at, N - at) > 0);
    IS(at, N);
    IS(lseek(file, 0, SEEK_CUR), N); /* left where the writing left it */
    IS(sendfile(mine, file, &at, 100), 0);
    SYS(shutdown(mine, SHUT_WR));
    joined(child);
    SYS(close(far));
    far = -1;
  }
}

/* What is no file is not read: what comes out of a pipe would be lost where it cannot be sent. */
static void sendfile_of_what_is_no_file(void) {
  EACH_PAIR(mine, far) {
    int pipes[2], counter = SYS(eventfd(7, 0)), directory = SYS(open("/", O_RDONLY));
    off_t at = 0;
    char buf[8];
    uint64_t count;
    SYS(pipe(pipes));
    FAILS(sendfile(mine, pipes[0], 0, 5), EINVAL);
    IS(write(pipes[1], "hello", 5), 5);
    FAILS(sendfile(mine, pipes[0], 0, 5), EINVAL);
    FAILS(sendfile(mine, pipes[0], &at, 5), ESPIPE);
    IS(read(pipes[0], buf, 8), 5);
    FAILS(sendfile(mine, counter, 0, 8), EINVAL);
    IS(read(counter, &count, 8), 8);
    IS(count, 7);
    FAILS(sendfile(mine, directory, 0, 8), EINVAL);
    FAILS(sendfile(mine, 999, 0, 0), EBADF);
    int file = SYS(open("/proc/self/exe", O_RDONLY));
    FAILS(sendfile(mine, file, 0, -1), EINVAL);
    SYS(close(file));
    SYS(close(pipes[0])), SYS(close(pipes[1])), SYS(close(counter)), SYS(close(directory));
  }
}

/* The file is looked at before the socket that takes nothing. */
static void sendfile_where_nothing_can_be_sent(void) {
  signal(SIGPIPE, SIG_IGN);
  int streams[2] = {SYS(socket(AF_INET, SOCK_STREAM, 0)), my_listener(1)}, pipes[2];
  char name[] = "/tmp/sendfile-XXXXXX";
  int file = SYS(mkstemp(name)), writes = SYS(open(name, O_WRONLY)), path = SYS(open(name, O_PATH));
  SYS(unlink(name));
  IS(write(file, "0123456789", 10), 10);
  SYS(pipe(pipes));
  for (int i = 0; i < 2; i++) {
    int fd = streams[i];
    off_t at = 0, before = -1, end = 10;
    FAILS(sendfile(fd, file, &at, 5), EPIPE);
    IS(at, 0);
    IS(sendfile(fd, file, &end, 5), 0);
    IS(sendfile(fd, file, 0, 5), 0); /* it stands at its end */
    FAILS(sendfile(fd, file, &before, 5), EINVAL);
    FAILS(sendfile(fd, writes, 0, 5), EBADF);
    FAILS(sendfile(fd, writes, &at, 5), EBADF);
    FAILS(sendfile(fd, writes, 0, -1), EBADF);
    FAILS(sendfile(fd, path, &at, 5), EBADF);
    FAILS(sendfile(fd, 999, &at, 5), EBADF);
    FAILS(sendfile(fd, pipes[0], &at, -1), ESPIPE);
  }
  for (int i = 0; i < 2; i++)
    SYS(close(streams[i])), SYS(close(pipes[i]));
  SYS(close(file)), SYS(close(writes)), SYS(close(path));
}

/* A socket is no file, but what it has goes into a pipe. */
static void sendfile_from_a_socket(void) {
  EACH_PAIR(mine, far) {
    off_t at = 0;
    int pipes[2], file = SYS(open("/dev/null", O_RDONLY)), to = SYS(open("/dev/null", O_WRONLY));
    SYS(pipe(pipes));
    send_all(far, "hello", 5);
    char buf[8];
    IS(sendfile(pipes[1], mine, 0, 3), 3);
    IS(sendfile(pipes[1], mine, 0, 100), 2);
    IS(read(pipes[0], buf, 8), 5);
    IS(memcmp(buf, "hello", 5), 0);
    SYS(fcntl(mine, F_SETFL, O_NONBLOCK));
    FAILS(sendfile(pipes[1], mine, 0, 3), EAGAIN);
    FAILS(sendfile(pipes[1], mine, 0, -1), EINVAL);
    FAILS(sendfile(pipes[1], mine, &at, 3), ESPIPE);
    FAILS(sendfile(pipes[0], mine, 0, 3), EBADF);
    FAILS(sendfile(file, mine, 0, 3), EBADF);
    FAILS(sendfile(file, mine, &at, 3), ESPIPE);
    FAILS(sendfile(file, mine, 0, -1), EINVAL);
    FAILS(sendfile(999, mine, 0, 3), EBADF);
    FAILS(sendfile(mine, mine, 0, 3), EINVAL);
    FAILS(sendfile(to, mine, 0, 0), EINVAL);
    FAILS(sendfile(to, mine, (off_t *)1, 3), EFAULT);
    SYS(close(pipes[0])), SYS(close(pipes[1])), SYS(close(file)), SYS(close(to));
  }
}

static void sendfile_from_the_files_position(void) {
  int file = temporary_file(1000);
  EACH_PAIR(mine, far) {
    SYS(lseek(file, 400, SEEK_SET));
    IS(sendfile(mine, file, 0, 250), 250);
    IS(lseek(file, 0, SEEK_CUR), 650);
    IS(sendfile(mine, file, 0, 10000), 350);
    unsigned char buf[600];
    receive_all(far, buf, sizeof buf);
    check_pattern(buf, sizeof buf, 400);
  }
}

static void sendfile_without_waiting(void) {
  enum { N = 64 << 20 };
  int file = SYS(syscall(SYS_memfd_create, "big", 0));
  SYS(ftruncate(file, N));
  EACH_PAIR(mine, far) {
    nonblocking(mine);
    off_t at = 0;
    ssize_t n;
    while ((n = sendfile(mine, file, &at, N)) > 0)
      OK(at < N);
    OK(n == -1 && errno == EAGAIN);
    OK(at > 0);
  }
}

static void splice_through_a_pipe(void) {
  EACH_PAIR(mine, far) {
    int p[2];
    SYS(pipe(p));
    send_all(far, "spliced bytes", 13);
    OK(ready(mine, POLLIN, 10000));
    IS(splice(mine, 0, p[1], 0, 4096, 0), 13);
    IS(splice(p[0], 0, mine, 0, 4096, 0), 13);
    char buf[16];
    receive_all(far, buf, 13);
    OK(memcmp(buf, "spliced bytes", 13) == 0);
    nonblocking(mine);
    FAILS(splice(mine, 0, p[1], 0, 4096, 0), EAGAIN);
    close(p[0]), close(p[1]);
  }
}

static void splice_end_of_stream(void) {
  EACH_PAIR(mine, far) {
    int p[2];
    SYS(pipe(p));
    SYS(shutdown(far, SHUT_WR));
    OK(ready(mine, POLLIN, 10000));
    IS(splice(mine, 0, p[1], 0, 4096, 0), 0);
    close(p[0]), close(p[1]);
  }
}

static void bad_pointers(void) {
  void *volatile nowhere;
  EACH_NOWHERE(nowhere) EACH_PAIR(mine, far) {
    FAILS(send(mine, nowhere, 100, 0), EFAULT);
    FAILS(write(mine, nowhere, 100), EFAULT);
    FAILS(send(mine, 0, 1, 0), EFAULT);
    struct iovec v = {nowhere, 100};
    FAILS(writev(mine, &v, 1), EFAULT);
    FAILS(writev(mine, nowhere, 1), EFAULT);
    struct msghdr m = {.msg_iov = nowhere, .msg_iovlen = 1};
    FAILS(sendmsg(mine, &m, 0), EFAULT);
    FAILS(sendmsg(mine, nowhere, 0), EFAULT);
    IS(send(mine, 0, 0, 0), 0);
    send_all(far, "data", 4);
    OK(ready(mine, POLLIN, 10000));
    FAILS(recv(mine, nowhere, 100, 0), EFAULT);
    FAILS(read(mine, nowhere, 100), EFAULT);
    FAILS(readv(mine, &v, 1), EFAULT);
    FAILS(recvmsg(mine, &m, 0), EFAULT);
    FAILS(recvmsg(mine, nowhere, 0), EFAULT);
    char buf[4];
    receive_all(mine, buf, 4);
    /* What is thrown away needs no buffer. */
    send_all(far, "gonedata", 8);
    IS(recv(mine, 0, 4, MSG_TRUNC | MSG_WAITALL), 4);
    IS(recv(mine, NULL, 0, 0), 0);
    receive_all(mine, buf, 4);
    OK(memcmp(buf, "data", 4) == 0);
  }
}

static void bad_pointers_beside_the_bytes(void) {
  void *volatile nowhere;
  EACH_NOWHERE(nowhere) EACH_PAIR(mine, far) {
    struct sockaddr_in a;
    socklen_t n = sizeof a;
    FAILS(getsockname(mine, nowhere, &n), EFAULT);
    FAILS(getsockname(mine, (struct sockaddr *)&a, nowhere), EFAULT);
    FAILS(getpeername(mine, nowhere, &n), EFAULT);
    FAILS(getpeername(mine, (struct sockaddr *)&a, nowhere), EFAULT);
    FAILS(ioctl(mine, SIOCOUTQ, nowhere), EFAULT);
    FAILS(getsockopt(mine, SOL_SOCKET, SO_ERROR, nowhere, &n), EFAULT);
    FAILS(getsockopt(mine, IPPROTO_TCP, TCP_NODELAY, &a, nowhere), EFAULT);
    FAILS(poll(nowhere, 1, 0), EFAULT);
    FAILS(select(mine + 1, nowhere, 0, 0, &(struct timeval){0}), EFAULT);
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLOUT};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    FAILS(epoll_wait(ep, nowhere, 1, 0), EFAULT);
    IS(epoll_wait(ep, &e, 1, 1000), 1);
    SYS(close(ep));
  }
  int listener = my_listener(8), fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in here = name_of(listener);
  EACH_NOWHERE(nowhere) {
    FAILS(connect(fd, nowhere, sizeof here), EFAULT);
    FAILS(bind(fd, nowhere, sizeof here), EFAULT);
    /* The connection goes with the call that could not say whose it is. */
    int far = far_socket(SOCK_STREAM);
    SYS(far_connect(far, here));
    OK(ready(listener, POLLIN, 5000));
    socklen_t n = sizeof here;
    FAILS(accept(listener, nowhere, &n), EFAULT);
    nonblocking(listener);
    FAILS(accept(listener, 0, 0), EAGAIN);
    int other = far_socket(SOCK_STREAM);
    SYS(far_connect(other, here));
    OK(ready(listener, POLLIN, 5000));
    SYS(close(SYS(accept(listener, 0, 0))));
    SYS(close(far)), SYS(close(other));
  }
}

static void receive_timeout(void) {
  EACH_PAIR(mine, far) {
    struct timeval t = {0, 150000};
    SYS(setsockopt(mine, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
    char c;
    TAKES(FAILS(read(mine, &c, 1), EAGAIN), 0.14, 0.6);
  }
}

static void send_timeout(void) {
  EACH_PAIR(mine, far) {
    struct timeval t = {0, 150000};
    SYS(setsockopt(mine, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t));
    static char big[1 << 20];
    ssize_t n, all = 0;
    while ((n = write(mine, big, sizeof big)) > 0) {
      all += n;
      OK(all < 1 << 28);
    }
    OK(errno == EAGAIN);
  }
}

static void interrupted_by_a_signal(void) {
  struct sigaction quick = {.sa_handler = on_pipe};
  SYS(sigaction(SIGUSR1, &quick, 0));
  EACH_PAIR(mine, far) {
    pid_t parent = getpid(), child = SYS(fork());
    if (!child) {
      until_it_sleeps(parent);
      kill(parent, SIGUSR1);
      _exit(0);
    }
    char c;
    FAILS(read(mine, &c, 1), EINTR);
    joined(child);
  }
}

static void restarted_after_a_signal(void) {
  struct sigaction quiet = {.sa_handler = on_pipe, .sa_flags = SA_RESTART};
  SYS(sigaction(SIGUSR1, &quiet, 0));
  EACH_PAIR(mine, far) {
    pid_t parent = getpid(), child = SYS(fork());
    if (!child) {
      until_it_sleeps(parent);
      kill(parent, SIGUSR1);
      sleep_ms(100);
      send_all(far, "z", 1);
      _exit(0);
    }
    char c;
    IS(read(mine, &c, 1), 1);
    joined(child);
  }
}

/* It is looked at when there is something to be received. */
static void a_negative_length_is_wrong(void) {
  EACH_PAIR(mine, far) {
    struct sockaddr_in name;
    char c;
    socklen_t n = -1;
    send_all(far, "xy", 2);
    OK(ready(mine, POLLIN, 5000) & POLLIN);
    FAILS(recvfrom(mine, &c, 1, 0, (void *)&name, &n), EINVAL);
    n = sizeof name;
    IS(recvfrom(mine, &c, 1, 0, (void *)&name, &n), 1);
    IS(c, 'y');
    IS(n, 0);
  }
}

/* Nothing is waited for that the sender holds back (MSG_MORE, TCP_CORK), and it is there once it is
 * let go. */
static void held_back_is_not_waited_for(void) {
  enum { ROUNDS = 20 };
  for (int cork = 0; cork < 2; cork++)
    EACH_PAIR(mine, far) {
      int slow = 0;
      for (int i = 0; i < ROUNDS; i++) {
        char buf[16];
        if (cork)
          set(mine, IPPROTO_TCP, TCP_CORK, 1);
        IS(send(mine, "held", 4, cork ? 0 : MSG_MORE), 4);
        double began = now();
        FAILS(recv(far, buf, sizeof buf, MSG_DONTWAIT), EAGAIN);
        slow += now() - began > 0.015;
        if (cork)
          set(mine, IPPROTO_TCP, TCP_CORK, 0);
        else
          IS(send(mine, "!", 1, 0), 1);
        receive_all(far, buf, cork ? 4 : 5);
        OK(memcmp(buf, cork ? "held" : "held!", cork ? 4 : 5) == 0);
      }
      OK(slow < ROUNDS / 2); /* beside others' work one may take long */
    }
}

const struct check CHECKS[] = {
    {"read_write", read_write},
    {"send_recv", send_recv},
    {"message_peek", message_peek},
    {"message_waitall", message_waitall},
    {"message_dontwait", message_dontwait},
    {"nonblocking_errors", nonblocking_errors},
    {"shutdown_write", shutdown_write},
    {"shutdown_read", shutdown_read},
    {"shutdown_both", shutdown_both},
    {"shutdown_wakes_a_reader", shutdown_wakes_a_reader},
    {"end_of_stream_after_data", end_of_stream_after_data},
    {"reset_is_told", reset_is_told},
    {"reset_shows_in_so_error", reset_shows_in_so_error},
    {"close_with_unread_data_resets", close_with_unread_data_resets},
    {"linger_zero_resets", linger_zero_resets},
    {"linger_waits_for_delivery", linger_waits_for_delivery},
    {"linger_ends_when_all_is_delivered", linger_ends_when_all_is_delivered},
    {"close_delivers_what_was_sent", close_delivers_what_was_sent},
    {"sigpipe", sigpipe},
    {"sigpipe_kills", sigpipe_kills},
    {"readv_writev", readv_writev},
    {"sendmsg_recvmsg", sendmsg_recvmsg},
    {"bulk_out", bulk_out},
    {"bulk_in", bulk_in},
    {"both_ways_at_once", both_ways_at_once},
    {"one_byte_at_a_time", one_byte_at_a_time},
    {"bytes_waiting", bytes_waiting},
    {"sendfile_whole", sendfile_whole},
    {"sendfile_of_what_is_no_file", sendfile_of_what_is_no_file},
    {"sendfile_where_nothing_can_be_sent", sendfile_where_nothing_can_be_sent},
    {"sendfile_from_a_socket", sendfile_from_a_socket},
    {"sendfile_from_the_files_position", sendfile_from_the_files_position},
    {"sendfile_without_waiting", sendfile_without_waiting},
    {"splice_through_a_pipe", splice_through_a_pipe},
    {"splice_end_of_stream", splice_end_of_stream},
    {"bad_pointers", bad_pointers},
    {"bad_pointers_beside_the_bytes", bad_pointers_beside_the_bytes},
    {"receive_timeout", receive_timeout},
    {"send_timeout", send_timeout},
    {"interrupted_by_a_signal", interrupted_by_a_signal},
    {"restarted_after_a_signal", restarted_after_a_signal},
    {"a_negative_length_is_wrong", a_negative_length_is_wrong},
    {"held_back_is_not_waited_for", held_back_is_not_waited_for},
    {0, 0},
};
