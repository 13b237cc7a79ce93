/* Sockets as Linux leaves them after a call that failed, and after a shutdown. */
#include "check.h"

static int error_of(int fd) { return option(fd, SOL_SOCKET, SO_ERROR); }

static int stream(void) { return SYS(socket(AF_INET, SOCK_STREAM, 0)); }

/* Bound to an address of ours. */
static int datagram(void) {
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(fd, A(a)));
  return fd;
}

static void arrives(int fd, const char *text) {
  char buf[64];
  OK(ready(fd, POLLIN, 10000) & POLLIN);
  IS(recv(fd, buf, sizeof buf, 0), strlen(text));
  OK(memcmp(buf, text, strlen(text)) == 0);
}

/* --- listeners ------------------------------------------------------------ */

/* What was accepted before its listener goes is not reset with those that wait. */
static void accepted_before_the_listener_went(void) {
  for (int way = 0; way < 3; way++) {
    int listener = my_listener(8), first = stream(), second = stream();
    struct sockaddr_in a = name_of(listener);
    SYS(connect(first, A(a)));
    SYS(connect(second, A(a)));
    OK(ready(listener, POLLIN, 10000));
    int mine = SYS(accept(listener, 0, 0));
    SYS(way == 0 ? shutdown(listener, SHUT_RD)
        : way == 1 ? shutdown(listener, SHUT_RDWR)
                   : close(listener));
    /* The other one is. */
    OK(ready(second, POLLIN, 10000) & POLLERR);
    send_all(first, "to", 2);
    arrives(mine, "to");
    send_all(mine, "back", 4);
    arrives(first, "back");
    SYS(close(first)), SYS(close(second)), SYS(close(mine));
    if (way != 2)
      SYS(close(listener));
  }
}

/* It keeps a port that it was given by number, is no listener, and can be one again. */
static void listener_after_shutdown(void) {
  int listener = stream(), other = stream();
  struct sockaddr_in a = unserved_address(), b = address(my_ip(), 0);
  SYS(bind(listener, A(a)));
  SYS(listen(listener, 8));
  SYS(shutdown(listener, SHUT_RD));
  IS(option(listener, SOL_SOCKET, SO_ACCEPTCONN), 0);
  OK(same(name_of(listener), a));
  FAILS(accept(listener, 0, 0), EINVAL);
  FAILS(bind(listener, A(b)), EINVAL);
  FAILS(bind(other, A(a)), EADDRINUSE);
  FAILS(shutdown(listener, SHUT_RD), ENOTCONN);
  SYS(listen(listener, 8));
  int client = stream();
  SYS(connect(client, A(a)));
  SYS(accept(listener, 0, 0));
}

/* --- connections that were not made ---------------------------------------- */

