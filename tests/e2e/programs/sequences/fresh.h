/* What may be done to a new socket of either kind and either version of IP. */

union address {
  struct sockaddr any;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
};

/* What new sockets connect to: it listens, or is a datagram socket, for as long as the program runs. */
static struct {
  int family, type, fd;
  in_port_t port;
  /* Whether the stream that is looked at has been connected by IPv4: by IPv6 Linux then waits for an
   * answer that never comes. */
  int was_reached_by_v4;
} far;

enum { NOBODY = 9 };

static socklen_t size_of(const union address *at) {
  return at->any.sa_family == AF_INET ? sizeof at->v4 : sizeof at->v6;
}

/* An address of the far end's version. */
static union address address_of(const char *ip, in_port_t port) {
  union address at = {.any = {.sa_family = far.family}};
  at.v4.sin_port = port;
  if (inet_pton(far.family, ip,
                far.family == AF_INET ? (void *)&at.v4.sin_addr : (void *)&at.v6.sin6_addr) != 1)
    fail(ip);
  return at;
}

static const char *loopback(void) { return far.family == AF_INET ? "127.0.0.1" : "::1"; }
static const char *wildcard(void) { return far.family == AF_INET ? "0.0.0.0" : "::"; }

static in_port_t port_of(int fd) {
  union address at = {0};
  socklen_t size = sizeof at;
  getsockname(fd, &at.any, &size);
  return at.v4.sin_port;
}

static void make_far(int family, int type) {
  far.family = family;
  far.type = type;
  union address at = address_of(wildcard(), 0);
  far.fd = socket(family, type | SOCK_NONBLOCK, 0);
  if (bind(far.fd, &at.any, size_of(&at)) || (type == SOCK_STREAM && listen(far.fd, 100)))
    fail("the far end");
  far.port = port_of(far.fd);
}

static void begin_fresh(void) {
  scene.fd = socket(far.family, far.type, 0);
  scene.other = -1;
  far.was_reached_by_v4 = 0;
  scene.epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP};
  if (scene.fd < 0 || epoll_ctl(scene.epoll, EPOLL_CTL_ADD, scene.fd, &event))
    fail("scene");
}

static void bind_to(const char *ip, in_port_t port) {
  union address at = address_of(ip, port);
  say_result(bind(scene.fd, &at.any, size_of(&at)));
}

/* A stream that is connected has another end, until there is a second. */
static void connect_to(const char *ip, in_port_t port) {
  union address at = address_of(ip, port);
  int is_v4 = strchr(ip, '.') != 0;
  if (far.type == SOCK_STREAM && far.family == AF_INET6 && far.was_reached_by_v4 && !is_v4)
    return;
  far.was_reached_by_v4 |= is_v4;
  int result = connect(scene.fd, &at.any, size_of(&at));
  say_result(result);
  if (far.type != SOCK_STREAM || result)
    return;
  int fd = accept(far.fd, 0, 0);
  if (fd >= 0 && scene.other >= 0)
    close_hard(fd);
  else if (fd >= 0)
    scene.other = fd;
}

static void do_bind(void) { bind_to(loopback(), 0); }
static void do_bind_any(void) { bind_to(wildcard(), 0); }
static void do_bind_far(void) { bind_to(loopback(), far.port); }
static void do_bind_mapped(void) { bind_to("::ffff:127.0.0.1", 0); }
static void do_bind_foreign(void) { bind_to(far.family == AF_INET ? "192.0.2.1" : "2001:db8::1", 0); }
static void do_connect(void) { connect_to(loopback(), far.port); }
static void do_connect_any(void) { connect_to(wildcard(), far.port); }
static void do_connect_refused(void) { connect_to(loopback(), htons(NOBODY)); }
static void do_connect_mapped(void) { connect_to("::ffff:127.0.0.1", far.port); }
static void do_connect_mapped_refused(void) { connect_to("::ffff:127.0.0.1", htons(NOBODY)); }
static void do_forget(void) { disconnect(scene.fd); }
static void do_listen(void) { say_result(listen(scene.fd, 5)); }
static void do_shut_both(void) { say_result(shutdown(scene.fd, SHUT_RDWR)); }
static void do_reuse(void) { set(SOL_SOCKET, SO_REUSEADDR, 1); }
static void do_only_6(void) { set(IPPROTO_IPV6, IPV6_V6ONLY, 1); }
static void do_both(void) { set(IPPROTO_IPV6, IPV6_V6ONLY, 0); }
/* Accepts at a socket that does not wait; which number it is says nothing. */
static int accept_one(void) {
  int fd = accept(scene.fd, 0, 0);
  say(" %s", fd < 0 ? strerrorname_np(errno) : "accepted");
  return fd;
}
static void do_accept(void) {
  fcntl(scene.fd, F_SETFL, O_NONBLOCK);
  int fd = accept_one();
  fcntl(scene.fd, F_SETFL, 0);
  close_hard(fd);
}

