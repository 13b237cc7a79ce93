/* A handler of a signal may use the heap where it runs in the midst of a call that takes no
 * memory, as servers do that start processes from theirs. So such a call may not be interrupted
 * while it has the heap in its hands: here malloc and free raise a signal each time. */
#include "check.h"
#include <spawn.h>
#include <sys/mman.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static _Thread_local int armed, depth;
static volatile sig_atomic_t came, came_inside;

static void enter(void) {
  depth++;
  if (armed)
    syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR1);
}

void *malloc(size_t n) {
  enter();
  void *p = __libc_malloc(n);
  depth--;
  return p;
}

void *calloc(size_t n, size_t each) {
  enter();
  void *p = __libc_calloc(n, each);
  depth--;
  return p;
}

void *realloc(void *old, size_t n) {
  enter();
  void *p = __libc_realloc(old, n);
  depth--;
  return p;
}

int posix_memalign(void **to, size_t align, size_t n) {
  enter();
  *to = __libc_memalign(align, n);
  depth--;
  return *to ? 0 : ENOMEM;
}

void *aligned_alloc(size_t align, size_t n) {
  enter();
  void *p = __libc_memalign(align, n);
  depth--;
  return p;
}

void free(void *p) {
  enter();
  __libc_free(p);
  depth--;
}

static void note(int number) {
  came = number;
  if (depth)
    came_inside = 1;
}

static void listen_for_it(void) {
  struct sigaction a = {.sa_handler = note, .sa_flags = SA_RESTART};
  SYS(sigaction(SIGUSR1, &a, 0));
}

