/* A socket-API check: a function that ends the process with a message if the
 * stack does not behave like Linux. A program is a list of checks:
 *
 *     program --list      names them
 *     program NAME        runs one: prints PASS and exits 0, or FAIL and 1
 *
 * `mine` is a socket of the stack under test. `far` is the other end: with
 * FAR=kernel a kernel socket, made behind the shim's back by raw system calls;
 * with FAR=self another socket of the stack under test. ADDR and FAR_ADDR are
 * the addresses of the two ends. */
#ifndef CHECK_H
#define CHECK_H
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A system call that nobody can catch. The shim has libc's: (syscall)(...). */
static inline long raw_syscall(long number, long a, long b, long c, long d, long e,
                               long f) {
#if defined __x86_64__
  long result = number;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
#elif defined __aarch64__
  register long x8 __asm__("x8") = number;
  register long result __asm__("x0") = a;
  register long x1 __asm__("x1") = b, x2 __asm__("x2") = c, x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e, x5 __asm__("x5") = f;
  __asm__ volatile("svc #0"
                   : "+r"(result)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
#endif
  if (result < 0 && result > -4096) {
    errno = -result;
    return -1;
  }
  return result;
}
#define RAW_(number, a, b, c, d, e, f, ...)                                    \
  raw_syscall(number, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e),   \
              (long)(f))
#define syscall(...) RAW_(__VA_ARGS__, 0, 0, 0, 0, 0, 0, 0)

/* A fork by number, with what it takes. */
#ifdef SYS_fork
#define FORK_BY_NUMBER SYS_fork
#else
#define FORK_BY_NUMBER SYS_clone, SIGCHLD, 0, 0, 0, 0
#endif

struct check {
  const char *name;
  void (*run)(void);
};
extern const struct check CHECKS[];

static const char *check_name = "?";
static pid_t check_process;

/* Ends a failed check with all its children, who may wait for each other. */
static inline void __attribute__((noreturn)) end_failed(void) {
  if (getpid() == check_process)
    kill(0, SIGKILL);
  _exit(1);
}

static void __attribute__((noreturn, format(printf, 3, 4), unused))
fail(const char *file, int line, const char *format, ...) {
  va_list args;
  va_start(args, format);
  printf("FAIL %s: %s:%d: ", check_name, file, line);
  vprintf(format, args);
  printf("\n");
  fflush(stdout);
  end_failed();
}

