/* The engine's sockets, the kernel's and Unix sockets in one program. */
#include "check.h"
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <netdb.h>
#include <stddef.h>
#include <sys/mman.h>

static void loopback_stays_with_the_kernel(void) {
  int listener = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in a = address("127.0.0.1", 0);
  SYS(bind(listener, A(a)));
  SYS(listen(listener, 4));
  a = name_of(listener);
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1); /* before it is known whose it will be */
  SYS(connect(fd, A(a)));
  IS(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
  int other = SYS(accept(listener, 0, 0));
  send_all(fd, "local", 5);
  char buf[5];
  receive_all(other, buf, 5);
}

static void any_address_serves_both(void) {
  /* A server on 0.0.0.0 is reached over loopback, too. */
  int listener = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in any = address("0.0.0.0", 0);
  SYS(bind(listener, A(any)));
  SYS(listen(listener, 4));
  int port = ntohs(name_of(listener).sin_port);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, address(my_ip(), port)));
  int mine = SYS(accept(listener, 0, 0));
  send_all(far, "wire", 4);
  char buf[4];
  receive_all(mine, buf, 4);
  int local = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in here = address("127.0.0.1", port);
  SYS(connect(local, A(here)));
  int accepted = SYS(accept(listener, 0, 0));
  send_all(local, "loop", 4);
  receive_all(accepted, buf, 4);
}

static void any_address_has_datagrams_of_both(void) {
  int any = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address("0.0.0.0", 0);
  SYS(bind(any, A(a)));
  int port = ntohs(name_of(any).sin_port);
  int far = far_socket(SOCK_DGRAM), local = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  SYS(far_connect(far, address(my_ip(), port)));
  struct sockaddr_in here = address("127.0.0.1", port);
  SYS(connect(local, A(here)));
  char buf[8];
  for (int round = 0; round < 30; round++) {
    /* A reader that has had one kind for long has the other at once, be it without waiting. */
    for (int i = 0; i < 20; i++) {
      send_all(far, "wire", 4);
      IS(recv(any, buf, 8, 0), 4);
      OK(memcmp(buf, "wire", 4) == 0);
    }
    SYS(fcntl(any, F_SETFL, round % 3 == 1 ? O_NONBLOCK : 0));
    IS(send(local, "loop", 4, 0), 4);
    IS(recv(any, buf, 8, round % 3 == 2 ? MSG_DONTWAIT : 0), 4);
    OK(memcmp(buf, "loop", 4) == 0);
    SYS(fcntl(any, F_SETFL, 0));
  }
}

static void unix_sockets(int abstract) {
  struct sockaddr_un a = {.sun_family = AF_UNIX};
  char path[64];
  snprintf(path, sizeof path, "/tmp/longshore-check-%d", getpid());
  if (abstract)
    strcpy(a.sun_path + 1, path);
  else
    strcpy(a.sun_path, path);
  socklen_t n = offsetof(struct sockaddr_un, sun_path) + 1 + strlen(path);
  int listener = SYS(socket(AF_UNIX, SOCK_STREAM, 0));
  SYS(bind(listener, (struct sockaddr *)&a, n));
  SYS(listen(listener, 4));
  int fd = SYS(socket(AF_UNIX, SOCK_STREAM, 0));
  SYS(connect(fd, (struct sockaddr *)&a, n));
  int other = SYS(accept(listener, 0, 0));
  EACH_PAIR(mine, far) {
    char buf[4];
    send_all(fd, "unix", 4);
    send_all(far, "inet", 4);
    struct pollfd p[2] = {{mine, POLLIN, 0}, {other, POLLIN, 0}};
    while (SYS(poll(p, 2, 10000)) != 2)
      ;
    receive_all(other, buf, 4);
    OK(memcmp(buf, "unix", 4) == 0);
    receive_all(mine, buf, 4);
    OK(memcmp(buf, "inet", 4) == 0);
  }
  if (!abstract)
    unlink(path);
}

static void unix_by_path(void) { unix_sockets(0); }
static void unix_abstract(void) { unix_sockets(1); }