/* The value of a call, in which no handler may meet the heap. */
#define ALONE(call)                                                            \
  ({                                                                           \
    came_inside = 0;                                                           \
    armed = 1;                                                                 \
    long long value_ = (long long)(call);                                      \
    armed = 0;                                                                 \
    if (came_inside)                                                           \
      FAIL("a handler ran while %s had the heap", #call);                      \
    value_;                                                                    \
  })
/* And it does not fail. */
#define WORKS(call) SYS(ALONE(call))

static void waiting(void) {
  listen_for_it();
  EACH_PAIR(mine, far) {
    int pipes[2], many = SYS(socket(AF_INET, SOCK_DGRAM, 0));
    SYS(pipe(pipes));
    for (int full = 0; full < 2; full++) {
      if (full) {
        send_all(far, "x", 1);
        OK(ready(mine, POLLIN, 10000));
      }
      for (int ms = 0; ms < 30; ms += 20) {
        struct pollfd list[8] = {{mine, POLLIN, 0}, {pipes[0], POLLIN, 0}};
        for (int i = 2; i < 8; i++)
          list[i] = (struct pollfd){many, POLLIN, 0};
        struct timespec t = {0, ms * 1000000};
        struct timeval v = {0, ms * 1000};
        fd_set reads, writes;
        FD_ZERO(&reads);
        FD_ZERO(&writes);
        for (int fd = 0; fd <= many; fd++)
          if (fcntl(fd, F_GETFD) >= 0)
            FD_SET(fd, &reads);
        /* A handler that came ends a call that waits. */
        OK(ALONE(poll(list, 8, ms)) >= 0 || errno == EINTR);
        OK(ALONE(ppoll(list, 8, &t, 0)) >= 0 || errno == EINTR);
        fd_set asked = reads;
        OK(ALONE(select(many + 1, &asked, &writes, 0, &v)) >= 0 || errno == EINTR);
        asked = reads;
        OK(ALONE(pselect(many + 1, &asked, &writes, 0, &t, 0)) >= 0 || errno == EINTR);
        /* And where nothing is the engine's. */
        FD_ZERO(&asked);
        FD_SET(pipes[0], &asked);
        v = (struct timeval){0, ms * 1000};
        OK(ALONE(select(pipes[1] + 1, &asked, 0, 0, &v)) >= 0 || errno == EINTR);
        FD_ZERO(&asked);
        FD_SET(pipes[0], &asked);
        OK(ALONE(pselect(pipes[1] + 1, &asked, 0, 0, &t, 0)) >= 0 || errno == EINTR);
      }
    }
    close(pipes[0]), close(pipes[1]), close(many);
  }
}

static void epoll(void) {
  listen_for_it();
  EACH_PAIR(mine, far) {
    int set = WORKS(epoll_create1(0)), event = SYS(eventfd(0, 0));
    struct epoll_event e = {.events = EPOLLIN, .data.fd = mine}, got[4];
    WORKS(epoll_ctl(set, EPOLL_CTL_ADD, mine, &e));
    WORKS(epoll_ctl(set, EPOLL_CTL_ADD, event, &e));
    OK(ALONE(epoll_wait(set, got, 4, 0)) == 0 || errno == EINTR);
    OK(ALONE(epoll_wait(set, got, 4, 10)) == 0 || errno == EINTR);
    send_all(far, "x", 1);
    OK(ready(mine, POLLIN, 10000));
    OK(ALONE(epoll_wait(set, got, 4, 1000)) == 1 || errno == EINTR);
    OK(ALONE(epoll_pwait(set, got, 4, 1000, 0)) == 1 || errno == EINTR);
    e.events = EPOLLIN | EPOLLET;
    WORKS(epoll_ctl(set, EPOLL_CTL_MOD, mine, &e));
    struct pollfd p = {set, POLLIN, 0};
    OK(ALONE(poll(&p, 1, 1000)) == 1 || errno == EINTR);
    WORKS(epoll_ctl(set, EPOLL_CTL_DEL, mine, 0));
    WORKS(close(set));
    close(event);
  }
}

static void connections(void) {
  listen_for_it();
  for (int round = 0; round < 2; round++) {
    int listener = WORKS(socket(AF_INET, SOCK_STREAM, 0)), yes = 1;
    struct sockaddr_in a = address(my_ip(), 0);
    socklen_t n = sizeof a;
    WORKS(setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes));
    WORKS(bind(listener, A(a)));
    WORKS(listen(listener, 8));
    WORKS(getsockname(listener, (struct sockaddr *)&a, &n));
    int far = far_socket(SOCK_STREAM);
    SYS(far_connect(far, a));
    n = sizeof a;
    int mine = WORKS(accept4(listener, (struct sockaddr *)&a, &n, 0));
    WORKS(getpeername(mine, (struct sockaddr *)&a, &n));
    n = sizeof yes;
    WORKS(getsockopt(mine, SOL_SOCKET, SO_ERROR, &yes, &n));
    struct tcp_info info;
    n = sizeof info;
    WORKS(getsockopt(mine, IPPROTO_TCP, TCP_INFO, &info, &n));
    WORKS(shutdown(mine, SHUT_WR));
    WORKS(close(mine));
    WORKS(close(listener));
    SYS(close(far));
    int there = far_listener(8);
    a = far_name(there);
    mine = WORKS(socket(AF_INET, SOCK_STREAM, 0));
    WORKS(connect(mine, A(a)));
    far = far_accept(there);
    WORKS(close(mine));
    SYS(close(there));
    SYS(close(far));
  }
}

