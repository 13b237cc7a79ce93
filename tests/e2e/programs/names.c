/* Names: libc's resolver asks the nameserver that is configured, wherever that is. */
#include "check.h"
#include <netdb.h>
#include <resolv.h>
#include <sched.h>
#include <sys/mount.h>

/* The answer to a query: 192.0.2.7 to each question for an address of IPv4, nothing to
 * others. A name that begins with "long" has so many that they do not fit a datagram. */
static size_t answer_to(unsigned char *m, size_t n, int by_stream) {
  static const unsigned char address_record[] = {0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7};
  OK(n > 12);
  size_t at = 12;
  int is_long = memcmp(m + 13, "long", 4) == 0;
  while (m[at])
    at += m[at] + 1;
  int kind = m[at + 1] << 8 | m[at + 2];
  at += 5;
  m[2] |= 0x80, m[3] = 0x80;
  m[6] = m[7] = m[8] = m[9] = m[10] = m[11] = 0;
  if (kind != 1)
    return at;
  if (is_long && !by_stream) {
    m[2] |= 2;
    return at;
  }
  int count = is_long ? 100 : 1;
  for (int i = 0; i < count; i++, at += sizeof address_record) {
    memcpy(m + at, address_record, sizeof address_record);
    m[at + 14] = i % 2 ? 3 : 2;
  }
  m[7] = count;
  return at;
}

static void *serve_datagrams(void *arg) {
  int fd = *(int *)arg;
  for (;;) {
    unsigned char m[4096];
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    ssize_t n = far_in_kernel() ? syscall(SYS_recvfrom, fd, m, sizeof m, 0, &from, &len)
                                : recvfrom(fd, m, sizeof m, 0, (struct sockaddr *)&from, &len);
    OK(n > 0);
    n = answer_to(m, n, 0);
    SYS(far_in_kernel() ? syscall(SYS_sendto, fd, m, n, 0, &from, len)
                        : sendto(fd, m, n, 0, (struct sockaddr *)&from, len));
  }
  return 0;
}

static void *serve_streams(void *arg) {
  int listener = *(int *)arg;
  for (;;) {
    unsigned char m[4096];
    int fd = far_accept(listener);
    receive_all(fd, m, 2);
    size_t n = m[0] << 8 | m[1];
    receive_all(fd, m + 2, n);
    n = answer_to(m + 2, n, 1);
    m[0] = n >> 8, m[1] = n;
    send_all(fd, m, n + 2);
    SYS(close(fd));
  }
  return 0;
}

/* Has this process ask the nameserver at `ip` and no other. */
static void resolve_by(const char *ip) {
  static int fd = -1;
  char path[] = "/tmp/resolv-XXXXXX";
  int is_first = fd < 0;
  if (is_first)
    fd = SYS(mkstemp(path));
  SYS(ftruncate(fd, 0));
  SYS(lseek(fd, 0, SEEK_SET));
  dprintf(fd, "nameserver %s\noptions timeout:2 attempts:3\n", ip);
  if (!is_first)
    return;
  SYS(unshare(CLONE_FS | CLONE_NEWNS));
  SYS(mount("none", "/", 0, MS_REC | MS_PRIVATE, 0));
  SYS(mount(path, "/etc/resolv.conf", 0, MS_BIND, 0));
  SYS(unlink(path));
}

/* A nameserver at the far end. */
static void serve_names_at(int port) {
  static int datagrams, listener;
  pthread_t t;
  datagrams = far_socket(SOCK_DGRAM);
  SYS(far_bind(datagrams, address(far_ip(), port)));
  listener = far_socket(SOCK_STREAM);
  far_option(listener, SOL_SOCKET, SO_REUSEADDR, 1);
  SYS(far_bind(listener, address(far_ip(), port)));
  SYS(far_in_kernel() ? syscall(SYS_listen, listener, 4) : listen(listener, 4));
  OK(!pthread_create(&t, 0, serve_datagrams, &datagrams));
  OK(!pthread_create(&t, 0, serve_streams, &listener));
}

/* A nameserver at the far end, and it alone, as this process sees it. */
static void with_a_nameserver(void) {
  serve_names_at(53);
  resolve_by(far_ip());
}

static void is_found(const char *name) {
  struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = 0;
  int error = getaddrinfo(name, "80", &hints, &found);
  if (error)
    FAIL("%s: %s", name, gai_strerror(error));
  struct sockaddr_in *a = (struct sockaddr_in *)found->ai_addr;
  IS(ntohl(a->sin_addr.s_addr) >> 8, 0xc00002);
  IS(ntohs(a->sin_port), 80);
  freeaddrinfo(found);
}

