/* Sockets that are used again after a call that failed or took something back: what they are
 * bound to, what is told of them, and what other processes and descriptors see. */
#include "check.h"
#include <sys/mman.h>

static int stream(void) { return SYS(socket(AF_INET, SOCK_STREAM, 0)); }
static int stream6(void) { return SYS(socket(AF_INET6, SOCK_STREAM, 0)); }
static int datagram(void) { return SYS(socket(AF_INET, SOCK_DGRAM, 0)); }

static struct sockaddr_in6 address6(const char *ip, int port) {
  struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  IS(inet_pton(AF_INET6, ip, &a.sin6_addr), 1);
  return a;
}

static const char *my_ip6(void) { return getenv("ADDR6") ? getenv("ADDR6") : "::1"; }

/* A connection to the listener is made. */
static void is_reached(int listener) {
  struct sockaddr_in a = name_of(listener);
  if (a.sin_addr.s_addr == 0)
    a = address(my_ip(), ntohs(a.sin_port));
  int client = stream();
  SYS(connect(client, A(a)));
  SYS(close(SYS(accept(listener, 0, 0))));
  SYS(close(client));
}

static void disconnect(int fd) {
  struct sockaddr nobody = {.sa_family = AF_UNSPEC};
  SYS(connect(fd, &nobody, sizeof nobody));
}

static int has_peer(int fd) {
  struct sockaddr_in a;
  socklen_t n = sizeof a;
  int failed = getpeername(fd, (void *)&a, &n);
  OK(!failed || errno == ENOTCONN);
  return !failed;
}

/* --- streams --------------------------------------------------------------- */

static void listens_after_a_refused_connect(void) {
  struct sockaddr_in a = unserved_address();
  int fd = stream();
  FAILS(connect(fd, A(a)), ECONNREFUSED);
  SYS(listen(fd, 8));
  OK(name_of(fd).sin_addr.s_addr == 0);
  is_reached(fd);
}

static void is_bound_after_a_refused_connect(void) {
  struct sockaddr_in a = unserved_address(), b = unserved_address();
  int fd = stream();
  FAILS(connect(fd, A(a)), ECONNREFUSED);
  OK(name_of(fd).sin_addr.s_addr == 0);
  SYS(bind(fd, A(b)));
  OK(same(name_of(fd), b));
  SYS(listen(fd, 8));
  is_reached(fd);
  /* One that its program has bound stays bound. */
  int bound = stream();
  struct sockaddr_in c = unserved_address();
  SYS(bind(bound, A(c)));
  FAILS(connect(bound, A(a)), ECONNREFUSED);
  OK(same(name_of(bound), c));
  FAILS(bind(bound, A(a)), EINVAL);
}

