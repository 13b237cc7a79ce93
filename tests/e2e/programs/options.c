/* getsockopt and setsockopt with the kernel's meaning. */
#include "check.h"
#include <netinet/ip.h>

static int tcp(void) { return SYS(socket(AF_INET, SOCK_STREAM, 0)); }

static void what_it_is(void) {
  int s = tcp(), d = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  IS(option(s, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
  IS(option(d, SOL_SOCKET, SO_TYPE), SOCK_DGRAM);
  IS(option(s, SOL_SOCKET, SO_DOMAIN), AF_INET);
  IS(option(s, SOL_SOCKET, SO_PROTOCOL), IPPROTO_TCP);
  IS(option(d, SOL_SOCKET, SO_PROTOCOL), IPPROTO_UDP);
  IS(option(s, SOL_SOCKET, SO_ACCEPTCONN), 0);
  IS(option(my_listener(1), SOL_SOCKET, SO_ACCEPTCONN), 1);
  IS(option(s, SOL_SOCKET, SO_ERROR), 0);
}

/* Switches: off at first, what is set is read back, anything but 0 is 1. */
static void switches(void) {
  static const struct {
    int level, name;
  } all[] = {
      {SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_REUSEPORT},
      {SOL_SOCKET, SO_KEEPALIVE}, {SOL_SOCKET, SO_BROADCAST},
      {SOL_SOCKET, SO_OOBINLINE}, {IPPROTO_TCP, TCP_NODELAY},
      {IPPROTO_TCP, TCP_CORK},
  };
  int fd = tcp();
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
    IS(option(fd, all[i].level, all[i].name), 0);
    set(fd, all[i].level, all[i].name, 1);
    IS(option(fd, all[i].level, all[i].name), 1);
    set(fd, all[i].level, all[i].name, 0);
    IS(option(fd, all[i].level, all[i].name), 0);
  }
}

/* Switches of a connection, through each descriptor of it and in each process; what is
   no value changes nothing, and what is on outlives the connection. */
static void switches_of_a_connection(void) {
  static const int all[] = {TCP_NODELAY, TCP_CORK};
  EACH_PAIR(mine, far) {
    int again = SYS(dup(mine));
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) {
      set(mine, IPPROTO_TCP, all[i], 0);
      IS(option(again, IPPROTO_TCP, all[i]), 0);
      set(again, IPPROTO_TCP, all[i], -7);
      IS(option(mine, IPPROTO_TCP, all[i]), 1);
      int off = 0;
      FAILS(setsockopt(mine, IPPROTO_TCP, all[i], &off, 3), EINVAL);
      FAILS(setsockopt(mine, IPPROTO_TCP, all[i], (void *)1, 4), EFAULT);
      char byte = 9;
      socklen_t one = 1;
      SYS(getsockopt(mine, IPPROTO_TCP, all[i], &byte, &one));
      IS(byte, 1);
      IS(one, 1);
      char odd[1 + 2 * sizeof(int)] = {0};
      SYS(setsockopt(mine, IPPROTO_TCP, all[i], odd + 1, 2 * sizeof(int)));
      IS(option(mine, IPPROTO_TCP, all[i]), 0);
      pid_t child = SYS(fork());
      if (!child) {
        set(again, IPPROTO_TCP, all[i], 1);
        _exit(0);
      }
      SYS(waitpid(child, 0, 0));
      IS(option(mine, IPPROTO_TCP, all[i]), 1);
    }
    struct sockaddr none = {.sa_family = AF_UNSPEC};
    SYS(connect(mine, &none, sizeof none));
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
      IS(option(again, IPPROTO_TCP, all[i]), 1);
    close(again);
  }
}

static void keepalive_times(void) {
  int fd = tcp();
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  IS(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 7200);
  IS(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 75);
  IS(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 9);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 100);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  IS(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 100);
  IS(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 10);
  IS(option(fd, IPPROTO_TCP, TCP_KEEPCNT), 3);
  int bad = 0;
  FAILS(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &bad, sizeof bad), EINVAL);
  bad = 200;
  FAILS(setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &bad, sizeof bad), EINVAL);
}

static void buffers(void) {
  int fd = tcp();
  OK(option(fd, SOL_SOCKET, SO_RCVBUF) >= 4096);
  OK(option(fd, SOL_SOCKET, SO_SNDBUF) >= 4096);
  set(fd, SOL_SOCKET, SO_RCVBUF, 65536);
  set(fd, SOL_SOCKET, SO_SNDBUF, 32768);
  IS(option(fd, SOL_SOCKET, SO_RCVBUF), 131072); /* Linux doubles them */
  IS(option(fd, SOL_SOCKET, SO_SNDBUF), 65536);
}

static void small_buffers_still_work(void) {
  /* Linux itself takes two seconds for this much. */
  EACH_PAIR(mine, far) {
    set(mine, SOL_SOCKET, SO_RCVBUF, 4096);
    set(mine, SOL_SOCKET, SO_SNDBUF, 4096);
    pid_t a = send_in_background(far, 60000);
    receive_pattern(mine, 60000);
    joined(a);
    pid_t b = send_in_background(mine, 60000);
    receive_pattern(far, 60000);
    joined(b);
  }
}

/* The reader comes late each time, when nothing else happens any more. */
static void small_buffers_and_a_slow_reader(void) {
  EACH_PAIR(mine, far) {
    enum { ALL = 30000 };
    set(mine, SOL_SOCKET, SO_SNDBUF, 4096);
    pid_t child = send_in_background(mine, ALL);
    receive_pattern_slowly(far, ALL, 10);
    joined(child);
  }
}

