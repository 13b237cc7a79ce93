/* pthread_cancel: which calls on sockets end a thread, and what it leaves behind. */
#include "check.h"
#include <sched.h>

/* A call that waits, and what it waits on. */
struct waits {
  const char *name;
  void *(*run)(void *);
  int fd;
  volatile pid_t thread;
  volatile int cleaned;
  volatile int returned;
};

static void cleanup(void *arg) { ((struct waits *)arg)->cleaned = 1; }

/* `call` runs in a thread that has something to clean up. */
#define THREAD(name, call)                                                     \
  static void *name(void *arg) {                                               \
    struct waits *w = arg;                                                     \
    int fd = w->fd;                                                            \
    (void)fd;                                                                  \
    pthread_cleanup_push(cleanup, w);                                          \
    w->thread = syscall(SYS_gettid);                                           \
    call;                                                                      \
    w->returned = 1;                                                           \
    pthread_cleanup_pop(0);                                                    \
    return 0;                                                                  \
  }

static char big[1 << 20];
static struct iovec one = {big, 8}, all = {big, sizeof big};
static struct msghdr into = {.msg_iov = &one, .msg_iovlen = 1};
static struct msghdr out_of = {.msg_iov = &all, .msg_iovlen = 1};

static void wait_by_poll(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  poll(&p, 1, -1);
}

static void wait_by_ppoll(int fd) {
  struct pollfd p = {.fd = fd, .events = POLLIN};
  ppoll(&p, 1, 0, 0);
}

static void wait_by_select(int fd, int precisely) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(fd, &set);
  if (precisely)
    pselect(fd + 1, &set, 0, 0, 0, 0);
  else
    select(fd + 1, &set, 0, 0, 0);
}

static void wait_by_epoll(int fd, int how) {
  int ep = SYS(epoll_create1(0));
  struct epoll_event e = {.events = EPOLLIN};
  sigset_t none;
  sigemptyset(&none);
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
  if (how == 0)
    epoll_wait(ep, &e, 1, -1);
  else if (how == 1)
    epoll_pwait(ep, &e, 1, -1, &none);
  else
    epoll_pwait2(ep, &e, 1, 0, &none);
}

static void send_for_ever(int fd, int how) {
  for (;;) {
    struct mmsghdr m = {.msg_hdr = out_of};
    switch (how) {
    case 0: SYS(send(fd, big, sizeof big, 0)); break;
    case 1: SYS(write(fd, big, sizeof big)); break;
    case 2: SYS(writev(fd, &all, 1)); break;
    case 3: SYS(sendto(fd, big, sizeof big, 0, 0, 0)); break;
    case 4: SYS(sendmsg(fd, &out_of, 0)); break;
    default: SYS(sendmmsg(fd, &m, 1, 0));
    }
  }
}

static void receive_several(int fd) {
  struct mmsghdr m = {.msg_hdr = into};
  recvmmsg(fd, &m, 1, 0, 0);
}

THREAD(in_recv, recv(fd, big, 8, 0))
THREAD(in_recv_all, recv(fd, big, 8, MSG_WAITALL))
THREAD(in_peek_all, recv(fd, big, 8, MSG_WAITALL | MSG_PEEK))
THREAD(in_read, if (read(fd, big, 8) < 0) {})
THREAD(in_readv, if (readv(fd, &one, 1) < 0) {})
THREAD(in_recvfrom, recvfrom(fd, big, 8, 0, 0, 0))
THREAD(in_recvmsg, recvmsg(fd, &into, 0))
THREAD(in_recvmmsg, receive_several(fd))
THREAD(in_poll, wait_by_poll(fd))
THREAD(in_ppoll, wait_by_ppoll(fd))
THREAD(in_select, wait_by_select(fd, 0))
THREAD(in_pselect, wait_by_select(fd, 1))
THREAD(in_epoll_wait, wait_by_epoll(fd, 0))
THREAD(in_epoll_pwait, wait_by_epoll(fd, 1))
THREAD(in_epoll_pwait2, wait_by_epoll(fd, 2))
THREAD(in_accept, accept(fd, 0, 0))
THREAD(in_accept4, accept4(fd, 0, 0, SOCK_CLOEXEC))
THREAD(in_send, send_for_ever(fd, 0))
THREAD(in_write, send_for_ever(fd, 1))
THREAD(in_writev, send_for_ever(fd, 2))
THREAD(in_sendto, send_for_ever(fd, 3))
THREAD(in_sendmsg, send_for_ever(fd, 4))
THREAD(in_sendmmsg, send_for_ever(fd, 5))

