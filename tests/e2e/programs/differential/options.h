/* The options that cases ask for and set. */
#ifndef OPTIONS_H
#define OPTIONS_H
#include "say.h"

enum kind { INT, LINGER, TIME, TEXT, STATE, ADDRESS };

struct option {
  int level, name;
  const char *text;
  enum kind kind;
  int is_set; /* by the values; otherwise it is asked for alone */
  int values[4];
};

#define O(level, name, kind) level, name, #name, kind
static const struct option OPTIONS[] = {
    {O(SOL_SOCKET, SO_REUSEADDR, INT), 1, {1, 0, 1, 2}},
    {O(SOL_SOCKET, SO_REUSEPORT, INT), 1, {1, 0, 1, 2}},
    {O(SOL_SOCKET, SO_KEEPALIVE, INT), 1, {1, 0, 1, 5}},
    {O(SOL_SOCKET, SO_BROADCAST, INT), 1, {1, 0, 1, 2}},
    {O(SOL_SOCKET, SO_OOBINLINE, INT), 1, {1, 0, 1, 2}},
    {O(SOL_SOCKET, SO_DONTROUTE, INT), 0, {0}},
    {O(SOL_SOCKET, SO_RCVLOWAT, INT), 1, {1, 10, 1000, 0}},
    {O(SOL_SOCKET, SO_LINGER, LINGER), 1, {0, 1, 2, -1}},
    {O(SOL_SOCKET, SO_RCVTIMEO, TIME), 1, {0, 20000, 20000, -1}},
    {O(SOL_SOCKET, SO_SNDTIMEO, TIME), 1, {0, 20000, 20000, -1}},
    {O(SOL_SOCKET, SO_ERROR, INT), 1, {0, 1, 0, 1}},
    {O(SOL_SOCKET, SO_TYPE, INT), 1, {1, 1, 1, 1}},
    {O(SOL_SOCKET, SO_DOMAIN, INT), 1, {2, 2, 2, 2}},
    {O(SOL_SOCKET, SO_PROTOCOL, INT), 1, {6, 6, 6, 6}},
    {O(SOL_SOCKET, SO_ACCEPTCONN, INT), 1, {1, 0, 1, 0}},
    {O(SOL_SOCKET, SO_TIMESTAMP, INT), 1, {1, 0, 1, 0}},
    {O(SOL_SOCKET, SO_TIMESTAMPNS, INT), 1, {1, 0, 1, 0}},
    {O(SOL_SOCKET, SO_RXQ_OVFL, INT), 1, {1, 0, 1, 0}},
    {O(SOL_SOCKET, SO_PEEK_OFF, INT), 1, {0, 3, -1, -1}},
    {O(SOL_SOCKET, SO_PRIORITY, INT), 1, {0, 3, 6, -1}},
    {O(SOL_SOCKET, SO_ZEROCOPY, INT), 0, {0}},
    {IPPROTO_TCP, TCP_NODELAY, "TCP_NODELAY", INT, 0, {0}},
    {O(IPPROTO_TCP, TCP_CORK, INT), 0, {0}},
    {O(IPPROTO_TCP, TCP_KEEPIDLE, INT), 1, {1, 100, 0, 40000}},
    {O(IPPROTO_TCP, TCP_KEEPINTVL, INT), 1, {1, 100, 0, 40000}},
    {O(IPPROTO_TCP, TCP_KEEPCNT, INT), 1, {1, 100, 0, 128}},
    {O(IPPROTO_TCP, TCP_SYNCNT, INT), 1, {1, 100, 0, 256}},
    {O(IPPROTO_TCP, TCP_LINGER2, INT), 1, {1, 100, -1, 1000}},
    {O(IPPROTO_TCP, TCP_USER_TIMEOUT, INT), 1, {0, 1000, 100000, -1}},
    {O(IPPROTO_TCP, TCP_NOTSENT_LOWAT, INT), 0, {0}},
    {O(IPPROTO_TCP, TCP_INQ, INT), 1, {1, 0, 1, 2}},
    {O(IPPROTO_TCP, TCP_DEFER_ACCEPT, INT), 1, {30, 0, 100, 30}},
    {O(IPPROTO_TCP, TCP_CONGESTION, TEXT), 1, {0}},
    {O(IPPROTO_TCP, TCP_INFO, STATE), 0, {0}},
    {O(IPPROTO_IP, IP_TOS, INT), 1, {0, 16, 255, 256}},
    {O(IPPROTO_IP, IP_TTL, INT), 1, {1, 64, 0, 256}},
    {O(IPPROTO_IP, IP_PKTINFO, INT), 1, {1, 0, 1, 2}},
    {O(IPPROTO_IP, IP_RECVTTL, INT), 1, {1, 0, 1, 2}},
    {O(IPPROTO_IP, IP_RECVTOS, INT), 1, {1, 0, 1, 2}},
    {O(IPPROTO_IP, IP_RECVERR, INT), 1, {1, 0, 1, 0}},
    {O(IPPROTO_IP, IP_RECVORIGDSTADDR, INT), 1, {1, 0, 1, 0}},
    {O(IPPROTO_IP, IP_MTU_DISCOVER, INT), 1, {0, 1, 2, 9}},
    {O(IPPROTO_IP, IP_FREEBIND, INT), 0, {0}},
    {O(IPPROTO_IP, IP_MULTICAST_TTL, INT), 1, {1, 64, 0, 256}},
    {O(IPPROTO_IP, IP_MULTICAST_LOOP, INT), 1, {1, 0, 1, 2}},
    {O(IPPROTO_IP, IP_MULTICAST_ALL, INT), 1, {1, 0, 1, 2}},
    {O(IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, INT), 1, {1, 0, 1, 2}},
    {O(IPPROTO_IPV6, IPV6_V6ONLY, INT), 1, {1, 0, 1, 0}},
    {O(IPPROTO_IPV6, IPV6_UNICAST_HOPS, INT), 1, {1, 64, -1, 256}},
    {O(IPPROTO_IPV6, IPV6_MULTICAST_HOPS, INT), 1, {1, 64, -1, 256}},
    {O(IPPROTO_IPV6, IPV6_MULTICAST_LOOP, INT), 1, {1, 0, 1, 2}},
    {O(IPPROTO_IPV6, IPV6_RECVPKTINFO, INT), 1, {1, 0, 1, 2}},
    {O(IPPROTO_IPV6, IPV6_RECVHOPLIMIT, INT), 1, {1, 0, 1, 2}},
    {O(IPPROTO_IPV6, IPV6_RECVTCLASS, INT), 1, {1, 0, 1, 2}},
    {O(IPPROTO_IPV6, IPV6_TCLASS, INT), 1, {0, 16, -1, 256}},
    {O(IPPROTO_IPV6, IPV6_RECVERR, INT), 1, {1, 0, 1, 0}},
    {O(IPPROTO_IPV6, IPV6_MTU_DISCOVER, INT), 1, {0, 1, 2, 9}},
    {O(IPPROTO_UDP, UDP_CORK, INT), 0, {0}},
};
enum { ALL_OPTIONS = sizeof OPTIONS / sizeof *OPTIONS };