static void send_buffer_limits(void) {
  EACH_PAIR(mine, far) {
    set(mine, SOL_SOCKET, SO_SNDBUF, 16384);
    far_option(far, SOL_SOCKET, SO_RCVBUF, 16384);
    nonblocking(mine);
    static char some[4096];
    size_t sent = 0;
    ssize_t n;
    for (int tries = 0; tries < 20; tries++) {
      while ((n = write(mine, some, sizeof some)) > 0)
        sent += n;
      OK(errno == EAGAIN);
      sleep_ms(10);
    }
    OK(sent < 4 << 20); /* not without bound */
  }
}

static void linger(void) {
  int fd = tcp();
  struct linger l = {9, 9};
  socklen_t n = sizeof l;
  SYS(getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &n));
  IS(l.l_onoff, 0);
  l = (struct linger){1, 7};
  SYS(setsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof l));
  l = (struct linger){0, 0};
  SYS(getsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &n));
  IS(l.l_onoff, 1);
  IS(l.l_linger, 7);
}

static void timeouts(void) {
  int fd = tcp();
  struct timeval t = {9, 9};
  socklen_t n = sizeof t;
  SYS(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, &n));
  OK(t.tv_sec == 0 && t.tv_usec == 0);
  t = (struct timeval){3, 500000};
  SYS(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t));
  t = (struct timeval){0, 0};
  SYS(getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &t, &n));
  OK(t.tv_sec == 3 && t.tv_usec == 500000);
  t = (struct timeval){0, 2000000};
  FAILS(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &t, sizeof t), EDOM);
}

/* The names of times of 64 bits are for the same limits. */
static void timeouts_of_64_bits(void) {
  enum { RCVTIMEO_NEW = 66 /* SO_RCVTIMEO_NEW */, SNDTIMEO_NEW = 67 /* SO_SNDTIMEO_NEW */ };
  EACH_PAIR(mine, far) {
    int64_t limit[2] = {0, 200000}, read[2] = {9, 9};
    struct timeval old;
    socklen_t n = sizeof read;
    SYS(setsockopt(mine, SOL_SOCKET, RCVTIMEO_NEW, limit, sizeof limit));
    SYS(getsockopt(mine, SOL_SOCKET, RCVTIMEO_NEW, read, &n));
    OK(n == sizeof read && read[0] == 0 && read[1] == 200000);
    n = sizeof old;
    SYS(getsockopt(mine, SOL_SOCKET, SO_RCVTIMEO, &old, &n));
    OK(old.tv_sec == 0 && old.tv_usec == 200000);
    TAKES(FAILS(recv(mine, (char[1]){0}, 1, 0), EAGAIN), 0.2, 1);
    limit[0] = 3;
    SYS(setsockopt(mine, SOL_SOCKET, SNDTIMEO_NEW, limit, sizeof limit));
    SYS(getsockopt(mine, SOL_SOCKET, SO_SNDTIMEO, &old, &n));
    OK(old.tv_sec == 3 && old.tv_usec == 200000);
    limit[1] = 1000000;
    FAILS(setsockopt(mine, SOL_SOCKET, SNDTIMEO_NEW, limit, sizeof limit), EDOM);
  }
}

static void tcp_values(void) {
  int fd = tcp();
  IS(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 0);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
  IS(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 5000);
  IS(option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT), 0);
  set(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5);
  OK(option(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT) >= 5); /* rounded up to whole retries */
  set(fd, IPPROTO_TCP, TCP_SYNCNT, 3);
  IS(option(fd, IPPROTO_TCP, TCP_SYNCNT), 3);
  set(fd, IPPROTO_TCP, TCP_QUICKACK, 1);
  IS(option(fd, IPPROTO_TCP, TCP_QUICKACK), 1);
  set(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, 16384);
  IS(option(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT), 16384);
  set(fd, IPPROTO_TCP, TCP_LINGER2, 10);
  IS(option(fd, IPPROTO_TCP, TCP_LINGER2), 10);
  set(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, 65536);
  IS(option(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP), 65536);
}

/* A connection's buffer for what it sends is told as it is, which is larger than a new socket's,
 * unless somebody has set it. */
static void buffer_of_a_connection(void) {
  EACH_PAIR(mine, far) {
    int fresh = tcp(), now = option(mine, SOL_SOCKET, SO_SNDBUF);
    OK(now > 2 * option(fresh, SOL_SOCKET, SO_SNDBUF));
    nonblocking(mine);
    static char much[64 << 20];
    OK((size_t)3 * now <= sizeof much);
    OK(send(mine, much, (size_t)3 * now, 0) < (ssize_t)3 * now);
    set(mine, SOL_SOCKET, SO_SNDBUF, 50000);
    IS(option(mine, SOL_SOCKET, SO_SNDBUF), 100000);
    SYS(close(fresh));
    (void)far;
  }
}

/* With a negative time limit nothing is waited for. */
static void a_time_limit_before_now(void) {
  struct timeval before = {-1, 0}, odd = {-1, 1000000};
  char c;
  int fd = tcp();
  FAILS(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &odd, sizeof odd), EDOM);
  SYS(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &before, sizeof before));
  struct sockaddr_in a = {.sin_family = AF_INET};
  SYS(bind(fd, A(a)));
  SYS(listen(fd, 1));
  TAKES(FAILS(accept(fd, 0, 0), EAGAIN), 0, 1);
  SYS(close(fd));
  EACH_PAIR(mine, far) {
    SYS(setsockopt(mine, SOL_SOCKET, SO_RCVTIMEO, &before, sizeof before));
    TAKES(FAILS(recv(mine, &c, 1, 0), EAGAIN), 0, 1);
    send_all(far, "x", 1);
    IS(ready(mine, POLLIN, 10000), POLLIN);
    IS(recv(mine, &c, 1, 0), 1);
    SYS(setsockopt(mine, SOL_SOCKET, SO_SNDTIMEO, &before, sizeof before));
    static char much[1 << 20];
    int why = 0;
    TAKES(while (send(mine, much, sizeof much, 0) > 0); why = errno, 0, 5);
    IS(why, EAGAIN);
  }
}