/* What was refused a connection, and has not been told, is bound elsewhere, and told then. */
static void is_bound_before_it_is_told(void) {
  struct sockaddr_in a = unserved_address(), any = address(my_ip(), 0);
  for (int is_chosen = 0; is_chosen < 2; is_chosen++)
    for (int is_asked = 0; is_asked < 2; is_asked++) {
      struct sockaddr_in b = unserved_address();
      int fd = stream();
      nonblocking(fd);
      FAILS(connect(fd, A(a)), EINPROGRESS);
      IS(ready(fd, POLLIN | POLLRDHUP, 10000), POLLIN | POLLRDHUP | POLLERR | POLLHUP);
      if (is_asked)
        IS(option(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
      /* Where it is not bound, it is what it was. */
      struct sockaddr_in6 six = address6("::1", 0);
      struct sockaddr_in was = name_of(fd), nobodys = address("192.0.2.1", 0);
      FAILS(bind(fd, A(six)), EAFNOSUPPORT);
      FAILS(bind(fd, A(nobodys)), EADDRNOTAVAIL);
      OK(same(name_of(fd), was));
      SYS(is_chosen ? bind(fd, A(b)) : bind(fd, A(any)));
      if (!is_chosen)
        b = name_of(fd);
      OK(same(name_of(fd), b) && b.sin_port);
      FAILS(bind(fd, A(any)), EINVAL);
      FAILS(listen(fd, 8), EINVAL);
      IS(ready(fd, POLLIN | POLLRDHUP, 0), POLLIN | POLLRDHUP | POLLHUP | (is_asked ? 0 : POLLERR));
      int other = stream();
      FAILS(bind(other, A(b)), EADDRINUSE);
      FAILS(connect(fd, A(a)), is_asked ? ECONNABORTED : ECONNREFUSED);
      SYS(listen(fd, 8));
      SYS(fcntl(fd, F_SETFL, 0));
      if (is_chosen)
        OK(same(name_of(fd), b));
      is_reached(fd);
      SYS(close(other));
      SYS(close(fd));
    }
}

/* So is what had a connection; it is disconnected before it has another. */
static void is_bound_when_it_is_over(void) {
  EACH_PAIR(mine, far) {
    struct sockaddr_in b = unserved_address();
    far_reset(far), far = -1;
    OK(ready(mine, POLLIN, 10000) & POLLERR);
    char c;
    SYS(bind(mine, A(b)));
    OK(same(name_of(mine), b));
    FAILS(recv(mine, &c, 1, 0), ECONNRESET);
    IS(recv(mine, &c, 1, 0), 0);
    FAILS(send(mine, &c, 1, MSG_NOSIGNAL), EPIPE);
    FAILS(connect(mine, A(b)), EISCONN);
    FAILS(listen(mine, 8), EINVAL);
    FAILS(shutdown(mine, SHUT_RDWR), ENOTCONN);
    disconnect(mine);
    OK(same(name_of(mine), b));
    SYS(listen(mine, 8));
    is_reached(mine);
  }
}

/* The same while something that it has received is still to be read. */
static void is_bound_with_data_unread(void) {
  enum { RESET, ENDED_BY_BOTH, WAYS };
  for (int way = 0; way < 2 * WAYS; way++)
    EACH_PAIR(mine, far) {
      struct sockaddr_in b = unserved_address();
      char bytes[8];
      if (way >= WAYS)
        b.sin_port = 0;
      send_all(far, "unread", 6);
      OK(ready(mine, POLLIN, 10000) & POLLIN);
      if (way % WAYS == RESET) {
        far_reset(far), far = -1;
      } else {
        SYS(shutdown(far, SHUT_WR));
        OK(ready(mine, POLLRDHUP, 10000) & POLLRDHUP);
        SYS(shutdown(mine, SHUT_WR));
      }
      /* There is something to read all the time. */
      OK(ready(mine, 0, 10000) & POLLHUP);
      for (double end = now() + 10; has_peer(mine); sleep_ms(1))
        OK(now() < end);
      SYS(bind(mine, A(b)));
      struct sockaddr_in has = name_of(mine);
      OK(has.sin_addr.s_addr == b.sin_addr.s_addr && has.sin_port != 0);
      if (b.sin_port)
        OK(same(has, b));
      FAILS(bind(mine, A(b)), EINVAL);
      IS(recv(mine, bytes, 2, 0), 2);
      FAILS(listen(mine, 8), EINVAL);
      int other = stream();
      FAILS(bind(other, A(has)), EADDRINUSE);
      receive_all(mine, bytes, 4);
      OK(memcmp(bytes, "read", 4) == 0);
      if (way % WAYS == RESET)
        FAILS(recv(mine, bytes, 1, 0), ECONNRESET);
      IS(recv(mine, bytes, 1, 0), 0);
      FAILS(connect(mine, A(b)), EISCONN);
      OK(same(name_of(mine), has));
      disconnect(mine);
      if (b.sin_port) {
        OK(same(name_of(mine), has));
        SYS(listen(mine, 8));
        is_reached(mine);
      } else {
        SYS(close(mine));
        mine = -1;
        SYS(bind(other, A(has)));
      }
      SYS(close(other));
    }
}

/* Bound again, a connection of which no call that connects has told is as new once one says that it is
 * over, also if its peer had ended it before. */
static void is_as_new_when_it_is_told(void) {
  int listener = far_listener(1), fd = stream();
  struct sockaddr_in a = far_name(listener), b = unserved_address();
  nonblocking(fd);
  FAILS(connect(fd, A(a)), EINPROGRESS);
  int far = far_accept(listener);
  SYS(shutdown(far, SHUT_WR));
  OK(ready(fd, POLLRDHUP, 10000) & POLLRDHUP);
  far_reset(far);
  OK(ready(fd, 0, 10000) & POLLERR);
  IS(option(fd, SOL_SOCKET, SO_ERROR), EPIPE);
  SYS(bind(fd, A(b)));
  FAILS(connect(fd, A(a)), ECONNABORTED);
  IS(ready(fd, POLLIN | POLLOUT | POLLRDHUP, 0), POLLOUT | POLLHUP);
  FAILS(recv(fd, &(char){0}, 1, 0), ENOTCONN);
}

/* Where the port is another's, an address that was kept of a connection is so no more. */
static void forgets_its_address_with_a_port_of_another(void) {
  int listener = my_listener(8), client = stream(), other = my_listener(8);
  struct sockaddr_in a = name_of(listener), b = name_of(other);
  SYS(connect(client, A(a)));
  int fd = SYS(accept(listener, 0, 0));
  disconnect(fd);
  OK(name_of(fd).sin_addr.s_addr == a.sin_addr.s_addr);
  FAILS(bind(fd, A(b)), EADDRINUSE);
  OK(name_of(fd).sin_addr.s_addr == 0);
  SYS(listen(fd, 8));
  is_reached(fd);
}

/* Of a connection that both sides have ended, no peer is left and no halves, whoever was first. */
static void no_peer_when_both_have_ended(void) {
  for (int is_first = 0; is_first < 2; is_first++)
    EACH_PAIR(mine, far) {
      struct sockaddr_in own = name_of(mine);
      int first = is_first ? mine : far, second = is_first ? far : mine;
      SYS(shutdown(first, SHUT_WR));
      OK(ready(second, POLLIN, 10000) & POLLIN);
      OK(has_peer(mine));
      SYS(shutdown(second, SHUT_WR));
      OK(ready(first, POLLIN, 10000) & POLLIN);
      /* The acknowledgment of the last end may be on its way. */
      for (double end = now() + 10; has_peer(mine); sleep_ms(1))
        OK(now() < end);
      FAILS(shutdown(mine, SHUT_RDWR), ENOTCONN);
      FAILS(shutdown(mine, SHUT_RD), ENOTCONN);
      OK(same(name_of(mine), own));
      char c;
      IS(recv(mine, &c, 1, 0), 0);
      FAILS(connect(mine, A(own)), EISCONN);
      struct sockaddr_in b = unserved_address();
      SYS(bind(mine, A(b)));
      OK(same(name_of(mine), b));
      IS(recv(mine, &c, 1, 0), 0);
      IS(ready(mine, POLLIN | POLLRDHUP, 0), POLLIN | POLLRDHUP | POLLHUP);
      FAILS(connect(mine, A(own)), EISCONN);
    }
}

/* So it is with one that is connected to itself, which has ended both: what it sends is there for the
 * next call, and so is its end. */
static void no_peer_of_its_own(void) {
  for (int i = 0; i < 100; i++) {
    int fd = stream();
    char c;
    struct sockaddr_in a = unserved_address();
    SYS(bind(fd, A(a)));
    SYS(connect(fd, A(a)));
    OK(has_peer(fd));
    IS(send(fd, "x", 1, 0), 1);
    IS(recv(fd, &c, 1, MSG_DONTWAIT), 1);
    SYS(shutdown(fd, SHUT_WR));
    FAILS(shutdown(fd, SHUT_WR), ENOTCONN);
    OK(!has_peer(fd));
    close(fd);
  }
}

/* Both ends of a connection may be one process's: each is over as soon as the other has ended, too. */
static void no_peer_once_both_have_ended(void) {
  for (int i = 0; i < 200; i++) {
    int listener = my_listener(1), one = stream();
    struct sockaddr_in a = name_of(listener);
    SYS(connect(one, A(a)));
    int other = SYS(accept(listener, 0, 0));
    SYS(shutdown(one, i & 1 ? SHUT_RDWR : SHUT_WR));
    SYS(shutdown(other, i & 2 ? SHUT_RDWR : SHUT_WR));
    FAILS(shutdown(other, SHUT_WR), ENOTCONN);
    close(one);
    close(other);
    close(listener);
  }
}

/* A listener that is shut down gives back a port that nobody has chosen. */
static void a_listener_listens_again(void) {
  for (int chosen = 0; chosen < 2; chosen++) {
    int fd = stream();
    struct sockaddr_in a = unserved_address();
    if (chosen)
      SYS(bind(fd, A(a)));
    SYS(listen(fd, 8));
    struct sockaddr_in before = name_of(fd);
    SYS(shutdown(fd, SHUT_RDWR));
    struct tcp_info info = {0};
    socklen_t n = sizeof info;
    SYS(getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n));
    IS(info.tcpi_state, TCP_CLOSE);
    SYS(listen(fd, 8));
    if (chosen)
      OK(same(name_of(fd), before));
    is_reached(fd);
  }
}

static void a_listener_connects(void) {
  int fd = my_listener(8), other = my_listener(8);
  struct sockaddr_in a = name_of(other);
  FAILS(connect(fd, A(a)), EISCONN);
  SYS(shutdown(fd, SHUT_RD));
  SYS(connect(fd, A(a)));
  int far = SYS(accept(other, 0, 0));
  send_all(fd, "x", 1);
  char c;
  receive_all(far, &c, 1);
  FAILS(connect(fd, A(a)), EISCONN);
}

/* What is shut down without a connection fails, and is to be seen all the same. */
static void shut_down_unconnected(void) {
  struct sockaddr_in a = address(my_ip(), 0);
  for (int is_bound = 0; is_bound < 2; is_bound++) {
    int fd = stream();
    if (is_bound)
      SYS(bind(fd, A(a)));
    FAILS(shutdown(fd, SHUT_RD), ENOTCONN);
    if (!is_bound)
      SYS(bind(fd, A(a)));
    int asked = POLLIN | POLLOUT | POLLRDHUP;
    IS(ready(fd, asked, 0), asked | POLLHUP);
    SYS(listen(fd, 8));
    is_reached(fd);
  }
  int u = datagram();
  FAILS(shutdown(u, SHUT_RD), ENOTCONN);
  SYS(bind(u, A(a)));
  IS(ready(u, POLLIN | POLLRDHUP, 0), POLLIN | POLLRDHUP);
}

static volatile int piped;
static void on_pipe(int signal) {
  (void)signal;
  piped++;
}

/* A reset after the end of the stream is EPIPE, with its signal; of a datagram socket that is
 * shut down, it comes without. */
static void a_reset_after_the_end(void) {
  struct sigaction action = {.sa_handler = on_pipe};
  SYS(sigaction(SIGPIPE, &action, 0));
  EACH_PAIR(mine, far) {
    piped = 0;
    SYS(close(far)), far = -1;
    OK(ready(mine, POLLIN, 10000) & POLLIN);
    IS(send(mine, "x", 1, 0), 1);
    OK(ready(mine, 0, 10000) & POLLERR);
    FAILS(send(mine, "x", 1, 0), EPIPE);
    IS(piped, 1);
  }
  struct sockaddr_in a = address(my_ip(), 0);
  int u = datagram();
  SYS(bind(u, A(a)));
  a = name_of(u);
  SYS(connect(u, A(a)));
  SYS(shutdown(u, SHUT_WR));
  piped = 0;
  FAILS(send(u, "x", 1, 0), EPIPE);
  FAILS(send(u, "x", 1, MSG_MORE), EPIPE);
  IS(piped, 0);
}

/* A connection that was made counts as told when it was shut down, and ever after. */
static void connected_and_over(void) {
  int listener = my_listener(8);
  struct sockaddr_in a = name_of(listener);
  for (int how = 0; how < 2; how++) {
    int fd = stream();
    nonblocking(fd);
    FAILS(connect(fd, A(a)), EINPROGRESS);
    int far = SYS(accept(listener, 0, 0));
    OK(ready(fd, POLLOUT, 10000) & POLLOUT);
    if (how == 0) {
      SYS(shutdown(fd, SHUT_WR));
    } else {
      IS(connect(fd, A(a)), 0);
      struct linger now = {1, 0};
      SYS(setsockopt(far, SOL_SOCKET, SO_LINGER, &now, sizeof now));
      SYS(close(far));
      OK(ready(fd, POLLIN, 10000) & POLLERR);
    }
    FAILS(connect(fd, A(a)), EISCONN);
  }
}

/* To peek and throw away is to ask how much there is: nothing is written. */
static void peeks_and_throws_away(void) {
  EACH_PAIR(mine, far) {
    char buf[4] = "none";
    send_all(far, "data", 4);
    OK(ready(mine, POLLIN, 10000) & POLLIN);
    IS(recv(mine, buf, 3, MSG_PEEK | MSG_TRUNC), 3);
    OK(memcmp(buf, "none", 4) == 0);
    receive_all(mine, buf, 4);
    struct iovec part = {buf, 4};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    send_all(far, "data", 4);
    IS(recvmsg(mine, &m, MSG_CMSG_CLOEXEC), 4);
    IS(m.msg_flags, MSG_CMSG_CLOEXEC);
  }
}

/* Linger for no time: the connection is reset when it is closed. */
static void close_by_reset(int fd) {
  struct linger now = {1, 0};
  SYS(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now));
  SYS(close(fd));
}