static void after_a_refused_connect(void) {
  struct sockaddr_in a = unserved_address(), peer;
  socklen_t n = sizeof peer;
  int fd = stream();
  FAILS(connect(fd, A(a)), ECONNREFUSED);
  IS(error_of(fd), 0);
  FAILS(getpeername(fd, (void *)&peer, &n), ENOTCONN);
  IS(ready(fd, POLLIN | POLLOUT, 0), POLLOUT | POLLHUP);
  char buf[4];
  FAILS(recv(fd, buf, 4, MSG_DONTWAIT), ENOTCONN);
  FAILS(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
  FAILS(shutdown(fd, SHUT_RDWR), ENOTCONN);
  /* Another attempt is made, and another. */
  FAILS(connect(fd, A(a)), ECONNREFUSED);
  int listener = my_listener(8);
  struct sockaddr_in b = name_of(listener);
  SYS(connect(fd, A(b)));
  int mine = SYS(accept(listener, 0, 0));
  send_all(fd, "x", 1);
  arrives(mine, "x");
  FAILS(connect(fd, A(b)), EISCONN);
}

static void after_a_refused_connect_in_the_background(void) {
  struct sockaddr_in a = unserved_address();
  int fd = stream();
  nonblocking(fd);
  int done = connect(fd, A(a));
  OK(done == -1 && (errno == EINPROGRESS || errno == ECONNREFUSED));
  if (errno == EINPROGRESS) {
    OK(ready(fd, POLLOUT, 10000) & POLLERR);
    FAILS(connect(fd, A(a)), ECONNREFUSED);
  }
  IS(error_of(fd), 0);
  IS(ready(fd, POLLIN | POLLOUT, 0), POLLOUT | POLLHUP);
  done = connect(fd, A(a));
  OK(done == -1 && (errno == EINPROGRESS || errno == ECONNREFUSED));
}

/* What is to be told of a socket comes before what is wrong with an address. */
static void connects_to_no_address(void) {
  struct sockaddr_in a = unserved_address();
  /* Of an address of the kernel's, too, to which there is no way. */
  struct sockaddr_in away = address("240.0.0.1", 9), *to[] = {&a, &a, &a, &away};
  const socklen_t len[] = {2, 8, 15, sizeof a};
  for (int i = 0; i < 4; i++) {
    int fd = my_listener(1);
    FAILS(connect(fd, (void *)to[i], len[i]), EISCONN);
    fd = stream();
    nonblocking(fd);
    FAILS(connect(fd, A(a)), EINPROGRESS);
    OK(ready(fd, POLLOUT, 10000) & POLLERR);
    FAILS(connect(fd, (void *)to[i], len[i]), ECONNREFUSED);
    IS(error_of(fd), 0);
    IS(ready(fd, POLLIN | POLLOUT, 0), POLLOUT | POLLHUP);
    EACH_PAIR(mine, far) {
      far_reset(far), far = -1;
      OK(ready(mine, POLLIN, 10000) & POLLERR);
      FAILS(connect(mine, (void *)to[i], len[i]), EISCONN);
      IS(error_of(mine), ECONNRESET);
      FAILS(connect(mine, (void *)to[i], len[i]), EISCONN);
    }
  }
}

/* A connection that cannot be tried changes nothing of the socket. */
static void connects_where_there_is_no_way(void) {
  struct sockaddr_in away = address("240.0.0.1", 9);
  int fd = stream(), client = stream();
  struct sockaddr_in a = unserved_address();
  SYS(bind(fd, A(a)));
  FAILS(connect(fd, A(away)), ENETUNREACH);
  OK(same(name_of(fd), a));
  SYS(listen(fd, 1));
  SYS(connect(client, A(a)));
  SYS(close(SYS(accept(fd, 0, 0))));
}

/* SO_ERROR takes the error; the next connect is told that there was none to be told of. */
static void a_refusal_that_was_asked_for(void) {
  struct sockaddr_in a = unserved_address();
  int fd = stream();
  nonblocking(fd);
  FAILS(connect(fd, A(a)), EINPROGRESS);
  OK(ready(fd, POLLOUT, 10000) & POLLERR);
  IS(error_of(fd), ECONNREFUSED);
  FAILS(connect(fd, A(a)), ECONNABORTED);
  FAILS(connect(fd, A(a)), EINPROGRESS);
}

static volatile int piped;
static void on_pipe(int signal) {
  (void)signal;
  piped++;
}

/* SIGPIPE comes with EPIPE, and with nothing else. */
static void broken_pipes(void) {
  struct sigaction action = {.sa_handler = on_pipe};
  SYS(sigaction(SIGPIPE, &action, 0));
  int fd = stream();
  FAILS(send(fd, "x", 1, 0), EPIPE);
  IS(piped, 1);
  FAILS(send(fd, "x", 1, MSG_NOSIGNAL), EPIPE);
  IS(piped, 1);
  EACH_PAIR(mine, far) {
    piped = 0;
    SYS(shutdown(mine, SHUT_WR));
    FAILS(write(mine, "x", 1), EPIPE);
    IS(piped, 1);
    FAILS(send(mine, "x", 1, MSG_NOSIGNAL), EPIPE);
    FAILS(send(mine, "", 0, MSG_NOSIGNAL), EPIPE);
    IS(piped, 1);
  }
  EACH_PAIR(mine, far) {
    piped = 0;
    far_reset(far), far = -1;
    OK(ready(mine, POLLIN, 10000) & POLLERR);
    FAILS(write(mine, "x", 1), ECONNRESET);
    IS(piped, 0);
    FAILS(write(mine, "x", 1), EPIPE);
    IS(piped, 1);
    char buf[1];
    IS(read(mine, buf, 1), 0);
  }
}

/* --- datagrams ------------------------------------------------------------ */

static int shut_fd;
static void *shuts(void *id) {
  until_it_sleeps(*(pid_t *)id);
  shutdown(shut_fd, SHUT_RD);
  return 0;
}

/* It is not connected, and is told so; what waits for it wakes all the same. */
static void shutdown_wakes_a_datagram_sockets_reader(void) {
  shut_fd = datagram();
  pid_t self = syscall(SYS_gettid);
  pthread_t thread;
  OK(!pthread_create(&thread, 0, shuts, &self));
  char buf[4];
  IS(recv(shut_fd, buf, 4, 0), 0);
  OK(!pthread_join(thread, 0));
  FAILS(shutdown(shut_fd, SHUT_RD), ENOTCONN);
  IS(ready(shut_fd, POLLIN | POLLRDHUP, 0), POLLIN | POLLRDHUP);
  IS(recv(shut_fd, buf, 4, 0), 0);
}

/* What comes is read, though the socket is shut down; nothing is sent any more. */
static void a_datagram_socket_that_is_shut_down(void) {
  int mine = datagram(), other = datagram();
  struct sockaddr_in a = name_of(mine), b = name_of(other);
  SYS(connect(mine, A(b)));
  SYS(shutdown(mine, SHUT_RDWR));
  IS(ready(mine, POLLIN | POLLOUT | POLLRDHUP, 0), POLLIN | POLLOUT | POLLRDHUP | POLLHUP);
  FAILS(send(mine, "x", 1, MSG_NOSIGNAL), EPIPE);
  FAILS(sendto(mine, "x", 1, MSG_NOSIGNAL, A(b)), EPIPE);
  IS(sendto(other, "in", 2, 0, A(a)), 2);
  arrives(mine, "in");
}

static void other_families(void) {
  int four = datagram(), six = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  struct sockaddr_in a = name_of(four);
  struct sockaddr_in6 b = {.sin6_family = AF_INET6, .sin6_port = a.sin_port};
  IS(inet_pton(AF_INET6, getenv("ADDR6") ? getenv("ADDR6") : "::1", &b.sin6_addr), 1);
  FAILS(sendto(four, "x", 1, 0, A(b)), EAFNOSUPPORT);
  FAILS(connect(four, A(b)), EAFNOSUPPORT);
  struct iovec v = {"x", 1};
  struct msghdr m = {.msg_name = &b, .msg_namelen = sizeof b, .msg_iov = &v, .msg_iovlen = 1};
  FAILS(sendmsg(four, &m, 0), EAFNOSUPPORT);
  /* As one that is mapped, it arrives. */
  memset(&b.sin6_addr, 0, 16);
  memset((char *)&b.sin6_addr + 10, 0xff, 2);
  memcpy((char *)&b.sin6_addr + 12, &a.sin_addr, 4);
  IS(sendto(six, "mapped", 6, 0, A(b)), 6);
  arrives(four, "mapped");
}

/* The length of the sender's name, by what the message is. */
static void lengths_of_names(void) {
  struct sockaddr_storage name;
  char buf[8];
  struct iovec v = {buf, 8};
  EACH_PAIR(mine, far) {
    send_all(far, "x", 1);
    struct msghdr m = {.msg_name = &name, .msg_namelen = sizeof name, .msg_iov = &v, .msg_iovlen = 1};
    IS(recvmsg(mine, &m, 0), 1);
    IS(m.msg_namelen, 0);
    send_all(far, "x", 1);
    socklen_t n = sizeof name;
    IS(recvfrom(mine, buf, 8, 0, (void *)&name, &n), 1);
    IS(n, 0);
  }
  int mine = datagram(), other = datagram();
  struct sockaddr_in a = name_of(mine), b = name_of(other);
  for (int connected = 0; connected < 2; connected++) {
    IS(sendto(other, "x", 1, 0, A(a)), 1);
    struct msghdr m = {.msg_name = &name, .msg_namelen = 4, .msg_iov = &v, .msg_iovlen = 1};
    IS(recvmsg(mine, &m, 0), 1);
    IS(m.msg_namelen, sizeof b);
    IS(sendto(other, "x", 1, 0, A(a)), 1);
    m.msg_name = 0, m.msg_namelen = 77;
    IS(recvmsg(mine, &m, 0), 1);
    IS(m.msg_namelen, 77);
    SYS(connect(mine, A(b)));
  }
}

/* A socket that has a peer takes from that alone; others are told that nobody is there. */
static void connected_elsewhere(void) {
  int mine = datagram(), peer = datagram(), other = datagram();
  struct sockaddr_in a = name_of(mine), b = name_of(peer);
  SYS(connect(mine, A(b)));
  SYS(connect(other, A(a)));
  IS(send(other, "x", 1, 0), 1);
  OK(ready(other, POLLIN, 10000) & POLLERR);
  IS(error_of(other), ECONNREFUSED);
  IS(ready(mine, POLLIN, 20), 0);
}

/* --- nothing to move -------------------------------------------------------- */

static void nothing_at_all(void) {
  char buf[4];
  struct iovec none = {buf, 0};
  int fd = stream(), u = datagram(), p[2];
  SYS(pipe(p));
  IS(readv(fd, &none, 0), 0);
  IS(writev(fd, &none, 0), 0);
  IS(readv(u, &none, 0), 0);
  IS(splice(fd, 0, p[1], 0, 0, 0), 0);
  EACH_PAIR(mine, far) {
    IS(read(mine, buf, 0), 0);
    IS(readv(mine, &none, 1), 0);
    IS(readv(mine, &none, 0), 0);
    IS(writev(mine, &none, 0), 0);
    IS(writev(mine, &none, 1), 0);
    IS(splice(mine, 0, p[1], 0, 0, 0), 0);
    IS(splice(p[0], 0, mine, 0, 0, 0), 0);
  }
  FAILS(splice(fd, 0, p[1], 0, 8, 0), ENOTCONN);
}

/* --- control messages ------------------------------------------------------- */

/* Only a socket of the machine's own takes descriptors. */
static void descriptors_are_not_passed(void) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
  } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
  struct iovec v = {"x", 1};
  struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
  EACH_PAIR(mine, far) {
    IS(sendmsg(mine, &m, 0), 1);
    arrives(far, "x");
  }
}