/* The limit of a window is taken away only while there is no connection. */
static void window_without_a_limit(void) {
  int fd = tcp(), zero = 0, small = 1;
  set(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, 65536);
  set(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, 0);
  IS(option(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP), 0);
  SYS(listen(fd, 1));
  FAILS(setsockopt(fd, IPPROTO_TCP, TCP_WINDOW_CLAMP, &zero, sizeof zero), EINVAL);
  EACH_PAIR(mine, far) {
    FAILS(setsockopt(mine, IPPROTO_TCP, TCP_WINDOW_CLAMP, &zero, sizeof zero), EINVAL);
    FAILS(setsockopt(mine, IPPROTO_TCP, TCP_WINDOW_CLAMP, &zero, 0), EINVAL);
    SYS(setsockopt(mine, IPPROTO_TCP, TCP_WINDOW_CLAMP, &small, sizeof small));
    OK(option(mine, IPPROTO_TCP, TCP_WINDOW_CLAMP) > small);
    FAILS(setsockopt(mine, IPPROTO_TCP, TCP_WINDOW_CLAMP, &zero, sizeof zero), EINVAL);
    (void)far;
  }
}

static void segment_size(void) {
  int fd = tcp();
  OK(option(fd, IPPROTO_TCP, TCP_MAXSEG) >= 536);
  EACH_PAIR(mine, far) {
    int mss = option(mine, IPPROTO_TCP, TCP_MAXSEG);
    OK(mss >= 1300 && mss <= 65535);
  }
}

/* What is set of one option before there is a connection changes no other. */
static void others_leave_the_segment_size_alone(void) {
  const struct {
    int level, name;
  } others[] = {{IPPROTO_TCP, TCP_NOTSENT_LOWAT}, {IPPROTO_TCP, 36 /* TCP_INQ */}, {SOL_SOCKET, SO_ZEROCOPY}, {IPPROTO_TCP, TCP_USER_TIMEOUT}, {IPPROTO_TCP, TCP_QUICKACK}};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    int listener = far_listener(1);
    int fd = tcp();
    set(fd, others[i].level, others[i].name, 1);
    struct sockaddr_in there = far_name(listener);
    SYS(connect(fd, A(there)));
    int mss = option(fd, IPPROTO_TCP, TCP_MAXSEG);
    if (mss < 1300)
      FAIL("a segment has %d bytes with option %d of level %d", mss, others[i].name, others[i].level);
    SYS(close(far_accept(listener)));
    SYS(close(fd));
    SYS(close(listener));
  }
}

static void congestion_control(void) {
  int fd = tcp();
  char name[16] = {0};
  socklen_t n = sizeof name;
  SYS(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "cubic", 5));
  SYS(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &n));
  OK(strcmp(name, "cubic") == 0);
  SYS(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
  n = sizeof name;
  SYS(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &n));
  OK(strcmp(name, "reno") == 0);
  FAILS(setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, "no-such", 7), ENOENT);
  EACH_PAIR(mine, far) {
    SYS(setsockopt(mine, IPPROTO_TCP, TCP_CONGESTION, "reno", 4));
    FAILS(setsockopt(mine, IPPROTO_TCP, TCP_CONGESTION, "no-such", 7), ENOENT);
    n = sizeof name;
    SYS(getsockopt(mine, IPPROTO_TCP, TCP_CONGESTION, name, &n));
    OK(strcmp(name, "reno") == 0);
    send_all(mine, "after", 5);
    char buf[5];
    receive_all(far, buf, sizeof buf);
  }
}

static void pacing_rate(void) {
  EACH_PAIR(mine, far) {
    unsigned rate = 1000000;
    SYS(setsockopt(mine, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate));
    IS(option(mine, SOL_SOCKET, SO_MAX_PACING_RATE), 1000000);
    static char some[5000];
    send_all(mine, some, sizeof some);
    static char buf[sizeof some];
    receive_all(far, buf, sizeof buf);
  }
}

enum { PACED = 3000000 };
static void *send_paced(void *arg) {
  static char some[PACED];
  send_all(*(int *)arg, some, sizeof some);
  return 0;
}

/* Loopback or not; Linux lets the first ten segments pass, which may be large there. */
static void a_pacing_rate_is_kept_to(void) {
  EACH_PAIR(mine, far) {
    set(mine, SOL_SOCKET, SO_MAX_PACING_RATE, 2000000);
    static char buf[PACED];
    pthread_t writer;
    double start = now();
    OK(!pthread_create(&writer, 0, send_paced, &mine));
    receive_all(far, buf, sizeof buf);
    double took = now() - start;
    OK(took > 0.6 && took < 10);
    OK(!pthread_join(writer, 0));
  }
}

/* A field of the kernel's struct tcp_info that the C library's does not have. */
static uint64_t field(const char *info, size_t at, size_t size) {
  uint64_t value = 0;
  memcpy(&value, info + at, size);
  return value;
}

/* What both stacks say after a transfer of `bytes` to the far side that is all
   acknowledged; where it depends on the path, that they say something. */