/* Both ends of a connection by a listener. */
static void connected(int listener, int client, int *far) {
  struct sockaddr_in a = name_of(listener);
  SYS(connect(client, A(a)));
  *far = SYS(accept(listener, 0, 0));
}

/* Sockets that ask for no port in particular get one of these. */
static void give_ports(const char *range) {
  write_setting("ip_local_port_range", range);
  /* Longshore looks at most once a millisecond. */
  sleep_ms(20);
}

/* A connection that was reset has no port any more but one that was chosen for it. */
static void gives_its_port_back_when_reset(void) {
  /* Of the usual ones some are in TIME-WAIT for what was before: to connect from such a port is
   * allowed, to bind to it afterwards is not. */
  give_ports("61000 61999");
  int listener = my_listener(8), far;
  for (int how = 0; how < 3; how++) {
    int client = stream();
    struct sockaddr_in a = address(my_ip(), 0);
    if (how == 1)
      SYS(bind(client, A(a)));
    if (how == 2)
      a = unserved_address(), SYS(bind(client, A(a)));
    connected(listener, client, &far);
    a = name_of(client);
    int other = stream();
    FAILS(bind(other, A(a)), EADDRINUSE);
    close_by_reset(far);
    OK(ready(client, POLLIN, 10000) & POLLERR);
    /* Linux shows the error before it gives the port back, both under the socket's lock: what
     * sets an option waits for that. */
    set(client, SOL_SOCKET, SO_KEEPALIVE, 0);
    if (how == 2)
      FAILS(bind(other, A(a)), EADDRINUSE);
    else
      SYS(bind(other, A(a)));
    OK(same(name_of(client), a));
  }
  /* Of one that was accepted, the port was its listener's. */
  int client = stream(), other = stream();
  connected(listener, client, &far);
  struct sockaddr_in a = name_of(listener);
  SYS(close(listener));
  FAILS(bind(other, A(a)), EADDRINUSE);
  close_by_reset(client);
  OK(ready(far, POLLIN, 10000) & POLLERR);
  set(far, SOL_SOCKET, SO_KEEPALIVE, 0);
  SYS(bind(other, A(a)));
  give_ports("32768 60999");
}

/* After an attempt that failed, another is made from another port of the same address. */
static void connects_again_from_its_address(void) {
  struct sockaddr_in nobody = unserved_address(), a = address(my_ip(), 0);
  int fd = stream(), far, other = stream(), listener = my_listener(8);
  SYS(bind(fd, A(a)));
  a = name_of(fd);
  FAILS(connect(fd, A(nobody)), ECONNREFUSED);
  SYS(bind(other, A(a)));
  connected(listener, fd, &far);
  IS(name_of(fd).sin_addr.s_addr, a.sin_addr.s_addr);
  OK(name_of(fd).sin_port != a.sin_port);
  OK(same(name_of(fd), peer_of(far)));
}

/* A listener that was shut down keeps the port that was chosen for it, whatever connections it
 * has accepted. */
static void connects_from_the_port_of_a_listener(void) {
  for (int how = 0; how < 3; how++) {
    struct sockaddr_in a = unserved_address(), to;
    int fd = stream(), client = stream(), other = my_listener(8), far;
    SYS(bind(fd, A(a)));
    SYS(listen(fd, 8));
    connected(fd, client, &far);
    to = name_of(how == 1 ? client : other);
    if (how == 2)
      disconnect(fd);
    else
      SYS(shutdown(fd, SHUT_RD));
    if (how == 1) {
      /* That would be the connection that is there. */
      FAILS(connect(fd, A(to)), EADDRNOTAVAIL);
      continue;
    }
    SYS(connect(fd, A(to)));
    OK(same(name_of(fd), a));
    int accepted = SYS(accept(other, 0, 0));
    OK(same(peer_of(accepted), a));
    send_all(client, "goes on", 7);
    char buf[7];
    receive_all(far, buf, 7);
  }
}

/* Without the peer that it never had, it is not shut down any more, and of what went wrong before
 * it listens, nothing is told. */
static void begins_anew_without_a_peer(void) {
  struct sockaddr_in nobody = unserved_address(), a;
  int fd = stream(), other = my_listener(8), far;
  FAILS(shutdown(fd, SHUT_RDWR), ENOTCONN);
  disconnect(fd);
  connected(other, fd, &far);
  send_all(fd, "x", 1);
  IS(ready(fd, POLLIN | POLLRDHUP, 0), 0);
  fd = stream();
  nonblocking(fd);
  FAILS(connect(fd, A(nobody)), EINPROGRESS);
  OK(ready(fd, 0, 10000) & POLLERR);
  disconnect(fd);
  OK(ready(fd, 0, 0) & POLLERR);
  SYS(listen(fd, 8));
  IS(ready(fd, POLLIN, 0), 0);
  a = name_of(fd);
  OK(a.sin_port);
  is_reached(fd);
  /* At the address that was chosen, it listens again. */
  fd = stream();
  a = address(my_ip(), 0);
  SYS(bind(fd, A(a)));
  SYS(listen(fd, 8));
  SYS(shutdown(fd, SHUT_RD));
  SYS(listen(fd, 8));
  IS(name_of(fd).sin_addr.s_addr, a.sin_addr.s_addr);
  is_reached(fd);
}

/* A call that receives several messages is told first of what went wrong, whatever is there. */
static void receives_an_error_before_messages(void) {
  EACH_PAIR(mine, far) {
    char buf[4];
    struct iovec part = {buf, sizeof buf};
    struct mmsghdr m = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1}};
    send_all(far, "data", 4);
    OK(ready(mine, POLLIN, 10000) & POLLIN);
    far_reset(far), far = -1;
    OK(ready(mine, 0, 10000) & POLLERR);
    FAILS(recvmmsg(mine, &m, 1, 0, 0), ECONNRESET);
  }
}

/* From a pipe to a connection that is shut down: EPIPE, with its signal. */
static void splices_to_what_is_shut_down(void) {
  struct sigaction action = {.sa_handler = on_pipe};
  SYS(sigaction(SIGPIPE, &action, 0));
  EACH_PAIR(mine, far) {
    int pipes[2];
    piped = 0;
    SYS(pipe(pipes));
    IS(write(pipes[1], "x", 1), 1);
    SYS(shutdown(mine, SHUT_WR));
    FAILS(splice(pipes[0], 0, mine, 0, 1, 0), EPIPE);
    IS(piped, 1);
  }
}

/* An urgent byte is something to be read, for a call that reads nothing. */
static void reads_nothing_of_an_urgent_byte(void) {
  EACH_PAIR(mine, far) {
    char c;
    nonblocking(mine);
    FAILS(recv(mine, &c, 0, 0), EAGAIN);
    IS(send(far, "!", 1, MSG_OOB), 1);
    OK(ready(mine, POLLPRI, 10000) & POLLPRI);
    FAILS(recv(mine, &c, 1, MSG_PEEK), EAGAIN);
    IS(recv(mine, &c, 0, 0), 0);
    IS(recv(mine, &c, 0, MSG_PEEK | MSG_TRUNC), 0);
    IS(recv(mine, &c, 1, MSG_OOB), 1);
    IS(c, '!');
  }
}

/* --- datagrams ------------------------------------------------------------- */

/* Without its peer, a socket has no port either that it was not bound to. */
static void gives_a_port_back_with_its_peer(void) {
  struct sockaddr_in there = unserved_address(), a = unserved_address();
  int fd = datagram();
  SYS(connect(fd, A(there)));
  struct sockaddr_in had = name_of(fd);
  disconnect(fd);
  IS(name_of(fd).sin_port, 0);
  int other = datagram();
  SYS(bind(other, A(had)));
  SYS(bind(fd, A(a)));
  SYS(connect(fd, A(there)));
  disconnect(fd);
  OK(same(name_of(fd), a));
}

/* Each send binds a socket, also one that fails. */
static void bound_by_a_failed_send(void) {
  for (int how = 0; how < 4; how++) {
    int fd = datagram();
    struct sockaddr_in a = address(my_ip(), 0), nowhere = a;
    struct iovec part = {"x", 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1};
    if (how == 0)
      FAILS(send(fd, "x", 1, 0), EDESTADDRREQ);
    else if (how == 1)
      FAILS(write(fd, "x", 1), EDESTADDRREQ);
    else if (how == 2)
      FAILS(sendmsg(fd, &m, 0), EDESTADDRREQ);
    else
      FAILS(sendto(fd, "x", 1, 0, A(nowhere)), EINVAL);
    FAILS(bind(fd, A(a)), EINVAL);
    a.sin_port = name_of(fd).sin_port;
    OK(a.sin_port);
    int other = datagram();
    IS(sendto(other, "in", 2, 0, A(a)), 2);
    OK(ready(fd, POLLIN, 10000));
    char buf[2];
    IS(recv(fd, buf, 2, 0), 2);
  }
}

