/* From which sources a group is received (RFC 3678): the options of IPv4, those of either version,
 * libc's functions, and what each of them refuses. */
#define GROUP "239.77.5.2"
#include "group_traffic.h"
#include <ifaddrs.h>
#include <net/if.h>

#define GROUP6 "ff15::7705"
/* One that nobody has. */
#define OTHER "192.0.2.9"
#define OTHER6 "2001:db8::9"

static struct in_addr ip(const char *text) { return address(text, 0).sin_addr; }

static int join(int fd) {
  struct ip_mreqn m = {.imr_multiaddr = ip(GROUP), .imr_address = ip(my_ip())};
  return setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &m, sizeof m);
}

static int leave(int fd) {
  struct ip_mreqn m = {.imr_multiaddr = ip(GROUP), .imr_address = ip(my_ip())};
  return setsockopt(fd, IPPROTO_IP, IP_DROP_MEMBERSHIP, &m, sizeof m);
}

/* One of the options of IPv4 for one source. */
static int change(int fd, int option, const char *group, const char *source) {
  struct ip_mreq_source m = {
      .imr_multiaddr = ip(group), .imr_interface = ip(my_ip()), .imr_sourceaddr = ip(source)};
  return setsockopt(fd, IPPROTO_IP, option, &m, sizeof m);
}

/* The index of the interface that has my address. */
static int my_index(void) {
  struct ifaddrs *all, *one;
  int index = 0;
  SYS(getifaddrs(&all));
  for (one = all; one; one = one->ifa_next) {
    struct sockaddr_in *a = (void *)one->ifa_addr;
    if (a && a->sin_family == AF_INET && a->sin_addr.s_addr == ip(my_ip()).s_addr)
      index = if_nametoindex(one->ifa_name);
  }
  freeifaddrs(all);
  OK(index > 0);
  return index;
}

static struct sockaddr_storage stored(const char *text) {
  struct sockaddr_storage s = {0};
  struct sockaddr_in *four = (void *)&s;
  struct sockaddr_in6 *six = (void *)&s;
  if (inet_pton(AF_INET, text, &four->sin_addr) == 1) {
    s.ss_family = AF_INET;
    return s;
  }
  s.ss_family = AF_INET6;
  OK(inet_pton(AF_INET6, text, &six->sin6_addr) == 1);
  return s;
}

static int level_of(const char *group) {
  return strchr(group, ':') ? IPPROTO_IPV6 : IPPROTO_IP;
}

/* The same by one of the options that both versions have. */
static int change_any(int fd, int option, const char *group, const char *source) {
  struct group_source_req r = {
      .gsr_interface = my_index(), .gsr_group = stored(group), .gsr_source = stored(source)};
  return setsockopt(fd, level_of(group), option, &r, sizeof r);
}

/* A list of sources by MCAST_MSFILTER. */
union filter {
  struct group_filter head;
  char room[GROUP_FILTER_SIZE(80)];
};

static int set_filter(int fd, const char *group, int mode, int count, const char *const *sources) {
  union filter f = {.head = {.gf_interface = my_index(),
                              .gf_group = stored(group),
                              .gf_fmode = mode,
                              .gf_numsrc = count}};
  for (int i = 0; i < count; i++)
    f.head.gf_slist[i] = stored(sources[i]);
  return setsockopt(fd, level_of(group), MCAST_MSFILTER, &f, GROUP_FILTER_SIZE(count));
}

/* Whether a group is received so, as MCAST_MSFILTER tells. */
static void is_received(int fd, const char *group, int mode, int count, const char *const *sources) {
  union filter f = {.head = {
                         .gf_interface = my_index(), .gf_group = stored(group), .gf_numsrc = 80}};
  socklen_t n = sizeof f;
  SYS(getsockopt(fd, level_of(group), MCAST_MSFILTER, &f, &n));
  IS(f.head.gf_fmode, mode);
  IS(f.head.gf_numsrc, count);
  IS(n, GROUP_FILTER_SIZE(count));
  for (int i = 0; i < count; i++) {
    struct sockaddr_storage want = stored(sources[i]);
    OK(memcmp(&f.head.gf_slist[i], &want, sizeof(struct sockaddr_in6)) == 0);
  }
}