static void fields_after(int mine, uint64_t bytes) {
  char info[512] = {0};
  socklen_t n = sizeof info;
  SYS(getsockopt(mine, IPPROTO_TCP, TCP_INFO, info, &n));
  OK(n >= 232);
  uint64_t rtt = field(info, 68, 4), min_rtt = field(info, 148, 4);
  OK(min_rtt > 0 && min_rtt < 1000000 && rtt > 0);
  IS(field(info, 24, 4), 0);                    /* unacked */
  OK(field(info, 120, 8) >= bytes);             /* bytes_acked: the SYN is one in Linux */
  OK(field(info, 120, 8) <= bytes + 1);
  IS(field(info, 128, 8), 1);                   /* bytes_received */
  IS(field(info, 144, 4), 0);                   /* notsent_bytes */
  IS(field(info, 152, 4), 1);                   /* data_segs_in */
  OK(field(info, 156, 4) > 1);                  /* data_segs_out */
  /* delivery_rate: between two sockets of one engine there is no path to measure. */
  OK(!far_in_kernel() || field(info, 160, 8) > 0);
  OK(field(info, 192, 4) > 1);                  /* delivered */
  OK(field(info, 200, 8) >= bytes);             /* bytes_sent */
  OK(field(info, 228, 4) > 0);                  /* snd_wnd */
}

static void tcp_info(void) {
  EACH_PAIR(mine, far) {
    static char some[100000];
    pid_t child = SYS(fork());
    if (!child) {
      static char buf[sizeof some];
      receive_all(far, buf, sizeof buf);
      send_all(far, "k", 1);
      _exit(0);
    }
    send_all(mine, some, sizeof some);
    char c;
    receive_all(mine, &c, 1);
    fields_after(mine, sizeof some);
    struct tcp_info i;
    socklen_t n = sizeof i;
    memset(&i, 0xff, sizeof i);
    SYS(getsockopt(mine, IPPROTO_TCP, TCP_INFO, &i, &n));
    OK(n >= 104 && n <= sizeof i);
    IS(i.tcpi_state, TCP_ESTABLISHED);
    IS(i.tcpi_unacked, 0);
    OK(i.tcpi_options & TCPI_OPT_TIMESTAMPS);
    OK(i.tcpi_options & TCPI_OPT_SACK);
    OK(i.tcpi_options & TCPI_OPT_WSCALE);
    OK(i.tcpi_rtt > 0 && i.tcpi_rtt < 1000000);
    OK(i.tcpi_rto >= 1000 && i.tcpi_rto < 5000000);
    OK(i.tcpi_snd_mss >= 1000 && i.tcpi_snd_cwnd >= 2);
    IS(option(mine, IPPROTO_IP, IP_MTU), (int)i.tcpi_pmtu);
    joined(child);
    /* A short buffer gets the beginning. */
    n = 1;
    SYS(getsockopt(mine, IPPROTO_TCP, TCP_INFO, &i, &n));
    IS(n, 1);
    IS(i.tcpi_state, TCP_ESTABLISHED);
    SYS(shutdown(mine, SHUT_WR));
    for (int tries = 0; tries < 500 && i.tcpi_state != TCP_FIN_WAIT2; tries++) {
      sleep_ms(10);
      n = 1;
      SYS(getsockopt(mine, IPPROTO_TCP, TCP_INFO, &i, &n));
    }
    IS(i.tcpi_state, TCP_FIN_WAIT2);
  }
  int listener = my_listener(5);
  struct tcp_info i;
  socklen_t n = sizeof i;
  SYS(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &i, &n));
  IS(i.tcpi_state, TCP_LISTEN);
  int mtu;
  FAILS(getsockopt(listener, IPPROTO_IP, IP_MTU, &mtu, &n), ENOTCONN);
}

/* How many connections may wait at a listener. */
static int may_wait(int listener) {
  struct tcp_info i = {0};
  socklen_t n = sizeof i;
  SYS(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &i, &n));
  return i.tcpi_sacked;
}

/* A listener says how many connections wait for it, and how many may: however many are asked for,
 * no more than net.core.somaxconn. */
static void listener_tells_its_queue(void) {
  int most = 0, listener = my_listener(0x7fffffff);
  FILE *setting = fopen("/proc/sys/net/core/somaxconn", "r");
  OK(setting && fscanf(setting, "%d", &most) == 1);
  fclose(setting);
  IS(may_wait(listener), most);
  SYS(listen(listener, 3));
  IS(may_wait(listener), 3);
  SYS(listen(listener, -1));
  IS(may_wait(listener), most);
  SYS(close(listener));
  listener = my_listener(5);
  struct sockaddr_in a = name_of(listener);
  for (int waiting = 0; waiting < 4; waiting++) {
    struct tcp_info i = {0};
    socklen_t n = sizeof i;
    SYS(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &i, &n));
    IS(i.tcpi_unacked, waiting);
    IS(i.tcpi_sacked, 5);
    if (waiting < 3) {
      int far = far_socket(SOCK_STREAM);
      SYS(far_connect(far, a));
      for (int tries = 0; tries < 500 && (int)i.tcpi_unacked == waiting; tries++) {
        sleep_ms(tries != 0);
        SYS(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &i, &n));
      }
    }
    if (waiting == 2)
      for (int left = 2; left >= 0; left--) {
        SYS(close(SYS(accept(listener, 0, 0))));
        SYS(getsockopt(listener, IPPROTO_TCP, TCP_INFO, &i, &n));
        IS(i.tcpi_unacked, left);
        if (left == 0)
          return;
      }
  }
}

