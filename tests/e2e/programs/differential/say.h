/* What is printed of a step. Ports that somebody has chosen are F0 to F3, the others a1, a2
 * and so on in order of first sight; bytes are their number and a sum. */
#ifndef SAY_H
#define SAY_H
#include "case.h"

static void __attribute__((format(printf, 1, 2))) say(const char *format, ...) {
  va_list args;
  va_start(args, format);
  int n = vsnprintf(shared->line + shared->length, LINE - shared->length, format, args);
  va_end(args);
  shared->length += n;
  if (shared->length >= LINE)
    shared->length = LINE - 1;
}

/* What a call has returned. */
static void say_result(long long result) {
  int why = errno;
  if (result == -1)
    say(" = %s", strerrorname_np(why) ? strerrorname_np(why) : "?");
  else
    say(" = %lld", result);
  if (broken_pipes)
    say(" SIGPIPE");
  broken_pipes = 0;
}

static void say_port(int port) {
  if (port == 0) {
    say("0");
    return;
  }
  if (port >= first_fixed_port && port < first_fixed_port + FIXED_PORTS) {
    say("F%d", port - first_fixed_port);
    return;
  }
  int i = 0;
  while (i < shared->automatics && shared->automatic[i] != port)
    i++;
  if (i == shared->automatics && i < PORTS)
    shared->automatic[shared->automatics++] = port;
  say("a%d", i + 1);
}

static void say_address(const struct sockaddr_storage *a, socklen_t n) {
  char ip[INET6_ADDRSTRLEN] = "?";
  const struct sockaddr_in *v4 = (const void *)a;
  const struct sockaddr_in6 *v6 = (const void *)a;
  if (n == 0) {
    say("none");
  } else if (a->ss_family == AF_INET && n >= sizeof *v4) {
    say("%s:", inet_ntop(AF_INET, &v4->sin_addr, ip, sizeof ip));
    say_port(ntohs(v4->sin_port));
  } else if (a->ss_family == AF_INET6 && n >= 24) {
    say("[%s%s]:", inet_ntop(AF_INET6, &v6->sin6_addr, ip, sizeof ip),
        n >= sizeof *v6 && v6->sin6_scope_id ? "%scope" : "");
    say_port(ntohs(v6->sin6_port));
  } else {
    say("family %d", a->ss_family);
  }
  if (a->ss_family == AF_INET6 ? n != sizeof *v6 : n && n != sizeof *v4)
    say("/%u", (unsigned)n);
}

static void say_bytes(const void *from, size_t n) {
  const unsigned char *p = from;
  uint32_t sum = 2166136261u;
  for (size_t i = 0; i < n; i++)
    sum = (sum ^ p[i]) * 16777619u;
  say(" bytes %zu/%08x", n, sum);
}

struct name {
  int value;
  const char *name;
};

/* The bits of a mask by name. */
static void say_mask(int mask, const struct name *names, const char *none) {
  const char *between = "";
  if (!mask)
    say("%s", none);
  for (; names->name; names++)
    if (mask & names->value) {
      say("%s%s", between, names->name);
      mask &= ~names->value;
      between = "|";
    }
  if (mask)
    say("%s%#x", between, mask);
}

#define N(value) {value, #value}
static const struct name MESSAGE_FLAGS[] = {
    N(MSG_OOB),      N(MSG_PEEK),     N(MSG_DONTROUTE), N(MSG_CTRUNC), N(MSG_TRUNC),
    N(MSG_DONTWAIT), N(MSG_EOR),      N(MSG_WAITALL),   N(MSG_CONFIRM), N(MSG_ERRQUEUE),
    N(MSG_NOSIGNAL), N(MSG_MORE),     N(MSG_CMSG_CLOEXEC), {0, 0}};
static const struct name POLL_EVENTS[] = {
    {POLLIN, "IN"},   {POLLPRI, "PRI"}, {POLLOUT, "OUT"},     {POLLERR, "ERR"},
    {POLLHUP, "HUP"}, {POLLNVAL, "NVAL"}, {POLLRDHUP, "RDHUP"}, {0, 0}};

static void say_flags(int flags) {
  say_mask(flags, MESSAGE_FLAGS, "0");
}

#endif