static void sources_that_are_included_are_heard(void) {
  struct sockaddr_in at;
  int fd = on_all(&at), far = far_sender();
  SYS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, OTHER));
  far_says(far, "other", in_group(at));
  hears_nothing(fd);
  SYS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, far_ip()));
  far_says(far, "far", in_group(at));
  hears(fd, "far");
  SYS(change(fd, IP_DROP_SOURCE_MEMBERSHIP, GROUP, far_ip()));
  far_says(far, "gone", in_group(at));
  hears_nothing(fd);
  /* With the last one, the group is left. */
  SYS(change(fd, IP_DROP_SOURCE_MEMBERSHIP, GROUP, OTHER));
  FAILS(leave(fd), EADDRNOTAVAIL);
  SYS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, far_ip()));
  SYS(leave(fd));
  far_says(far, "left", in_group(at));
  hears_nothing(fd);
}

static void sources_that_are_blocked_are_not_heard(void) {
  struct sockaddr_in at;
  int fd = on_all(&at), far = far_sender();
  SYS(join(fd));
  SYS(change(fd, IP_BLOCK_SOURCE, GROUP, OTHER));
  far_says(far, "far", in_group(at));
  hears(fd, "far");
  SYS(change(fd, IP_BLOCK_SOURCE, GROUP, far_ip()));
  far_says(far, "blocked", in_group(at));
  hears_nothing(fd);
  SYS(change(fd, IP_UNBLOCK_SOURCE, GROUP, far_ip()));
  far_says(far, "again", in_group(at));
  hears(fd, "again");
}

static void the_options_of_both_versions_do_the_same(void) {
  struct sockaddr_in at;
  int fd = on_all(&at), far = far_sender();
  SYS(change_any(fd, MCAST_JOIN_SOURCE_GROUP, GROUP, OTHER));
  far_says(far, "other", in_group(at));
  hears_nothing(fd);
  SYS(change_any(fd, MCAST_JOIN_SOURCE_GROUP, GROUP, far_ip()));
  far_says(far, "far", in_group(at));
  hears(fd, "far");
  SYS(change_any(fd, MCAST_LEAVE_SOURCE_GROUP, GROUP, OTHER));
  SYS(change_any(fd, MCAST_LEAVE_SOURCE_GROUP, GROUP, far_ip()));
  FAILS(leave(fd), EADDRNOTAVAIL);
  SYS(join(fd));
  SYS(change_any(fd, MCAST_BLOCK_SOURCE, GROUP, far_ip()));
  far_says(far, "blocked", in_group(at));
  hears_nothing(fd);
  SYS(change_any(fd, MCAST_UNBLOCK_SOURCE, GROUP, far_ip()));
  far_says(far, "again", in_group(at));
  hears(fd, "again");
}

static void each_socket_has_its_own_sources(void) {
  int fds[3], far = far_sender();
  struct sockaddr_in at = address("0.0.0.0", 0);
  for (int i = 0; i < 3; i++) {
    fds[i] = udp();
    set(fds[i], SOL_SOCKET, SO_REUSEADDR, 1);
    SYS(bind(fds[i], A(at)));
    at = name_of(fds[i]);
  }
  /* What nobody receives does not come to those either that hear what others have joined. */
  SYS(change(fds[0], IP_ADD_SOURCE_MEMBERSHIP, GROUP, OTHER));
  far_says(far, "nobody", in_group(at));
  for (int i = 0; i < 3; i++)
    hears_nothing(fds[i]);
  SYS(change(fds[1], IP_ADD_SOURCE_MEMBERSHIP, GROUP, far_ip()));
  far_says(far, "one", in_group(at));
  hears_nothing(fds[0]);
  hears(fds[1], "one");
  hears(fds[2], "one");
  set(fds[2], IPPROTO_IP, IP_MULTICAST_ALL, 0);
  far_says(far, "member", in_group(at));
  hears_nothing(fds[0]);
  hears(fds[1], "member");
  hears_nothing(fds[2]);
}