/* Options that are asked for under another name or in the other version of IP. */
static void asked_for_otherwise(void) {
  struct sockaddr_in6 mapped = {.sin6_family = AF_INET6};
  int listener = far_listener(5), fd = SYS(socket(AF_INET6, SOCK_STREAM, 0)), one = 1;
  char ip[64];
  snprintf(ip, sizeof ip, "::ffff:%s", far_ip());
  IS(inet_pton(AF_INET6, ip, &mapped.sin6_addr), 1);
  mapped.sin6_port = far_name(listener).sin_port;
  struct {
    struct sockaddr_in6 address;
    uint32_t mtu;
  } path;
  socklen_t n = sizeof path;
  FAILS(getsockopt(fd, IPPROTO_IPV6, 61 /* IPV6_PATHMTU */, &path, &n), ENOTCONN);
  n = sizeof path - 1;
  FAILS(getsockopt(fd, IPPROTO_IPV6, 61, &path, &n), EINVAL);
  n = sizeof one;
  FAILS(getsockopt(fd, IPPROTO_IPV6, IPV6_ADDRFORM, &one, &n), ENOTCONN);
  SYS(connect(fd, A(mapped)));
  int mtu = option(fd, IPPROTO_IPV6, IPV6_MTU);
  OK(mtu >= 1280);
  IS(option(fd, IPPROTO_IP, IP_MTU), mtu);
  n = sizeof path - 1;
  FAILS(getsockopt(fd, IPPROTO_IPV6, 61, &path, &n), EINVAL);
  n = sizeof path;
  SYS(getsockopt(fd, IPPROTO_IPV6, 61, &path, &n));
  IS(n, sizeof path);
  IS(path.mtu, mtu);
  IS(option(fd, IPPROTO_IPV6, IPV6_ADDRFORM), AF_INET6);
  /* A time limit that the program has not set is not shown, under whatever name. */
  struct timeval limit;
  int mine = my_listener(5);
  for (int name = SO_RCVTIMEO, next = 66 /* SO_RCVTIMEO_NEW */; name; name = next, next = 0) {
    n = sizeof limit;
    SYS(getsockopt(mine, SOL_SOCKET, name, &limit, &n));
    OK(limit.tv_sec == 0 && limit.tv_usec == 0);
  }
  /* Receiving by mapping is refused, and not answered by a socket where nothing comes. */
  char request[64] = {0};
  n = sizeof request;
  if (on_longshore())
    FAILS(getsockopt(fd, IPPROTO_TCP, 35 /* TCP_ZEROCOPY_RECEIVE */, request, &n), ENOPROTOOPT);
}

/* An option counts for the connection that comes next, however late the engine
   was told of it. */
static void set_while_it_listens(void) {
  int listener = my_listener(5);
  sleep_ms(50);
  set(listener, IPPROTO_TCP, TCP_MAXSEG, 1100);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, name_of(listener)));
  int mine = SYS(accept(listener, 0, 0));
  struct tcp_info i;
  socklen_t n = sizeof i;
  SYS(getsockopt(mine, IPPROTO_TCP, TCP_INFO, &i, &n));
  OK(i.tcpi_advmss <= 1100 && i.tcpi_advmss >= 1080);
}