static void bytes(void) {
  listen_for_it();
  static char buf[100000];
  int pipes[2], file = SYS(memfd_create("bytes", 0)), yes = 1, left;
  SYS(ftruncate(file, sizeof buf));
  EACH_PAIR(mine, far) {
    WORKS(setsockopt(mine, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes));
    struct iovec parts[2] = {{buf, 10}, {buf + 10, 10}};
    struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
    struct mmsghdr two[2] = {{.msg_hdr = m}, {.msg_hdr = m}};
    off_t at = 0;
    IS(WORKS(write(mine, buf, 10)), 10);
    IS(WORKS(writev(mine, parts, 2)), 20);
    IS(WORKS(send(mine, buf, 10, MSG_NOSIGNAL)), 10);
    IS(WORKS(sendto(mine, buf, 10, 0, 0, 0)), 10);
    IS(WORKS(sendmsg(mine, &m, 0)), 20);
    IS(WORKS(sendmmsg(mine, two, 2, 0)), 2);
    IS(WORKS(sendfile(mine, file, &at, 100)), 100);
    at = 0;
    IS(WORKS(sendfile(mine, file, &at, 70000)), 70000);
    receive_all(far, buf, 70210);
    send_all(far, buf, 50000);
    OK(ready(mine, POLLIN, 10000));
    WORKS(ioctl(mine, FIONREAD, &left));
    IS(WORKS(recv(mine, buf, 10, MSG_PEEK)), 10);
    IS(WORKS(read(mine, buf, 10)), 10);
    IS(WORKS(readv(mine, parts, 2)), 20);
    IS(WORKS(recv(mine, buf, 10, 0)), 10);
    IS(WORKS(recvfrom(mine, buf, 10, 0, 0, 0)), 10);
    IS(WORKS(recvmsg(mine, &m, 0)), 20);
    OK(WORKS(recvmmsg(mine, two, 2, MSG_DONTWAIT, 0)) > 0);
    WORKS(pipe(pipes));
    OK(WORKS(splice(mine, 0, pipes[1], 0, 8192, 0)) > 0);
    OK(WORKS(splice(pipes[0], 0, mine, 0, 8192, 0)) > 0);
    WORKS(close(pipes[0]));
    WORKS(close(pipes[1]));
    /* Into a call that waits, and out of it. */
    struct timeval brief = {0, 20000};
    WORKS(setsockopt(mine, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief));
    while (ALONE(recv(mine, buf, sizeof buf, 0)) > 0) {
    }
  }
  close(file);
}

static void datagrams(void) {
  listen_for_it();
  char buf[100], control[100];
  int yes = 1, mine = WORKS(socket(AF_INET, SOCK_DGRAM, 0));
  int other = WORKS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(mine, A(a)));
  a = name_of(mine);
  WORKS(setsockopt(mine, IPPROTO_IP, IP_PKTINFO, &yes, sizeof yes));
  WORKS(setsockopt(other, IPPROTO_IP, IP_RECVERR, &yes, sizeof yes));
  struct iovec part = {buf, 50};
  struct msghdr to = {.msg_name = &a, .msg_namelen = sizeof a, .msg_iov = &part, .msg_iovlen = 1};
  struct mmsghdr two[2] = {{.msg_hdr = to}, {.msg_hdr = to}};
  IS(WORKS(sendto(other, buf, 50, 0, A(a))), 50);
  IS(WORKS(sendmsg(other, &to, 0)), 50);
  IS(WORKS(sendmmsg(other, two, 2, 0)), 2);
  WORKS(connect(other, A(a)));
  IS(WORKS(write(other, buf, 50)), 50);
  for (int i = 0; i < 3; i++) {
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                       .msg_controllen = sizeof control};
    IS(WORKS(recvmsg(mine, &m, 0)), 50);
  }
  struct mmsghdr in[2] = {{.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}},
                          {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}}};
  IS(WORKS(recvmmsg(mine, in, 2, 0, 0)), 2);
  WORKS(close(mine));
  IS(WORKS(send(other, buf, 50, 0)), 50);
  for (int tries = 0; tries < 1000 && ALONE(recv(other, buf, 50, MSG_DONTWAIT)) >= 0; tries++)
    sleep_ms(1);
  struct msghdr report = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                          .msg_controllen = sizeof control};
  ALONE(recvmsg(other, &report, MSG_ERRQUEUE | MSG_DONTWAIT));
  WORKS(close(other));
}

static void descriptors(void) {
  listen_for_it();
  EACH_PAIR(mine, far) {
    struct stat s;
    int twin = WORKS(dup(mine)), at = twin + 10, ways[2];
    WORKS(dup2(mine, at));
    WORKS(dup3(mine, at, O_CLOEXEC));
    WORKS(fcntl(mine, F_DUPFD, at + 1));
    WORKS(fcntl(mine, F_SETFL, WORKS(fcntl(mine, F_GETFL)) | O_NONBLOCK));
    WORKS(fcntl(mine, F_SETOWN, getpid()));
    WORKS(fstat(mine, &s));
    WORKS(socketpair(AF_UNIX, SOCK_STREAM, 0, ways));
    char byte = 'x', control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&byte, 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control,
                       .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET, c->cmsg_type = SCM_RIGHTS, c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &mine, sizeof mine);
    IS(WORKS(sendmsg(ways[0], &m, 0)), 1);
    m.msg_controllen = sizeof control;
    IS(WORKS(recvmsg(ways[1], &m, 0)), 1);
    memcpy(&twin, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof twin);
    WORKS(close(twin));
    WORKS(close_range(at, at + 1, 0));
    WORKS(close(ways[0]));
    WORKS(close(ways[1]));
  }
}

