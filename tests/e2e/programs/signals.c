/* Signal handlers: which calls they end, which go on after them, and what they may do. */
#include "check.h"
#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt, sigset */
#include <setjmp.h>
#include <spawn.h>
#include <sys/time.h>
#include <ucontext.h>

static volatile int ran;
static void count(int signal) {
  (void)signal;
  ran++;
}

static void handle(int signal, void (*handler)(int), int flags) {
  struct sigaction a = {.sa_handler = handler, .sa_flags = flags};
  SYS(sigaction(signal, &a, 0));
}

/* Which signal is sent to which thread when it sleeps; and what lets it go on after that. */
struct poke {
  pthread_t to;
  pid_t thread;
  int signal, again;
  int far;
  volatile int is_over;
};

static void *pokes(void *arg) {
  struct poke *p = arg;
  for (int i = 0; i <= p->again; i++) {
    until_it_sleeps(p->thread);
    OK(!pthread_kill(p->to, p->signal));
  }
  if (p->far >= 0) {
    until_it_sleeps(p->thread);
    if (far_in_kernel())
      SYS(syscall(SYS_write, p->far, "go", 2));
    else
      SYS(write(p->far, "go", 2));
  }
  return 0;
}

/* The call runs while a thread sends us the signal; then `far` is written to. */
#define POKED(signal_, far_, call)                                             \
  do {                                                                         \
    struct poke p_ = {.to = pthread_self(), .thread = syscall(SYS_gettid),     \
                      .signal = signal_, .far = far_};                         \
    pthread_t t_;                                                              \
    ran = 0;                                                                   \
    OK(!pthread_create(&t_, 0, pokes, &p_));                                   \
    call;                                                                      \
    OK(!pthread_join(t_, 0));                                                  \
    IS(ran, 1);                                                                \
  } while (0)

static void usual_handlers(void) {
  handle(SIGUSR1, count, SA_RESTART);
  handle(SIGUSR2, count, 0);
}

static void each_signal_by_its_own_handler(void) {
  usual_handlers();
  EACH_PAIR(mine, far) {
    char b[8];
    struct iovec one = {b, 8};
    struct msghdr m = {.msg_iov = &one, .msg_iovlen = 1};
    struct mmsghdr mm = {.msg_hdr = m};
    POKED(SIGUSR1, far, IS(recv(mine, b, 8, 0), 2));
    POKED(SIGUSR1, far, IS(read(mine, b, 8), 2));
    POKED(SIGUSR1, far, IS(readv(mine, &one, 1), 2));
    POKED(SIGUSR1, far, IS(recvmsg(mine, &m, 0), 2));
    POKED(SIGUSR1, far, IS(recvfrom(mine, b, 8, 0, 0, 0), 2));
    POKED(SIGUSR1, far, IS(recvmmsg(mine, &mm, 1, 0, 0), 1));
    POKED(SIGUSR1, far, IS(recv(mine, b, 2, MSG_WAITALL), 2));
    POKED(SIGUSR1, far, IS(recv(mine, b, 2, MSG_PEEK), 2));
    IS(recv(mine, b, 8, 0), 2);
    POKED(SIGUSR2, -1, FAILS(recv(mine, b, 8, 0), EINTR));
    POKED(SIGUSR2, -1, FAILS(read(mine, b, 8), EINTR));
    POKED(SIGUSR2, -1, FAILS(readv(mine, &one, 1), EINTR));
    POKED(SIGUSR2, -1, FAILS(recvmsg(mine, &m, 0), EINTR));
    POKED(SIGUSR2, -1, FAILS(recvfrom(mine, b, 8, 0, 0, 0), EINTR));
    POKED(SIGUSR2, -1, FAILS(recvmmsg(mine, &mm, 1, 0, 0), EINTR));
    POKED(SIGUSR2, -1, FAILS(recv(mine, b, 2, MSG_WAITALL), EINTR));
    send_all(far, "a", 1);
    IS(ready(mine, POLLIN, 10000), POLLIN);
    POKED(SIGUSR2, -1, IS(recv(mine, b, 2, MSG_WAITALL), 1));
    send_all(far, "a", 1);
    IS(ready(mine, POLLIN, 10000), POLLIN);
    POKED(SIGUSR1, -1, IS(recv(mine, b, 2, MSG_WAITALL), 1));
  }
}