static void one_epoll_for_all(void) {
  int local = SYS(socket(AF_INET, SOCK_STREAM, 0)), u[2];
  struct sockaddr_in a = address("127.0.0.1", 0);
  SYS(bind(local, A(a)));
  SYS(listen(local, 4));
  a = name_of(local);
  SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, u));
  EACH_PAIR(mine, far) {
    int fds[3] = {mine, local, u[0]}, ep = SYS(epoll_create1(0));
    for (int i = 0; i < 3; i++) {
      struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
      SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fds[i], &e));
    }
    int client = SYS(socket(AF_INET, SOCK_STREAM, 0));
    for (int round = 0; round < 3; round++) {
      if (round == 0)
        send_all(far, "x", 1);
      else if (round == 1)
        SYS(connect(client, A(a)));
      else
        send_all(u[1], "x", 1);
      struct epoll_event e;
      IS(epoll_wait(ep, &e, 1, 10000), 1);
      IS(e.data.u32, round);
      char c;
      if (round == 0)
        receive_all(mine, &c, 1);
      else if (round == 1)
        SYS(close(SYS(accept(local, 0, 0))));
      else
        receive_all(u[0], &c, 1);
    }
    close(client), close(ep);
  }
}

static void from_one_to_the_other(void) {
  /* What a proxy does: a kernel connection and ours, bytes between them. */
  int listener = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in a = address("127.0.0.1", 0);
  SYS(bind(listener, A(a)));
  SYS(listen(listener, 4));
  a = name_of(listener);
  enum { N = 1000000 };
  EACH_PAIR(mine, far) {
    int local = SYS(socket(AF_INET, SOCK_STREAM, 0));
    SYS(connect(local, A(a)));
    int back = SYS(accept(listener, 0, 0));
    pid_t source = send_in_background(far, N);
    pid_t proxy = SYS(fork());
    if (!proxy) {
      static char piece[10000];
      ssize_t n;
      while ((n = SYS(read(mine, piece, sizeof piece))) > 0)
        send_all(local, piece, n);
      SYS(shutdown(local, SHUT_WR));
      _exit(0);
    }
    receive_pattern(back, N);
    joined(source);
    joined(proxy);
    close(local), close(back);
  }
}

static void names_are_looked_up(void) {
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
  OK(getaddrinfo(my_ip(), "80", &hints, &found) == 0);
  struct sockaddr_in *a = (struct sockaddr_in *)found->ai_addr;
  IS(ntohs(a->sin_port), 80);
  freeaddrinfo(found);
  OK(getaddrinfo("localhost", "80", &hints, &found) == 0);
  freeaddrinfo(found);
}

static void inet6_loopback(void) {
  int listener = socket(AF_INET6, SOCK_STREAM, 0);
  if (listener < 0) {
    OK(errno == EAFNOSUPPORT);
    return;
  }
  struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  SYS(bind(listener, A(a)));
  SYS(listen(listener, 4));
  socklen_t n = sizeof a;
  SYS(getsockname(listener, (struct sockaddr *)&a, &n));
  int fd = SYS(socket(AF_INET6, SOCK_STREAM, 0));
  SYS(connect(fd, A(a)));
  int other = SYS(accept(listener, 0, 0));
  send_all(fd, "six", 3);
  char buf[3];
  receive_all(other, buf, 3);
}

static void raw_and_netlink_are_the_kernels(void) {
  int fd = SYS(socket(AF_NETLINK, SOCK_RAW, 0));
  SYS(close(fd));
}

/* What is mapped beside the program's own memory is not filled by it. */
static void locked_memory_stays_small(void) {
  SYS(mlockall(MCL_CURRENT | MCL_FUTURE));
  EACH_PAIR(mine, far) {
    char buf[4];
    send_all(mine, "lock", 4);
    receive_all(far, buf, 4);
    char line[200], *word = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status) && !(word = strstr(line, "VmRSS:")))
      ;
    OK(word && atol(word + 6) < 256 * 1024);
    fclose(status);
  }
}

/* Adds `fd` to `ep` by a ring of io_uring, as libuv does where it gets one. Returns
 * whether there was one to be had. */