static void by_each_call(void) {
  with_a_nameserver();
  is_found("host.test");
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = 0;
  IS(getaddrinfo("both.test", 0, &hints, &found), 0);
  freeaddrinfo(found);
  struct hostent *h = gethostbyname("other.test"), entry, *result = 0;
  OK(h && h->h_length == 4 && h->h_addr_list[0][0] == (char)192);
  char buf[4096];
  int error;
  IS(gethostbyname_r("third.test", &entry, buf, sizeof buf, &result, &error), 0);
  OK(result == &entry);
  h = gethostbyname2("fourth.test", AF_INET);
  OK(h && h->h_length == 4);
  OK(res_query("fifth.test", 1, 1, (unsigned char *)buf, sizeof buf) > 12);
  /* What needs no nameserver. */
  is_found("192.0.2.9");
  IS(getaddrinfo(0, "80", 0, &found), 0);
  freeaddrinfo(found);
}

static void *find_some(void *arg) {
  (void)arg;
  for (int i = 0; i < 20; i++)
    is_found("host.test");
  return 0;
}

static void in_several_threads(void) {
  pthread_t t[4];
  with_a_nameserver();
  for (int i = 0; i < 4; i++)
    OK(!pthread_create(&t[i], 0, find_some, 0));
  for (int i = 0; i < 4; i++)
    OK(!pthread_join(t[i], 0));
}

static void by_a_connection(void) {
  with_a_nameserver();
  struct hostent *h = gethostbyname("long.test");
  OK(h && h->h_addr_list[0] && h->h_addr_list[99] && !h->h_addr_list[100]);
}

/* Where no nameserver is, that is known at once. */
static void nobody_answers(void) {
  resolve_by(far_ip());
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = 0;
  TAKES(IS(getaddrinfo("host.test", 0, &hints, &found), EAI_AGAIN), 0, 1);
  struct sockaddr_in a = address("192.0.2.9", 80);
  char name[256];
  TAKES(IS(getnameinfo(A(a), name, sizeof name, 0, 0, NI_NAMEREQD), EAI_AGAIN), 0, 1);
}

/* How many descriptors are open. The lowest free number says less: the kernel's accept has
 * one from when it begins to wait. */
static int open_descriptors(void) {
  int count = 0;
  for (int fd = 0; fd < 1024; fd++)
    count += fcntl(fd, F_GETFD) != -1;
  return count;
}

/* The program's own view of its resolver is as it was. */
static void nothing_is_left(void) {
  with_a_nameserver();
  IS(res_init(), 0);
  struct sockaddr_in before = _res.nsaddr_list[0];
  is_found("host.test"); /* libc keeps what it has read for it */
  IS(_res.nscount, 1);
  OK(same(before, _res.nsaddr_list[0]));
  int open = open_descriptors();
  for (int i = 0; i < 100; i++)
    is_found("host.test");
  IS(open_descriptors(), open);
  OK(same(before, _res.nsaddr_list[0]));
}

static void *by_a_port_of_its_own(void *arg) {
  int port = *(int *)arg;
  IS(res_init(), 0);
  _res.nsaddr_list[0].sin_port = htons(port);
  _res.retrans = 3;
  _res.retry = 2;
  _res.options |= RES_ROTATE;
  is_found("host.test");
  unsigned char buf[4096];
  OK(res_query("other.test", 1, 1, buf, sizeof buf) > 12);
  IS(ntohs(_res.nsaddr_list[0].sin_port), port);
  IS(_res.retrans, 3);
  IS(_res.retry, 2);
  OK(_res.options & RES_ROTATE);
  return 0;
}

/* What a program says of its nameservers counts, in each thread, and not what is configured,
 * where nobody is. */
static void by_what_the_program_says(void) {
  static int port = 5300;
  serve_names_at(port);
  resolve_by(far_ip());
  by_a_port_of_its_own(&port);
  pthread_t t;
  OK(!pthread_create(&t, 0, by_a_port_of_its_own, &port));
  OK(!pthread_join(t, 0));
  /* The configuration is another one now, which changes nothing of that. */
  resolve_by("192.0.2.1");
  is_found("host.test");
}

/* A program that has set nothing follows the configuration. */
static void by_a_configuration_that_changes(void) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found = 0;
  resolve_by(far_ip());
  IS(getaddrinfo("host.test", 0, &hints, &found), EAI_AGAIN);
  serve_names_at(53);
  resolve_by("127.0.0.1");
  IS(getaddrinfo("host.test", 0, &hints, &found), EAI_AGAIN);
  resolve_by(far_ip());
  is_found("host.test");
}

const struct check CHECKS[] = {
    {"by_each_call", by_each_call},
    {"in_several_threads", in_several_threads},
    {"by_a_connection", by_a_connection},
    {"nobody_answers", nobody_answers},
    {"nothing_is_left", nothing_is_left},
    {"by_what_the_program_says", by_what_the_program_says},
    {"by_a_configuration_that_changes", by_a_configuration_that_changes},
    {0, 0},
};
