/* Which of the datagram sockets that share a port has what comes for it. */
#include "check.h"
#include <sys/resource.h>

enum { MOST = 3, CLIENTS = 24, ADDRESS = 1, PORT = 2 };

/* A socket bound here, with SO_REUSEADDR, SO_REUSEPORT or both. */
static int sharer(const char *ip, unsigned short port, int by) {
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  set(fd, SOL_SOCKET, SO_REUSEADDR, by & ADDRESS ? 1 : 0);
  set(fd, SOL_SOCKET, SO_REUSEPORT, by & PORT ? 1 : 0);
  struct sockaddr_in a = address(ip, port);
  SYS(bind(fd, A(a)));
  return fd;
}

/* As many of them as there are, one bound after the other. */
static void sharers(int *fds, int n, const char *const *ips, const int *by) {
  unsigned short port = 0;
  for (int i = 0; i < n; i++) {
    fds[i] = sharer(ips[i], port, by[i]);
    port = ntohs(name_of(fds[i]).sin_port);
  }
}

static void close_all(const int *fds, int n) {
  for (int i = 0; i < n; i++)
    close(fds[i]);
}

static int client(void) {
  int fd = far_socket(SOCK_DGRAM);
  SYS(far_bind(fd, address(far_ip(), 0)));
  return fd;
}

static void send_to_sharers(int client, const int *fds) {
  struct sockaddr_in to = address(my_ip(), ntohs(name_of(fds[0]).sin_port));
  IS(far_in_kernel() ? syscall(SYS_sendto, client, "x", 1, 0, &to, sizeof to)
                     : sendto(client, "x", 1, 0, A(to)),
     1);
}

/* Counts what each receives, until `expected` have come. */
static void count(const int *fds, int n, int expected, int *counts) {
  char byte;
  memset(counts, 0, n * sizeof *counts);
  for (int all = 0, tries = 0; all < expected && tries < 3000; tries++) {
    for (int i = 0; i < n; i++)
      while (recv(fds[i], &byte, 1, MSG_DONTWAIT) == 1)
        counts[i]++, all++;
    usleep(1000);
  }
}

/* What comes from many ports that nobody is connected to. */
static void count_of_others(const int *fds, int n, int *counts) {
  for (int i = 0; i < CLIENTS; i++) {
    int fd = client();
    send_to_sharers(fd, fds);
    close(fd);
  }
  count(fds, n, CLIENTS, counts);
}

/* All that comes from others is this one's. */
#define OTHERS_TO(which, fds, n)                                               \
  do {                                                                         \
    int counts_[MOST];                                                         \
    count_of_others(fds, n, counts_);                                          \
    IS(counts_[which], CLIENTS);                                               \
  } while (0)

/* What this client sends is this one's. */
#define ONE_TO(which, fds, n, client)                                          \
  do {                                                                         \
    int counts_[MOST];                                                         \
    for (int i_ = 0; i_ < 3; i_++)                                             \
      send_to_sharers(client, fds);                                            \
    count(fds, n, 3, counts_);                                                 \
    IS(counts_[which], 3);                                                     \
  } while (0)

static void the_last_with_reused_address(void) {
  const int by[][3] = {{ADDRESS, ADDRESS, ADDRESS},
                       {ADDRESS | PORT, ADDRESS, ADDRESS},
                       {ADDRESS | PORT, ADDRESS | PORT, ADDRESS},
                       {ADDRESS, ADDRESS, ADDRESS | PORT}};
  for (int wild = 0; wild < 2; wild++) {
    const char *ip = wild ? "0.0.0.0" : my_ip();
    const char *const ips[] = {ip, ip, ip};
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
      int fds[3];
      sharers(fds, 3, ips, by[i]);
      OTHERS_TO(2, fds, 3);
      close_all(fds, 3);
    }
  }
}

static void a_group_shares(void) {
  const char *const ips[] = {my_ip(), my_ip(), my_ip()};
  const int by[] = {PORT, PORT, PORT};
  int fds[3], counts[3];
  sharers(fds, 3, ips, by);
  count_of_others(fds, 3, counts);
  IS(counts[0] + counts[1] + counts[2], CLIENTS);
  OK(counts[0] < CLIENTS && counts[1] < CLIENTS && counts[2] < CLIENTS);
}

static void the_more_specific(void) {
  const int by[] = {ADDRESS, ADDRESS};
  for (int first = 0; first < 2; first++) {
    const char *ips[] = {"0.0.0.0", "0.0.0.0"};
    ips[first] = my_ip();
    int fds[2];
    sharers(fds, 2, ips, by);
    OTHERS_TO(first, fds, 2);
    close_all(fds, 2);
  }
}

/* One has a peer: what that sends is its own, and what others send is not. */
static void one_is_connected(void) {
  for (int how = 0; how < 8; how++) {
    int connected = how & 1, option = how & 2 ? PORT : ADDRESS;
    const char *ip = how & 4 ? "0.0.0.0" : my_ip();
    const char *const ips[] = {ip, ip};
    const int by[] = {option, option};
    int fds[2], peer = client();
    sharers(fds, 2, ips, by);
    struct sockaddr_in there = far_name(peer);
    SYS(connect(fds[connected], A(there)));
    OTHERS_TO(!connected, fds, 2);
    ONE_TO(connected, fds, 2, peer);
    close_all(fds, 2);
    close(peer);
  }
}