static void datagrams(void) {
  usual_handlers();
  int mine = SYS(socket(AF_INET, SOCK_DGRAM, 0)), far = far_socket(SOCK_DGRAM);
  SYS(bind(mine, A((struct sockaddr_in){.sin_family = AF_INET})));
  struct sockaddr_in a = address(my_ip(), ntohs(name_of(mine).sin_port));
  SYS(far_connect(far, a));
  char b[8];
  POKED(SIGUSR1, far, IS(recv(mine, b, 8, 0), 2));
  POKED(SIGUSR2, -1, FAILS(recv(mine, b, 8, 0), EINTR));
  POKED(SIGUSR1, far, IS(recvfrom(mine, b, 8, 0, 0, 0), 2));
  POKED(SIGUSR2, -1, FAILS(recvfrom(mine, b, 8, 0, 0, 0), EINTR));
}

static void a_time_limit_is_never_begun_again(void) {
  usual_handlers();
  EACH_PAIR(mine, far) {
    char b[8];
    struct timeval long_ = {15, 0};
    SYS(setsockopt(mine, SOL_SOCKET, SO_RCVTIMEO, &long_, sizeof long_));
    POKED(SIGUSR1, -1, FAILS(recv(mine, b, 8, 0), EINTR));
    POKED(SIGUSR2, -1, FAILS(recv(mine, b, 8, 0), EINTR));
  }
}

static void these_are_never_begun_again(void) {
  usual_handlers();
  EACH_PAIR(mine, far) {
    int signals[] = {SIGUSR1, SIGUSR2};
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    for (int i = 0; i < 2; i++) {
      struct pollfd p = {.fd = mine, .events = POLLIN};
      fd_set set;
      FD_ZERO(&set);
      FD_SET(mine, &set);
      POKED(signals[i], -1, FAILS(poll(&p, 1, -1), EINTR));
      POKED(signals[i], -1, FAILS(poll(&p, 1, 15000), EINTR));
      POKED(signals[i], -1, FAILS(ppoll(&p, 1, 0, 0), EINTR));
      POKED(signals[i], -1, FAILS(select(mine + 1, &set, 0, 0, 0), EINTR));
      POKED(signals[i], -1, FAILS(pselect(mine + 1, &set, 0, 0, 0, 0), EINTR));
      POKED(signals[i], -1, FAILS(epoll_wait(ep, &e, 1, -1), EINTR));
      POKED(signals[i], -1, FAILS(epoll_pwait(ep, &e, 1, 15000, 0), EINTR));
    }
    SYS(close(ep));
  }
}

static void *connects_later(void *arg) {
  struct poke *p = arg;
  until_it_sleeps(p->thread);
  OK(!pthread_kill(p->to, p->signal));
  until_it_sleeps(p->thread);
  SYS(far_connect(p->far, *(struct sockaddr_in *)(p + 1)));
  return 0;
}

static void accepting(void) {
  usual_handlers();
  int listener = my_listener(4);
  POKED(SIGUSR2, -1, FAILS(accept(listener, 0, 0), EINTR));
  POKED(SIGUSR2, -1, FAILS(accept4(listener, 0, 0, 0), EINTR));
  struct {
    struct poke p;
    struct sockaddr_in a;
  } both = {{.to = pthread_self(), .thread = syscall(SYS_gettid), .signal = SIGUSR1,
             .far = far_socket(SOCK_STREAM)}, name_of(listener)};
  pthread_t t;
  ran = 0;
  OK(!pthread_create(&t, 0, connects_later, &both));
  SYS(accept(listener, 0, 0));
  OK(!pthread_join(t, 0));
  IS(ran, 1);
}

static char big[1 << 22];