/* Differences that are meant (docs/compatibility.md): what tells beside a datagram does nothing
 * for a stream, and is refused there. */
static int is_refused(const struct option *o, int is_stream) {
  static const int DATAGRAMS[] = {SO_TIMESTAMP, SO_TIMESTAMPNS};
  int refused = (o->level == IPPROTO_IP && o->name == IP_RECVORIGDSTADDR) ||
                /* What an accepted socket says is the hop limit of its peer. */
                (o->level == IPPROTO_IP && o->name == IP_MULTICAST_TTL) ||
                (o->level == IPPROTO_IPV6 && o->name == IPV6_MULTICAST_HOPS);
  for (size_t i = 0; i < sizeof DATAGRAMS / sizeof *DATAGRAMS; i++)
    refused |= o->level == SOL_SOCKET && o->name == DATAGRAMS[i];
  return refused && is_stream;
}

/* One that fits the socket more often than not: of SO_ERROR and TCP_INFO, and what changes
 * how others behave, there is more to be seen than of the rest. */
static const struct option *option_of(const struct step *s) {
  static const struct {
    int level, name;
  } OFTEN[] = {{SOL_SOCKET, SO_ERROR},     {SOL_SOCKET, SO_ERROR},     {SOL_SOCKET, SO_ACCEPTCONN},
               {SOL_SOCKET, SO_LINGER},    {SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_REUSEPORT},
               {SOL_SOCKET, SO_RCVLOWAT},  {IPPROTO_TCP, TCP_DEFER_ACCEPT}};
  if (s->draw[0] % 3 == 0) {
    int which = s->draw[1] % (sizeof OFTEN / sizeof *OFTEN);
    for (const struct option *o = OPTIONS; o < OPTIONS + ALL_OPTIONS; o++)
      if (o->level == OFTEN[which].level && o->name == OFTEN[which].name)
        return o;
  }
  const struct option *o = OPTIONS + s->draw[1] % ALL_OPTIONS;
  return is_refused(o, places[s->a].type == SOCK_STREAM) ? OPTIONS : o;
}