static void connected_at_the_wildcard(void) {
  const char *const ips[] = {"0.0.0.0", my_ip()};
  const int by[] = {ADDRESS, ADDRESS};
  int fds[2], peer = client();
  sharers(fds, 2, ips, by);
  struct sockaddr_in there = far_name(peer);
  SYS(connect(fds[0], A(there)));
  ONE_TO(0, fds, 2, peer);
  OTHERS_TO(1, fds, 2);
}

/* A server that connects a socket to each client, and has one for those to come. */
static void each_has_its_client(void) {
  const char *const ips[] = {my_ip(), my_ip(), my_ip()};
  const int by[] = {ADDRESS, ADDRESS, ADDRESS};
  int fds[3], peers[] = {client(), client()};
  sharers(fds, 3, ips, by);
  for (int i = 0; i < 2; i++) {
    struct sockaddr_in there = far_name(peers[i]);
    SYS(connect(fds[i], A(there)));
  }
  for (int i = 0; i < 2; i++)
    ONE_TO(i, fds, 3, peers[i]);
  OTHERS_TO(2, fds, 3);
}

static void the_last_to_connect(void) {
  const char *const ips[] = {my_ip(), my_ip()};
  for (int how = 0; how < 4; how++) {
    int last = how & 1, option = how & 2 ? PORT : ADDRESS;
    const int by[] = {option, option};
    int fds[2], peer = client();
    sharers(fds, 2, ips, by);
    struct sockaddr_in there = far_name(peer);
    SYS(connect(fds[!last], A(there)));
    SYS(connect(fds[last], A(there)));
    ONE_TO(last, fds, 2, peer);
    close_all(fds, 2);
    close(peer);
  }
}

/* One that has had a peer is among the others where it was bound, or comes last if it has
 * had its address for that peer alone. */
static void without_its_peer(void) {
  struct sockaddr none = {.sa_family = AF_UNSPEC};
  for (int how = 0; how < 6; how++) {
    int connected = how % 3, wild = how < 3, fds[3], peer = client();
    const char *ip = wild ? "0.0.0.0" : my_ip();
    int of_port = sharer(ip, 0, ADDRESS);
    for (int i = 0; i < 3; i++)
      fds[i] = sharer(ip, ntohs(name_of(of_port).sin_port), ADDRESS);
    SYS(close(of_port));
    struct sockaddr_in there = far_name(peer);
    SYS(connect(fds[connected], A(there)));
    /* Linux prefers one that has received from its peer, on the same processor. */
    SYS(connect(fds[connected], &none, sizeof none));
    ONE_TO(wild ? connected : 2, fds, 3, peer);
    OTHERS_TO(wild ? connected : 2, fds, 3);
    close_all(fds, 3);
    close(peer);
  }
}

static void sends_to(int client, const int *fds, int to) {
  char byte;
  send_to_sharers(client, fds);
  IS(recv(fds[to], &byte, 1, 0), 1);
}

/* As a server of thousands has it, which answers each of them by a socket of its own. */
static void each_of_thousands_has_its_client(void) {
  enum { MANY = 2500 };
  static int fds[MANY + 1], clients[MANY];
  struct rlimit most = {2 * MANY + 100, 2 * MANY + 100};
  SYS(setrlimit(RLIMIT_NOFILE, &most));
  int other = client();
  for (int i = 0; i < MANY; i++) {
    fds[i] = sharer(my_ip(), i ? ntohs(name_of(fds[0]).sin_port) : 0, ADDRESS);
    clients[i] = client();
  }
  sends_to(other, fds, MANY - 1);
  for (int i = 0; i < MANY; i++) {
    struct sockaddr_in there = far_name(clients[i]);
    SYS(connect(fds[i], A(there)));
  }
  fds[MANY] = sharer(my_ip(), ntohs(name_of(fds[0]).sin_port), ADDRESS);
  for (int i = 0; i < MANY; i++) {
    char byte;
    sends_to(clients[i], fds, i);
    IS(send(fds[i], "y", 1, 0), 1);
    IS(far_in_kernel() ? syscall(SYS_recvfrom, clients[i], &byte, 1, 0, 0, 0)
                       : recv(clients[i], &byte, 1, 0),
       1);
  }
  sends_to(other, fds, MANY);
}

const struct check CHECKS[] = {
    {"the_last_with_reused_address", the_last_with_reused_address},
    {"a_group_shares", a_group_shares},
    {"the_more_specific", the_more_specific},
    {"one_is_connected", one_is_connected},
    {"connected_at_the_wildcard", connected_at_the_wildcard},
    {"each_has_its_client", each_has_its_client},
    {"the_last_to_connect", the_last_to_connect},
    {"without_its_peer", without_its_peer},
    {"each_of_thousands_has_its_client", each_of_thousands_has_its_client},
    {0, 0},
};