static void lists_are_set_and_told(void) {
  struct sockaddr_in at;
  int fd = on_all(&at), far = far_sender();
  const char *const two[] = {OTHER, far_ip()}, *const one[] = {OTHER};
  FAILS(set_filter(fd, GROUP, MCAST_INCLUDE, 2, two), EINVAL);
  SYS(join(fd));
  is_received(fd, GROUP, MCAST_EXCLUDE, 0, two);
  SYS(set_filter(fd, GROUP, MCAST_INCLUDE, 2, two));
  is_received(fd, GROUP, MCAST_INCLUDE, 2, two);
  far_says(far, "two", in_group(at));
  hears(fd, "two");
  SYS(set_filter(fd, GROUP, MCAST_EXCLUDE, 2, two));
  is_received(fd, GROUP, MCAST_EXCLUDE, 2, two);
  far_says(far, "none", in_group(at));
  hears_nothing(fd);
  SYS(set_filter(fd, GROUP, MCAST_EXCLUDE, 1, one));
  SYS(change(fd, IP_BLOCK_SOURCE, GROUP, far_ip()));
  is_received(fd, GROUP, MCAST_EXCLUDE, 2, two);
  SYS(set_filter(fd, GROUP, MCAST_EXCLUDE, 0, two));
  far_says(far, "all", in_group(at));
  hears(fd, "all");
  /* To include none is to leave. */
  SYS(set_filter(fd, GROUP, MCAST_INCLUDE, 0, two));
  FAILS(set_filter(fd, GROUP, MCAST_INCLUDE, 0, two), EADDRNOTAVAIL);
  FAILS(leave(fd), EADDRNOTAVAIL);
}

static void lists_of_ipv4_are_set_and_told(void) {
  struct sockaddr_in at;
  int fd = on_all(&at), far = far_sender();
  union {
    struct ip_msfilter head;
    char room[IP_MSFILTER_SIZE(20)];
  } f = {.head = {.imsf_multiaddr = ip(GROUP),
                  .imsf_interface = ip(my_ip()),
                  .imsf_fmode = MCAST_INCLUDE,
                  .imsf_numsrc = 2}};
  f.head.imsf_slist[0] = ip(OTHER);
  f.head.imsf_slist[1] = ip(far_ip());
  socklen_t two = IP_MSFILTER_SIZE(2), n = sizeof f;
  FAILS(getsockopt(fd, IPPROTO_IP, IP_MSFILTER, &f, &n), EADDRNOTAVAIL);
  SYS(join(fd));
  SYS(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &f, two));
  far_says(far, "two", in_group(at));
  hears(fd, "two");
  memset(f.head.imsf_slist, 0, 8);
  f.head.imsf_fmode = 7;
  f.head.imsf_numsrc = 20;
  n = sizeof f;
  SYS(getsockopt(fd, IPPROTO_IP, IP_MSFILTER, &f, &n));
  IS(n, two);
  IS(f.head.imsf_fmode, MCAST_INCLUDE);
  IS(f.head.imsf_numsrc, 2);
  OK(f.head.imsf_slist[0].s_addr == ip(OTHER).s_addr);
  OK(f.head.imsf_slist[1].s_addr == ip(far_ip()).s_addr);
  /* Where there is room for fewer, their number is told all the same. */
  f.head.imsf_numsrc = 1;
  n = sizeof f;
  SYS(getsockopt(fd, IPPROTO_IP, IP_MSFILTER, &f, &n));
  IS(n, IP_MSFILTER_SIZE(1));
  IS(f.head.imsf_numsrc, 2);
  n = IP_MSFILTER_SIZE(0) - 1;
  FAILS(getsockopt(fd, IPPROTO_IP, IP_MSFILTER, &f, &n), EINVAL);
  FAILS(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &f, n), EINVAL);
  FAILS(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &f, IP_MSFILTER_SIZE(1)), EINVAL);
  f.head.imsf_fmode = 2;
  FAILS(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &f, two), EINVAL);
  f.head.imsf_fmode = MCAST_EXCLUDE;
  f.head.imsf_numsrc = 11;
  FAILS(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &f, two), ENOBUFS);
  f.head.imsf_multiaddr = ip(my_ip());
  f.head.imsf_numsrc = 2;
  FAILS(setsockopt(fd, IPPROTO_IP, IP_MSFILTER, &f, two), EINVAL);
}