/* Which of its bytes an answer of `n` has, by its kind. */
static void say_value(const struct option *o, const void *value, socklen_t n) {
  const int *i = value;
  if (o->kind == TEXT) {
    say(" \"%.*s\"", (int)n, (const char *)value);
  } else if (o->kind == STATE) {
    /* When the end is acknowledged depends on timers: FIN-WAIT-1 is told as FIN-WAIT-2. Of
     * TIME-WAIT there is none where Linux is told so. */
    unsigned state = ((const struct tcp_info *)value)->tcpi_state;
    say(" state %u", state == TCP_FIN_WAIT1 ? TCP_FIN_WAIT2 : state == TCP_TIME_WAIT ? TCP_CLOSE : state);
    return; /* its length grows with the kernel */
  } else if (o->kind == TIME) {
    const struct timeval *t = value;
    say(" %lld.%06ld", (long long)t->tv_sec, (long)t->tv_usec);
  } else if (n == sizeof *i) {
    if (o->name == SO_ERROR && o->level == SOL_SOCKET)
      say(" %s", *i ? strerrorname_np(*i) : "0");
    else
      say(" %d", *i);
  } else {
    for (socklen_t b = 0; b < n && b < 16; b++)
      say(" %02x", ((const unsigned char *)value)[b]);
  }
  say("/%u", (unsigned)n);
}

static void get_option(const struct step *s, int fd) {
  const struct option *o = option_of(s);
  unsigned char value[256] = {0};
  socklen_t n = ONE_OF(s->draw[2] % 12, 4, 16, 16, 16, 16, 16, 16, 16, 16, 1, 0, 3);
  if (o->kind == STATE)
    n = sizeof value;
  say("getsockopt(%s, %u)", o->text, (unsigned)n);
  int result = getsockopt(fd, o->level, o->name, value, &n);
  say_result(result);
  if (result == 0)
    say_value(o, value, n);
}

static void set_option(const struct step *s, int fd) {
  const struct option *o = option_of(s);
  int number = o->values[s->draw[2] % 4];
  if (!o->is_set) {
    get_option(s, fd);
    return;
  }
  socklen_t n;
  const void *value;
  struct linger linger = {number > 0, number == 1 ? 0 : 1};
  struct timeval time = {0, number};
  static const char *const NAMES[] = {"reno", "cubic", "none such", ""};
  switch (o->kind) {
  case LINGER:
    value = &linger, n = sizeof linger;
    break;
  case TIME:
    value = &time, n = sizeof time;
    break;
  case TEXT:
    value = NAMES[s->draw[2] % 4], n = strlen(value);
    break;
  default:
    value = &number, n = sizeof number;
  }
  if (s->draw[3] % 16 == 0)
    n = ONE_OF(s->draw[4], 0, 1, 3, 5);
  if (o->kind == TEXT)
    say("setsockopt(%s, \"%s\", %u)", o->text, (const char *)value, (unsigned)n);
  else
    say("setsockopt(%s, %d, %u)", o->text, number, (unsigned)n);
  /* Of a shorter value than it reads it takes as many bytes as there are. */
  say_result(setsockopt(fd, o->level, o->name, value, n));
}

/* An option of which every answer may be another: what it is about is time, a processor, the buffers
 * that a stack has chosen, or a name that a stack has given; or it takes what it tells, or is
 * refused (keys, TCP_ZEROCOPY_RECEIVE). */