#define FAIL(...) fail(__FILE__, __LINE__, __VA_ARGS__)
/* The condition holds. */
#define OK(condition)                                                          \
  do {                                                                         \
    if (!(condition))                                                          \
      FAIL("%s (errno %d: %s)", #condition, errno, strerror(errno));           \
  } while (0)
/* The call gives this number. */
#define IS(call, expected)                                                     \
  do {                                                                         \
    errno = 0;                                                                 \
    long long is_ = (long long)(call), should_ = (long long)(expected);        \
    if (is_ != should_)                                                        \
      FAIL("%s is %lld, not %lld (errno %d: %s)", #call, is_, should_, errno,  \
           strerror(errno));                                                   \
  } while (0)
/* The call gives -1 and this errno. */
#define FAILS(call, expected)                                                  \
  do {                                                                         \
    errno = 0;                                                                 \
    long long is_ = (long long)(call);                                         \
    if (is_ != -1)                                                             \
      FAIL("%s is %lld, but should fail with %s", #call, is_, #expected);      \
    if (errno != (expected))                                                   \
      FAIL("%s fails with errno %d (%s), not %s", #call, errno,                \
           strerror(errno), #expected);                                        \
  } while (0)

static inline long long must(const char *file, int line, const char *what,
                             long long result) {
  if (result == -1)
    fail(file, line, "%s fails with errno %d (%s)", what, errno,
         strerror(errno));
  return result;
}
/* The call does not fail; its value. */
#define SYS(call) must(__FILE__, __LINE__, #call, (long long)(call))

/* --- addresses ----------------------------------------------------------- */

static inline int far_in_kernel(void) {
  const char *far = getenv("FAR");
  return far && strcmp(far, "kernel") == 0;
}

/* The stack under test is not the kernel. */
static inline int on_longshore(void) {
  const char *stack = getenv("STACK");
  return stack && strcmp(stack, "longshore") == 0;
}

static inline struct sockaddr_in address(const char *ip, int port) {
  struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
  if (inet_pton(AF_INET, ip, &a.sin_addr) != 1)
    FAIL("bad address %s", ip);
  return a;
}

static inline const char *my_ip(void) {
  return getenv("ADDR") ? getenv("ADDR") : "127.0.0.1";
}

static inline const char *far_ip(void) {
  return getenv("FAR_ADDR") ? getenv("FAR_ADDR") : "127.0.0.1";
}

#define A(a) ((struct sockaddr *)&(a)), sizeof(a)

static inline struct sockaddr_in name_of(int fd) {
  struct sockaddr_in a;
  socklen_t n = sizeof a;
  SYS(getsockname(fd, (struct sockaddr *)&a, &n));
  IS(n, sizeof a);
  return a;
}

static inline struct sockaddr_in peer_of(int fd) {
  struct sockaddr_in a;
  socklen_t n = sizeof a;
  SYS(getpeername(fd, (struct sockaddr *)&a, &n));
  IS(n, sizeof a);
  return a;
}

static inline int same(struct sockaddr_in a, struct sockaddr_in b) {
  return a.sin_port == b.sin_port && a.sin_addr.s_addr == b.sin_addr.s_addr;
}

/* --- sockets ------------------------------------------------------------- */

/* One of the stack under test, listening on a port of its choice. */
static inline int my_listener(int backlog) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(fd, A(a)));
  SYS(listen(fd, backlog));
  return fd;
}

/* An address of ours where nobody listens, with a port that is nobody's: one below those
 * that sockets get which ask for none in particular, so that no such socket, of this check
 * or of one that runs beside it, gets it before the check has used it. */
static inline struct sockaddr_in unserved_address(void) {
  enum { FIRST = 20000, PORTS = 12000 };
  static unsigned at;
  if (at == 0)
    at = (unsigned)getpid() * 97;
  for (int tries = 0; tries < PORTS; tries++) {
    struct sockaddr_in a = address(my_ip(), FIRST + ++at % PORTS);
    int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
    int is_free = bind(fd, A(a)) == 0;
    SYS(close(fd));
    if (is_free)
      return a;
  }
  FAIL("each port from %d on is in use", FIRST);
}

/* A setting of net.ipv4. */
static inline void write_setting(const char *name, const char *text) {
  char path[80];
  snprintf(path, sizeof path, "/proc/sys/net/ipv4/%s", name);
  int fd = SYS(open(path, O_WRONLY));
  IS(write(fd, text, strlen(text)), (long)strlen(text));
  SYS(close(fd));
}

/* Calls on a far socket that is still to be made: raw if it is the kernel's. */
static inline int far_socket(int type) {
  return SYS(far_in_kernel() ? syscall(SYS_socket, AF_INET, type, 0)
                             : socket(AF_INET, type, 0));
}

static inline int far_bind(int fd, struct sockaddr_in a) {
  return far_in_kernel() ? syscall(SYS_bind, fd, &a, sizeof a)
                         : bind(fd, A(a));
}

static inline int far_connect(int fd, struct sockaddr_in a) {
  return far_in_kernel() ? syscall(SYS_connect, fd, &a, sizeof a)
                         : connect(fd, A(a));
}

static inline struct sockaddr_in far_name(int fd) {
  struct sockaddr_in a;
  socklen_t n = sizeof a;
  SYS(far_in_kernel() ? syscall(SYS_getsockname, fd, &a, &n)
                      : getsockname(fd, (struct sockaddr *)&a, &n));
  return a;
}

static inline int far_accept(int fd) {
  return SYS(far_in_kernel() ? syscall(SYS_accept4, fd, 0, 0, 0)
                             : accept(fd, 0, 0));
}

static inline int far_listener(int backlog) {
  int fd = far_socket(SOCK_STREAM);
  SYS(far_bind(fd, address(far_ip(), 0)));
  SYS(far_in_kernel() ? syscall(SYS_listen, fd, backlog)
                      : listen(fd, backlog));
  return fd;
}

static inline int far_option(int fd, int level, int name, int value) {
  return far_in_kernel()
             ? syscall(SYS_setsockopt, fd, level, name, &value, sizeof value)
             : setsockopt(fd, level, name, &value, sizeof value);
}

/* Resets the connection. */
static inline void far_reset(int fd) {
  struct linger now = {1, 0};
  SYS(far_in_kernel() ? syscall(SYS_setsockopt, fd, SOL_SOCKET, SO_LINGER,
                                &now, sizeof now)
                      : setsockopt(fd, SOL_SOCKET, SO_LINGER, &now,
                                   sizeof now));
  SYS(close(fd));
}

/* The receive buffer of `mine` in `pair`, if it is not to be the usual. */
static int receive_buffer;

static inline void make_room(int fd) {
  const int *n = &receive_buffer;
  if (*n)
    SYS(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, n, sizeof *n));
}