static void refusals(void) {
  struct sockaddr_in at;
  int fd = on_all(&at);
  /* Of a group that was not joined. */
  FAILS(change(fd, IP_BLOCK_SOURCE, GROUP, OTHER), EINVAL);
  FAILS(change(fd, IP_UNBLOCK_SOURCE, GROUP, OTHER), EINVAL);
  FAILS(change(fd, IP_DROP_SOURCE_MEMBERSHIP, GROUP, OTHER), EINVAL);
  FAILS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, my_ip(), OTHER), EINVAL);
  SYS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, OTHER));
  FAILS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, OTHER), EADDRNOTAVAIL);
  FAILS(change(fd, IP_DROP_SOURCE_MEMBERSHIP, GROUP, my_ip()), EADDRNOTAVAIL);
  FAILS(change(fd, IP_BLOCK_SOURCE, GROUP, my_ip()), EINVAL);
  FAILS(change(fd, IP_UNBLOCK_SOURCE, GROUP, OTHER), EINVAL);
  FAILS(join(fd), EADDRINUSE);
  SYS(leave(fd));
  SYS(join(fd));
  SYS(change(fd, IP_BLOCK_SOURCE, GROUP, OTHER));
  FAILS(change(fd, IP_BLOCK_SOURCE, GROUP, OTHER), EADDRNOTAVAIL);
  FAILS(change(fd, IP_UNBLOCK_SOURCE, GROUP, my_ip()), EADDRNOTAVAIL);
  FAILS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, OTHER), EINVAL);
  FAILS(change(fd, IP_DROP_SOURCE_MEMBERSHIP, GROUP, OTHER), EINVAL);
}

static void the_mode_of_an_empty_list(void) {
  struct sockaddr_in at;
  int fd = on_all(&at), far = far_sender();
  const char *const sources[] = {far_ip()};
  /* Without a list, it is that of the first source. */
  SYS(join(fd));
  SYS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, far_ip()));
  is_received(fd, GROUP, MCAST_INCLUDE, 1, sources);
  SYS(leave(fd));
  /* A list that has been emptied keeps it. */
  SYS(join(fd));
  SYS(change(fd, IP_BLOCK_SOURCE, GROUP, far_ip()));
  SYS(change(fd, IP_UNBLOCK_SOURCE, GROUP, far_ip()));
  FAILS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, far_ip()), EINVAL);
  is_received(fd, GROUP, MCAST_EXCLUDE, 0, sources);
  SYS(set_filter(fd, GROUP, MCAST_EXCLUDE, 0, sources));
  /* To leave a source where there is no list fails, and no source is received from then on. */
  FAILS(change(fd, IP_DROP_SOURCE_MEMBERSHIP, GROUP, far_ip()), EADDRNOTAVAIL);
  is_received(fd, GROUP, MCAST_INCLUDE, 0, sources);
  far_says(far, "nobody", in_group(at));
  hears_nothing(fd);
  SYS(change(fd, IP_BLOCK_SOURCE, GROUP, OTHER));
  far_says(far, "again", in_group(at));
  hears(fd, "again");
}

static void limits(void) {
  struct sockaddr_in at;
  int fd = on_all(&at);
  char names[12][16];
  const char *all[12];
  for (int i = 0; i < 12; i++) {
    snprintf(names[i], sizeof *names, "192.0.2.%d", i + 1);
    all[i] = names[i];
  }
  for (int i = 0; i < 10; i++)
    SYS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, names[i]));
  FAILS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, names[10]), ENOBUFS);
  FAILS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, names[0]), ENOBUFS);
  is_received(fd, GROUP, MCAST_INCLUDE, 10, all);
  FAILS(set_filter(fd, GROUP, MCAST_EXCLUDE, 11, all), ENOBUFS);
  SYS(set_filter(fd, GROUP, MCAST_EXCLUDE, 10, all));
  is_received(fd, GROUP, MCAST_EXCLUDE, 10, all);
  /* Memberships in all, whatever their sources. */
  for (int i = 0; i < 19; i++) {
    char group[16];
    snprintf(group, sizeof group, "239.77.6.%d", i);
    SYS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, group, OTHER));
  }
  FAILS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, "239.77.7.1", OTHER), ENOBUFS);
  SYS(change(fd, IP_DROP_SOURCE_MEMBERSHIP, "239.77.6.3", OTHER));
  SYS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, "239.77.7.1", OTHER));
}