static int added_by_ring(int ep, int fd) {
  struct io_uring_params p = {0};
  int ring = (syscall)(SYS_io_uring_setup, 4, &p);
  if (ring < 0) {
    OK(errno == ENOSYS || errno == EPERM);
    return 0;
  }
  size_t size = p.sq_off.array + p.sq_entries * sizeof(unsigned);
  char *sq = mmap(0, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring,
                  IORING_OFF_SQ_RING);
  OK(sq != MAP_FAILED);
  struct io_uring_sqe *sqe =
      mmap(0, p.sq_entries * sizeof *sqe, PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_POPULATE, ring, IORING_OFF_SQES);
  OK(sqe != MAP_FAILED);
  struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
  *sqe = (struct io_uring_sqe){.opcode = IORING_OP_EPOLL_CTL,
                               .fd = ep,
                               .addr = (uintptr_t)&e,
                               .len = EPOLL_CTL_ADD,
                               .off = fd};
  ((unsigned *)(sq + p.sq_off.array))[0] = 0;
  __atomic_store_n((unsigned *)(sq + p.sq_off.tail), 1, __ATOMIC_RELEASE);
  IS(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, 0, 0), 1);
  SYS(close(ring));
  return 1;
}

/* A program that finds no io_uring makes the call itself; either way the socket is waited for. */
static void io_uring_or_none(void) {
  int listener = my_listener(8), ep = SYS(epoll_create1(0));
  if (!added_by_ring(ep, listener)) {
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e));
  }
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, name_of(listener)));
  struct epoll_event got;
  IS(epoll_wait(ep, &got, 1, 10000), 1);
  OK(got.data.fd == listener && got.events == EPOLLIN);
}

/* A program that may not poll by Linux's asynchronous input and output waits otherwise; either way
 * it is told of its socket. Files are read so. */
static void linux_aio_or_none(void) {
  aio_context_t context = 0;
  struct timespec soon = {10, 0};
  struct io_event event;
  SYS((syscall)(SYS_io_setup, 8, &context));
  EACH_PAIR(mine, far) {
    int file = SYS(open("/proc/self/exe", O_RDONLY));
    char head[4], byte;
    struct iocb reads = {.aio_lio_opcode = IOCB_CMD_PREAD, .aio_fildes = file, .aio_buf = (uintptr_t)head, .aio_nbytes = 4};
    struct iocb polls = {.aio_lio_opcode = IOCB_CMD_POLL, .aio_fildes = mine, .aio_buf = POLLIN};
    struct iocb *list[] = {&reads, &polls}, *alone[] = {&polls};
    int taken = (syscall)(SYS_io_submit, context, 2L, list);
    OK(taken == 1 || taken == 2);
    IS((syscall)(SYS_io_getevents, context, 1L, 1L, &event, &soon), 1);
    IS(event.res, 4);
    IS(memcmp(head, "\177ELF", 4), 0);
    if (taken == 1)
      FAILS((syscall)(SYS_io_submit, context, 1L, alone), EINVAL);
    IS((syscall)(SYS_io_submit, context, 0L, alone), 0);
    FAILS((syscall)(SYS_io_submit, context, -1L, alone), EINVAL);
    send_all(far, "x", 1);
    if (taken == 2) {
      IS((syscall)(SYS_io_getevents, context, 1L, 1L, &event, &soon), 1);
      OK(event.res & POLLIN);
    } else {
      OK(ready(mine, POLLIN, 10000) & POLLIN);
    }
    IS(recv(mine, &byte, 1, MSG_DONTWAIT), 1);
    SYS(close(file));
  }
  SYS((syscall)(SYS_io_destroy, context));
}

const struct check CHECKS[] = {
    {"loopback_stays_with_the_kernel", loopback_stays_with_the_kernel},
    {"any_address_serves_both", any_address_serves_both},
    {"any_address_has_datagrams_of_both", any_address_has_datagrams_of_both},
    {"unix_by_path", unix_by_path},
    {"unix_abstract", unix_abstract},
    {"one_epoll_for_all", one_epoll_for_all},
    {"from_one_to_the_other", from_one_to_the_other},
    {"names_are_looked_up", names_are_looked_up},
    {"inet6_loopback", inet6_loopback},
    {"raw_and_netlink_are_the_kernels", raw_and_netlink_are_the_kernels},
    {"locked_memory_stays_small", locked_memory_stays_small},
    {"io_uring_or_none", io_uring_or_none},
    {"linux_aio_or_none", linux_aio_or_none},
    {0, 0},
};
