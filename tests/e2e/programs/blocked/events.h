/* What happens while a call waits: by another thread, a signal, another process or the far end. */
#ifndef EVENTS_H
#define EVENTS_H
#include "calls.h"

/* The thread whose call waits. */
static pthread_t waiting_thread;

static void set_linger(int fd) {
  setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
}

static void send_three(void) {
  must(send(scene.peer, "xyz", 3, 0), "send");
}

/* Time for a thread that has been woken to see it before the next event. */
static void let_it_see(void) {
  sleep_for(20);
}

static void nothing(void) {}

static void comes(void) {
  send_three();
}

static void comes_little(void) {
  must(send(scene.peer, "x", 1, 0), "send");
}

static void comes_nothing(void) {
  must(send(scene.peer, "", 0, 0), "send");
}

static void comes_urgent(void) {
  must(send(scene.peer, "u", 1, MSG_OOB), "send");
}

static void comes_below_mark(void) {
  setsockopt(scene.fd, SOL_SOCKET, SO_RCVLOWAT, &(int){5}, sizeof(int));
  send_three();
}

static void peer_ends(void) {
  shutdown(scene.peer, SHUT_WR);
}

static void peer_sends_and_ends(void) {
  send_three();
  let_it_see();
  shutdown(scene.peer, SHUT_WR);
}

static void peer_reads_no_more(void) {
  shutdown(scene.peer, SHUT_RD);
}

static void peer_closes(void) {
  close(scene.peer);
  scene.peer = -1;
}

static void peer_sends_and_closes(void) {
  send_three();
  let_it_see();
  peer_closes();
}

static void peer_resets(void) {
  set_linger(scene.peer);
  peer_closes();
}

static void peer_sends_and_resets(void) {
  send_three();
  let_it_see();
  peer_resets();
}

static void peer_reads(void) {
  drain(scene.peer);
}

/* What it sends is refused. */
static void is_refused(void) {
  peer_closes();
  must(send(scene.fd, "x", 1, 0), "send");
}

static void is_connected_to(void) {
  int fd = must(socket(AF_INET, SOCK_STREAM, 0), "socket");
  must(connect(fd, (void *)&scene.at, sizeof scene.at), "connect");
}

static void shuts_down(int how) {
  shutdown(scene.fd, how);
}

static void shuts_in(void) {
  shuts_down(SHUT_RD);
}

static void shuts_out(void) {
  shuts_down(SHUT_WR);
}

static void shuts_both(void) {
  shuts_down(SHUT_RDWR);
}

static void closes(void) {
  close(scene.fd);
}

/* Not the last descriptor of it. */
static void closes_one(void) {
  must(dup(scene.fd), "dup");
  close(scene.fd);
}

static void replaces_by_null(void) {
  int null = open("/dev/null", O_RDWR);
  must(dup2(null, scene.fd), "dup2");
}

static void replaces_by_ready(void) {
  must(dup2(scene.ready, scene.fd), "dup2");
}

static void becomes_nonblocking(void) {
  must(fcntl(scene.fd, F_SETFL, O_NONBLOCK), "fcntl");
}

/* The call was begun as one that waits, and goes on so. */
static void nonblocking_and(void (*what)(void)) {
  becomes_nonblocking();
  let_it_see();
  what();
}

static void nonblocking_and_it_comes(void) {
  nonblocking_and(send_three);
}

static void nonblocking_and_shut_in(void) {
  nonblocking_and(shuts_in);
}

static void nonblocking_and_shut(void) {
  nonblocking_and(shuts_both);
}

static void nonblocking_and_peer_ends(void) {
  nonblocking_and(peer_ends);
}

static void nonblocking_and_peer_reads(void) {
  nonblocking_and(peer_reads);
}

static void nonblocking_and_connected_to(void) {
  nonblocking_and(is_connected_to);
}

static void gets_a_limit(void) {
  setsockopt(scene.fd, SOL_SOCKET, SO_RCVTIMEO, &(struct timeval){.tv_usec = 1000},
             sizeof(struct timeval));
}

