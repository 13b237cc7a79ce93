/* A program that has functions of libc's names, and goes on from them to the next ones (Erlang
   has its sigaction so): nobody but the program calls them. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>

static int depth, calls, came;

static void enter(void) {
  calls++;
  if (++depth > 1)
    FAIL("it was called from behind itself");
}

int sigaction(int number, const struct sigaction *new, struct sigaction *old) {
  typedef int (*Next)(int, const struct sigaction *, struct sigaction *);
  Next next = (Next)dlsym(RTLD_NEXT, "__sigaction");
  enter();
  int result = next(number, new, old);
  depth--;
  return result;
}

int poll(struct pollfd *list, nfds_t count, int limit) {
  typedef int (*Next)(struct pollfd *, nfds_t, int, size_t);
  Next next = (Next)dlsym(RTLD_NEXT, "__poll_chk");
  enter();
  int result = next(list, count, limit, count * sizeof *list);
  depth--;
  return result;
}

static void note(int number) { came = number; }

static void its_own_sigaction(void) {
  struct sigaction new = {.sa_handler = note}, old;
  calls = 0;
  SYS(sigaction(SIGUSR1, &new, 0));
  SYS(raise(SIGUSR1));
  IS(came, SIGUSR1);
  SYS(sigaction(SIGUSR1, 0, &old));
  OK(old.sa_handler == note);
  IS(calls, 2);
}

static void its_own_poll(void) {
  EACH_PAIR(mine, far) {
    struct pollfd p = {.fd = mine, .events = POLLIN};
    calls = 0;
    IS(poll(&p, 1, 0), 0);
    IS(write(far, "x", 1), 1);
    IS(poll(&p, 1, 5000), 1);
    IS(p.revents, POLLIN);
    IS(calls, 2);
  }
}

const struct check CHECKS[] = {
    {"its_own_sigaction", its_own_sigaction},
    {"its_own_poll", its_own_poll},
    {0, 0},
};