static void what_is_malformed(void) {
  struct sockaddr_in at;
  int fd = on_all(&at);
  SYS(join(fd));
  struct ip_mreq_source m = {
      .imr_multiaddr = ip(GROUP), .imr_interface = ip(my_ip()), .imr_sourceaddr = ip(OTHER)};
  struct group_source_req r = {
      .gsr_interface = my_index(), .gsr_group = stored(GROUP), .gsr_source = stored(OTHER)};
  union filter f = {.head = {.gf_interface = my_index(),
                              .gf_group = stored(GROUP),
                              .gf_fmode = MCAST_EXCLUDE,
                              .gf_numsrc = 1}};
  f.head.gf_slist[0] = stored(OTHER);
  FAILS(setsockopt(fd, IPPROTO_IP, IP_BLOCK_SOURCE, &m, sizeof m - 1), EINVAL);
  FAILS(setsockopt(fd, IPPROTO_IP, IP_BLOCK_SOURCE, NULL, sizeof m), EFAULT);
  m.imr_interface = ip(OTHER);
  FAILS(setsockopt(fd, IPPROTO_IP, IP_BLOCK_SOURCE, &m, sizeof m), ENODEV);
  FAILS(setsockopt(fd, IPPROTO_IP, MCAST_BLOCK_SOURCE, &r, sizeof r - 1), EINVAL);
  FAILS(setsockopt(fd, IPPROTO_IPV6, MCAST_BLOCK_SOURCE, &r, sizeof r), ENOPROTOOPT);
  r.gsr_source = stored(OTHER6);
  FAILS(setsockopt(fd, IPPROTO_IP, MCAST_BLOCK_SOURCE, &r, sizeof r), EADDRNOTAVAIL);
  r.gsr_group = stored(GROUP6);
  FAILS(setsockopt(fd, IPPROTO_IP, MCAST_JOIN_SOURCE_GROUP, &r, sizeof r), EADDRNOTAVAIL);
  FAILS(setsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, &f, GROUP_FILTER_SIZE(0) - 1), EINVAL);
  FAILS(setsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, &f, GROUP_FILTER_SIZE(1) - 1), EINVAL);
  f.head.gf_slist[0] = stored(OTHER6);
  FAILS(setsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, &f, GROUP_FILTER_SIZE(1)), EADDRNOTAVAIL);
  socklen_t n = GROUP_FILTER_SIZE(0) - 1;
  FAILS(getsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, &f, &n), EINVAL);
  /* A membership is found by its interface. */
  f.head.gf_interface = 0;
  n = sizeof f;
  FAILS(getsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, &f, &n), EADDRNOTAVAIL);
  f.head.gf_interface = my_index();
  f.head.gf_group = stored("239.77.8.8");
  FAILS(getsockopt(fd, IPPROTO_IP, MCAST_MSFILTER, &f, &n), EADDRNOTAVAIL);
  IS(n, sizeof f);
  /* Nothing of that has changed anything. */
  is_received(fd, GROUP, MCAST_EXCLUDE, 0, NULL);
}