/* An attempt to give it a peer binds it, also one that fails. */
static void bound_by_a_failed_connect(void) {
  int fd = datagram();
  struct sockaddr_in6 six = address6(my_ip6(), 9);
  FAILS(connect(fd, A(six)), EAFNOSUPPORT);
  struct sockaddr_in a = address(my_ip(), 0);
  FAILS(bind(fd, A(a)), EINVAL);
  a.sin_port = name_of(fd).sin_port;
  OK(a.sin_port);
  IS(sendto(datagram(), "x", 1, 0, A(a)), 1);
  OK(ready(fd, POLLIN, 10000));
}

/* Where a datagram goes is looked for before whether anything is sent any more. */
static void begun_by_one_that_is_shut_down(void) {
  int fd = datagram();
  FAILS(shutdown(fd, SHUT_WR), ENOTCONN);
  FAILS(send(fd, "x", 1, MSG_MORE), EDESTADDRREQ);
  FAILS(send(fd, "x", 1, 0), EDESTADDRREQ);
}

/* What was begun goes to the peer that the socket has by the end, of IPv4. */
static void begun_before_it_has_a_peer(void) {
  int fd = datagram(), one = datagram(), other = datagram();
  struct sockaddr_in a = address(my_ip(), 0), to;
  SYS(bind(one, A(a)));
  SYS(bind(other, A(a)));
  to = name_of(one);
  IS(sendto(fd, "be", 2, MSG_MORE, A(to)), 2);
  to = name_of(other);
  SYS(connect(fd, A(to)));
  IS(send(fd, "gun", 3, 0), 3);
  OK(ready(other, POLLIN, 10000) & POLLIN);
  char buf[8];
  IS(recv(other, buf, sizeof buf, 0), 5);
  IS(ready(one, POLLIN, 0), 0);
}

/* What goes by IPv6 is not added to with an address of IPv4. */
static void begun_by_the_other_version(void) {
  int fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0)), to = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  struct sockaddr_in6 a = address6(my_ip6(), 0), four;
  socklen_t n = sizeof a;
  SYS(bind(to, A(a)));
  SYS(getsockname(to, (void *)&a, &n));
  char mapped[64];
  snprintf(mapped, sizeof mapped, "::ffff:%s", my_ip());
  four = address6(mapped, 9);
  IS(sendto(fd, "be", 2, MSG_MORE, A(a)), 2);
  FAILS(sendto(fd, "x", 1, 0, A(four)), EINVAL);
  IS(send(fd, "gun", 3, 0), 3);
  OK(ready(to, POLLIN, 10000) & POLLIN);
  char buf[8];
  IS(recv(to, buf, sizeof buf, 0), 5);
}

static void a_file_as_a_datagram(void) {
  static const char text[] = "a file";
  int file = SYS(memfd_create("file", 0)), fd = datagram(), to = datagram();
  IS(write(file, text, sizeof text), sizeof text);
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(to, A(a)));
  a = name_of(to);
  off_t at = 2;
  FAILS(sendfile(fd, file, &at, 4), EDESTADDRREQ);
  IS(at, 2);
  SYS(connect(fd, A(a)));
  IS(sendfile(fd, file, &at, 4), 4);
  IS(at, 6);
  SYS(lseek(file, 0, SEEK_SET));
  IS(sendfile(fd, file, 0, 6), 6);
  IS(lseek(file, 0, SEEK_CUR), 6);
  char buf[16];
  OK(ready(to, POLLIN, 10000));
  IS(recv(to, buf, sizeof buf, 0), 4);
  OK(memcmp(buf, text + 2, 4) == 0);
  IS(recv(to, buf, sizeof buf, 0), 6);
  OK(memcmp(buf, text, 6) == 0);
  static char big[70000];
  IS(write(file, big, sizeof big), sizeof big);
  at = 0;
  FAILS(sendfile(fd, file, &at, sizeof big), EMSGSIZE);
}

/* A call that asks how much there is does not take the pending error. */
static void an_error_that_is_not_asked_for(void) {
  struct sockaddr_in there = unserved_address();
  int fd = datagram(), n = -1;
  SYS(connect(fd, A(there)));
  IS(send(fd, "x", 1, 0), 1);
  OK(ready(fd, 0, 10000) & POLLERR);
  IS(ioctl(fd, FIONREAD, &n), 0);
  IS(n, 0);
  IS(option(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
}

/* With data unread, a socket that lingers is reset like others. */
static void lingers_with_data_unread(void) {
  EACH_PAIR(mine, far) {
    struct linger a_second = {1, 1};
    SYS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &a_second, sizeof a_second));
    send_all(far, "unread", 6);
    OK(ready(mine, POLLIN, 10000) & POLLIN);
    SYS(close(mine)), mine = -1;
    OK(ready(far, POLLIN, 10000) & POLLERR);
    char c;
    FAILS(recv(far, &c, 1, 0), ECONNRESET);
  }
}

/* A call that waits is told that nothing will come, and without a name. */
static void receives_after_a_shutdown(void) {
  int fd = datagram();
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(fd, A(a)));
  FAILS(shutdown(fd, SHUT_RD), ENOTCONN);
  struct sockaddr_storage from;
  socklen_t n = sizeof from;
  char buf[4];
  IS(recvfrom(fd, buf, 4, 0, (void *)&from, &n), 0);
  IS(n, 0);
  FAILS(recv(fd, buf, 4, MSG_DONTWAIT), EAGAIN);
}

/* --- two versions ----------------------------------------------------------- */

/* The wildcard of IPv4, mapped: for IPv4 alone. */
static void mapped_wildcard(void) {
  int fd = stream6(), beside = stream6(), client = stream6(), only = 1;
  struct sockaddr_in6 any = address6("::ffff:0.0.0.0", 0), name, six;
  socklen_t n = sizeof name;
  SYS(bind(fd, A(any)));
  SYS(listen(fd, 8));
  SYS(getsockname(fd, (void *)&name, &n));
  OK(IN6_IS_ADDR_V4MAPPED(&name.sin6_addr));
  struct sockaddr_in to = address(my_ip(), ntohs(name.sin6_port));
  int four = stream();
  SYS(connect(four, A(to)));
  SYS(accept(fd, 0, 0));
  six = address6(my_ip6(), ntohs(name.sin6_port));
  FAILS(connect(client, A(six)), ECONNREFUSED);
  SYS(setsockopt(beside, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only));
  any = address6("::", ntohs(name.sin6_port));
  SYS(bind(beside, A(any)));
  for (int kind = 0; kind < 2; kind++) {
    fd = kind ? SYS(socket(AF_INET6, SOCK_DGRAM, 0)) : stream6();
    any = address6("::ffff:0.0.0.0", 0);
    SYS(bind(fd, A(any)));
    FAILS(connect(fd, A(six)), EAFNOSUPPORT);
  }
}

/* Whether a socket is for IPv6 alone is settled when it is bound; to an address of that, it is. */
static void version_of_what_is_bound(void) {
  int fd = stream6(), off = 0;
  struct sockaddr_in6 a = address6(my_ip6(), 0), mapped = address6("::ffff:127.0.0.1", 0);
  IS(option(fd, IPPROTO_IPV6, IPV6_V6ONLY), 0);
  SYS(bind(fd, A(a)));
  IS(option(fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);
  FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off), EINVAL);
  int other = stream6();
  char to[64];
  snprintf(to, sizeof to, "::ffff:%s", my_ip());
  mapped = address6(to, 0);
  SYS(bind(other, A(mapped)));
  IS(option(other, IPPROTO_IPV6, IPV6_V6ONLY), 0);
  a.sin6_port = htons(9);
  FAILS(connect(other, A(a)), EAFNOSUPPORT);
  struct sockaddr_in four = address(my_ip(), 9);
  FAILS(connect(other, A(four)), EINVAL);
}

/* An address of no family is that of IPv4, if it is the wildcard. */
static void bound_by_no_family(void) {
  struct sockaddr_in a = address("0.0.0.0", 0), b = address("127.0.0.1", 0);
  a.sin_family = b.sin_family = AF_UNSPEC;
  int fd = stream();
  FAILS(bind(fd, A(b)), EAFNOSUPPORT);
  SYS(bind(fd, A(a)));
  SYS(listen(fd, 8));
  is_reached(fd);
  FAILS(bind(fd, A(b)), EAFNOSUPPORT);
  FAILS(bind(fd, A(a)), EINVAL);
  int u = datagram();
  FAILS(sendto(u, "x", 1, 0, A(a)), EINVAL);
}

/* --- several descriptors and processes ------------------------------------ */

static int epoll_with(int fd) {
  int ep = SYS(epoll_create1(0));
  struct epoll_event e = {.events = EPOLLIN, .data.u64 = 0x1234567890};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
  return ep;
}