static void names_by_option(void) {
  EACH_PAIR(mine, far) {
    struct sockaddr_in peer = peer_of(mine), told;
    socklen_t n = sizeof told;
    SYS(getsockopt(mine, SOL_SOCKET, SO_PEERNAME, &told, &n));
    IS(n, sizeof told);
    OK(same(peer, told));
  }
  int fd = stream();
  struct sockaddr_in told;
  socklen_t n = sizeof told;
  FAILS(getsockopt(fd, SOL_SOCKET, SO_PEERNAME, &told, &n), ENOTCONN);
  char long_name[64];
  EACH_PAIR(mine, far) {
    n = sizeof long_name;
    FAILS(getsockopt(mine, SOL_SOCKET, SO_PEERNAME, long_name, &n), EINVAL);
    n = 4;
    SYS(getsockopt(mine, SOL_SOCKET, SO_PEERNAME, long_name, &n));
    IS(n, 4);
  }
}

/* What was sent before is seen by a poll that does not wait, whatever else is ready. */
static void a_poll_that_does_not_wait(void) {
  int mine = datagram(), other = datagram(), event = SYS(eventfd(1, 0));
  struct sockaddr_in a = name_of(mine);
  for (int i = 0; i < 200; i++) {
    IS(sendto(other, "x", 1, 0, A(a)), 1);
    struct pollfd p[2] = {{event, POLLIN, 0}, {mine, POLLIN, 0}};
    IS(poll(p, 2, 0), 2);
    arrives(mine, "x");
  }
  EACH_PAIR(one, far) {
    for (int i = 0; i < 200 && !far_in_kernel(); i++) {
      send_all(far, "x", 1);
      struct pollfd p[2] = {{event, POLLIN, 0}, {one, POLLIN, 0}};
      IS(poll(p, 2, 0), 2);
      arrives(one, "x");
    }
  }
}