static void functions_of_libc(void) {
  struct sockaddr_in at, group = address(GROUP, 0);
  int fd = on_all(&at), far = far_sender();
  struct sockaddr_storage list[12] = {stored(OTHER), stored(far_ip())}, told[3];
  uint32_t mode = 9, count = 3;
  SYS(join(fd));
  SYS(setsourcefilter(fd, my_index(), A(group), MCAST_INCLUDE, 2, list));
  far_says(far, "two", in_group(at));
  hears(fd, "two");
  SYS(getsourcefilter(fd, my_index(), A(group), &mode, &count, told));
  IS(mode, MCAST_INCLUDE);
  IS(count, 2);
  OK(memcmp(told, list, 2 * sizeof *list) == 0);
  count = 1;
  SYS(getsourcefilter(fd, my_index(), A(group), &mode, &count, told));
  IS(count, 2);
  FAILS(setsourcefilter(fd, my_index(), A(group), MCAST_EXCLUDE, 11, list), ENOBUFS);
  group.sin_family = AF_UNIX;
  FAILS(setsourcefilter(fd, my_index(), A(group), MCAST_EXCLUDE, 1, list), EADDRNOTAVAIL);
  FAILS(setsourcefilter(fd, my_index(), (void *)&group, 7, MCAST_EXCLUDE, 1, list), EINVAL);
  struct in_addr four[2] = {ip(far_ip()), ip(OTHER)}, heard[2];
  SYS(setipv4sourcefilter(fd, ip(my_ip()), ip(GROUP), MCAST_EXCLUDE, 2, four));
  far_says(far, "none", in_group(at));
  hears_nothing(fd);
  count = 2;
  SYS(getipv4sourcefilter(fd, ip(my_ip()), ip(GROUP), &mode, &count, heard));
  IS(mode, MCAST_EXCLUDE);
  IS(count, 2);
  OK(memcmp(heard, four, sizeof four) == 0);
}

static void groups_of_ipv4_on_sockets_of_ipv6(void) {
  int fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0)), far = far_sender();
  struct sockaddr_in6 any = {.sin6_family = AF_INET6};
  SYS(bind(fd, A(any)));
  socklen_t n = sizeof any;
  SYS(getsockname(fd, (struct sockaddr *)&any, &n));
  struct sockaddr_in at = address("0.0.0.0", ntohs(any.sin6_port));
  const char *const one[] = {far_ip()};
  SYS(change(fd, IP_ADD_SOURCE_MEMBERSHIP, GROUP, far_ip()));
  far_says(far, "four", in_group(at));
  hears(fd, "four");
  SYS(change_any(fd, MCAST_JOIN_SOURCE_GROUP, GROUP, OTHER));
  SYS(change_any(fd, MCAST_LEAVE_SOURCE_GROUP, GROUP, OTHER));
  is_received(fd, GROUP, MCAST_INCLUDE, 1, one);
  SYS(set_filter(fd, GROUP, MCAST_EXCLUDE, 1, one));
  far_says(far, "blocked", in_group(at));
  hears_nothing(fd);
}

/* Says something to a group of IPv6; gives the address that it comes from. */
static void says6(int fd) {
  struct sockaddr_in6 to = {.sin6_family = AF_INET6};
  socklen_t n = sizeof to;
  SYS(getsockname(fd, (struct sockaddr *)&to, &n));
  OK(inet_pton(AF_INET6, GROUP6, &to.sin6_addr) == 1);
  IS(sendto(fd, "six", 3, 0, A(to)), 3);
}

static void groups_of_ipv6(void) {
  int fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  struct sockaddr_in6 any = {.sin6_family = AF_INET6}, from;
  SYS(bind(fd, A(any)));
  set(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, my_index());
  struct group_req r = {.gr_interface = my_index(), .gr_group = stored(GROUP6)};
  SYS(setsockopt(fd, IPPROTO_IPV6, MCAST_JOIN_GROUP, &r, sizeof r));
  says6(fd);
  char c[8], mine[INET6_ADDRSTRLEN];
  socklen_t n = sizeof from;
  IS(ready(fd, POLLIN, 10000), POLLIN);
  IS(recvfrom(fd, c, sizeof c, 0, (struct sockaddr *)&from, &n), 3);
  OK(inet_ntop(AF_INET6, &from.sin6_addr, mine, sizeof mine) != NULL);
  const char *const two[] = {OTHER6, mine};
  SYS(change_any(fd, MCAST_BLOCK_SOURCE, GROUP6, mine));
  says6(fd);
  hears_nothing(fd);
  SYS(change_any(fd, MCAST_UNBLOCK_SOURCE, GROUP6, mine));
  says6(fd);
  hears(fd, "six");
  FAILS(change_any(fd, MCAST_JOIN_SOURCE_GROUP, GROUP6, mine), EINVAL);
  SYS(set_filter(fd, GROUP6, MCAST_INCLUDE, 2, two));
  is_received(fd, GROUP6, MCAST_INCLUDE, 2, two);
  says6(fd);
  hears(fd, "six");
  SYS(change_any(fd, MCAST_LEAVE_SOURCE_GROUP, GROUP6, mine));
  FAILS(change_any(fd, MCAST_LEAVE_SOURCE_GROUP, GROUP6, mine), EADDRNOTAVAIL);
  says6(fd);
  hears_nothing(fd);
  SYS(change_any(fd, MCAST_JOIN_SOURCE_GROUP, GROUP6, mine));
  says6(fd);
  hears(fd, "six");
  SYS(setsockopt(fd, IPPROTO_IPV6, MCAST_LEAVE_GROUP, &r, sizeof r));
  FAILS(change_any(fd, MCAST_BLOCK_SOURCE, GROUP6, mine), EINVAL);
  FAILS(set_filter(fd, GROUP6, MCAST_EXCLUDE, 2, two), EINVAL);
  FAILS(set_filter(fd, GROUP6, MCAST_INCLUDE, 0, two), EADDRNOTAVAIL);
}