static void set_before_it_is_connected(void) {
  int listener = far_listener(4);
  struct sockaddr_in a = far_name(listener);
  int fd = tcp();
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 33);
  set(fd, SOL_SOCKET, SO_SNDBUF, 40000);
  SYS(connect(fd, A(a)));
  IS(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
  IS(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
  IS(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 33);
  IS(option(fd, SOL_SOCKET, SO_SNDBUF), 80000);
}

/* Fast Open is for listeners, and for sockets that are to connect. */
static void fast_open_is_set_before(void) {
  int listener = my_listener(4), zero = 0, fd = tcp();
  set(listener, IPPROTO_TCP, TCP_FASTOPEN, 5);
  FAILS(setsockopt(listener, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &zero, sizeof zero), EINVAL);
  set(fd, IPPROTO_TCP, TCP_FASTOPEN, 5);
  set(fd, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, 0);
  EACH_PAIR(mine, far) {
    FAILS(setsockopt(mine, IPPROTO_TCP, TCP_FASTOPEN, &zero, sizeof zero), EINVAL);
    FAILS(setsockopt(mine, IPPROTO_TCP, TCP_FASTOPEN_CONNECT, &zero, sizeof zero), EINVAL);
  }
}

/* The path's MTU is known of a peer, over UDP as over TCP. */
static void mtu_of_a_datagram_socket(void) {
  EACH_PAIR(mine, far) {
    int d = SYS(socket(AF_INET, SOCK_DGRAM, 0)), mtu;
    socklen_t n = sizeof mtu;
    FAILS(getsockopt(d, IPPROTO_IP, IP_MTU, &mtu, &n), ENOTCONN);
    struct sockaddr_in any = address(my_ip(), 0);
    SYS(bind(d, A(any)));
    FAILS(getsockopt(d, IPPROTO_IP, IP_MTU, &mtu, &n), ENOTCONN);
    struct sockaddr_in peer = peer_of(mine);
    SYS(connect(d, A(peer)));
    IS(option(d, IPPROTO_IP, IP_MTU), option(mine, IPPROTO_IP, IP_MTU));
    SYS(close(d));
  }
}

/* SO_REUSEADDR and SO_REUSEPORT, too, as they are at the time. */
static void accepted_inherits_reuse(void) {
  int listener = tcp();
  set(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  set(listener, SOL_SOCKET, SO_REUSEPORT, 1);
  set(listener, SOL_SOCKET, SO_REUSEPORT, 0);
  struct sockaddr_in at = address(my_ip(), 0);
  SYS(bind(listener, A(at)));
  SYS(listen(listener, 4));
  for (int reuse = 1; reuse >= 0; reuse--) {
    set(listener, SOL_SOCKET, SO_REUSEADDR, reuse);
    set(listener, SOL_SOCKET, SO_REUSEPORT, !reuse);
    int far = far_socket(SOCK_STREAM);
    SYS(far_connect(far, name_of(listener)));
    int mine = SYS(accept(listener, 0, 0));
    IS(option(mine, SOL_SOCKET, SO_REUSEADDR), reuse);
    IS(option(mine, SOL_SOCKET, SO_REUSEPORT), !reuse);
    set(mine, SOL_SOCKET, SO_REUSEADDR, !reuse);
    IS(option(mine, SOL_SOCKET, SO_REUSEADDR), !reuse);
    IS(option(listener, SOL_SOCKET, SO_REUSEADDR), reuse);
  }
}

static void accepted_inherits(void) {
  int listener = my_listener(4);
  set(listener, IPPROTO_TCP, TCP_NODELAY, 1);
  set(listener, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(listener, IPPROTO_TCP, TCP_KEEPIDLE, 44);
  set(listener, SOL_SOCKET, SO_SNDBUF, 50000);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, name_of(listener)));
  int mine = SYS(accept(listener, 0, 0));
  IS(option(mine, IPPROTO_TCP, TCP_NODELAY), 1);
  IS(option(mine, SOL_SOCKET, SO_KEEPALIVE), 1);
  IS(option(mine, IPPROTO_TCP, TCP_KEEPIDLE), 44);
  IS(option(mine, SOL_SOCKET, SO_SNDBUF), 100000);
  accepted_inherits_reuse();
}

/* What says something of datagrams or of binding alone, an accepted connection has from its listener
 * all the same. */
static void accepted_inherits_what_means_nothing_to_it(void) {
  static const struct {
    int level, name, value;
  } SET[] = {
      {SOL_SOCKET, SO_BROADCAST, 1}, {SOL_SOCKET, SO_RXQ_OVFL, 1},
      {IPPROTO_IP, IP_PKTINFO, 1},   {IPPROTO_IP, IP_RECVTTL, 1},
      {IPPROTO_IP, IP_RECVTOS, 1},   {IPPROTO_IP, IP_FREEBIND, 1},
      {IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1},
      {IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO}, {IPPROTO_IP, IP_MULTICAST_LOOP, 0},
  };
  enum { ALL = sizeof SET / sizeof *SET };
  for (int only = -1; only < ALL; only++)
    for (int is_before = 0; is_before < 2; is_before++) {
      int listener = is_before ? SYS(socket(AF_INET, SOCK_STREAM, 0)) : my_listener(4), values[ALL];
      for (int i = 0; i < ALL; i++)
        if (only < 0 || i == only)
          set(listener, SET[i].level, SET[i].name, SET[i].value);
      if (is_before) {
        struct sockaddr_in a = address(my_ip(), 0);
        SYS(bind(listener, A(a)));
        SYS(listen(listener, 4));
      }
      int far = far_socket(SOCK_STREAM);
      SYS(far_connect(far, name_of(listener)));
      int mine = SYS(accept(listener, 0, 0));
      for (int i = 0; i < ALL; i++) {
        values[i] = option(listener, SET[i].level, SET[i].name);
        if (only < 0 || i == only)
          IS(values[i], SET[i].value);
        if (option(mine, SET[i].level, SET[i].name) != values[i])
          FAIL("option %d of level %d is %d, and the listener's %d", SET[i].name, SET[i].level,
               option(mine, SET[i].level, SET[i].name), values[i]);
      }
      SYS(close(mine)), SYS(close(far)), SYS(close(listener));
    }
}

static void cork_holds_back(void) {
  EACH_PAIR(mine, far) {
    char buf[4];
    for (int held = 0, tries = 0; !held; tries++) {
      OK(tries < 50);
      set(mine, IPPROTO_TCP, TCP_CORK, 1);
      double start = now();
      send_all(mine, "held", 4);
      held = is_held_back(far, start);
      set(mine, IPPROTO_TCP, TCP_CORK, 0);
      IS(ready(far, POLLIN, 10000), POLLIN);
      receive_all(far, buf, 4);
    }
  }
}

static void message_more(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    for (int held = 0, tries = 0; !held; tries++) {
      OK(tries < 50);
      double start = now();
      IS(send(mine, "he", 2, MSG_MORE), 2);
      held = is_held_back(far, start);
      IS(send(mine, "ld", 2, 0), 2);
      receive_all(far, buf, 4);
      OK(memcmp(buf, "held", 4) == 0);
      if (!held) {
        /* Anew: an acknowledgment that is still to come would end the hold. */
        close(mine), close(far);
        pair(kind_, &mine, &far);
      }
    }
  }
}

/* TCP segments with data that a socket has sent. */
static uint64_t segments_sent(int fd) {
  char info[512] = {0};
  socklen_t n = sizeof info;
  SYS(getsockopt(fd, IPPROTO_TCP, TCP_INFO, info, &n));
  return field(info, 156, 4);
}

/* MSG_EOR: what follows shares no segment with what it ends, also if both wait. */
static void records_share_no_segment(void) {
  EACH_PAIR(mine, far) {
    char buf[8];
    uint64_t before = segments_sent(mine);
    set(mine, IPPROTO_TCP, TCP_CORK, 1);
    IS(send(mine, "ab", 2, MSG_EOR), 2);
    IS(send(mine, "cd", 2, MSG_EOR | MSG_MORE), 2);
    struct iovec part = {"ef", 2};
    struct mmsghdr one = {.msg_hdr = {.msg_iov = &part, .msg_iovlen = 1, .msg_flags = MSG_EOR}};
    IS(sendmmsg(mine, &one, 1, 0), 1);
    IS(send(mine, "g", 1, 0), 1);
    IS(send(mine, "h", 1, 0), 1);
    set(mine, IPPROTO_TCP, TCP_CORK, 0);
    receive_all(far, buf, 8);
    OK(memcmp(buf, "abcdefgh", 8) == 0);
    /* Between two sockets of one engine there are no segments. */
    if (far_in_kernel())
      IS(segments_sent(mine) - before, 4);
  }
}