/* A connection: with kind 0 `mine` accepted it, with kind 1 it connected. */
static inline void pair(int kind, int *mine, int *far) {
  if (kind == 0) {
    int listener = my_listener(8);
    make_room(listener);
    *far = far_socket(SOCK_STREAM);
    SYS(far_connect(*far, name_of(listener)));
    *mine = SYS(accept(listener, 0, 0));
    SYS(close(listener));
  } else {
    int listener = far_listener(8);
    struct sockaddr_in a = far_name(listener);
    *mine = SYS(socket(AF_INET, SOCK_STREAM, 0));
    make_room(*mine);
    SYS(connect(*mine, A(a)));
    *far = far_accept(listener);
    SYS(close(listener));
  }
}

/* The block that follows runs for a connection of each kind. */
#define EACH_PAIR(mine, far)                                                   \
  for (int kind_ = 0, mine = -1, far = -1;                                     \
       kind_ < 2 && (pair(kind_, &mine, &far), 1); kind_++, close(mine), close(far))

/* --- small things -------------------------------------------------------- */

static inline int option(int fd, int level, int name) {
  int value = -1;
  socklen_t n = sizeof value;
  SYS(getsockopt(fd, level, name, &value, &n));
  return value;
}

static inline void set(int fd, int level, int name, int value) {
  if (setsockopt(fd, level, name, &value, sizeof value) == -1)
    FAIL("setsockopt(%d, %d, %d): %s", level, name, value, strerror(errno));
}

static inline void nonblocking(int fd) {
  SYS(fcntl(fd, F_SETFL, SYS(fcntl(fd, F_GETFL)) | O_NONBLOCK));
}

static inline void send_all(int fd, const void *from, size_t n) {
  const char *p = from;
  while (n) {
    ssize_t sent = SYS(write(fd, p, n));
    p += sent, n -= sent;
  }
}

static inline void receive_all(int fd, void *to, size_t n) {
  char *p = to;
  while (n) {
    ssize_t got = SYS(read(fd, p, n));
    if (got == 0)
      FAIL("end of stream, %zu bytes too early", n);
    p += got, n -= got;
  }
}

/* What is ready within `ms`, of what is asked for. */
static inline int ready(int fd, int events, int ms) {
  struct pollfd p = {.fd = fd, .events = events};
  SYS(poll(&p, 1, ms));
  return p.revents;
}

static inline void sleep_ms(int ms) {
  struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
  nanosleep(&t, 0);
}

/* Another thread's children end without a word to this one, which waits in a call. glibc 2.41
 * forks with all signals blocked: a child that ends before that is over interrupts a thread
 * that has SIGCHLD not blocked, though nobody handles it. */
static inline void leave_children_to_others(void) {
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  if (pthread_sigmask(SIG_BLOCK, &ends, 0))
    FAIL("cannot block SIGCHLD");
}

static inline double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec / 1e9;
}

/* Waits until a process or thread of ours sleeps, as it does in a call that waits: one
 * that is merely held up by others runs. */
static inline void until_it_sleeps(pid_t id) {
  for (int looks = 0; looks < 10; sleep_ms(2)) {
    char path[64], stat[512] = {0};
    snprintf(path, sizeof path, "/proc/%d/stat", id);
    int fd = open(path, O_RDONLY);
    if (fd < 0)
      return; /* it has ended */
    SYS(read(fd, stat, sizeof stat - 1));
    SYS(close(fd));
    char *after_name = strrchr(stat, ')');
    looks = after_name && after_name[2] == 'S' ? looks + 1 : 0;
  }
}

/* How long `call` takes, in seconds: never less than `least`, and not `most` or more
 * unless others hold it up, which they do not do each time. */
#define TAKES(call, least, most)                                               \
  for (int tries_ = 0;; tries_++) {                                            \
    double start_ = now();                                                     \
    call;                                                                      \
    double took_ = now() - start_;                                             \
    if (took_ < (least) || (took_ >= (most) && tries_ == 9))                   \
      FAIL("%s took %.3f s", #call, took_);                                    \
    if (took_ < (most))                                                        \
      break;                                                                   \
  }

/* Whether what was sent at `since` or later is held back, as it may be for 200 ms: if it
 * has come, and not before that, this says nothing, and is to be tried again. */
static inline int is_held_back(int fd, double since) {
  if (!ready(fd, POLLIN, 50))
    return 1;
  double held = now() - since;
  if (held < 0.19)
    FAIL("it was held back for %.3f s", held);
  return 0;
}

/* How much of a stream is queued, by SIOCOUTQ, or by SIOCOUTQNSD. */
static inline int queue(int fd, int request) {
  int n = -1;
  SYS(ioctl(fd, request, &n));
  return n;
}

/* Whether segments of this connection are in flight, or the far end has room for more: less
 * than a segment is sent there only after some tenths of a second. */
static inline int makes_room(int fd) {
  union {
    struct tcp_info info;
    uint32_t words[64];
  } told = {0};
  enum { SND_WND = 228 / 4 }; /* which headers of older systems do not name */
  socklen_t n = sizeof told;
  SYS(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &told, &n));
  return told.info.tcpi_unacked != 0 || told.words[SND_WND] != 0;
}