static pthread_t begin(struct waits *w) {
  pthread_t t;
  OK(!pthread_create(&t, 0, w->run, w));
  while (!w->thread)
    sleep_ms(1);
  until_it_sleeps(w->thread);
  if (w->returned)
    FAIL("%s has not waited", w->name);
  return t;
}

static void ends(struct waits *w, pthread_t t) {
  void *result = 0;
  OK(!pthread_join(t, &result));
  if (result != PTHREAD_CANCELED || !w->cleaned || w->returned)
    FAIL("%s: the thread was not cancelled (%d %d)", w->name, w->cleaned, w->returned);
}

/* Has a thread go on before this one does, as soon as it is woken: only root may. */
static void let_first(pthread_t t) {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(sched_getcpu(), &here);
  struct sched_param first = {.sched_priority = 1};
  if (!pthread_setschedparam(t, SCHED_FIFO, &first)) {
    OK(!pthread_setaffinity_np(t, sizeof here, &here));
    OK(!pthread_setaffinity_np(pthread_self(), sizeof here, &here));
  }
}

/* A thread that waits in each of these calls is cancelled there, also where it is awake before
 * pthread_cancel returns. */
static void cancelled_in(struct waits *w, int count, int fd) {
  cpu_set_t before;
  OK(!pthread_getaffinity_np(pthread_self(), sizeof before, &before));
  for (int i = 0; i < 2 * count; i++) {
    struct waits waiter = w[i / 2];
    waiter.fd = fd;
    pthread_t t = begin(&waiter);
    if (i % 2)
      let_first(t);
    OK(!pthread_cancel(t));
    ends(&waiter, t);
    OK(!pthread_setaffinity_np(pthread_self(), sizeof before, &before));
  }
}

#define W(call) {#call, in_##call, -1, 0, 0, 0}
#define COUNT(a) (int)(sizeof(a) / sizeof *(a))

static void in_calls_that_wait_for_data(void) {
  EACH_PAIR(mine, far) {
    struct waits w[] = {W(recv),       W(read),        W(readv),        W(recvfrom),
                        W(recvmsg),    W(recvmmsg),    W(poll),         W(ppoll),
                        W(select),     W(pselect),     W(epoll_wait),   W(epoll_pwait),
                        W(epoll_pwait2), W(recv_all),  W(peek_all)};
    cancelled_in(w, COUNT(w), mine);
    /* Nothing of the socket is held by the threads that have ended. */
    send_all(far, "here", 4);
    receive_all(mine, big, 4);
    IS(memcmp(big, "here", 4), 0);
  }
}

static void in_calls_that_wait_for_room(void) {
  int kinds[] = {0, 1};
  struct waits w[] = {W(send), W(write), W(writev), W(sendto), W(sendmsg), W(sendmmsg)};
  for (int i = 0; i < COUNT(w); i++) {
    int mine, far;
    pair(kinds[i % 2], &mine, &far);
    cancelled_in(&w[i], 1, mine);
    IS(read(far, big, 1), 1);
    SYS(close(mine)), SYS(close(far));
  }
}

static void in_accept_and_after_it(void) {
  int listener = my_listener(4);
  struct waits w[] = {W(accept), W(accept4)};
  cancelled_in(w, COUNT(w), listener);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, name_of(listener)));
  int mine = SYS(accept(listener, 0, 0));
  send_all(mine, "x", 1);
  receive_all(far, big, 1);
}

static void in_calls_on_datagrams(void) {
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in a = address(my_ip(), 0);
  SYS(bind(fd, A(a)));
  struct waits w[] = {W(recv),    W(recvfrom), W(recvmsg), W(recvmmsg),
                      W(poll),    W(select),   W(epoll_wait)};
  cancelled_in(w, COUNT(w), fd);
  int far = far_socket(SOCK_DGRAM);
  SYS(far_connect(far, name_of(fd)));
  send_all(far, "x", 1);
  receive_all(fd, big, 1);
}

/* A socket of which nobody knows yet whose it will be, and the kernel's own. */
static void on_other_descriptors(void) {
  int unbound = SYS(socket(AF_INET, SOCK_DGRAM, 0)), two[2];
  struct waits w[] = {W(recv), W(recvfrom), W(recvmsg), W(read), W(poll), W(select), W(epoll_wait)};
  cancelled_in(w, COUNT(w), unbound);
  SYS(socketpair(AF_UNIX, SOCK_STREAM, 0, two));
  struct waits u[] = {W(recv),   W(recvfrom), W(recvmsg), W(recvmmsg), W(read), W(readv),
                      W(poll),   W(select),   W(epoll_wait), W(send), W(sendmsg)};
  cancelled_in(u, COUNT(u), two[0]);
}