static void tells_of(int ep, int ms) {
  struct epoll_event e = {0};
  IS(epoll_wait(ep, &e, 1, ms), 1);
  OK(e.data.u64 == 0x1234567890);
}

/* What is registered under one descriptor, and bound under another. */
static void registered_under_another_descriptor(void) {
  int fd = datagram(), twin = SYS(dup(fd)), ep = epoll_with(twin);
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(fd, A(a)));
  a = name_of(fd);
  IS(sendto(datagram(), "x", 1, 0, A(a)), 1);
  tells_of(ep, 10000);
}

/* A socket that nobody has bound is its child's, too: what that makes of it, both have. */
static void bound_by_a_child(void) {
  int fd = datagram(), ep = epoll_with(fd), gate[2], listener = stream();
  struct sockaddr_in a = address(my_ip(), 0);
  char c;
  SYS(pipe(gate));
  pid_t child = SYS(fork());
  if (!child) {
    SYS(bind(fd, A(a)));
    SYS(bind(listener, A(a)));
    SYS(listen(listener, 8));
    SYS(write(gate[1], "b", 1));
    SYS(pause());
  }
  receive_all(gate[0], &c, 1);
  a = name_of(fd);
  OK(a.sin_port);
  FAILS(bind(fd, A(a)), EINVAL);
  struct epoll_event e;
  IS(epoll_wait(ep, &e, 1, 0), 0);
  IS(sendto(datagram(), "x", 1, 0, A(a)), 1);
  tells_of(ep, 10000);
  IS(recv(fd, &c, 1, 0), 1);
  IS(option(listener, SOL_SOCKET, SO_ACCEPTCONN), 1);
  SYS(kill(child, SIGKILL));
  SYS(waitpid(child, 0, 0));
  is_reached(listener);
}

/* A socket that another process uses again is that for all who have it. */
static void used_again_by_a_child(void) {
  for (int how = 0; how < 2; how++) {
    struct sockaddr_in a = unserved_address(), to = unserved_address();
    int fd = stream(), ep = epoll_with(fd), other = my_listener(8), gate[2];
    SYS(pipe(gate));
    if (how == 0) {
      FAILS(connect(fd, A(to)), ECONNREFUSED);
    } else {
      SYS(bind(fd, A(a)));
      SYS(listen(fd, 8));
      SYS(shutdown(fd, SHUT_RD));
      to = name_of(other);
    }
    pid_t child = SYS(fork());
    if (!child) {
      if (how == 0)
        SYS(listen(fd, 8));
      else
        SYS(connect(fd, A(to)));
      SYS(write(gate[1], "b", 1));
      SYS(pause());
    }
    char c;
    receive_all(gate[0], &c, 1);
    IS(option(fd, SOL_SOCKET, SO_ERROR), 0);
    IS(ready(fd, POLLIN, 0), 0);
    struct epoll_event e;
    IS(epoll_wait(ep, &e, 1, 0), 0);
    if (how == 0) {
      is_reached(fd);
    } else {
      OK(same(name_of(fd), a));
      int far = SYS(accept(other, 0, 0));
      send_all(far, "x", 1);
      tells_of(ep, 10000);
      receive_all(fd, &c, 1);
    }
    SYS(kill(child, SIGKILL));
    SYS(waitpid(child, 0, 0));
  }
}

/* One that was bound to the wildcard, and has a connection, is told of by that alone. */
static void connected_from_the_wildcard(void) {
  int fd = stream(), ep = epoll_with(fd), listener = my_listener(8);
  struct sockaddr_in any = address("0.0.0.0", 0), a = name_of(listener);
  SYS(bind(fd, A(any)));
  SYS(connect(fd, A(a)));
  int far = SYS(accept(listener, 0, 0));
  struct epoll_event e;
  for (int i = 0; i < 8; i++)
    IS(epoll_wait(ep, &e, 1, 0), 0);
  send_all(far, "x", 1);
  tells_of(ep, 10000);
}

/* One that listens again is told of by nothing else, under each of its descriptors. */
static void listens_again_under_two_descriptors(void) {
  int fd = stream(), ep = epoll_with(fd);
  SYS(listen(fd, 8));
  int other = SYS(dup(fd));
  struct epoll_event e = {.events = EPOLLIN, .data.fd = other};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, other, &e));
  SYS(shutdown(fd, SHUT_RDWR));
  IS(epoll_wait(ep, &e, 1, 1000), 1);
  SYS(listen(fd, 8));
  for (int i = 0; i < 8; i++)
    IS(epoll_wait(ep, &e, 1, 0), 0);
  is_reached(other);
}

/* A look that does not wait finds all that is ready, whoever has it. */
static void looks_for_all_at_once(void) {
  int fd = datagram(), ep = epoll_with(fd), pipes[2];
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(fd, A(a)));
  a = name_of(fd);
  SYS(pipe(pipes));
  struct epoll_event e[4] = {{.events = EPOLLIN, .data.fd = pipes[0]}};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, pipes[0], e));
  IS(write(pipes[1], "x", 1), 1);
  IS(sendto(datagram(), "x", 1, 0, A(a)), 1);
  OK(ready(fd, POLLIN, 10000) & POLLIN);
  for (int i = 0; i < 16; i++)
    IS(epoll_wait(ep, e, 4, 0), 2);
}

/* What listens again has no time limit that its program has not set. */
static void no_limit_after_listening(void) {
  for (int v6 = 0; v6 < 2; v6++) {
    int fd = SYS(socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM, 0));
    struct timeval limit;
    socklen_t n = sizeof limit;
    for (int i = 0; i < 3; i++) {
      SYS(listen(fd, 8));
      SYS(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &n));
      IS(limit.tv_sec, 0);
      IS(limit.tv_usec, 0);
      SYS(shutdown(fd, SHUT_RD));
      SYS(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &n));
      IS(limit.tv_sec, 0);
      IS(limit.tv_usec, 0);
    }
    SYS(close(fd));
  }
}

/* One that was bound to the wildcard and shut down is as before when it is disconnected. */
static void bound_shut_and_disconnected(void) {
  struct sockaddr none = {.sa_family = AF_UNSPEC};
  for (int at = 0; at < 2; at++) {
    int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
    struct sockaddr_in a = address(at ? my_ip() : "0.0.0.0", 0);
    SYS(bind(fd, A(a)));
    FAILS(shutdown(fd, SHUT_RDWR), ENOTCONN);
    OK(ready(fd, POLLIN | POLLOUT | POLLRDHUP, 0) & POLLIN);
    SYS(connect(fd, &none, sizeof none));
    IS(ready(fd, POLLIN | POLLOUT | POLLRDHUP, 0), POLLOUT | POLLHUP);
    SYS(close(fd));
  }
}

/* What disconnecting has left to be told is forgotten by the next attempt to connect. */
static void disconnected_and_connected(void) {
  struct sockaddr none = {.sa_family = AF_UNSPEC};
  int mine = SYS(socket(AF_INET, SOCK_STREAM, 0)), listener = far_listener(8);
  struct sockaddr_in there = far_name(listener);
  for (int i = 0; i < 3; i++) {
    SYS(connect(mine, A(there)));
    IS(ready(mine, POLLIN | POLLOUT, 0), POLLOUT);
    IS(option(mine, SOL_SOCKET, SO_ERROR), 0);
    SYS(connect(mine, &none, sizeof none));
    IS(ready(mine, POLLOUT, 0), POLLOUT | POLLERR | POLLHUP);
  }
  IS(option(mine, SOL_SOCKET, SO_ERROR), ECONNRESET);
}

/* A connection that both have ended is disconnected without an error; one that goes on is reset. */
static void ended_by_both_and_disconnected(void) {
  struct sockaddr none = {.sa_family = AF_UNSPEC};
  for (int ends = 0; ends < 3; ends++) {
    EACH_PAIR(mine, far) {
      if (ends)
        SYS(shutdown(mine, SHUT_WR));
      if (ends == 2) {
        SYS(close(far));
        far = -1;
        OK(ready(mine, POLLRDHUP, 10000) & POLLRDHUP);
        char c;
        IS(read(mine, &c, 1), 0);
      }
      SYS(connect(mine, &none, sizeof none));
      IS(ready(mine, POLLIN | POLLOUT, 0), POLLOUT | POLLHUP | (ends < 2 ? POLLERR : 0));
      IS(option(mine, SOL_SOCKET, SO_ERROR), ends < 2 ? ECONNRESET : 0);
    }
  }
}

/* The like of IPv6; mapped: one of IPv4. */
static struct sockaddr_in6 unserved_address6(int mapped) {
  char ip[64];
  snprintf(ip, sizeof ip, mapped ? "::ffff:%s" : "%s", mapped ? my_ip() : my_ip6());
  return address6(ip, ntohs(unserved_address().sin_port));
}