static void low_water_mark(void) {
  EACH_PAIR(mine, far) {
    IS(option(mine, SOL_SOCKET, SO_RCVLOWAT), 1);
    set(mine, SOL_SOCKET, SO_RCVLOWAT, 10);
    send_all(far, "12345", 5);
    IS(ready(mine, POLLIN, 50), 0);
    char buf[16];
    IS(recv(mine, buf, 16, MSG_PEEK | MSG_DONTWAIT), 5); /* who looks sees it */
    send_all(far, "67890", 5);
    IS(ready(mine, POLLIN, 10000), POLLIN);
    receive_all(mine, buf, 10);
    send_all(far, "12345", 5);
    IS(ready(mine, POLLIN, 50), 0);
    set(mine, SOL_SOCKET, SO_RCVLOWAT, 5);
    IS(ready(mine, POLLIN, 10000), POLLIN);
    set(mine, SOL_SOCKET, SO_RCVLOWAT, 10);
    SYS(shutdown(far, SHUT_WR));
    IS(ready(mine, POLLIN, 10000), POLLIN); /* the end is enough */
  }
}

static void deferred_accept(void) {
  int listener = my_listener(4);
  set(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, name_of(listener)));
  IS(ready(listener, POLLIN, 100), 0); /* no data yet */
  send_all(far, "now", 3);
  IS(ready(listener, POLLIN, 10000), POLLIN);
  int mine = SYS(accept(listener, 0, 0));
  char buf[4];
  IS(recv(mine, buf, 4, MSG_DONTWAIT), 3);
}

static void deferred_accept_has_an_end(void) {
  int listener = my_listener(4);
  set(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, 1);
  int far = far_socket(SOCK_STREAM);
  double start = now();
  SYS(far_connect(far, name_of(listener)));
  IS(ready(listener, POLLIN, 10000), POLLIN);
  OK(now() - start > 0.5); /* nobody said anything */
  int mine = SYS(accept(listener, 0, 0));
  char buf[4];
  send_all(far, "late", 4);
  receive_all(mine, buf, 4);
  send_all(mine, "well", 4);
  receive_all(far, buf, 4);
}

static void deferred_and_closed(void) {
  int listener = my_listener(4);
  set(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, 5);
  int far = far_socket(SOCK_STREAM);
  SYS(far_connect(far, name_of(listener)));
  SYS(close(far));
  /* The end of the stream is something to say. */
  IS(ready(listener, POLLIN, 10000), POLLIN);
  int mine = SYS(accept(listener, 0, 0));
  char c;
  IS(read(mine, &c, 1), 0);
}

static void ip_values(void) {
  int fd = tcp();
  IS(option(fd, IPPROTO_IP, IP_TOS), 0);
  set(fd, IPPROTO_IP, IP_TOS, IPTOS_LOWDELAY);
  IS(option(fd, IPPROTO_IP, IP_TOS), IPTOS_LOWDELAY);
  IS(option(fd, IPPROTO_IP, IP_TTL), 64);
  set(fd, IPPROTO_IP, IP_TTL, 32);
  IS(option(fd, IPPROTO_IP, IP_TTL), 32);
  int bad = 300;
  FAILS(setsockopt(fd, IPPROTO_IP, IP_TTL, &bad, sizeof bad), EINVAL);
  int d = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  set(d, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
  IS(option(d, IPPROTO_IP, IP_MTU_DISCOVER), IP_PMTUDISC_DO);
  set(d, IPPROTO_IP, IP_RECVERR, 1);
  IS(option(d, IPPROTO_IP, IP_RECVERR), 1);
  set(d, IPPROTO_IP, IP_PKTINFO, 1);
  IS(option(d, IPPROTO_IP, IP_PKTINFO), 1);
}

/* The segments that come from a port, until it resets its connection: each may be cut by routers, or
 * none, but for a SYN-ACK, which is too short for that; and those that may be have identifications of
 * their own. */
static void segments_may_be_cut(int raw, struct sockaddr_in from, int may) {
  enum { SYN = 2, RST = 4, ACK = 16 };
  uint16_t ids[64];
  for (int count = 0;;) {
    static unsigned char p[65536];
    OK(ready(raw, POLLIN, 10000) & POLLIN);
    SYS(recv(raw, p, sizeof p, 0));
    unsigned char *tcp = p + (p[0] & 15) * 4;
    if (memcmp(p + 12, &from.sin_addr, 4) || memcmp(tcp, &from.sin_port, 2))
      continue;
    int flags = tcp[13], cut = may && (flags & (SYN | ACK)) != (SYN | ACK);
    if ((p[6] & 0x40 ? 0 : 1) != cut)
      FAIL("flags of IP %02x of a segment with flags %02x", p[6], flags);
    if (cut) {
      ids[count] = p[4] << 8 | p[5];
      for (int i = 0; i < count; i++)
        OK(ids[i] != ids[count]);
      OK(++count < 64);
    }
    if (flags & RST)
      return;
  }
}

/* IP_MTU_DISCOVER of a stream: whether its segments forbid routers to cut them (DF). */
static void segments_that_routers_may_cut(void) {
  static const int may[] = {
      [IP_PMTUDISC_DONT] = 1,  [IP_PMTUDISC_PROBE] = 1, [IP_PMTUDISC_INTERFACE] = 1,
      [IP_PMTUDISC_OMIT] = 1,
  };
  int raw = -1, bad = 6;
  if (far_in_kernel())
    raw = SYS(syscall(SYS_socket, AF_INET, SOCK_RAW, IPPROTO_TCP));
  for (int how = IP_PMTUDISC_DONT; how <= IP_PMTUDISC_OMIT; how++)
    for (int accepts = 0; accepts < 2; accepts++) {
      char buf[5];
      int mine, far;
      if (accepts) {
        int listener = my_listener(1);
        set(listener, IPPROTO_IP, IP_MTU_DISCOVER, how);
        SYS(far_connect(far = far_socket(SOCK_STREAM), name_of(listener)));
        mine = SYS(accept(listener, 0, 0));
        SYS(close(listener));
      } else {
        int listener = far_listener(1);
        struct sockaddr_in to = far_name(listener);
        set(mine = SYS(socket(AF_INET, SOCK_STREAM, 0)), IPPROTO_IP, IP_MTU_DISCOVER, how);
        SYS(connect(mine, A(to)));
        far = far_accept(listener);
        SYS(close(listener));
      }
      IS(option(mine, IPPROTO_IP, IP_MTU_DISCOVER), how);
      FAILS(setsockopt(mine, IPPROTO_IP, IP_MTU_DISCOVER, &bad, sizeof bad), EINVAL);
      for (int i = 0; i < 3; i++) {
        send_all(mine, "hello", 5);
        receive_all(far, buf, 5);
      }
      struct sockaddr_in from = name_of(mine);
      struct linger at_once = {.l_onoff = 1};
      SYS(setsockopt(mine, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once));
      SYS(close(mine));
      if (raw >= 0)
        segments_may_be_cut(raw, from, may[how]);
      SYS(close(far));
    }
}

static void what_is_wrong(void) {
  int fd = tcp(), value = 1;
  socklen_t n = sizeof value;
  FAILS(getsockopt(fd, SOL_SOCKET, 9999, &value, &n), ENOPROTOOPT);
  FAILS(setsockopt(fd, SOL_SOCKET, 9999, &value, sizeof value), ENOPROTOOPT);
  FAILS(getsockopt(fd, IPPROTO_TCP, 9999, &value, &n), ENOPROTOOPT);
  FAILS(setsockopt(fd, IPPROTO_TCP, 9999, &value, sizeof value), ENOPROTOOPT);
  FAILS(setsockopt(fd, SOL_SOCKET, SO_TYPE, &value, sizeof value), ENOPROTOOPT);
  FAILS(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &value, 2), EINVAL);
  FAILS(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, 2), EINVAL);
  FAILS(setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, (void *)8, 4), EFAULT);
  n = -1;
  FAILS(getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &n), EINVAL);
  int d = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  n = sizeof value;
  FAILS(getsockopt(d, IPPROTO_TCP, TCP_NODELAY, &value, &n), EOPNOTSUPP);
}

