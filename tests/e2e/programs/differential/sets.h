/* Epoll instances that steps put descriptors into, change and ask, beside the two that all sockets
 * are in. What they are ready for themselves is a part of the states. */
#ifndef SETS_H
#define SETS_H
#include "meant.h"

/* In the data of an instance that is in another one. */
enum { A_SET = 100 };

static const struct name SET_EVENTS[] = {
    {EPOLLIN, "IN"},         {EPOLLPRI, "PRI"},         {EPOLLOUT, "OUT"},
    {EPOLLERR, "ERR"},       {EPOLLHUP, "HUP"},         {EPOLLRDHUP, "RDHUP"},
    {EPOLLONESHOT, "ONCE"},  {(int)EPOLLEXCLUSIVE, "ALONE"}, {0, 0}};

static void make_sets(void) {
  for (int i = 0; i < SETS; i++)
    sets[i] = epoll_create1(EPOLL_CLOEXEC);
}

static void say_member(int member) {
  say(member < A_SET ? "s%d" : "e%d", member % A_SET);
}

/* Adds the socket at a place to an instance, changes what is asked of it or takes it out; now and
 * then, another instance. */
static void change_set(const struct step *s, int fd) {
  static const char *const NAMES[] = {[EPOLL_CTL_ADD] = "add", [EPOLL_CTL_MOD] = "mod", [EPOLL_CTL_DEL] = "del"};
  int set = s->draw[0] % SETS, member = s->a;
  int what = ONE_OF(s->draw[1], EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD,
                    EPOLL_CTL_MOD, EPOLL_CTL_DEL);
  struct epoll_event e = {.events = ONE_OF(s->draw[2], EPOLLIN, EPOLLIN | EPOLLOUT, EPOLLOUT,
                                           EPOLLIN | EPOLLRDHUP, EPOLLRDHUP, 0, EPOLLPRI,
                                           EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP,
                                           EPOLLIN | EPOLLONESHOT, EPOLLOUT | EPOLLONESHOT,
                                           EPOLLIN | EPOLLOUT | EPOLLONESHOT,
                                           EPOLLIN | EPOLLEXCLUSIVE)};
  if (s->draw[3] % 12 == 0) {
    member = A_SET + s->draw[3] / 12 % SETS;
    fd = sets[member - A_SET];
  }
  e.data.u32 = member;
  say("epoll_ctl(e%d, %s, ", set, NAMES[what]);
  say_member(member);
  say(", ");
  say_mask(e.events, SET_EVENTS, "0");
  say(")");
  say_result(epoll_ctl(sets[set], what, fd, &e));
}

static int by_member(const void *one, const void *other) {
  const struct epoll_event *a = one, *b = other;
  return (a->data.u32 > b->data.u32) - (a->data.u32 < b->data.u32);
}

/* Asks an instance what its members are ready for. Which of them are told where there is no room for
 * all goes by when they became ready, of which Longshore knows less. */
static void ask_set(const struct step *s) {
  struct epoll_event e[16];
  int set = s->draw[0] % SETS, most = ONE_OF(s->draw[1], 16, 16, 16, 16, 0, -1);
  say("epoll_wait(e%d, %d)", set, most);
  int n = epoll_wait(sets[set], e, most, 0);
  say_result(n);
  if (n > 0)
    qsort(e, n, sizeof *e, by_member);
  for (int i = 0; i < n; i++) {
    say(" ");
    say_member(e[i].data.u32);
    say(":");
    say_mask(e[i].events, POLL_EVENTS, "-");
  }
}

/* An instance is closed, and a new one has its place. */
static void renew_set(const struct step *s) {
  int set = s->draw[0] % SETS;
  say("epoll_create in the place of e%d", set);
  int result = close(sets[set]);
  sets[set] = epoll_create1(EPOLL_CLOEXEC);
  say_result(sets[set] < 0 ? -1 : result);
}

/* Which instances are ready to be asked. */
static void say_sets(void) {
  for (int i = 0; i < SETS; i++) {
    int events = look(sets[i], POLLIN);
    if (events) {
      say(" e%d:", i);
      say_mask(events, POLL_EVENTS, "-");
    }
  }
}

#endif