/* An attempt that was refused leaves nothing of its address: what was bound to a port of all
 * addresses is so again, and no other is bound there. */
static void bound_to_all_after_a_refused_connect(void) {
  for (int how = 0; how < 4; how++) {
    int fd = stream6(), other = how % 2 ? stream() : stream6(), far = how >= 2;
    struct sockaddr_in6 to = unserved_address6(how % 2 == 0), any = address6("::", 0);
    struct sockaddr_in b = unserved_address();
    struct sockaddr_in6 b6 = address6(my_ip6(), ntohs(b.sin_port));
    any.sin6_port = b.sin_port;
    if (far) {
      int listener = far_listener(1);
      struct sockaddr_in a = far_name(listener);
      char ip[64];
      snprintf(ip, sizeof ip, "::ffff:%s", far_ip());
      to = address6(ip, ntohs(a.sin_port));
      SYS(close(listener));
    }
    SYS(bind(fd, A(any)));
    FAILS(connect(fd, A(to)), ECONNREFUSED);
    if (how % 2)
      FAILS(bind(other, A(b)), EADDRINUSE);
    else
      FAILS(bind(other, A(b6)), EADDRINUSE);
    SYS(close(fd));
    if (how % 2)
      SYS(bind(other, A(b)));
    else
      SYS(bind(other, A(b6)));
    SYS(close(other));
  }
}

/* Until a call that connects has told that an attempt was refused, what was bound to a port of all
 * addresses has that of its way to the peer alone, and others may have the rest. */
static void keeps_its_address_until_it_is_told(void) {
  for (int how = 0; how < 6; how++) {
    int fd = stream6(), other = stream();
    struct sockaddr_in6 to = unserved_address6(0), any = address6("::", 0);
    struct sockaddr_in b = unserved_address(), all = address("0.0.0.0", ntohs(b.sin_port));
    struct sockaddr_in6 b6 = address6(my_ip6(), ntohs(b.sin_port));
    any.sin6_port = b.sin_port;
    nonblocking(fd);
    SYS(bind(fd, A(any)));
    FAILS(connect(fd, A(to)), EINPROGRESS);
    IS(ready(fd, POLLIN, 10000) & POLLERR, POLLERR);
    if (how % 3 == 0)
      IS(option(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
    if (how % 3 < 2) {
      FAILS(bind(stream6(), A(b6)), EADDRINUSE);
      FAILS(bind(stream(), A(all)), EADDRINUSE);
    }
    if (how < 3) {
      SYS(bind(other, A(b)));
      continue;
    }
    if (how % 3 == 2)
      disconnect(fd);
    else
      FAILS(connect(fd, A(to)), how % 3 ? ECONNREFUSED : ECONNABORTED);
    FAILS(bind(other, A(b)), EADDRINUSE);
    SYS(close(fd));
    SYS(bind(other, A(b)));
  }
}

/* Who has ended an attempt to connect has its port at all addresses again. */
static void has_all_addresses_when_it_gives_up(void) {
  int fd = stream6(), listener = stream6();
  struct sockaddr_in6 to = address6(my_ip6(), 0), any = address6("::", 0);
  struct sockaddr_in b = unserved_address();
  socklen_t n = sizeof to;
  /* Nobody answers once the queue is full. */
  SYS(bind(listener, A(to)));
  SYS(listen(listener, 0));
  SYS(getsockname(listener, (struct sockaddr *)&to, &n));
  for (int i = 0; i < 2; i++) {
    int filling = stream6();
    nonblocking(filling);
    FAILS(connect(filling, A(to)), EINPROGRESS);
  }
  any.sin6_port = b.sin_port;
  nonblocking(fd);
  SYS(bind(fd, A(any)));
  FAILS(connect(fd, A(to)), EINPROGRESS);
  IS(shutdown(fd, SHUT_RDWR), 0);
  FAILS(bind(stream(), A(b)), EADDRINUSE);
}

/* What is bound to all addresses, or listens at all, after it was refused is reached by the kernel's
 * interfaces, too, as it is when it has not been used before, and epoll tells of it. */
static void serves_all_after_a_refused_connect(void) {
  for (int how = 0; how < 6; how++) {
    struct sockaddr_in a = unserved_address(), any = unserved_address();
    struct epoll_event e = {.events = EPOLLIN, .data.u64 = 7};
    int fd = stream(), ep = SYS(epoll_create1(0));
    any.sin_addr.s_addr = 0;
    if (how == 2 || how == 5)
      SYS(bind(fd, A(any)));
    FAILS(connect(fd, A(a)), ECONNREFUSED);
    if (how == 0 || how == 3)
      SYS(bind(fd, A(any)));
    if (how >= 3)
      SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
    SYS(listen(fd, 8));
    if (how < 3)
      SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
    is_reached(fd);
    IS(epoll_wait(ep, &e, 1, 0), 0);
    struct sockaddr_in here = address("127.0.0.1", ntohs(name_of(fd).sin_port));
    int client = stream();
    SYS(connect(client, A(here)));
    IS(epoll_wait(ep, &e, 1, 10000), 1);
    IS(e.data.u64, 7);
    SYS(close(SYS(accept(fd, 0, 0))));
    SYS(close(client));
    SYS(close(fd));
    SYS(close(ep));
  }
}

/* A port that nobody has named goes with what it was for, also for the interfaces that another stack
 * has: bound to another port, the socket serves that on all of them. */
static void serves_all_at_another_port(void) {
  for (int how = 0; how < 10; how++) {
    struct sockaddr_in a = unserved_address(), any = {.sin_family = AF_INET};
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6};
    int v6 = how >= 5, fd = v6 ? stream6() : stream();
    if (how % 5 < 3 && v6)
      SYS(bind(fd, A(any6)));
    else if (how % 5 < 3)
      SYS(bind(fd, A(any)));
    if (how % 5 == 2)
      set(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (how % 5 < 2 && v6) {
      struct sockaddr_in6 to = unserved_address6(0);
      FAILS(connect(fd, A(to)), ECONNREFUSED);
    } else if (how % 5 < 2) {
      FAILS(connect(fd, A(a)), ECONNREFUSED);
    } else {
      SYS(listen(fd, 1));
      if (how % 5 == 4)
        disconnect(fd);
      else
        SYS(shutdown(fd, SHUT_RD));
    }
    any = unserved_address(), any.sin_addr.s_addr = 0;
    any6.sin6_port = any.sin_port;
    if (how % 5 == 1) {
      /* Any other port. */
      SYS(listen(fd, 8));
    } else {
      if (v6)
        SYS(bind(fd, A(any6)));
      else
        SYS(bind(fd, A(any)));
      SYS(listen(fd, 8));
    }
    struct sockaddr_in6 name;
    socklen_t n = sizeof name;
    SYS(getsockname(fd, (void *)&name, &n));
    for (int here = 0; here < 2; here++) {
      struct sockaddr_in to = address(here ? "127.0.0.1" : my_ip(), ntohs(name.sin6_port));
      int client = stream();
      SYS(connect(client, A(to)));
      IS(ready(fd, POLLIN, 10000), POLLIN);
      SYS(close(SYS(accept(fd, 0, 0))));
      SYS(close(client));
    }
    SYS(close(fd));
  }
}

/* What is registered under a descriptor that another takes the place of stays, as long as the socket
 * has others. */
static void registered_under_a_descriptor_that_is_gone(void) {
  for (int how = 0; how < 4; how++) {
    int fd = datagram(), twin = SYS(dup(fd)), ep = epoll_with(fd), late = datagram();
    struct sockaddr_in a = address(my_ip(), 0);
    struct epoll_event e;
    if (how % 2)
      SYS(dup2(late, fd));
    else
      SYS(close(fd));
    if (how >= 2) {
      /* Of another under the same number it tells, too, and of which it is. */
      struct epoll_event own = {.events = EPOLLIN, .data.u64 = 9};
      SYS(dup2(late, fd));
      SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &own));
    }
    SYS(bind(twin, A(a)));
    a = name_of(twin);
    IS(sendto(datagram(), "x", 1, 0, A(a)), 1);
    tells_of(ep, 10000);
    if (how >= 2) {
      struct sockaddr_in b = address(my_ip(), 0);
      char c;
      IS(recv(twin, &c, 1, 0), 1);
      SYS(bind(late, A(b)));
      b = name_of(late);
      IS(sendto(datagram(), "x", 1, 0, A(b)), 1);
      IS(epoll_wait(ep, &e, 1, 10000), 1);
      IS(e.data.u64, 9);
      SYS(epoll_ctl(ep, EPOLL_CTL_DEL, fd, 0));
    }
    SYS(close(twin));
    IS(epoll_wait(ep, &e, 1, 0), 0);
    SYS(close(ep));
  }
}

