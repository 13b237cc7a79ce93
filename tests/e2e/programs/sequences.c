/* All sequences of up to three things that may be done to a connection within a host, to a listener
 * or by those who call it, to a new stream or to a new datagram socket, of either version of IP, each
 * with several series of calls that look at it afterwards. Nothing is waited for in between. Once on the kernel and once on
 * Longshore, and both are to be the same (tests/sequences.rs).
 *
 *     sequences KIND [ONLY]
 *
 * KIND is a name of `kinds`. It prints a line for each case: what the things that were done gave, and what
 * the calls that look. ONLY is a part of the names of the cases to run. */
#include "seen/looks.h"

#include "sequences/say.h"

#include "sequences/connection.h"
#include "sequences/fresh.h"
#include "sequences/listener.h"

enum { LONGEST = 3 };

/* A series of calls that look. */
static const struct look {
  const char *name;
  void (*run)(void);
} connection_looks[] = {
    {"the state", look_at_state},
    {"recv", look_recv_twice},
    {"bytes", look_at_bytes},
    {"send", look_after_sending},
    {"shutdown", look_after_end},
    {"connect", look_connect},
    {"epoll", look_epoll},
    {0},
},
  listener_looks[] = {
    {"the state", look_at_state},
    {"accept", look_accept},
    {"call", look_call},
    {"callers", look_at_callers},
    {0},
},
  fresh_looks[] = {
    {"the state", look_at_state},
    {"recv", look_recv_twice},
    {"send", look_after_sending},
    {0},
};

static const struct kind {
  const char *name;
  void (*begin)(void);
  const struct operation *operations;
  const struct look *looks;
  int family, type;
} kinds[] = {
    {"connection", make_scene, connection_operations, connection_looks, AF_INET, SOCK_STREAM},
    {"listener", begin_listener, listener_operations, listener_looks, AF_INET, SOCK_STREAM},
    {"stream", begin_fresh, stream_operations, fresh_looks, AF_INET, SOCK_STREAM},
    {"stream of IPv6", begin_fresh, stream6_operations, fresh_looks, AF_INET6, SOCK_STREAM},
    {"datagrams", begin_fresh, datagram_operations, fresh_looks, AF_INET, SOCK_DGRAM},
    {"datagrams of IPv6", begin_fresh, datagram6_operations, fresh_looks, AF_INET6, SOCK_DGRAM},
};

/* --- all sequences ---------------------------------------------------------------- */

static const struct kind *kind;
static const char *only = "";

static void end_sequence(void) {
  char buf[20];
  int fd;
  close(scene.epoll);
  end_listener();
  close_hard(scene.fd);
  close_hard(scene.other);
  if (kind->type == SOCK_STREAM)
    while ((fd = accept(far.fd, 0, 0)) >= 0)
      close_hard(fd);
  else
    while (recv(far.fd, buf, sizeof buf, MSG_DONTWAIT) >= 0)
      ;
}

static void run_case(const struct operation *const *sequence, int length, const struct look *look) {
  char name[200] = "";
  for (int i = 0; i < length; i++)
    snprintf(name + strlen(name), sizeof name - strlen(name), "%s%s", i ? ", " : "",
             sequence[i]->name);
  snprintf(name + strlen(name), sizeof name - strlen(name), ", then %s", look->name);
  if (!strstr(name, only))
    return;
  kind->begin();
  said[0] = 0;
  for (int i = 0; i < length; i++)
    sequence[i]->run();
  say(" |");
  look->run();
  printf("%s:%s\n", name, said);
  fflush(stdout);
  end_sequence();
}

/* All sequences that begin with this one, of `length` operations. */
static void run_from(const struct operation **sequence, int length, int has_other) {
  for (const struct look *look = kind->looks; length && look->name; look++)
    run_case(sequence, length, look);
  if (length == LONGEST)
    return;
  for (const struct operation *next = kind->operations; next->name; next++) {
    if (next->needs && !has_other)
      continue;
    sequence[length] = next;
    run_from(sequence, length + 1, has_other && next->needs != ENDS_OTHER);
  }
}

int main(int argc, char **argv) {
  const struct operation *sequence[LONGEST];
  signal(SIGPIPE, SIG_IGN);
  only = argc > 2 ? argv[2] : "";
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (argc > 1 && !strcmp(argv[1], kinds[i].name))
      kind = &kinds[i];
  if (!kind)
    fail(argc > 1 ? argv[1] : "no kind");
  make_far(kind->family, kind->type);
  run_from(sequence, 0, 1);
  return 0;
}