static void sending(void) {
  usual_handlers();
  EACH_PAIR(mine, far) {
    ssize_t sent = 0;
    /* Something has gone, so it says how much. */
    POKED(SIGUSR1, -1, sent = send(mine, big, sizeof big, 0));
    OK(sent > 0 && sent < (ssize_t)sizeof big);
    int flags = SYS(fcntl(mine, F_GETFL));
    fill(mine, 1 << 16);
    SYS(fcntl(mine, F_SETFL, flags));
    POKED(SIGUSR2, -1, FAILS(send(mine, big, sizeof big, 0), EINTR));
    POKED(SIGUSR2, -1, FAILS(write(mine, big, sizeof big), EINTR));
    struct timeval long_ = {15, 0};
    SYS(setsockopt(mine, SOL_SOCKET, SO_SNDTIMEO, &long_, sizeof long_));
    POKED(SIGUSR1, -1, FAILS(send(mine, big, sizeof big, 0), EINTR));
  }
}

/* Nobody of this address answers. */
static void connecting(void) {
  usual_handlers();
  char nobody[INET_ADDRSTRLEN];
  struct in_addr a = address(my_ip(), 0).sin_addr;
  a.s_addr = htonl((ntohl(a.s_addr) & ~0xffu) | 0xfb);
  struct sockaddr_in to = address(inet_ntop(AF_INET, &a, nobody, sizeof nobody), 9);
  int fd = SYS(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
  errno = 0;
  if (connect(fd, A(to)) != -1 || errno != EINPROGRESS || ready(fd, POLLOUT, 300))
    return; /* the kernel knows at once that there is no way */
  SYS(close(fd));
  fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  POKED(SIGUSR2, -1, FAILS(connect(fd, A(to)), EINTR));
  POKED(SIGUSR2, -1, FAILS(connect(fd, A(to)), EINTR));
}

/* A handler that runs while the call does not sleep yet ends it all the same. One that runs
 * before the call is made does not, so there are more, until the call is over. */
static void *signals_at_once(void *arg) {
  struct poke *p = arg;
  while (!p->is_over) {
    sleep_ms(30);
    OK(!pthread_kill(p->to, p->signal));
  }
  return 0;
}

#define AWAKE(signal_, call)                                                   \
  do {                                                                         \
    struct poke p_ = {.to = pthread_self(), .signal = signal_};                \
    pthread_t t_;                                                              \
    ran = 0;                                                                   \
    OK(!pthread_create(&t_, 0, signals_at_once, &p_));                         \
    call;                                                                      \
    p_.is_over = 1;                                                            \
    OK(!pthread_join(t_, 0));                                                  \
    OK(ran > 0);                                                               \
  } while (0)

static void while_awake(void) {
  setenv("LONGSHORE_SPIN", "1000000000", 1);
  usual_handlers();
  int mine, far;
  pair(0, &mine, &far);
  char b[8];
  struct pollfd p = {.fd = mine, .events = POLLIN};
  int ep = SYS(epoll_create1(0));
  struct epoll_event e = {.events = EPOLLIN};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
  AWAKE(SIGUSR2, FAILS(recv(mine, b, 8, 0), EINTR));
  AWAKE(SIGUSR1, FAILS(poll(&p, 1, -1), EINTR));
  AWAKE(SIGUSR1, FAILS(epoll_wait(ep, &e, 1, -1), EINTR));
}

/* Between the last look and the sleep no signal is lost: with a mask there is no other way
 * to be sure of it. */
static void none_is_lost(void) {
  handle(SIGUSR1, count, SA_RESTART);
  EACH_PAIR(mine, far) {
    sigset_t with, without;
    sigemptyset(&with);
    sigaddset(&with, SIGUSR1);
    OK(!pthread_sigmask(SIG_BLOCK, &with, &without));
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    timer_t timer;
    SYS(timer_create(CLOCK_MONOTONIC, &event, &timer));
    for (int i = 0; i < 3000; i++) {
      struct pollfd p = {.fd = mine, .events = POLLIN};
      struct itimerspec when = {.it_value.tv_nsec = 1 + i * 7919 % 120000};
      ran = 0;
      SYS(timer_settime(timer, 0, &when, 0));
      if (i % 3 == 0) {
        FAILS(ppoll(&p, 1, 0, &without), EINTR);
      } else if (i % 3 == 1) {
        FAILS(epoll_pwait(ep, &e, 1, -1, &without), EINTR);
      } else {
        fd_set set;
        FD_ZERO(&set);
        FD_SET(mine, &set);
        FAILS(pselect(mine + 1, &set, 0, 0, 0, &without), EINTR);
      }
      IS(ran, 1);
    }
    SYS(timer_delete(timer));
    /* One that waits already is handled even if there is no time to wait. */
    struct pollfd p = {.fd = mine, .events = POLLIN};
    struct timespec none = {0, 0};
    SYS(raise(SIGUSR1));
    FAILS(ppoll(&p, 1, &none, &without), EINTR);
    IS(ran, 2);
    OK(!pthread_sigmask(SIG_SETMASK, &without, 0));
    SYS(close(ep));
  }
}

static void others_do_nothing(int signal) { (void)signal; }

static void what_was_installed_is_told(void) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sigaction a = {.sa_handler = count, .sa_flags = SA_RESTART}, old;
  sigaddset(&a.sa_mask, SIGHUP);
  SYS(sigaction(SIGUSR1, &a, &old));
  OK(old.sa_handler == SIG_DFL);
  SYS(sigaction(SIGUSR1, 0, &old));
  OK(old.sa_handler == count && sigismember(&old.sa_mask, SIGHUP));
  IS(old.sa_flags & (SA_RESTART | SA_SIGINFO | SA_NODEFER | SA_ONSTACK), SA_RESTART);
  OK(signal(SIGUSR1, others_do_nothing) == count);
  SYS(sigaction(SIGUSR1, 0, &old));
  OK(old.sa_handler == others_do_nothing);
  IS(old.sa_flags & (SA_RESTART | SA_SIGINFO | SA_RESETHAND), SA_RESTART);
  OK(signal(SIGUSR1, SIG_IGN) == others_do_nothing);
  OK(signal(SIGUSR1, count) == SIG_IGN);
  SYS(siginterrupt(SIGUSR1, 1));
  SYS(sigaction(SIGUSR1, 0, &old));
  OK(old.sa_handler == count && !(old.sa_flags & SA_RESTART));
  OK(signal(SIGUSR1, others_do_nothing) == count);
  SYS(sigaction(SIGUSR1, 0, &old));
  OK(!(old.sa_flags & SA_RESTART));
  SYS(siginterrupt(SIGUSR1, 0));
  SYS(sigaction(SIGUSR1, 0, &old));
  OK(old.sa_flags & SA_RESTART);
  FAILS(sigaction(SIGKILL, &a, 0), EINVAL);
  FAILS(sigaction(1000, &a, 0), EINVAL);
  FAILS(sigaction(32, &a, 0), EINVAL);
  OK(signal(SIGKILL, count) == SIG_ERR);
  /* By number, with libc's function: the kernel's structure. */
  struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } k;
  SYS((syscall)(SYS_rt_sigaction, SIGUSR1, 0, &k, 8));
  OK(k.handler == (void *)others_do_nothing);
  k.handler = (void *)count;
  SYS((syscall)(SYS_rt_sigaction, SIGUSR1, &k, 0, 8));
  SYS(sigaction(SIGUSR1, 0, &old));
  OK(old.sa_handler == count);
  ran = 0;
  SYS(raise(SIGUSR1));
  IS(ran, 1);
  SYS(close(fd));
}