/* Somebody connects to the socket, or sends it a datagram: what that gives is not said. */
static void do_call(void) {
  union address at = address_of(loopback(), port_of(scene.fd));
  if (!at.v4.sin_port)
    return;
  if (scene.other < 0)
    scene.other = socket(far.family, far.type | SOCK_NONBLOCK, 0);
  if (far.type == SOCK_STREAM)
    connect(scene.other, &at.any, size_of(&at));
  else
    sendto(far.fd, "datagram", 8, 0, &at.any, size_of(&at));
}

static void send_to(const char *ip, in_port_t port) {
  union address at = address_of(ip, port);
  say_result(sendto(scene.fd, "sent", 4, MSG_DONTWAIT | MSG_NOSIGNAL, &at.any, size_of(&at)));
}
static void do_send_to(void) { send_to(loopback(), far.port); }
static void do_send_refused(void) { send_to(loopback(), htons(NOBODY)); }
static void do_send_mapped(void) { send_to("::ffff:127.0.0.1", far.port); }

#define OF_STREAMS                                                                                 \
  {"bind", do_bind, ANY}, {"bind to all", do_bind_any, ANY}, {"connect", do_connect, ANY},         \
      {"be refused", do_connect_refused, ANY}, {"disconnect", do_forget, ANY},                     \
      {"listen", do_listen, ANY}, {"be called", do_call, ANY}, {"shut W", do_our_shut_write, ANY}, \
      {"shut both", do_shut_both, ANY}

static const struct operation stream_operations[] = {
    OF_STREAMS,
    {"bind to a taken port", do_bind_far, ANY},
    {"bind to nowhere", do_bind_foreign, ANY},
    {"connect to all", do_connect_any, ANY},
    {"SO_REUSEADDR", do_reuse, ANY},
    {"accept", do_accept, ANY},
    {"shut R", do_our_shut_read, ANY},
    {"other closes", do_close, ENDS_OTHER},
    no_operation,
};
static const struct operation stream6_operations[] = {
    OF_STREAMS,
    {"bind to v4", do_bind_mapped, ANY},
    {"connect to v4", do_connect_mapped, ANY},
    {"v6 only", do_only_6, ANY},
    {"both", do_both, ANY},
    no_operation,
};

#define OF_DATAGRAMS                                                                           \
  {"bind", do_bind, ANY}, {"bind to all", do_bind_any, ANY}, {"connect", do_connect, ANY},     \
      {"connect to nobody", do_connect_refused, ANY}, {"disconnect", do_forget, ANY},          \
      {"get one", do_call, ANY}, {"send", do_our_send, ANY}, {"send to", do_send_to, ANY},     \
      {"send to nobody", do_send_refused, ANY}, {"read", do_our_read, ANY},                    \
      {"shut both", do_shut_both, ANY}

static const struct operation datagram_operations[] = {
    OF_DATAGRAMS,
    {"bind to a taken port", do_bind_far, ANY},
    {"bind to nowhere", do_bind_foreign, ANY},
    {"connect to all", do_connect_any, ANY},
    {"SO_REUSEADDR", do_reuse, ANY},
    {"listen", do_listen, ANY},
    {"shut R", do_our_shut_read, ANY},
    {"shut W", do_our_shut_write, ANY},
    no_operation,
};
static const struct operation datagram6_operations[] = {
    OF_DATAGRAMS,
    {"bind to v4", do_bind_mapped, ANY},
    {"connect to v4", do_connect_mapped, ANY},
    {"be refused by v4", do_connect_mapped_refused, ANY},
    {"send to v4", do_send_mapped, ANY},
    {"v6 only", do_only_6, ANY},
    {"both", do_both, ANY},
    no_operation,
};
