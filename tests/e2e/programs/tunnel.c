// A program that makes a tunnel device and speaks TCP with itself over it: one
// side by the socket calls, the other by packets that it writes and reads on the
// device.
//   tunnel ADDRESS kernel|engine
// With `kernel` it gives the kernel the address; otherwise the engine has it.

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define PEER "192.168.7.9"
enum { FIN = 1, SYN = 2, PSH = 8, ACK = 16 };
enum { PORT = 7000, PEER_PORT = 7001, HEADERS = 40 };

static void die(const char *what) {
  perror(what);
  exit(1);
}

static uint32_t sum(uint32_t so_far, const uint8_t *bytes, int len) {
  for (int i = 0; i < len; i++) so_far += i % 2 ? bytes[i] : bytes[i] << 8;
  return so_far;
}

static uint16_t finish(uint32_t s) {
  while (s >> 16) s = (s & 0xffff) + (s >> 16);
  return (uint16_t)~s;
}

static void put16(uint8_t *at, uint16_t v) { at[0] = v >> 8, at[1] = (uint8_t)v; }
static void put32(uint8_t *at, uint32_t v) { put16(at, v >> 16), put16(at + 2, (uint16_t)v); }
static uint32_t get32(const uint8_t *at) {
  return (uint32_t)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

static void send_segment(int tun, struct in_addr to, int flags, uint32_t seq, uint32_t ack,
                         const char *data) {
  uint8_t p[200] = {0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, IPPROTO_TCP};
  int len = (int)strlen(data);
  put16(p + 2, (uint16_t)(HEADERS + len));
  inet_pton(AF_INET, PEER, p + 12);
  memcpy(p + 16, &to, 4);
  put16(p + 10, finish(sum(0, p, 20)));
  uint8_t *t = p + 20;
  put16(t, PEER_PORT);
  put16(t + 2, PORT);
  put32(t + 4, seq);
  put32(t + 8, ack);
  t[12] = 5 << 4;
  t[13] = (uint8_t)flags;
  put16(t + 14, 30000);
  memcpy(t + 20, data, (size_t)len);
  uint32_t pseudo = sum(IPPROTO_TCP + 20 + (uint32_t)len, p + 12, 8);
  put16(t + 16, finish(sum(pseudo, t, 20 + len)));
  if (write(tun, p, (size_t)(HEADERS + len)) != HEADERS + len) die("write to the tunnel");
}

// Waits for a segment of ours with these flags; its sequence number, and its
// payload in `data`.
static uint32_t await(int tun, int flags, char *data, size_t room) {
  for (;;) {
    uint8_t p[2000];
    struct pollfd ready = {.fd = tun, .events = POLLIN};
    if (poll(&ready, 1, 5000) != 1) {
      fprintf(stderr, "no segment with flags %#x came\n", flags);
      exit(1);
    }
    ssize_t got = read(tun, p, sizeof p);
    if (got < HEADERS || p[0] != 0x45 || p[9] != IPPROTO_TCP) continue;
    uint8_t *t = p + 20;
    if ((t[13] & flags) != flags) continue;
    int len = (p[2] << 8 | p[3]) - 20 - (t[12] >> 4) * 4;
    // The sum covers the packet as it is on the device.
    uint32_t pseudo = sum((uint32_t)(IPPROTO_TCP + (p[2] << 8 | p[3]) - 20), p + 12, 8);
    if (finish(sum(pseudo, t, (p[2] << 8 | p[3]) - 20)) != 0) {
      fprintf(stderr, "a segment with a wrong checksum\n");
      exit(1);
    }
    snprintf(data, room, "%.*s", len, (char *)t + (t[12] >> 4) * 4);
    return get32(t + 4);
  }
}

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  struct sockaddr_in local = {.sin_family = AF_INET, .sin_port = htons(PORT)};
  inet_pton(AF_INET, argv[1], &local.sin_addr);
  int engine = strcmp(argv[2], "engine") == 0;

  int listener = -1;
  if (engine) {
    // Before there is an interface.
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&local, sizeof local)) die("bind");
    if (listen(listener, 1)) die("listen");
  }
  int tun = open("/dev/net/tun", O_RDWR);
  struct ifreq ifr = {.ifr_flags = IFF_TUN | IFF_NO_PI, .ifr_name = "tun0"};
  if (tun < 0 || ioctl(tun, TUNSETIFF, &ifr)) die("make tun0");
  if (system("ip link set tun0 up")) die("ip link");
  if (!engine) {
    char command[100];
    snprintf(command, sizeof command, "ip address add %s/24 dev tun0", argv[1]);
    if (system(command)) die("ip address");
    listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&local, sizeof local)) die("bind");
    if (listen(listener, 1)) die("listen");
  }

  char data[100];
  send_segment(tun, local.sin_addr, SYN, 1000, 0, "");
  uint32_t seq = await(tun, SYN | ACK, data, sizeof data);
  send_segment(tun, local.sin_addr, ACK | PSH, 1001, seq + 1, "hello");
  int connection = accept(listener, NULL, NULL);
  if (connection < 0) die("accept");
  ssize_t got = read(connection, data, sizeof data - 1);
  if (got < 0) die("read");
  data[got] = 0;
  printf("heard: %s\n", data);
  if (write(connection, "goodbye", 7) != 7) die("write");
  seq = await(tun, ACK | PSH, data, sizeof data);
  if (strcmp(data, "goodbye")) {
    fprintf(stderr, "the peer heard %s\n", data);
    return 1;
  }
  send_segment(tun, local.sin_addr, ACK | FIN, 1006, seq + 7, "");
  if (read(connection, data, sizeof data) != 0) die("the end");
  close(connection);
  await(tun, FIN, data, sizeof data);
  return 0;
}