/* One set, of the kernel's and of ours. */
static void in_a_set_with_both(void) {
  EACH_PAIR(mine, far) {
    int two[2];
    SYS(pipe(two));
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, two[0], &e));
    struct waits w[] = {W(poll), W(select), W(epoll_wait)};
    cancelled_in(w, COUNT(w), ep); /* one in another, too */
    send_all(far, "x", 1);
    IS(epoll_wait(ep, &e, 1, 5000), 1);
    SYS(close(ep)), SYS(close(two[0])), SYS(close(two[1]));
  }
}

/* Only the one that was meant. */
static void others_go_on(void) {
  EACH_PAIR(mine, far) {
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    struct waits stays[] = {W(recv), W(poll)}, goes[] = {W(recv), W(poll)};
    pthread_t t[2];
    for (int i = 0; i < 2; i++) {
      stays[i].fd = i ? ep : mine;
      t[i] = begin(&stays[i]);
    }
    cancelled_in(goes, 2, mine);
    for (int i = 0; i < 2; i++)
      OK(!stays[i].returned && !stays[i].cleaned);
    send_all(far, "12345678", 8);
    for (int i = 0; i < 2; i++)
      if (i == 0) {
        OK(!pthread_join(t[i], 0));
        OK(stays[i].returned);
      } else {
        send_all(far, "more", 4);
        OK(!pthread_join(t[i], 0));
        OK(stays[i].returned);
      }
    SYS(close(ep));
  }
}

static void *waits_unless_held(void *arg) {
  struct waits *w = arg;
  pthread_cleanup_push(cleanup, w);
  SYS(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0));
  w->thread = syscall(SYS_gettid);
  IS(recv(w->fd, big, 1, 0), 1);
  IS(recv(w->fd, big, 1, 0), 1);
  w->returned = 1;
  SYS(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, 0));
  recv(w->fd, big, 1, 0);
  FAIL("it went on");
  pthread_cleanup_pop(0);
  return 0;
}

/* A thread that has cancellation off goes on, and ends when it is on again. */
static void not_while_it_is_off(void) {
  EACH_PAIR(mine, far) {
    struct waits w = {"recv", waits_unless_held, mine, 0, 0, 0};
    pthread_t t = begin(&w);
    OK(!pthread_cancel(t));
    until_it_sleeps(w.thread);
    OK(!w.cleaned);
    send_all(far, "a", 1);
    until_it_sleeps(w.thread);
    OK(!w.cleaned);
    send_all(far, "b", 1);
    void *result;
    OK(!pthread_join(t, &result));
    OK(result == PTHREAD_CANCELED && w.returned && w.cleaned);
  }
}

static void *calls_when_cancelled(void *arg) {
  struct waits *w = arg;
  pthread_cleanup_push(cleanup, w);
  pthread_cancel(pthread_self());
  w->returned = 1;
  send(w->fd, "x", 1, 0);
  FAIL("it has sent");
  pthread_cleanup_pop(0);
  return 0;
}

/* A call need not wait: one that is made after the cancellation does nothing. */
static void before_a_call_that_would_not_wait(void) {
  EACH_PAIR(mine, far) {
    struct waits w = {"send", calls_when_cancelled, mine, 0, 0, 0};
    pthread_t t;
    OK(!pthread_create(&t, 0, w.run, &w));
    void *result;
    OK(!pthread_join(t, &result));
    OK(result == PTHREAD_CANCELED && w.cleaned && w.returned);
    IS(ready(far, POLLIN, 100), 0);
  }
}

static void *at_any_instruction(void *arg) {
  struct waits *w = arg;
  pthread_cleanup_push(cleanup, w);
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
  w->thread = syscall(SYS_gettid);
  for (;;)
    if (recv(w->fd, big, 1, MSG_DONTWAIT) == -1 && errno != EAGAIN)
      FAIL("recv: %s", strerror(errno));
  pthread_cleanup_pop(0);
  return 0;
}

/* Even so, no lock is left held. */
static void asynchronously(void) {
  EACH_PAIR(mine, far) {
    for (int i = 0; i < 20; i++) {
      struct waits w = {"recv", at_any_instruction, mine, 0, 0, 0};
      pthread_t t;
      OK(!pthread_create(&t, 0, w.run, &w));
      while (!w.thread)
        sleep_ms(1);
      OK(!pthread_cancel(t));
      OK(!pthread_join(t, 0));
      OK(w.cleaned);
    }
    send_all(far, "y", 1);
    receive_all(mine, big, 1);
    send_all(mine, "z", 1);
    receive_all(far, big, 1);
  }
}