static volatile int told_code, told_value, told_pid, was_blocked, hup_was_blocked, on_stack;
static ucontext_t *volatile told_context;
static char *alternative;

static void notes(int signal, siginfo_t *info, void *context) {
  sigset_t now_;
  char here;
  ran++;
  told_code = info->si_code;
  told_pid = info->si_pid;
  told_value = info->si_value.sival_int;
  told_context = context;
  pthread_sigmask(SIG_BLOCK, 0, &now_);
  was_blocked = sigismember(&now_, signal);
  hup_was_blocked = sigismember(&now_, SIGHUP);
  on_stack = alternative && &here > alternative && &here < alternative + 65536;
  sigset_t *before = &((ucontext_t *)context)->uc_sigmask;
  if (sigismember(before, signal) || sigismember(before, SIGTERM) || sigismember(&now_, SIGTERM))
    FAIL("signals are held back that were not");
}

static void *queues(void *arg) {
  struct poke *p = arg;
  until_it_sleeps(p->thread);
  OK(!pthread_sigqueue(p->to, p->signal, (union sigval){.sival_int = 77}));
  return 0;
}

static void with_flags(int fd, int signal, int flags) {
  struct sigaction a = {.sa_sigaction = notes, .sa_flags = flags | SA_SIGINFO};
  sigaddset(&a.sa_mask, SIGHUP);
  SYS(sigaction(signal, &a, 0));
  struct poke p = {.to = pthread_self(), .thread = syscall(SYS_gettid), .signal = signal};
  pthread_t t;
  char b;
  ran = 0;
  OK(!pthread_create(&t, 0, queues, &p));
  FAILS(recv(fd, &b, 1, 0), EINTR);
  OK(!pthread_join(t, 0));
  IS(ran, 1);
  IS(told_code, SI_QUEUE);
  IS(told_value, 77);
  IS(told_pid, getpid());
  IS(hup_was_blocked, 1);
  IS(was_blocked, !(flags & SA_NODEFER));
  IS(on_stack, !!(flags & SA_ONSTACK));
  OK(told_context);
  sigset_t after;
  pthread_sigmask(SIG_BLOCK, 0, &after);
  for (int s = 1; s < 32; s++)
    OK(!sigismember(&after, s));
  struct sigaction now_;
  SYS(sigaction(signal, 0, &now_));
  if (flags & SA_RESETHAND)
    OK(now_.sa_handler == SIG_DFL);
  else
    OK(now_.sa_sigaction == notes && now_.sa_flags & SA_SIGINFO);
}

