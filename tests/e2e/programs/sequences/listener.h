/* What may be done to a listener and by those who call it, and what is seen of either afterwards. */

enum { MOST_CALLERS = 5, MOST_ACCEPTED = 5 };

/* Those who have called, and the connections that were accepted, in the order in which they did. */
static struct {
  int callers[MOST_CALLERS], accepted[MOST_ACCEPTED];
  int called, taken;
} calls;

static void begin_listener(void) {
  union address at = address_of(loopback(), 0);
  scene.fd = socket(far.family, SOCK_STREAM | SOCK_NONBLOCK, 0);
  scene.other = -1;
  calls.called = calls.taken = 0;
  if (scene.fd < 0 || bind(scene.fd, &at.any, size_of(&at)) || listen(scene.fd, 5))
    fail("a listener");
  scene.epoll = epoll_create1(0);
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP};
  if (epoll_ctl(scene.epoll, EPOLL_CTL_ADD, scene.fd, &event))
    fail("scene");
}

static void end_listener(void) {
  for (int i = 0; i < calls.called; i++)
    close_hard(calls.callers[i]);
  for (int i = 0; i < calls.taken; i++)
    close_hard(calls.accepted[i]);
}

/* Where a queue is full, nobody answers. */
static void do_be_called(void) {
  union address at = address_of(loopback(), port_of(scene.fd));
  struct timeval soon = {.tv_usec = 20000};
  int fd = socket(far.family, SOCK_STREAM, 0);
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof soon);
  say_result(at.v4.sin_port ? connect(fd, &at.any, size_of(&at)) : 0);
  calls.callers[calls.called++] = fd;
}

/* Whoever has called last. */
static int caller(void) { return calls.called ? calls.callers[calls.called - 1] : -1; }

static void do_caller_sends(void) {
  say_result(send(caller(), "bytes", BYTES, MSG_NOSIGNAL | MSG_DONTWAIT));
}
static void do_caller_ends(void) { say_result(shutdown(caller(), SHUT_WR)); }
static void do_caller_closes(void) {
  if (calls.called)
    close(calls.callers[--calls.called]);
}
static void do_caller_resets(void) {
  if (calls.called)
    close_hard(calls.callers[--calls.called]);
}
static void do_take(void) {
  int fd = accept_one();
  if (fd >= 0)
    calls.accepted[calls.taken++] = fd;
}
static void do_take_and_reset(void) { close_hard(accept_one()); }
/* A new socket is in its place. */
static void do_close_listener(void) {
  close(scene.fd);
  scene.fd = socket(far.family, SOCK_STREAM | SOCK_NONBLOCK, 0);
}
static void do_listen_for_one(void) { say_result(listen(scene.fd, 0)); }

static const struct operation listener_operations[] = {
    {"be called", do_be_called, ANY},
    {"the caller sends", do_caller_sends, ANY},
    {"the caller ends", do_caller_ends, ANY},
    {"the caller closes", do_caller_closes, ANY},
    {"the caller resets", do_caller_resets, ANY},
    {"accept", do_take, ANY},
    {"accept and reset", do_take_and_reset, ANY},
    {"listen", do_listen, ANY},
    {"listen for one", do_listen_for_one, ANY},
    {"shut R", do_our_shut_read, ANY},
    {"shut W", do_our_shut_write, ANY},
    {"shut both", do_shut_both, ANY},
    {"disconnect", do_forget, ANY},
    {"close", do_close_listener, ANY},
    no_operation,
};

/* --- what is seen ----------------------------------------------------------------- */

/* What calls say of one end of a connection. */
static void look_at_end(int fd) {
  int was = scene.fd;
  scene.fd = fd;
  look_poll();
  look_recv_twice();
  look_error();
  look_getpeername();
  scene.fd = was;
}

static void look_at_callers(void) {
  for (int i = 0; i < calls.called; i++)
    look_at_end(calls.callers[i]);
}

/* All that waits is accepted, and one call more. */
static void look_accept(void) {
  int before;
  do {
    before = calls.taken;
    do_take();
  } while (calls.taken > before);
  for (int i = 0; i < calls.taken; i++)
    look_at_end(calls.accepted[i]);
}

static void look_call(void) {
  do_be_called();
  look_at_end(caller());
  look_epoll();
  do_take();
}