/* So it is with a stream, whatever it was when it was registered and becomes under its other descriptor. */
static void stream_registered_under_a_descriptor_that_is_gone(void) {
  for (int how = 0; how < 8; how++) {
    /* Of one that another has taken the place of before, Longshore goes on to say that it has no
     * connection. */
    if (how == 5 || how == 7)
      continue;
    int listener = my_listener(1), fd = stream(), early = how & 1, listens = how & 2;
    struct sockaddr_in a = name_of(listener), own = address(my_ip(), 0);
    struct epoll_event e;
    char c;
    if (!early && !listens)
      SYS(connect(fd, A(a)));
    if (!early && listens) {
      SYS(bind(fd, A(own)));
      SYS(listen(fd, 1));
    }
    int twin = SYS(dup(fd)), ep = epoll_with(fd);
    if (how & 4)
      SYS(dup2(stream(), fd));
    else
      SYS(close(fd));
    if (early && !listens)
      SYS(connect(twin, A(a)));
    if (early && listens) {
      SYS(bind(twin, A(own)));
      SYS(listen(twin, 1));
    }
    IS(epoll_wait(ep, &e, 1, 0), 0);
    if (listens) {
      own = name_of(twin);
      SYS(connect(stream(), A(own)));
    } else {
      int other = SYS(accept(listener, 0, 0));
      IS(send(other, "x", 1, 0), 1);
    }
    tells_of(ep, 10000);
    tells_of(ep, 0);
    if (listens)
      SYS(accept(twin, 0, 0));
    else
      IS(recv(twin, &c, 1, 0), 1);
    IS(epoll_wait(ep, &e, 1, 0), 0);
    SYS(close(twin));
    SYS(close(ep));
  }
}

/* A listener that was shut down is bound no more if nobody has chosen its port, and may be for
 * IPv6 alone, or not. */
static void version_after_listening(void) {
  int fd = stream6(), bound = stream6();
  struct sockaddr_in6 any = address6("::", 0);
  any.sin6_port = unserved_address().sin_port;
  SYS(listen(fd, 8));
  int on = 1;
  FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), EINVAL);
  SYS(shutdown(fd, SHUT_RD));
  FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, 3), EINVAL);
  for (on = 1; on >= 0; on--) {
    set(fd, IPPROTO_IPV6, IPV6_V6ONLY, on);
    IS(option(fd, IPPROTO_IPV6, IPV6_V6ONLY), on);
  }
  set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  SYS(listen(fd, 8));
  IS(option(fd, IPPROTO_IPV6, IPV6_V6ONLY), 1);
  SYS(bind(bound, A(any)));
  SYS(listen(bound, 8));
  SYS(shutdown(bound, SHUT_RD));
  FAILS(setsockopt(bound, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), EINVAL);
}

/* So is a stream whose connection was refused. */
static void version_after_a_refusal(void) {
  char mapped[64];
  snprintf(mapped, sizeof mapped, "::ffff:%s", my_ip());
  struct sockaddr_in6 nobody = address6(mapped, 0), any = address6("::", 0);
  int fd = stream6(), bound = stream6(), on = 1;
  nobody.sin6_port = unserved_address().sin_port;
  SYS(bind(fd, A(any)));
  FAILS(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on), EINVAL);
  FAILS(connect(fd, A(nobody)), ECONNREFUSED);
  for (; on >= 0; on--) {
    set(fd, IPPROTO_IPV6, IPV6_V6ONLY, on);
    IS(option(fd, IPPROTO_IPV6, IPV6_V6ONLY), on);
  }
  set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
  SYS(setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0, sizeof on));
  IS(option(fd, IPPROTO_IPV6, IPV6_V6ONLY), 0);
  any.sin6_port = unserved_address().sin_port;
  SYS(bind(bound, A(any)));
  FAILS(connect(bound, A(nobody)), ECONNREFUSED);
  FAILS(setsockopt(bound, IPPROTO_IPV6, IPV6_V6ONLY, &(int){1}, sizeof on), EINVAL);
}

/* How many bytes there are is asked while an error is on its way: it stays to be told. */
static void counting_takes_no_error(void) {
  struct sockaddr_in a = unserved_address(), b = unserved_address();
  for (int i = 0; i < 200; i++) {
    int fd = datagram(), held = -1;
    SYS(connect(fd, A(a)));
    /* Of what is sent to others it is told nothing. */
    IS(sendto(fd, "x", 1, 0, A(b)), 1);
    if (i % 2)
      SYS(shutdown(fd, SHUT_RD));
    /* Nobody is awake any more that could be quick. */
    sleep_ms(2);
    IS(send(fd, "x", 1, 0), 1);
    double began = now();
    while (!(ready(fd, POLLIN, 0) & POLLERR)) {
      SYS(ioctl(fd, FIONREAD, &held));
      IS(held, 0);
      OK(now() - began < 10);
    }
    IS(option(fd, SOL_SOCKET, SO_ERROR), ECONNREFUSED);
    SYS(close(fd));
  }
}

/* A connection that was made and reset before a call has told of it: the reset is what is told,
 * without a look in between, and then another attempt may be made, by a child, too. */
