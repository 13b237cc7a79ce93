/* Threads that wait for a socket that another thread of their process shuts down. */
#include "check.h"

enum way { SELECT, SELECT_LIMITED, PSELECT, POLL, POLL_WITH_PIPE, PPOLL, EPOLL, WAYS };

struct waiter {
  pthread_t thread;
  int fd, way;
  short events;
  pid_t id;
  volatile int found;
};

static int in_select(const struct waiter *w) {
  fd_set set;
  FD_ZERO(&set);
  FD_SET(w->fd, &set);
  fd_set *in = w->events & POLLIN ? &set : 0, *out = w->events & POLLOUT ? &set : 0;
  struct timeval limit = {20, 0};
  if (w->way == PSELECT)
    return SYS(pselect(w->fd + 1, in, out, 0, 0, 0));
  return SYS(select(w->fd + 1, in, out, 0, w->way == SELECT_LIMITED ? &limit : 0));
}

static int in_poll(const struct waiter *w) {
  int quiet[2];
  SYS(pipe(quiet));
  struct pollfd list[] = {{.fd = w->fd, .events = w->events},
                          {.fd = quiet[0], .events = POLLIN}};
  if (w->way == PPOLL)
    SYS(ppoll(list, 1, 0, 0));
  else
    SYS(poll(list, w->way == POLL_WITH_PIPE ? 2 : 1, -1));
  close(quiet[0]), close(quiet[1]);
  return list[0].revents != 0;
}

static int in_epoll(const struct waiter *w) {
  int ep = SYS(epoll_create1(0));
  struct epoll_event e = {.events = (unsigned)w->events};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, w->fd, &e));
  int found = SYS(epoll_wait(ep, &e, 1, -1));
  close(ep);
  return found;
}

static void *wait_as_told(void *arg) {
  struct waiter *w = arg;
  w->id = (pid_t)syscall(SYS_gettid);
  w->found = w->way <= PSELECT ? in_select(w) : w->way == EPOLL ? in_epoll(w) : in_poll(w);
  return 0;
}

/* Whether a thread sleeps. */
static int sleeps(pid_t id) {
  char path[64], state = 0;
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", id);
  FILE *f = fopen(path, "r");
  if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
    state = 0;
  if (f)
    fclose(f);
  return state == 'S';
}

/* Waits until all of them have slept for a while. */
static void await_sleep(struct waiter *w) {
  for (int i = 0; i < WAYS; i++)
    for (int seen = 0; seen < 20;) {
      IS(w[i].found, 0); /* it waits, and nothing has come */
      seen = w[i].id && sleeps(w[i].id) ? seen + 1 : 0;
      sleep_ms(1);
    }
}

/* One thread waits in each way, and is woken when this one shuts it down. */
static void all_wake(int fd, short events, int half) {
  struct waiter w[WAYS];
  for (int i = 0; i < WAYS; i++) {
    w[i] = (struct waiter){.fd = fd, .way = i, .events = events};
    OK(pthread_create(&w[i].thread, 0, wait_as_told, &w[i]) == 0);
  }
  await_sleep(w);
  int fails = shutdown(fd, half);
  OK(fails == 0 || errno == ENOTCONN);
  for (int i = 0; i < WAYS; i++) {
    OK(pthread_join(w[i].thread, 0) == 0);
    IS(w[i].found, 1);
  }
}

static void readers(void) {
  for (int half = SHUT_RD; half <= SHUT_RDWR; half += 2)
    EACH_PAIR(mine, far) {
      all_wake(mine, POLLIN, half);
    }
}

static void writers(void) {
  for (int half = SHUT_WR; half <= SHUT_RDWR; half++)
    EACH_PAIR(mine, far) {
      static char much[1 << 16];
      signal(SIGPIPE, SIG_IGN);
      /* It does not grow: what is left of the window may be used late (RFC 9293 3.8.6.2.1), and a
       * buffer that grows when that is acknowledged has room. */
      set(mine, SOL_SOCKET, SO_SNDBUF, 1 << 16);
      /* Until there is no room for long, nor any to come: what is on its way takes some. */
      for (int quiet = 0; quiet < 50;) {
        int sent = send(mine, much, sizeof much, MSG_DONTWAIT) > 0;
        int under_way = far_in_kernel() && queue(mine, SIOCOUTQ) != queue(mine, SIOCOUTQNSD);
        quiet = sent || under_way ? 0 : quiet + 1;
        sleep_ms(sent ? 0 : 2);
      }
      all_wake(mine, POLLOUT, half);
    }
}

static void who_accepts(void) {
  struct sockaddr_in a;
  int listener = SYS(socket(AF_INET, SOCK_STREAM, 0));
  a = address(my_ip(), 0);
  SYS(bind(listener, A(a)));
  SYS(listen(listener, 4));
  all_wake(listener, POLLIN, SHUT_RD);
}

static void datagrams(void) {
  for (int connected = 0; connected < 2; connected++) {
    int far = far_socket(SOCK_DGRAM), mine = SYS(socket(AF_INET, SOCK_DGRAM, 0));
    SYS(far_bind(far, address(far_ip(), 0)));
    struct sockaddr_in here = address(my_ip(), 0), there = far_name(far);
    SYS(bind(mine, A(here)));
    if (connected)
      SYS(connect(mine, A(there)));
    all_wake(mine, POLLIN, SHUT_RD);
    close(mine), close(far);
  }
}

const struct check CHECKS[] = {
    {"readers", readers},
    {"writers", writers},
    {"who_accepts", who_accepts},
    {"datagrams", datagrams},
    {0, 0},
};