static void short_buffer_is_cut(void) {
  int fd = tcp();
  unsigned char byte = 0xff;
  socklen_t n = 1;
  SYS(getsockopt(fd, SOL_SOCKET, SO_TYPE, &byte, &n));
  IS(n, 1);
  IS(byte, SOCK_STREAM);
}

static void keepalive_finds_the_dead(void) {
  /* A far end that still answers keeps the connection alive. */
  EACH_PAIR(mine, far) {
    set(mine, SOL_SOCKET, SO_KEEPALIVE, 1);
    set(mine, IPPROTO_TCP, TCP_KEEPIDLE, 1);
    set(mine, IPPROTO_TCP, TCP_KEEPINTVL, 1);
    set(mine, IPPROTO_TCP, TCP_KEEPCNT, 1);
    IS(ready(mine, POLLIN, 2500), 0);
    send_all(far, "x", 1);
    char c;
    receive_all(mine, &c, 1);
  }
}

const struct check CHECKS[] = {
    {"what_it_is", what_it_is},
    {"switches", switches},
    {"switches_of_a_connection", switches_of_a_connection},
    {"keepalive_times", keepalive_times},
    {"buffers", buffers},
    {"small_buffers_still_work", small_buffers_still_work},
    {"small_buffers_and_a_slow_reader", small_buffers_and_a_slow_reader},
    {"send_buffer_limits", send_buffer_limits},
    {"linger", linger},
    {"timeouts", timeouts},
    {"timeouts_of_64_bits", timeouts_of_64_bits},
    {"tcp_values", tcp_values},
    {"buffer_of_a_connection", buffer_of_a_connection},
    {"a_time_limit_before_now", a_time_limit_before_now},
    {"window_without_a_limit", window_without_a_limit},
    {"segment_size", segment_size},
    {"others_leave_the_segment_size_alone", others_leave_the_segment_size_alone},
    {"congestion_control", congestion_control},
    {"pacing_rate", pacing_rate},
    {"a_pacing_rate_is_kept_to", a_pacing_rate_is_kept_to},
    {"tcp_info", tcp_info},
    {"listener_tells_its_queue", listener_tells_its_queue},
    {"asked_for_otherwise", asked_for_otherwise},
    {"set_while_it_listens", set_while_it_listens},
    {"set_before_it_is_connected", set_before_it_is_connected},
    {"fast_open_is_set_before", fast_open_is_set_before},
    {"mtu_of_a_datagram_socket", mtu_of_a_datagram_socket},
    {"accepted_inherits", accepted_inherits},
    {"accepted_inherits_what_means_nothing_to_it", accepted_inherits_what_means_nothing_to_it},
    {"cork_holds_back", cork_holds_back},
    {"message_more", message_more},
    {"records_share_no_segment", records_share_no_segment},
    {"low_water_mark", low_water_mark},
    {"deferred_accept", deferred_accept},
    {"deferred_accept_has_an_end", deferred_accept_has_an_end},
    {"deferred_and_closed", deferred_and_closed},
    {"ip_values", ip_values},
    {"segments_that_routers_may_cut", segments_that_routers_may_cut},
    {"what_is_wrong", what_is_wrong},
    {"short_buffer_is_cut", short_buffer_is_cut},
    {"keepalive_finds_the_dead", keepalive_finds_the_dead},
    {0, 0},
};