/* Not of a connection, of which Linux says EPIPE since 6.7, and ECONNRESET before. */
static void is_disconnected(void) {
  connect(scene.fd, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr));
}

static void listens_again(void) {
  listen(scene.fd, 1);
}

static void in_a_child(void (*what)(void)) {
  pid_t child = fork();
  if (child == 0) {
    what();
    _exit(0);
  }
  waitpid(child, 0, 0);
}

static void child_exits(void) {
  in_a_child(nothing);
}

static void child_shuts(void) {
  in_a_child(shuts_both);
}

static void child_closes_and_it_comes(void) {
  in_a_child(closes);
  send_three();
}

static void child_sends(void) {
  in_a_child(send_three);
}

static void child_connects(void) {
  in_a_child(is_connected_to);
}

static void (*in_handler)(void);

static void handle(int signal) {
  (void)signal;
  in_handler();
}

static void signals(int flags, void (*what)(void)) {
  struct sigaction action = {.sa_handler = handle, .sa_flags = flags};
  in_handler = what;
  sigaction(SIGUSR1, &action, 0);
  pthread_kill(waiting_thread, SIGUSR1);
}

static void signal_interrupts(void) {
  signals(0, nothing);
}

static void signal_restarts(void) {
  signals(SA_RESTART, nothing);
}

static void handler_sends(void) {
  signals(SA_RESTART, send_three);
}

static void handler_closes(void) {
  signals(SA_RESTART, closes);
}

static void handler_shuts(void) {
  signals(SA_RESTART, shuts_both);
}

static void signal_and_it_comes(void) {
  signal_restarts();
  let_it_see();
  send_three();
}

static void comes_and_signal(void) {
  send_three();
  let_it_see();
  signal_restarts();
}

static void signal_ignored(void) {
  signal(SIGUSR1, SIG_IGN);
  pthread_kill(waiting_thread, SIGUSR1);
}

static void *cancel(void *thread) {
  pthread_cancel(waiting_thread);
  return thread;
}

static void cancelled(void) {
  cancel(0);
}

/* The sets exist when their call waits. */
static void change_set(int how, int fd, uint32_t events) {
  struct epoll_event e = {.events = events};
  epoll_ctl(scene.set, how, fd, &e);
}

/* As `change_set`; then comes what the set would have told of. */
static void change_set_and_it_comes(int how) {
  change_set(how, scene.fd, 0);
  if (scene.kind == EMPTY || scene.kind == DATAGRAM)
    send_three();
}

static void set_drops_it(void) {
  change_set_and_it_comes(EPOLL_CTL_DEL);
}

static void set_asks_for_nothing(void) {
  change_set_and_it_comes(EPOLL_CTL_MOD);
}

static void set_asks_for_out(void) {
  change_set(EPOLL_CTL_MOD, scene.fd, EPOLLOUT);
}

static void set_gets_ready(void) {
  change_set(EPOLL_CTL_ADD, scene.ready, EPOLLIN);
}

static void set_gets_ready_edge(void) {
  change_set(EPOLL_CTL_ADD, scene.ready, EPOLLIN | EPOLLET);
}

static void set_closes(void) {
  close(scene.set);
}