/* Those before the one that failed have been sent; the failure is the next call's. */
static void several_messages(void) {
  int u = datagram(), other = datagram();
  struct sockaddr_in a = name_of(other);
  static char big[70000];
  struct iovec good = {"x", 1}, bad = {big, sizeof big};
  struct mmsghdr m[3] = {0};
  for (int i = 0; i < 3; i++)
    m[i].msg_hdr = (struct msghdr){.msg_name = &a, .msg_namelen = sizeof a, .msg_iov = i == 1 ? &bad : &good, .msg_iovlen = 1};
  IS(sendmmsg(u, m, 3, 0), 1);
  FAILS(sendmmsg(u, m + 1, 2, 0), EMSGSIZE);
  arrives(other, "x");
  IS(ready(other, POLLIN, 20), 0);
}

const struct check CHECKS[] = {
    {"accepted_before_the_listener_went", accepted_before_the_listener_went},
    {"listener_after_shutdown", listener_after_shutdown},
    {"after_a_refused_connect", after_a_refused_connect},
    {"after_a_refused_connect_in_the_background", after_a_refused_connect_in_the_background},
    {"connects_to_no_address", connects_to_no_address},
    {"connects_where_there_is_no_way", connects_where_there_is_no_way},
    {"a_refusal_that_was_asked_for", a_refusal_that_was_asked_for},
    {"broken_pipes", broken_pipes},
    {"shutdown_wakes_a_datagram_sockets_reader", shutdown_wakes_a_datagram_sockets_reader},
    {"a_datagram_socket_that_is_shut_down", a_datagram_socket_that_is_shut_down},
    {"other_families", other_families},
    {"lengths_of_names", lengths_of_names},
    {"connected_elsewhere", connected_elsewhere},
    {"nothing_at_all", nothing_at_all},
    {"descriptors_are_not_passed", descriptors_are_not_passed},
    {"names_by_option", names_by_option},
    {"a_poll_that_does_not_wait", a_poll_that_does_not_wait},
    {"several_messages", several_messages},
    {0, 0},
};
