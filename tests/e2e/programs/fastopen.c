/* Fast Open (RFC 7413): data on the SYN, by those who open and those who listen. */
#include "check.h"

/* Whether data went with this connection's SYN and were taken. */
static int with_the_syn(int fd, int raw) {
  struct tcp_info info;
  socklen_t n = sizeof info;
  memset(&info, 0, sizeof info);
  SYS(raw ? syscall(SYS_getsockopt, fd, IPPROTO_TCP, TCP_INFO, &info, &n)
          : getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n));
  return (info.tcpi_options & TCPI_OPT_SYN_DATA) != 0;
}

/* Why the SYN of this connection delivered no data: tcpi_fastopen_client_fail, which the C
 * library's header does not have. */
static int failure(int fd) {
  unsigned char info[8] = {0};
  socklen_t n = sizeof info;
  SYS(getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &n));
  return info[7] >> 1 & 3;
}

/* Only between two stacks are there SYNs for sure. */
static void went_with_the_syn(int fd, int raw, int expected) {
  if (far_in_kernel())
    IS(with_the_syn(fd, raw), expected);
}

static int far_fast_listener(struct sockaddr_in *at) {
  int fd = far_listener(8);
  SYS(far_option(fd, IPPROTO_TCP, TCP_FASTOPEN, 8));
  *at = far_name(fd);
  return fd;
}

static int stream(void) { return SYS(socket(AF_INET, SOCK_STREAM, 0)); }

/* One exchange over a connection that is opened by `text`. */
static void talk(int fd, int far, const char *text) {
  char buf[64];
  receive_all(far, buf, strlen(text));
  OK(memcmp(buf, text, strlen(text)) == 0);
  send_all(far, "answer", 6);
  receive_all(fd, buf, 6);
  OK(memcmp(buf, "answer", 6) == 0);
}

static void over(int fd, int far) {
  SYS(close(fd));
  SYS(close(far));
}

/* What is said of data on the SYN when nothing is. */
enum { EITHER = -1 };

/* Whether data goes with the SYN of a round: of the first it may not, which may have to
 * ask for the cookie. */
static int from_the_second(int round) { return round ? 1 : EITHER; }

/* A connection to `listener` that begins with "request" is served, and over. */
static void served(int fd, int listener, int with_syn) {
  int far = far_accept(listener);
  talk(fd, far, "request");
  if (with_syn != EITHER)
    went_with_the_syn(fd, 0, with_syn);
  if (with_syn == 1 && far_in_kernel())
    IS(failure(fd), 0);
  over(fd, far);
}

enum { MUCH = 100000 };
static unsigned char much[MUCH];

/* Of `much`, so much was sent by what opens a connection to `listener`: all of it
 * arrives. */
static void much_arrives(int fd, int listener, size_t sent) {
  static unsigned char in[MUCH];
  int far = far_accept(listener);
  send_all(fd, much + sent, sizeof much - sent);
  receive_all(far, in, sizeof in);
  check_pattern(in, sizeof in, 0);
  over(fd, far);
}

static void a_cookie_is_asked_for_and_used_by_sendto(void) {
  struct sockaddr_in there;
  int listener = far_fast_listener(&there);
  for (int round = 0; round < 3; round++) {
    int fd = stream();
    IS(sendto(fd, "request", 7, MSG_FASTOPEN, A(there)), 7);
    served(fd, listener, from_the_second(round));
  }
}

