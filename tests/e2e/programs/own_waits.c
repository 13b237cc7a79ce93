/* A program that waits in epoll_pwait2 by system calls of its own, written out in its code,
 * and by libc's epoll_pwait where there is no such call. */
#include "check.h"

static int own_epoll_pwait2(int ep, struct epoll_event *events, int most,
                            const struct timespec *time) {
#if defined __x86_64__
  long result;
  register const struct timespec *r10 __asm__("r10") = time;
  register long r8 __asm__("r8") = 0, r9 __asm__("r9") = 8;
  __asm__ volatile("movl $441, %%eax\n\tsyscall"
                   : "=&a"(result)
                   : "D"(ep), "S"(events), "d"(most), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
#elif defined __aarch64__
  register long x0 __asm__("x0") = ep, x2 __asm__("x2") = most;
  register struct epoll_event *x1 __asm__("x1") = events;
  register const struct timespec *x3 __asm__("x3") = time;
  register long x4 __asm__("x4") = 0, x5 __asm__("x5") = 8;
  __asm__ volatile("mov w8, #441\n\tsvc #0"
                   : "+r"(x0)
                   : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "x8", "memory");
  return x0;
#endif
}

static int waits(int ep, struct epoll_event *events, int most, int ms) {
  struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
  int found = own_epoll_pwait2(ep, events, most, &time);
  return found == -ENOSYS ? epoll_pwait(ep, events, most, ms, 0) : found;
}

static int epoll_with(int fd) {
  int ep = SYS(epoll_create1(EPOLL_CLOEXEC));
  struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
  SYS(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e));
  return ep;
}

static void is_told(int ep, int mine, int far) {
  struct epoll_event e;
  char c;
  IS(waits(ep, &e, 1, 20), 0);
  send_all(far, "x", 1);
  IS(waits(ep, &e, 1, 10000), 1);
  IS(e.data.fd, mine);
  receive_all(mine, &c, 1);
}

static void a_program_that_waits_by_itself_is_told(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine);
    is_told(ep, mine, far);
    SYS(close(ep));
  }
}

static int begun[2];

static void *waits_in_a_thread(void *arg) {
  int *all = arg;
  char c;
  receive_all(begun[0], &c, 1);
  is_told(all[0], all[1], all[2]);
  return 0;
}

/* A thread that there was before. */
static void its_threads_are_told(void) {
  EACH_PAIR(mine, far) {
    pthread_t thread;
    int all[] = {-1, mine, far};
    SYS(pipe(begun));
    IS(pthread_create(&thread, 0, waits_in_a_thread, all), 0);
    all[0] = epoll_with(mine);
    send_all(begun[1], "g", 1);
    IS(pthread_join(thread, 0), 0);
    SYS(close(all[0])), SYS(close(begun[0])), SYS(close(begun[1]));
  }
}

static void its_children_are_told(void) {
  EACH_PAIR(mine, far) {
    int ep = epoll_with(mine);
    pid_t child = SYS(fork());
    if (!child) {
      is_told(ep, mine, far);
      _exit(0);
    }
    joined(child);
    SYS(close(ep));
  }
}

/* libc's own call is as it was. */
static void libc_waits_as_ever(void) {
  int ends[2], ep;
  SYS(pipe(ends));
  ep = epoll_with(ends[0]);
  struct epoll_event e;
  struct timespec little = {0, 1000000};
  IS(epoll_pwait2(ep, &e, 1, &little, 0), 0);
  send_all(ends[1], "x", 1);
  IS(epoll_pwait2(ep, &e, 1, &little, 0), 1);
  IS(waits(ep, &e, 1, 0), 1);
  SYS(close(ep)), SYS(close(ends[0])), SYS(close(ends[1]));
}

const struct check CHECKS[] = {
    {"a_program_that_waits_by_itself_is_told", a_program_that_waits_by_itself_is_told},
    {"its_threads_are_told", its_threads_are_told},
    {"its_children_are_told", its_children_are_told},
    {"libc_waits_as_ever", libc_waits_as_ever},
    {0, 0},
};
