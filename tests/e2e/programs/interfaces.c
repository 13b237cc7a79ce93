/* What a program is told of the machine's interfaces and addresses. */
#include "check.h"
#include <ifaddrs.h>
#include <net/if.h>
#include <netpacket/packet.h>

static const struct sockaddr_in *in(const struct sockaddr *a) { return (const void *)a; }

/* The entry of an IPv4 address. */
static struct ifaddrs *find(struct ifaddrs *all, struct in_addr ip) {
  for (; all; all = all->ifa_next)
    if (all->ifa_addr && all->ifa_addr->sa_family == AF_INET && in(all->ifa_addr)->sin_addr.s_addr == ip.s_addr)
      return all;
  return 0;
}

/* The address that sockets have towards the far end. */
static struct in_addr own(void) {
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct sockaddr_in to = address(far_ip(), 9);
  SYS(connect(fd, A(to)));
  struct in_addr ip = name_of(fd).sin_addr;
  close(fd);
  return ip;
}

static void own_address_is_listed(void) {
  struct ifaddrs *all;
  SYS(getifaddrs(&all));
  struct ifaddrs *mine = find(all, own());
  OK(mine != 0);
  OK((mine->ifa_flags & (IFF_UP | IFF_RUNNING)) == (IFF_UP | IFF_RUNNING));
  OK(strlen(mine->ifa_name) > 0 && strlen(mine->ifa_name) < IFNAMSIZ);
  uint32_t mask = ntohl(in(mine->ifa_netmask)->sin_addr.s_addr);
  IS(~mask & (~mask + 1), 0); /* contiguous */
  IS(in(mine->ifa_netmask)->sin_family, AF_INET);
  uint32_t here = ntohl(in(mine->ifa_addr)->sin_addr.s_addr);
  OK(((here ^ ntohl(inet_addr(far_ip()))) & mask) == 0);
  if (mine->ifa_flags & IFF_BROADCAST) {
    uint32_t all = ntohl(in(mine->ifa_broadaddr)->sin_addr.s_addr);
    OK(all == (here | ~mask) || all == here); /* the second if nobody has set it */
  }
  /* Once, and a listener there is reached. */
  OK(!find(mine->ifa_next, own()));
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0)), far = far_socket(SOCK_STREAM);
  struct sockaddr_in a = *in(mine->ifa_addr);
  SYS(bind(fd, A(a)));
  SYS(listen(fd, 1));
  SYS(far_connect(far, name_of(fd)));
  fd = SYS(accept(fd, 0, 0));
  send_all(far, "x", 1);
  char x;
  IS(recv(fd, &x, 1, MSG_WAITALL), 1);
  freeifaddrs(all);
}

static void the_rest_is_the_kernels(void) {
  struct ifaddrs *all;
  SYS(getifaddrs(&all));
  struct in_addr loopback = {htonl(INADDR_LOOPBACK)};
  struct ifaddrs *lo = find(all, loopback);
  OK(lo && (lo->ifa_flags & IFF_LOOPBACK));
  OK(!strcmp(lo->ifa_name, "lo"));
  IS(ntohl(in(lo->ifa_netmask)->sin_addr.s_addr), 0xff000000);
  int links = 0;
  for (struct ifaddrs *i = all; i; i = i->ifa_next)
    if (i->ifa_addr && i->ifa_addr->sa_family == AF_PACKET && !strcmp(i->ifa_name, "lo")) {
      const struct sockaddr_ll *link = (const void *)i->ifa_addr;
      IS(link->sll_ifindex, if_nametoindex("lo"));
      IS(link->sll_halen, 6);
      OK(i->ifa_data != 0);
      links++;
    }
  IS(links, 1);
  freeifaddrs(all);
}

/* An address of IPv6 names its interface if it is valid on one link alone. */
static void scopes_are_of_links(void) {
  struct ifaddrs *all;
  int of_ipv6 = 0;
  SYS(getifaddrs(&all));
  for (struct ifaddrs *i = all; i; i = i->ifa_next) {
    const struct sockaddr_in6 *a = (const void *)i->ifa_addr;
    if (!a || a->sin6_family != AF_INET6)
      continue;
    IS(a->sin6_scope_id, IN6_IS_ADDR_LINKLOCAL(&a->sin6_addr) ? if_nametoindex(i->ifa_name) : 0);
    of_ipv6++;
  }
  OK(of_ipv6 > 0);
  freeifaddrs(all);
}

/* SIOCGIFCONF, with room and without. */
static void the_old_way(void) {
  static char room[64 * sizeof(struct ifreq)];
  int fd = SYS(socket(AF_INET, SOCK_DGRAM, 0));
  struct in_addr ip = own();
  struct ifconf c = {.ifc_len = 0};
  SYS(ioctl(fd, SIOCGIFCONF, &c));
  int all = c.ifc_len;
  OK(all > 0 && all % sizeof(struct ifreq) == 0);
  c = (struct ifconf){.ifc_len = sizeof room, .ifc_buf = room};
  SYS(ioctl(fd, SIOCGIFCONF, &c));
  IS(c.ifc_len, all);
  int found = 0;
  for (int i = 0; i < c.ifc_len / (int)sizeof(struct ifreq); i++)
    found += in(&c.ifc_req[i].ifr_addr)->sin_addr.s_addr == ip.s_addr;
  IS(found, 1);
  /* What does not fit is left out, and nothing is written beyond. */
  memset(room, 0x55, sizeof room);
  c = (struct ifconf){.ifc_len = all - 1, .ifc_buf = room};
  SYS(ioctl(fd, SIOCGIFCONF, &c));
  IS(c.ifc_len, all - (int)sizeof(struct ifreq));
  for (size_t i = c.ifc_len; i < sizeof room; i++)
    IS(room[i], 0x55);
}

const struct check CHECKS[] = {
    {"own_address_is_listed", own_address_is_listed},
    {"the_rest_is_the_kernels", the_rest_is_the_kernels},
    {"scopes_are_of_links", scopes_are_of_links},
    {"the_old_way", the_old_way},
    {0, 0},
};