static void connect_waits_for_the_first_write(void) {
  struct sockaddr_in there;
  int listener = far_fast_listener(&there);
  for (int round = 0; round < 3; round++) {
    int fd = stream();
    set(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
    SYS(connect(fd, A(there)));
    /* With a cookie there is no connection yet. */
    struct sockaddr_in peer;
    socklen_t n = sizeof peer;
    if (round && far_in_kernel())
      FAILS(getpeername(fd, (struct sockaddr *)&peer, &n), ENOTCONN);
    IS(write(fd, "request", 7), 7);
    served(fd, listener, from_the_second(round));
  }
}

static void more_than_a_syn_takes(void) {
  struct sockaddr_in there;
  int listener = far_fast_listener(&there);
  pattern(much, sizeof much, 0);
  for (int round = 0; round < 2; round++) {
    int fd = stream();
    much_arrives(fd, listener, SYS(sendto(fd, much, sizeof much, MSG_FASTOPEN, A(there))));
  }
}

/* A blocking write waits for what does not go with the SYN. */
static void a_write_past_the_syn_waits(void) {
  struct sockaddr_in there;
  int listener = far_fast_listener(&there);
  pattern(much, sizeof much, 0);
  for (int round = 0; round < 2; round++) {
    int fd = stream();
    set(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 1);
    SYS(connect(fd, A(there)));
    IS(write(fd, much, sizeof much), sizeof much);
    much_arrives(fd, listener, sizeof much);
  }
}

static void sendto_that_does_not_wait(void) {
  struct sockaddr_in there;
  int listener = far_fast_listener(&there);
  for (int round = 0; round < 3; round++) {
    int fd = stream();
    ssize_t sent = sendto(fd, "request", 7, MSG_FASTOPEN | MSG_DONTWAIT, A(there));
    /* Without a cookie, nothing was sent yet. */
    if (sent == -1) {
      OK(errno == EINPROGRESS);
      OK(!(round && far_in_kernel()));
      IS(ready(fd, POLLOUT, 5000), POLLOUT);
      sent = SYS(write(fd, "request", 7));
    }
    IS(sent, 7);
    served(fd, listener, EITHER);
  }
}

/* A call that did not wait has not told that the connection is made: the next one that would
 * connect does, and then sends. */
static void the_first_one_after_the_handshake_sends(void) {
  struct sockaddr_in there;
  int listener = far_fast_listener(&there);
  for (int round = 0; round < 3; round++) {
    int fd = stream();
    SYS(fcntl(fd, F_SETFL, O_NONBLOCK));
    ssize_t sent = sendto(fd, "request", 7, MSG_FASTOPEN, A(there));
    OK(sent == 7 || errno == EINPROGRESS);
    int far = far_accept(listener);
    IS(ready(fd, POLLOUT, 5000), POLLOUT);
    send_all(far, "x", 1);
    char c;
    IS(ready(fd, POLLIN, 5000), POLLIN);
    IS(recv(fd, &c, 1, 0), 1);
    IS(sendto(fd, "request", 7, MSG_FASTOPEN, A(there)), 7);
    FAILS(sendto(fd, "request", 7, MSG_FASTOPEN, A(there)), EISCONN);
    char got[14];
    receive_all(far, got, sent == 7 ? 14 : 7);
    SYS(close(fd)), SYS(close(far));
  }
}

static void nobody_listens(void) {
  int fd = far_listener(1);
  struct sockaddr_in gone = far_name(fd);
  SYS(close(fd));
  fd = stream();
  FAILS(sendto(fd, "request", 7, MSG_FASTOPEN, A(gone)), ECONNREFUSED);
}

static void who_is_connected_does_not_open(void) {
  EACH_PAIR(mine, far) {
    struct sockaddr_in there = peer_of(mine);
    FAILS(sendto(mine, "request", 7, MSG_FASTOPEN, A(there)), EISCONN);
    talk(mine, far, "");
  }
}

static void a_listener_that_does_not_know_of_it(void) {
  int listener = far_listener(8);
  struct sockaddr_in there = far_name(listener);
  for (int round = 0; round < 2; round++) {
    int fd = stream();
    IS(sendto(fd, "request", 7, MSG_FASTOPEN, A(there)), 7);
    /* Without a cookie; or, with one, the data were not acknowledged. */
    IS(ready(fd, POLLOUT, 10000), POLLOUT);
    OK(!far_in_kernel() || failure(fd) == 1 || failure(fd) == 2);
    served(fd, listener, 0);
  }
}

/* The far end opens. */
static int far_opens(struct sockaddr_in to, const char *text) {
  int fd = far_socket(SOCK_STREAM);
  ssize_t n = strlen(text);
  IS(far_in_kernel() ? syscall(SYS_sendto, fd, text, n, MSG_FASTOPEN, &to, sizeof to)
                     : sendto(fd, text, n, MSG_FASTOPEN, A(to)),
     n);
  return fd;
}

/* The far end opens by "request", is answered, and it is over. */
static void serves(int listener, int with_syn) {
  int far = far_opens(name_of(listener), "request");
  int fd = SYS(accept(listener, 0, 0));
  talk(far, fd, "request");
  if (with_syn != EITHER) {
    went_with_the_syn(fd, 0, with_syn);
    went_with_the_syn(far, 1, with_syn);
  }
  over(fd, far);
}

static void a_listener_gives_cookies_and_takes_them(void) {
  int listener = my_listener(8);
  set(listener, IPPROTO_TCP, TCP_FASTOPEN, 8);
  IS(option(listener, IPPROTO_TCP, TCP_FASTOPEN), 8);
  for (int round = 0; round < 3; round++)
    serves(listener, from_the_second(round));
}

static void readable_as_soon_as_it_is_accepted(void) {
  int listener = my_listener(8);
  set(listener, IPPROTO_TCP, TCP_FASTOPEN, 8);
  for (int round = 0; round < 2; round++) {
    int far = far_opens(name_of(listener), "request");
    IS(ready(listener, POLLIN, 10000), POLLIN);
    int fd = SYS(accept4(listener, 0, 0, SOCK_NONBLOCK));
    char buf[16];
    if (round && far_in_kernel())
      IS(read(fd, buf, sizeof buf), 7);
    over(fd, far);
  }
}

static void a_listener_without_it_takes_the_connection(void) {
  int listener = my_listener(8);
  for (int round = 0; round < 2; round++)
    serves(listener, 0);
}

const struct check CHECKS[] = {
    {"a_cookie_is_asked_for_and_used_by_sendto", a_cookie_is_asked_for_and_used_by_sendto},
    {"connect_waits_for_the_first_write", connect_waits_for_the_first_write},
    {"more_than_a_syn_takes", more_than_a_syn_takes},
    {"a_write_past_the_syn_waits", a_write_past_the_syn_waits},
    {"sendto_that_does_not_wait", sendto_that_does_not_wait},
    {"the_first_one_after_the_handshake_sends", the_first_one_after_the_handshake_sends},
    {"nobody_listens", nobody_listens},
    {"who_is_connected_does_not_open", who_is_connected_does_not_open},
    {"a_listener_that_does_not_know_of_it", a_listener_that_does_not_know_of_it},
    {"a_listener_gives_cookies_and_takes_them", a_listener_gives_cookies_and_takes_them},
    {"readable_as_soon_as_it_is_accepted", readable_as_soon_as_it_is_accepted},
    {"a_listener_without_it_takes_the_connection", a_listener_without_it_takes_the_connection},
    {0, 0},
};