static void flags_keep_their_meaning(void) {
  EACH_PAIR(mine, far) {
    int signals[] = {SIGUSR1, SIGRTMIN + 3};
    for (int i = 0; i < 2; i++) {
      with_flags(mine, signals[i], 0);
      with_flags(mine, signals[i], SA_NODEFER);
      with_flags(mine, signals[i], SA_RESETHAND);
      alternative = malloc(65536);
      stack_t stack = {.ss_sp = alternative, .ss_size = 65536};
      SYS(sigaltstack(&stack, 0));
      with_flags(mine, signals[i], SA_ONSTACK);
      with_flags(mine, signals[i], SA_ONSTACK | SA_RESETHAND);
      stack.ss_flags = SS_DISABLE;
      SYS(sigaltstack(&stack, 0));
      free(alternative);
      alternative = 0;
    }
  }
}

static sigjmp_buf out;
static void jumps(int signal) {
  (void)signal;
  ran++;
  siglongjmp(out, 1);
}

/* What a call was doing when a handler left it for good is in order. */
static void out_of_a_call_that_waits(void) {
  handle(SIGUSR2, jumps, 0);
  EACH_PAIR(mine, far) {
    int ep = SYS(epoll_create1(0));
    struct epoll_event e = {.events = EPOLLIN};
    SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
    for (volatile int i = 0; i < 4; i++) {
      struct poke p = {.to = pthread_self(), .thread = syscall(SYS_gettid),
                       .signal = SIGUSR2, .far = -1};
      pthread_t t;
      char b[8];
      OK(!pthread_create(&t, 0, pokes, &p));
      if (!sigsetjmp(out, 1)) {
        struct pollfd one = {.fd = mine, .events = POLLIN};
        switch (i) {
        case 0: recv(mine, b, 8, 0); break;
        case 1: poll(&one, 1, -1); break;
        case 2: epoll_wait(ep, &e, 1, -1); break;
        default: accept(my_listener(1), 0, 0);
        }
        FAIL("call %d has come back", i);
      }
      OK(!pthread_join(t, 0));
      send_all(far, "x", 1);
      IS(epoll_wait(ep, &e, 1, 5000), 1);
      IS(recv(mine, b, 8, 0), 1);
    }
    SYS(close(ep));
    SYS(shutdown(far, SHUT_WR));
    /* Nothing keeps it open. */
    char b[8];
    SYS(close(mine));
    mine = SYS(dup(2));
    IS(recv(far, b, 8, 0), 0);
  }
}