static const struct event {
  const char *name;
  enum kind kinds;
  void (*run)(void);
  /* With calls whose names begin so alone. */
  const char *with;
} EVENTS[] = {
    {"nothing", ANY, nothing, 0},
    {"bytes", EMPTY | DATAGRAM | FULL, comes, 0},
    {"a byte", EMPTY, comes_little, 0},
    {"an empty datagram", DATAGRAM, comes_nothing, 0},
    {"an urgent byte", EMPTY, comes_urgent, 0},
    {"bytes below a new mark", EMPTY, comes_below_mark, "poll in"},
    {"the end", EMPTY | FULL, peer_ends, 0},
    {"bytes and the end", EMPTY, peer_sends_and_ends, 0},
    {"peer shuts in", EMPTY | DATAGRAM, peer_reads_no_more, 0},
    {"peer closes", EMPTY | FULL | DATAGRAM, peer_closes, 0},
    {"bytes, peer closes", EMPTY, peer_sends_and_closes, 0},
    {"a reset", EMPTY | FULL, peer_resets, 0},
    {"bytes and a reset", EMPTY, peer_sends_and_resets, 0},
    {"peer reads", FULL, peer_reads, 0},
    {"refused", DATAGRAM, is_refused, 0},
    {"a connection", LISTENER, is_connected_to, 0},
    {"shut in", ANY, shuts_in, 0},
    {"shut out", ANY, shuts_out, 0},
    {"shut", ANY, shuts_both, 0},
    {"closed", ANY, closes, 0},
    {"one of two closed", ANY, closes_one, 0},
    {"replaced by null", ANY, replaces_by_null, 0},
    {"replaced by a ready one", ANY, replaces_by_ready, 0},
    {"non-blocking", ANY, becomes_nonblocking, 0},
    {"non-blocking, bytes", EMPTY | DATAGRAM, nonblocking_and_it_comes, 0},
    {"non-blocking, shut in", ANY, nonblocking_and_shut_in, 0},
    {"non-blocking, shut", ANY, nonblocking_and_shut, 0},
    {"non-blocking, the end", EMPTY | FULL, nonblocking_and_peer_ends, 0},
    {"non-blocking, peer reads", FULL, nonblocking_and_peer_reads, 0},
    {"non-blocking, a connection", LISTENER, nonblocking_and_connected_to, 0},
    {"a limit", EMPTY | DATAGRAM | LISTENER, gets_a_limit, 0},
    {"disconnected", DATAGRAM | LISTENER, is_disconnected, 0},
    {"listens again", LISTENER, listens_again, 0},
    {"a child exits", ANY, child_exits, 0},
    {"a child shuts", ANY, child_shuts, 0},
    {"a child closes, bytes", EMPTY | DATAGRAM, child_closes_and_it_comes, 0},
    {"a child sends", EMPTY | DATAGRAM, child_sends, 0},
    {"a child connects", LISTENER, child_connects, 0},
    {"a signal", ANY, signal_interrupts, 0},
    {"a signal that restarts", ANY, signal_restarts, 0},
    {"a handler sends", EMPTY | DATAGRAM, handler_sends, 0},
    {"a handler closes", ANY, handler_closes, 0},
    {"a handler shuts", ANY, handler_shuts, 0},
    {"a signal, bytes", EMPTY | DATAGRAM, signal_and_it_comes, 0},
    {"bytes, a signal", EMPTY | DATAGRAM, comes_and_signal, 0},
    {"a signal that is ignored", ANY, signal_ignored, 0},
    {"cancelled", ANY, cancelled, 0},
    {"the set drops it", ANY, set_drops_it, "epoll"},
    {"the set asks for nothing", ANY, set_asks_for_nothing, "epoll"},
    {"the set asks for out", ANY, set_asks_for_out, "epoll"},
    {"the set gets a ready one", ANY, set_gets_ready, "epoll"},
    {"the set gets a ready one, edge", ANY, set_gets_ready_edge, "epoll"},
    {"the set is closed", EMPTY | LISTENER | DATAGRAM, set_closes, "epoll"},
};
enum { EVENT_COUNT = sizeof EVENTS / sizeof *EVENTS };

/* What the two are not compared in. Whether poll, which looks again at what its descriptors stand
 * for when it is woken, is woken by something that it does not wait for is the stack's affair; and
 * sendmmsg looks its descriptor up for each message. */
static int is_left_out(const struct call *call, const struct event *event) {
  int changes_descriptor = event->run == closes || event->run == closes_one ||
                           event->run == replaces_by_null || event->run == replaces_by_ready;
  int may_be_woken = call->run == call_poll_nothing || call->run == call_poll_rdhup;
  return changes_descriptor && (may_be_woken || call->run == call_sendmmsg);
}

#endif