static void children(void) {
  listen_for_it();
  struct sigaction was;
  WORKS(sigaction(SIGUSR2, 0, &was));
  WORKS(sigaction(SIGUSR2, &(struct sigaction){.sa_handler = note}, 0));
  EACH_PAIR(mine, far) {
    int set = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN};
    SYS(epoll_ctl(set, EPOLL_CTL_ADD, mine, &e));
    char *args[] = {"true", 0}, *none[] = {0};
    for (int way = 0; way < 4; way++) {
      pid_t child;
      if (way == 3)
        IS(ALONE(posix_spawn(&child, "/bin/true", 0, 0, args, none)), 0);
      else
        child = way == 2 ? WORKS(_Fork()) : WORKS(fork());
      if (!child) {
        ALONE(write(mine, "x", 1));
        armed = 1;
        if (way)
          execve("/bin/true", args, none);
        else
          execvp("true", args);
        _exit(1);
      }
      int status;
      while (waitpid(child, &status, 0) < 0)
        OK(errno == EINTR);
      OK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    close(set);
  }
}

/* The calls by their numbers, and those that make a socket another one. */
static void by_number_and_again(void) {
  listen_for_it();
  char byte = 'x';
  EACH_PAIR(mine, far) {
    struct pollfd list[6];
    for (int i = 0; i < 6; i++)
      list[i] = (struct pollfd){mine, POLLIN, 0};
    struct timespec t = {0, 0};
    fd_set asked;
    FD_ZERO(&asked);
    FD_SET(mine, &asked);
    OK(ALONE((syscall)(SYS_ppoll, list, 6, &t, 0, 8)) >= 0 || errno == EINTR);
    OK(ALONE((syscall)(SYS_pselect6, mine + 1, &asked, 0, 0, &t, 0)) >= 0 || errno == EINTR);
#ifdef SYS_poll
    OK(ALONE((syscall)(SYS_poll, list, 6, 0)) >= 0 || errno == EINTR);
#endif
    IS(WORKS((syscall)(SYS_sendto, mine, &byte, 1, 0, 0, 0)), 1);
    int status, yes = 1;
    pid_t child = WORKS((syscall)(SYS_clone, SIGCHLD, 0, 0, 0, 0));
    if (!child) {
      ALONE(write(mine, "x", 1));
      _exit(0);
    }
    while (waitpid(child, &status, 0) < 0)
      OK(errno == EINTR);
    OK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    WORKS(ioctl(mine, FIONBIO, &yes));
    WORKS(setsockopt(mine, IPPROTO_TCP, TCP_CORK, &yes, sizeof yes));
    WORKS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)));
    struct sockaddr nobody = {.sa_family = AF_UNSPEC};
    WORKS(connect(mine, &nobody, sizeof nobody));
    struct sockaddr_in a = address(my_ip(), 0);
    WORKS(bind(mine, A(a)));
    WORKS(listen(mine, 4));
    WORKS(shutdown(mine, SHUT_RD));
  }
  int group = WORKS(socket(AF_INET, SOCK_DGRAM, 0));
  struct ip_mreq join = {{inet_addr("239.1.2.3")}, {inet_addr(my_ip())}};
  WORKS(setsockopt(group, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join));
  WORKS(setsockopt(group, IPPROTO_IP, IP_DROP_MEMBERSHIP, &join, sizeof join));
  WORKS(close(group));
}

const struct check CHECKS[] = {
    {"waiting", waiting},         {"epoll", epoll},
    {"connections", connections}, {"bytes", bytes},
    {"datagrams", datagrams},     {"descriptors", descriptors},
    {"children", children},       {"by_number_and_again", by_number_and_again},
    {0, 0},
};