static void out_of_calls_that_do_not_wait(void) {
  handle(SIGALRM, jumps, 0);
  EACH_PAIR(mine, far) {
    char b[4096] = {0};
    nonblocking(mine), nonblocking(far);
    /* So often that some of them come where they should not do harm. */
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    volatile double until = now() + 1.0;
    ran = 0;
    sigsetjmp(out, 1);
    if (now() < until || ran <= 100) {
      SYS(setitimer(ITIMER_REAL, &often, 0));
      for (;;) {
        send(mine, b, sizeof b, 0);
        recv(far, b, sizeof b, 0);
        send(far, b, sizeof b, 0);
        recv(mine, b, sizeof b, 0);
        option(mine, IPPROTO_TCP, TCP_NODELAY);
      }
    }
    SYS(setitimer(ITIMER_REAL, &never, 0));
    OK(ran > 100);
    /* What is acknowledged is there to be read. */
    int is_under_way;
    do {
      is_under_way = queue(mine, SIOCOUTQ) || queue(far, SIOCOUTQ);
      while (recv(far, b, sizeof b, 0) > 0 || recv(mine, b, sizeof b, 0) > 0)
        ;
    } while (is_under_way);
    send_all(mine, "x", 1);
    OK(ready(far, POLLIN, 5000));
    IS(recv(far, b, 8, 0), 1);
    SYS(close(mine));
    mine = SYS(dup(2));
    OK(ready(far, POLLIN, 5000));
    errno = 0;
    OK(recv(far, b, 8, 0) == 0 || errno == ECONNRESET);
  }
}

static void ends_thread(int signal) {
  (void)signal;
  pthread_exit((void *)5);
}

static void *receives(void *arg) {
  struct poke *p = arg;
  char b;
  p->thread = syscall(SYS_gettid);
  recv(p->far, &b, 1, 0);
  return 0;
}

static void out_of_a_thread(void) {
  handle(SIGUSR2, ends_thread, SA_RESTART);
  EACH_PAIR(mine, far) {
    struct poke p = {.far = mine};
    pthread_t t;
    OK(!pthread_create(&t, 0, receives, &p));
    while (!*(volatile pid_t *)&p.thread)
      sleep_ms(1);
    until_it_sleeps(p.thread);
    OK(!pthread_kill(t, SIGUSR2));
    void *result;
    OK(!pthread_join(t, &result));
    OK(result == (void *)5);
    char b;
    SYS(close(mine));
    mine = SYS(dup(2));
    IS(recv(far, &b, 1, 0), 0);
  }
}

static int socket_of_handler, answered;
static void uses_the_socket(int signal) {
  (void)signal;
  int errno_ = errno;
  ran++;
  answered += send(socket_of_handler, "h", 1, 0);
  errno = errno_;
}

/* A handler may use the socket whose call it interrupts. */
static void within_a_handler(void) {
  handle(SIGUSR1, uses_the_socket, SA_RESTART);
  handle(SIGALRM, uses_the_socket, SA_RESTART);
  EACH_PAIR(mine, far) {
    char b[8], *all = malloc(1 << 20);
    socket_of_handler = mine;
    POKED(SIGUSR1, far, IS(recv(mine, b, 8, 0), 2));
    IS(recv(far, b, 8, 0), 1);
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    ran = answered = 0;
    size_t got = 0, sent = 0;
    nonblocking(far);
    SYS(setitimer(ITIMER_REAL, &often, 0));
    for (double until = now() + 1.0; now() < until || ran <= 100;) {
      ssize_t n = send(mine, "s", 1, 0);
      sent += n > 0;
      n = recv(far, all, 1 << 20, 0);
      got += n > 0 ? n : 0;
    }
    SYS(setitimer(ITIMER_REAL, &never, 0));
    OK(ran > 100);
    IS(answered, ran);
    while (got < sent + ran && ready(far, POLLIN, 10000))
      got += SYS(recv(far, all, 1 << 20, 0));
    IS(got, sent + ran);
    IS(ready(far, POLLIN, 20), 0);
    free(all);
  }
}