static void reset_before_it_was_told_of(void) {
  for (int how = 0; how < 8; how++) {
    int listener = my_listener(8), other = my_listener(8);
    struct sockaddr_in a = name_of(listener), b = name_of(other), to = unserved_address();
    int fd = SYS(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    FAILS(connect(fd, A(a)), EINPROGRESS);
    IS(ready(fd, POLLOUT, 10000), POLLOUT);
    SYS(fcntl(fd, F_SETFL, 0));
    if (how & 1)
      SYS(shutdown(listener, SHUT_RD));
    else
      SYS(close(listener));
    if (how & 2)
      IS(option(fd, SOL_SOCKET, SO_ERROR), ECONNRESET);
    FAILS(connect(fd, A(a)), how & 2 ? ECONNABORTED : ECONNRESET);
    pid_t child = how & 4 ? SYS(fork()) : 0;
    if (!child) {
      FAILS(connect(fd, A(to)), ECONNREFUSED);
      SYS(connect(fd, A(b)));
      int far = SYS(accept(other, 0, 0));
      send_all(far, "x", 1);
      char c;
      receive_all(fd, &c, 1);
      if (how & 4)
        _exit(0);
    }
    int status = 0;
    if (child)
      SYS(waitpid(child, &status, 0));
    IS(status, 0);
    SYS(close(fd));
  }
}

/* A socket of IPv6 that was bound to the wildcard keeps that of IPv4 from others while it is
 * connected, and no other address of IPv4. */
static void keeps_the_wildcard_of_ipv4(void) {
  for (int only = 0; only < 2; only++) {
    int fd = stream6(), other = stream(), listener = stream6();
    struct sockaddr_in a = unserved_address(), all = address("0.0.0.0", 0);
    struct sockaddr_in6 any = address6("::", 0), to = address6(my_ip6(), 0);
    socklen_t n = sizeof to;
    any.sin6_port = all.sin_port = a.sin_port;
    SYS(bind(listener, A(to)));
    SYS(listen(listener, 8));
    SYS(getsockname(listener, (struct sockaddr *)&to, &n));
    set(fd, IPPROTO_IPV6, IPV6_V6ONLY, only);
    SYS(bind(fd, A(any)));
    SYS(connect(fd, A(to)));
    if (!only)
      FAILS(bind(other, A(all)), EADDRINUSE);
    SYS(bind(other, only ? (struct sockaddr *)&all : (struct sockaddr *)&a, sizeof a));
  }
}

/* A listener at an address of IPv6, disconnected, stays there, and leaves the wildcard of IPv4 to
 * others. */
static void disconnected_at_an_address_of_ipv6(void) {
  struct sockaddr_in a = unserved_address(), all = address("0.0.0.0", 0);
  struct sockaddr_in6 at = address6(my_ip6(), 0), named;
  socklen_t n = sizeof named;
  at.sin6_port = all.sin_port = a.sin_port;
  int fd = stream6(), other = stream();
  SYS(bind(fd, A(at)));
  SYS(listen(fd, 8));
  disconnect(fd);
  SYS(getsockname(fd, (struct sockaddr *)&named, &n));
  OK(memcmp(&named.sin6_addr, &at.sin6_addr, sizeof at.sin6_addr) == 0);
  IS(named.sin6_port, at.sin6_port);
  SYS(bind(other, A(all)));
  FAILS(bind(stream6(), A(at)), EADDRINUSE);
}

/* A datagram socket of IPv6 that was connected by IPv6 sends by IPv4 when it is connected so, goes on
 * showing the address that it had, and goes back. (What is answered by IPv4 Linux loses.) */
static void connected_by_either_version(void) {
  struct sockaddr_in6 local, to = address6(my_ip6(), 0), mapped = {.sin6_family = AF_INET6}, from;
  struct sockaddr_in to4 = address(my_ip(), 0);
  int far6 = SYS(socket(AF_INET6, SOCK_DGRAM, 0)), far4 = datagram();
  int fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  char c, text[INET6_ADDRSTRLEN] = "::ffff:";
  SYS(bind(far6, A(to)));
  SYS(bind(far4, A(to4)));
  socklen_t n = sizeof to;
  SYS(getsockname(far6, (struct sockaddr *)&to, &n));
  to4 = name_of(far4);
  OK(inet_ntop(AF_INET, &to4.sin_addr, text + 7, sizeof text - 7));
  IS(inet_pton(AF_INET6, text, &mapped.sin6_addr), 1);
  mapped.sin6_port = to4.sin_port;
  SYS(connect(fd, A(to)));
  for (int i = 0; i < 3; i++) {
    SYS(connect(fd, A(mapped)));
    n = sizeof local;
    SYS(getsockname(fd, (struct sockaddr *)&local, &n));
    OK(memcmp(&local.sin6_addr, &to.sin6_addr, sizeof to.sin6_addr) == 0);
    IS(send(fd, "4", 1, 0), 1);
    struct sockaddr_in from4;
    n = sizeof from4;
    IS(recvfrom(far4, &c, 1, 0, (struct sockaddr *)&from4, &n), 1);
    OK(from4.sin_addr.s_addr == to4.sin_addr.s_addr);
    IS(from4.sin_port, local.sin6_port);
    SYS(connect(fd, A(to)));
    IS(send(fd, "6", 1, 0), 1);
    n = sizeof from;
    IS(recvfrom(far6, &c, 1, 0, (struct sockaddr *)&from, &n), 1);
    OK(memcmp(&from.sin6_addr, &to.sin6_addr, sizeof to.sin6_addr) == 0);
    IS(from.sin6_port, local.sin6_port);
    IS(sendto(far6, "7", 1, 0, A(from)), 1);
    IS(recv(fd, &c, 1, 0), 1);
    IS(c, '7');
    IS(sendto(fd, "8", 1, 0, A(mapped)), 1);
    n = sizeof from4;
    IS(recvfrom(far4, &c, 1, 0, (struct sockaddr *)&from4, &n), 1);
    OK(from4.sin_addr.s_addr == to4.sin_addr.s_addr);
  }
  disconnect(fd);
  SYS(connect(fd, A(mapped)));
  n = sizeof local;
  SYS(getsockname(fd, (struct sockaddr *)&local, &n));
  OK(memcmp(&local.sin6_addr, &mapped.sin6_addr, sizeof to.sin6_addr) == 0);
  FAILS(connect(fd, A(to)), EAFNOSUPPORT);
}

/* What a child has disconnected is its parent's, too, and tells that of what becomes of it. */
static void disconnected_by_a_child(void) {
  struct sockaddr_in to = unserved_address();
  for (int i = 0; i < 60; i++) {
    int listener = my_listener(8), fd = stream(), done[2], end[2];
    struct sockaddr_in a = name_of(listener);
    SYS(connect(fd, A(a)));
    int accepted = SYS(accept(listener, 0, 0));
    SYS(close(listener));
    SYS(pipe(done));
    SYS(pipe(end));
    pid_t child = SYS(fork());
    char c;
    if (!child) {
      disconnect(accepted);
      SYS(write(done[1], "d", 1));
      SYS(close(end[1]));
      IS(read(end[0], &c, 1), 0);
      _exit(0);
    }
    receive_all(done[0], &c, 1);
    IS(ready(accepted, POLLIN | POLLOUT, 0), POLLOUT | POLLERR | POLLHUP);
    SYS(close(end[1]));
    SYS(waitpid(child, 0, 0));
    nonblocking(accepted);
    FAILS(connect(accepted, A(to)), EINPROGRESS);
    IS(ready(accepted, POLLIN | POLLOUT, 10000), POLLIN | POLLOUT | POLLERR | POLLHUP);
    IS(ready(fd, POLLIN, 10000) & POLLERR, POLLERR);
    SYS(close(fd));
    SYS(close(accepted));
    SYS(close(done[0]));
    SYS(close(done[1]));
    SYS(close(end[0]));
  }
}

const struct check CHECKS[] = {
    {"listens_after_a_refused_connect", listens_after_a_refused_connect},
    {"is_bound_after_a_refused_connect", is_bound_after_a_refused_connect},
    {"is_bound_before_it_is_told", is_bound_before_it_is_told},
    {"is_bound_when_it_is_over", is_bound_when_it_is_over},
    {"is_bound_with_data_unread", is_bound_with_data_unread},
    {"is_as_new_when_it_is_told", is_as_new_when_it_is_told},
    {"forgets_its_address_with_a_port_of_another", forgets_its_address_with_a_port_of_another},
    {"no_peer_when_both_have_ended", no_peer_when_both_have_ended},
    {"no_peer_of_its_own", no_peer_of_its_own},
    {"no_peer_once_both_have_ended", no_peer_once_both_have_ended},
    {"a_listener_listens_again", a_listener_listens_again},
    {"a_listener_connects", a_listener_connects},
    {"shut_down_unconnected", shut_down_unconnected},
    {"a_reset_after_the_end", a_reset_after_the_end},
    {"connected_and_over", connected_and_over},
    {"peeks_and_throws_away", peeks_and_throws_away},
    {"gives_a_port_back_with_its_peer", gives_a_port_back_with_its_peer},
    {"bound_by_a_failed_send", bound_by_a_failed_send},
    {"a_file_as_a_datagram", a_file_as_a_datagram},
    {"an_error_that_is_not_asked_for", an_error_that_is_not_asked_for},
    {"lingers_with_data_unread", lingers_with_data_unread},
    {"receives_after_a_shutdown", receives_after_a_shutdown},
    {"mapped_wildcard", mapped_wildcard},
    {"version_of_what_is_bound", version_of_what_is_bound},
    {"bound_by_no_family", bound_by_no_family},
    {"registered_under_another_descriptor", registered_under_another_descriptor},
    {"bound_by_a_child", bound_by_a_child},
    {"connected_from_the_wildcard", connected_from_the_wildcard},
    {"gives_its_port_back_when_reset", gives_its_port_back_when_reset},
    {"connects_again_from_its_address", connects_again_from_its_address},
    {"connects_from_the_port_of_a_listener", connects_from_the_port_of_a_listener},
    {"reads_nothing_of_an_urgent_byte", reads_nothing_of_an_urgent_byte},
    {"bound_by_a_failed_connect", bound_by_a_failed_connect},
    {"begun_by_one_that_is_shut_down", begun_by_one_that_is_shut_down},
    {"begun_before_it_has_a_peer", begun_before_it_has_a_peer},
    {"begun_by_the_other_version", begun_by_the_other_version},
    {"listens_again_under_two_descriptors", listens_again_under_two_descriptors},
    {"looks_for_all_at_once", looks_for_all_at_once},
    {"begins_anew_without_a_peer", begins_anew_without_a_peer},
    {"receives_an_error_before_messages", receives_an_error_before_messages},
    {"splices_to_what_is_shut_down", splices_to_what_is_shut_down},
    {"used_again_by_a_child", used_again_by_a_child},
    {"no_limit_after_listening", no_limit_after_listening},
    {"bound_shut_and_disconnected", bound_shut_and_disconnected},
    {"disconnected_and_connected", disconnected_and_connected},
    {"ended_by_both_and_disconnected", ended_by_both_and_disconnected},
    {"bound_to_all_after_a_refused_connect", bound_to_all_after_a_refused_connect},
    {"keeps_its_address_until_it_is_told", keeps_its_address_until_it_is_told},
    {"has_all_addresses_when_it_gives_up", has_all_addresses_when_it_gives_up},
    {"serves_all_after_a_refused_connect", serves_all_after_a_refused_connect},
    {"serves_all_at_another_port", serves_all_at_another_port},
    {"registered_under_a_descriptor_that_is_gone", registered_under_a_descriptor_that_is_gone},
    {"stream_registered_under_a_descriptor_that_is_gone", stream_registered_under_a_descriptor_that_is_gone},
    {"version_after_listening", version_after_listening},
    {"version_after_a_refusal", version_after_a_refusal},
    {"counting_takes_no_error", counting_takes_no_error},
    {"reset_before_it_was_told_of", reset_before_it_was_told_of},
    {"disconnected_at_an_address_of_ipv6", disconnected_at_an_address_of_ipv6},
    {"connected_by_either_version", connected_by_either_version},
    {"disconnected_by_a_child", disconnected_by_a_child},
    {"keeps_the_wildcard_of_ipv4", keeps_the_wildcard_of_ipv4},
    {0, 0},
};