static int is_own(int level, int name, int is_stream) {
  static const struct {
    int level, name;
  } OWN[] = {{SOL_SOCKET, SO_ERROR},       {SOL_SOCKET, SO_SNDBUF},  {SOL_SOCKET, SO_RCVBUF},
             {SOL_SOCKET, SO_COOKIE},      {SOL_SOCKET, SO_MEMINFO}, {SOL_SOCKET, SO_INCOMING_CPU},
             {SOL_SOCKET, SO_INCOMING_NAPI_ID}, {SOL_SOCKET, SO_NETNS_COOKIE},
             {SOL_SOCKET, SO_PEERNAME},    {IPPROTO_TCP, TCP_MAXSEG}, {IPPROTO_TCP, TCP_INFO},
             {IPPROTO_TCP, TCP_TIMESTAMP}, {IPPROTO_TCP, TCP_CC_INFO}, {IPPROTO_TCP, TCP_WINDOW_CLAMP},
             {IPPROTO_TCP, TCP_QUICKACK},  {IPPROTO_TCP, TCP_ZEROCOPY_RECEIVE},
             {IPPROTO_IP, IP_PKTOPTIONS},
             {IPPROTO_IP, 52 /* IP_PROTOCOL, which says the port */}};
  for (size_t i = 0; i < sizeof OWN / sizeof *OWN; i++)
    if (OWN[i].level == level && OWN[i].name == name)
      return 1;
  if (level == IPPROTO_TCP && name >= 38 && name <= 43) /* TCP_AO */
    return 1;
  /* Of groups, an accepted stream says what its peer's packet had. */
  return is_stream && ((level == IPPROTO_IP && name == IP_MULTICAST_TTL) ||
                       (level == IPPROTO_IPV6 && (name == IPV6_MULTICAST_IF || name == IPV6_MULTICAST_HOPS)));
}

/* Of the MTU, it is alike whether there is one; but for a stream without a connection, of which Linux
 * keeps the way that an attempt has gone. */
static int is_mtu(int level, int name) {
  return (level == IPPROTO_IP && name == IP_MTU) ||
         (level == IPPROTO_IPV6 && (name == IPV6_MTU || name == IPV6_PATHMTU));
}

static int has_no_connection(int fd) {
  struct tcp_info info = {0};
  socklen_t n = sizeof info;
  return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 && info.tcpi_state != TCP_ESTABLISHED;
}

/* What a socket says of each option of a level that it has, by number: its value if that is not
 * zero, or why not. */
static void ask_all(const struct step *s, int fd) {
  int level = ONE_OF(s->draw[0], SOL_SOCKET, SOL_SOCKET, IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP,
                     IPPROTO_TCP, IPPROTO_UDP);
  int last = ENOPROTOOPT, is_without = has_no_connection(fd);
  say("options of level %d:", level);
  for (int name = 1; name < 128; name++) {
    unsigned char value[64] = {0};
    socklen_t n = sizeof value;
    if (is_own(level, name, places[s->a].type == SOCK_STREAM) ||
        (is_mtu(level, name) && is_without))
      continue;
    if (getsockopt(fd, level, name, value, &n)) {
      if (errno != last)
        say(" %d:%s", name, strerrorname_np(errno));
      last = errno;
      continue;
    }
    int number;
    memcpy(&number, value, sizeof number);
    if (is_mtu(level, name)) {
      say(" %d some", name);
      continue;
    }
    say(n == sizeof number && number ? " %d=%d" : " %d", name, number);
    if (n != sizeof number) {
      say("=");
      for (socklen_t i = 0; i < n && i < 24; i++)
        say("%02x", value[i]);
      say("/%u", (unsigned)n);
    }
  }
}

/* Sets the size of a buffer, and asks for it. Less than this, and what fits in is what each stack
 * counts for its own structures. */
static void set_buffer(const struct step *s, int fd) {
  int name = s->draw[0] % 2 ? SO_SNDBUF : SO_RCVBUF, got = -1;
  int size = ONE_OF(s->draw[1], 65536, 100000, 200000, 1 << 30, -1);
  socklen_t n = sizeof got;
  say("setsockopt(%s, %d)", name == SO_SNDBUF ? "SO_SNDBUF" : "SO_RCVBUF", size);
  say_result(setsockopt(fd, SOL_SOCKET, name, &size, sizeof size));
  say_result(getsockopt(fd, SOL_SOCKET, name, &got, &n));
  say(" %d", got);
}

#endif