static void children_and_programs(void) {
  handle(SIGUSR1, count, SA_RESTART);
  handle(SIGALRM, count, SA_RESTART);
  int mine, far;
  pair(0, &mine, &far);
  struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
  SYS(setitimer(ITIMER_REAL, &often, 0));
  for (int i = 0; i < 20; i++) {
    pid_t child = SYS(fork());
    if (child == 0) {
      sigset_t now_;
      SYS(setitimer(ITIMER_REAL, &never, 0));
      pthread_sigmask(SIG_BLOCK, 0, &now_);
      for (int s = 1; s < 32; s++)
        OK(!sigismember(&now_, s));
      ran = 0;
      SYS(raise(SIGUSR1));
      IS(ran, 1);
      if (i % 2)
        _exit(0);
      execl("/bin/sh", "sh", "-c", "grep -q '^SigBlk:.*0000000000000000$' /proc/self/status && "
                                   "grep -q '^SigCgt:.*0000000000000[04][0-9a-f][0-9a-f]$' "
                                   "/proc/self/status", (char *)0);
      _exit(9);
    }
    int status;
    pid_t got;
    while ((got = waitpid(child, &status, 0)) == -1 && errno == EINTR) {
    }
    if (got != child || status)
      FAIL("child %d: status %x", i, status);
  }
  /* SIGUSR1 kills who has it by default; ignored, it stays so. */
  posix_spawnattr_t attr;
  sigset_t usr1;
  sigemptyset(&usr1);
  sigaddset(&usr1, SIGUSR1);
  OK(!posix_spawnattr_init(&attr));
  OK(!posix_spawnattr_setsigdefault(&attr, &usr1));
  OK(!posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF));
  OK(signal(SIGUSR1, SIG_IGN) == count);
  char *args[] = {"sh", "-c", "kill -USR1 $$; exit 3", 0};
  char *environment[] = {0};
  for (int i = 0; i < 2; i++) {
    pid_t child;
    int status;
    OK(!posix_spawn(&child, "/bin/sh", 0, i ? &attr : 0, args, environment));
    while (waitpid(child, &status, 0) == -1 && errno == EINTR) {
    }
    if (i)
      OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGUSR1);
    else
      OK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
  }
  SYS(setitimer(ITIMER_REAL, &never, 0));
}

static void system_five(void) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct sigaction a;
  extern __sighandler_t sysv_signal(int, __sighandler_t);
  OK(sysv_signal(SIGUSR1, count) == SIG_DFL);
  SYS(sigaction(SIGUSR1, 0, &a));
  IS(a.sa_flags & (SA_RESETHAND | SA_NODEFER | SA_RESTART), SA_RESETHAND | SA_NODEFER);
  ran = 0;
  SYS(raise(SIGUSR1));
  IS(ran, 1);
  OK(sysv_signal(SIGUSR1, count) == SIG_DFL);
  OK(signal(SIGUSR1, SIG_DFL) == count);
  OK(sigset(SIGUSR1, count) == SIG_DFL);
  OK(sigset(SIGUSR1, SIG_HOLD) == count);
  ran = 0;
  SYS(raise(SIGUSR1));
  IS(ran, 0);
  OK(sigset(SIGUSR1, others_do_nothing) == SIG_HOLD);
  OK(sigset(SIGUSR1, count) == others_do_nothing);
  SYS(raise(SIGUSR1));
  IS(ran, 1);
  SYS(close(fd));
}

const struct check CHECKS[] = {
    {"each_signal_by_its_own_handler", each_signal_by_its_own_handler},
    {"datagrams", datagrams},
    {"a_time_limit_is_never_begun_again", a_time_limit_is_never_begun_again},
    {"these_are_never_begun_again", these_are_never_begun_again},
    {"accepting", accepting},
    {"sending", sending},
    {"connecting", connecting},
    {"while_awake", while_awake},
    {"none_is_lost", none_is_lost},
    {"what_was_installed_is_told", what_was_installed_is_told},
    {"flags_keep_their_meaning", flags_keep_their_meaning},
    {"out_of_a_call_that_waits", out_of_a_call_that_waits},
    {"out_of_calls_that_do_not_wait", out_of_calls_that_do_not_wait},
    {"out_of_a_thread", out_of_a_thread},
    {"within_a_handler", within_a_handler},
    {"children_and_programs", children_and_programs},
    {"system_five", system_five},
    {0, 0},
};