/* Writes, in pieces of `piece` bytes, until there is room neither here nor at the far end,
 * where nobody reads; how much that was. EAGAIN alone does not say so: what is in flight
 * still makes room when it is acknowledged, or, if the far end had no memory for it, when it
 * is sent again after some tenths of a second. The socket is non-blocking then. */
static inline size_t fill(int fd, size_t piece) {
  static const char bytes[1 << 16];
  size_t all = 0;
  double quiet_since = now(), end = quiet_since + 30;
  nonblocking(fd);
  for (int last = -1;; sleep_ms(10)) {
    size_t before = all;
    for (ssize_t n; (n = write(fd, bytes, piece)) > 0;)
      all += n;
    OK(errno == EAGAIN);
    int queued = queue(fd, SIOCOUTQ);
    if (all != before || queued != last)
      quiet_since = now();
    last = queued;
    if (now() - quiet_since > (makes_room(fd) ? 1.5 : 0.3))
      return all;
    if (now() > end)
      FAIL("there is still room after %zu bytes", all);
  }
}

/* Bytes that show where in a stream they belong. */
static inline void pattern(unsigned char *to, size_t n, uint64_t from) {
  for (size_t i = 0; i < n; i++) {
    uint64_t x = (from + i) * 0x9e3779b97f4a7c15u;
    to[i] = x >> 56;
  }
}

static inline void check_pattern(const unsigned char *p, size_t n,
                                 uint64_t from) {
  for (size_t i = 0; i < n; i++) {
    unsigned char should;
    pattern(&should, 1, from + i);
    if (p[i] != should)
      FAIL("byte %llu is %u, not %u", (unsigned long long)(from + i), p[i],
           should);
  }
}

/* Sends `n` bytes of the pattern and shuts that half, in a process of its own;
 * gives its pid. */
static inline pid_t send_in_background(int fd, size_t n) {
  pid_t pid = SYS(fork());
  if (pid)
    return pid;
  static unsigned char piece[65536];
  for (size_t at = 0; at < n;) {
    size_t now_ = n - at < sizeof piece ? n - at : sizeof piece;
    pattern(piece, now_, at);
    send_all(fd, piece, now_);
    at += now_;
  }
  SYS(shutdown(fd, SHUT_WR));
  _exit(0);
}

/* Reads `n` bytes of the pattern and the end of the stream, each time after a pause. */
static inline void receive_pattern_slowly(int fd, size_t n, int pause_ms) {
  static unsigned char piece[65536];
  size_t at = 0;
  for (;;) {
    if (pause_ms)
      sleep_ms(pause_ms);
    ssize_t got = SYS(read(fd, piece, sizeof piece));
    if (got == 0)
      break;
    check_pattern(piece, got, at);
    at += got;
  }
  IS(at, n);
}

static inline void receive_pattern(int fd, size_t n) { receive_pattern_slowly(fd, n, 0); }

/* The child ended with status 0. */
static inline void joined(pid_t pid) {
  int status;
  IS(waitpid(pid, &status, 0), pid);
  if (!WIFEXITED(status) || WEXITSTATUS(status))
    FAIL("child ended with wait status %x", status);
}

/* --- the program --------------------------------------------------------- */

static void hung(int signal) {
  (void)signal;
  static const char text[] = "HUNG: no end within 60 s\n";
  if (write(1, text, sizeof text - 1) < 0) {
  }
  end_failed();
}

int main(int argc, char **argv) {
  const char *wanted = argc > 1 ? argv[1] : "--list";
  for (const struct check *c = CHECKS; c->name; c++) {
    if (strcmp(wanted, "--list") == 0) {
      puts(c->name);
    } else if (strcmp(wanted, c->name) == 0) {
      check_name = c->name;
      check_process = getpid();
      setpgid(0, 0);
      signal(SIGALRM, hung);
      alarm(60);
      c->run();
      printf("PASS %s\n", c->name);
      return 0;
    }
  }
  if (strcmp(wanted, "--list") != 0) {
    printf("FAIL %s: no such check\n", wanted);
    return 2;
  }
  return 0;
}
#endif