static void limits_of_ipv6(void) {
  int fd = SYS(socket(AF_INET6, SOCK_DGRAM, 0));
  char names[66][24];
  const char *all[66];
  for (int i = 0; i < 66; i++) {
    snprintf(names[i], sizeof *names, "2001:db8::%x", i + 1);
    all[i] = names[i];
  }
  for (int i = 0; i < 64; i++)
    SYS(change_any(fd, MCAST_JOIN_SOURCE_GROUP, GROUP6, names[i]));
  FAILS(change_any(fd, MCAST_JOIN_SOURCE_GROUP, GROUP6, names[64]), ENOBUFS);
  is_received(fd, GROUP6, MCAST_INCLUDE, 64, all);
  FAILS(set_filter(fd, GROUP6, MCAST_EXCLUDE, 65, all), ENOBUFS);
  SYS(set_filter(fd, GROUP6, MCAST_EXCLUDE, 64, all));
  is_received(fd, GROUP6, MCAST_EXCLUDE, 64, all);
  union filter f = {.head = {.gf_interface = 0, .gf_group = stored(GROUP6)}};
  socklen_t n = sizeof f;
  FAILS(getsockopt(fd, IPPROTO_IPV6, MCAST_MSFILTER, &f, &n), EADDRNOTAVAIL);
  f.head.gf_interface = my_index();
  f.head.gf_group = stored(GROUP);
  FAILS(getsockopt(fd, IPPROTO_IPV6, MCAST_MSFILTER, &f, &n), EADDRNOTAVAIL);
  struct group_source_req r = {
      .gsr_interface = my_index(), .gsr_group = stored(GROUP6), .gsr_source = stored(OTHER)};
  FAILS(setsockopt(fd, IPPROTO_IPV6, MCAST_BLOCK_SOURCE, &r, sizeof r), EADDRNOTAVAIL);
}

const struct check CHECKS[] = {
    {"sources_that_are_included_are_heard", sources_that_are_included_are_heard},
    {"sources_that_are_blocked_are_not_heard", sources_that_are_blocked_are_not_heard},
    {"the_options_of_both_versions_do_the_same", the_options_of_both_versions_do_the_same},
    {"each_socket_has_its_own_sources", each_socket_has_its_own_sources},
    {"lists_are_set_and_told", lists_are_set_and_told},
    {"lists_of_ipv4_are_set_and_told", lists_of_ipv4_are_set_and_told},
    {"refusals", refusals},
    {"the_mode_of_an_empty_list", the_mode_of_an_empty_list},
    {"limits", limits},
    {"what_is_malformed", what_is_malformed},
    {"functions_of_libc", functions_of_libc},
    {"groups_of_ipv4_on_sockets_of_ipv6", groups_of_ipv4_on_sockets_of_ipv6},
    {"groups_of_ipv6", groups_of_ipv6},
    {"limits_of_ipv6", limits_of_ipv6},
    {0, 0},
};