static void *connects(void *arg) {
  struct waits *w = arg;
  pthread_cleanup_push(cleanup, w);
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sockaddr_in a = address(getenv("NOBODY"), 9);
  w->thread = syscall(SYS_gettid);
  connect(fd, A(a));
  w->returned = 1;
  pthread_cleanup_pop(0);
  return 0;
}

/* Nobody of this address answers: the call waits for a neighbor. */
static void in_connect(void) {
  char nobody[INET_ADDRSTRLEN];
  struct in_addr a = address(my_ip(), 0).sin_addr;
  a.s_addr = htonl((ntohl(a.s_addr) & ~0xffu) | 0xfa);
  setenv("NOBODY", inet_ntop(AF_INET, &a, nobody, sizeof nobody), 1);
  struct waits w = {"connect", connects, -1, 0, 0, 0};
  pthread_t t;
  OK(!pthread_create(&t, 0, w.run, &w));
  while (!w.thread)
    sleep_ms(1);
  until_it_sleeps(w.thread);
  OK(!pthread_cancel(t));
  void *result;
  OK(!pthread_join(t, &result));
  if (w.returned) /* the kernel knows at once that there is no way */
    return;
  OK(result == PTHREAD_CANCELED && w.cleaned);
}

/* What POSIX has as no cancellation point goes on, whatever the shim has to open and to close
 * for it: in threads that all are the first to need it. */
static void *calls_that_are_no_points(void *arg) {
  struct waits *w = arg;
  pthread_cleanup_push(cleanup, w);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, 0);
  w->thread = syscall(SYS_gettid);
  while (!w->returned)
    sleep_ms(1);
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, 0);
  int ep = SYS(epoll_create1(0)), pipes[2];
  struct epoll_event e = {.events = EPOLLIN};
  struct tcp_info info;
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, w->fd, &e));
  int copy = SYS(dup(w->fd));
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, copy, &e));
  SYS(getsockopt(copy, IPPROTO_TCP, TCP_INFO, &info, &(socklen_t){sizeof info}));
  int listener = SYS(socket(AF_INET, SOCK_STREAM, 0)), unbound = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in at = address(my_ip(), 0);
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, listener, &e));
  SYS(bind(listener, (void *)&at, sizeof at));
  SYS(listen(listener, 1));
  SYS(bind(unbound, (void *)&at, sizeof at));
  SYS(epoll_ctl(ep, EPOLL_CTL_DEL, copy, &e));
  SYS(pipe(pipes));
  SYS(fcntl(w->fd, F_SETOWN, getpid()));
  pid_t child = SYS(fork());
  if (!child)
    _exit(0);
  SYS(shutdown(listener, SHUT_RD));
  SYS(setsockopt(w->fd, SOL_SOCKET, SO_RCVLOWAT, &(int){3}, sizeof(int)));
  w->returned = 2;
  pthread_testcancel();
  FAIL("it was not cancelled");
  pthread_cleanup_pop(0);
  return 0;
}

static void not_in_calls_that_are_no_points(void) {
  EACH_PAIR(mine, far) {
    struct waits w = {"no point", calls_that_are_no_points, mine, 0, 0, 0};
    pthread_t t;
    OK(!pthread_create(&t, 0, w.run, &w));
    while (!w.thread)
      sleep_ms(1);
    OK(!pthread_cancel(t));
    w.returned = 1;
    void *result;
    OK(!pthread_join(t, &result));
    OK(result == PTHREAD_CANCELED && w.cleaned);
    IS(w.returned, 2);
    SYS(wait(0));
  }
}

const struct check CHECKS[] = {
    {"not_in_calls_that_are_no_points", not_in_calls_that_are_no_points},
    {"in_calls_that_wait_for_data", in_calls_that_wait_for_data},
    {"in_calls_that_wait_for_room", in_calls_that_wait_for_room},
    {"in_accept_and_after_it", in_accept_and_after_it},
    {"in_calls_on_datagrams", in_calls_on_datagrams},
    {"on_other_descriptors", on_other_descriptors},
    {"in_a_set_with_both", in_a_set_with_both},
    {"others_go_on", others_go_on},
    {"not_while_it_is_off", not_while_it_is_off},
    {"before_a_call_that_would_not_wait", before_a_call_that_would_not_wait},
    {"asynchronously", asynchronously},
    {"in_connect", in_connect},
    {0, 0},
};
