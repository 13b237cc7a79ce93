/* older VERSION PROGRAM [ARGUMENT...]: executes a program on what looks to it like an older
 * kernel (5.2, 5.10, 6.1): a filter of system calls refuses what was not there yet, as that
 * kernel did. What such a kernel did otherwise, it does not show. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* System calls that came with a version. */
static const struct { int since; unsigned call; } CALLS[] = {
  {501, 424 /* pidfd_send_signal */}, {501, 425 /* io_uring_setup */}, {501, 426}, {501, 427},
  {502, 428 /* open_tree */}, {502, 429}, {502, 430}, {502, 431}, {502, 432}, {502, 433},
  {503, 434 /* pidfd_open */}, {503, 435 /* clone3 */}, {509, 436 /* close_range */},
  {506, 437 /* openat2 */}, {506, 438 /* pidfd_getfd */}, {508, 439 /* faccessat2 */},
  {510, 440 /* process_madvise */}, {511, 441 /* epoll_pwait2 */}, {512, 442 /* mount_setattr */},
  {514, 443 /* quotactl_fd */}, {513, 444 /* landlock_create_ruleset */}, {513, 445}, {513, 446},
  {514, 447 /* memfd_secret */}, {515, 448 /* process_mrelease */}, {516, 449 /* futex_waitv */},
  {517, 450 /* set_mempolicy_home_node */}, {605, 451 /* cachestat */}, {606, 452 /* fchmodat2 */},
  {606, 453 /* map_shadow_stack */},
};
/* And those that are newer than all of these. */
enum { NEWER = 454, NEWER_SINCE = 607 };

/* Arguments of older calls: the call's number, which argument, its value or, if it is a flag, one
 * of its bits, and what is answered; and before it another argument with a value of its own, if
 * there is one. */
static const struct {
  int since; unsigned call; int first; unsigned is; int then; unsigned value; int is_flag, answer;
} ARGUMENTS[] = {
  {511, SYS_prctl, -1, 0, 0, 59 /* PR_SET_SYSCALL_USER_DISPATCH */, 0, EINVAL},
  {511, SYS_userfaultfd, -1, 0, 0, 1 /* UFFD_USER_MODE_ONLY */, 1, EINVAL},
  {513, SYS_mremap, -1, 0, 3, 4 /* MREMAP_DONTUNMAP */, 1, EINVAL},
  {514, SYS_madvise, -1, 0, 2, 22 /* MADV_POPULATE_READ */, 0, EINVAL},
  {514, SYS_madvise, -1, 0, 2, 23 /* MADV_POPULATE_WRITE */, 0, EINVAL},
  {602, SYS_ioctl, 1, 0x400454d0 /* TUNSETOFFLOAD */, 2, 0x60 /* TUN_F_USO4, USO6 */, 1, EINVAL},
  {603, SYS_memfd_create, -1, 0, 1, 0x18 /* MFD_NOEXEC_SEAL, MFD_EXEC */, 1, EINVAL},
  {605, SYS_getsockopt, 1, 1 /* SOL_SOCKET */, 2, 77 /* SO_PEERPIDFD */, 0, ENOPROTOOPT},
  {607, SYS_ioctl, -1, 0, 1, 0xc0606610 /* PAGEMAP_SCAN */, 0, ENOTTY},
  {611, SYS_ioctl, -1, 0, 1, 0xc0686611 /* PROCMAP_QUERY */, 0, ENOTTY},
  {616, SYS_setsockopt, 1, 1, 2, 83 /* SO_PASSRIGHTS */, 0, ENOPROTOOPT},
};
#define EACH(table) unsigned i = 0; i < sizeof(table) / sizeof *(table); i++

static struct sock_filter filter[1024];
static unsigned short length;

static void add(unsigned short code, unsigned k, unsigned char if_true, unsigned char if_not) {
  filter[length++] = (struct sock_filter){code, if_true, if_not, k};
}

/* Goes on only if the word there compares so; otherwise it skips `others` more. */
static void only_if(unsigned short compares, unsigned at, unsigned k, unsigned char others) {
  add(BPF_LD | BPF_W | BPF_ABS, at, 0, 0);
  add(BPF_JMP | compares | BPF_K, k, 0, others);
}

static void answer(int error) { add(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error, 0, 0); }

static unsigned argument(int number) {
  return offsetof(struct seccomp_data, args) + 8 * (unsigned)number;
}

int main(int argc, char **argv) {
  int major, minor;
  if (argc < 3 || sscanf(argv[1], "%d.%d", &major, &minor) != 2) {
    fprintf(stderr, "usage: %s VERSION PROGRAM [ARGUMENT...]\n", argv[0]);
    return 2;
  }
  int version = 100 * major + minor;
  unsigned call = offsetof(struct seccomp_data, nr);
  for (EACH(CALLS)) {
    if (CALLS[i].since <= version) continue;
    only_if(BPF_JEQ, call, CALLS[i].call, 1);
    answer(ENOSYS);
  }
  if (version < NEWER_SINCE) {
    only_if(BPF_JGE, call, NEWER, 1);
    answer(ENOSYS);
  }
  for (EACH(ARGUMENTS)) {
    if (ARGUMENTS[i].since <= version) continue;
    int has_first = ARGUMENTS[i].first >= 0;
    only_if(BPF_JEQ, call, ARGUMENTS[i].call, has_first ? 5 : 3);
    if (has_first) only_if(BPF_JEQ, argument(ARGUMENTS[i].first), ARGUMENTS[i].is, 3);
    unsigned short compares = ARGUMENTS[i].is_flag ? BPF_JSET : BPF_JEQ;
    only_if(compares, argument(ARGUMENTS[i].then), ARGUMENTS[i].value, 1);
    answer(ARGUMENTS[i].answer);
  }
  add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
  struct sock_fprog program = {length, filter};
  /* Without no_new_privs, which programs would inherit: root may. */
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
    perror("seccomp");
    return 1;
  }
  execvp(argv[2], argv + 2);
  perror(argv[2]);
  return 127;
}
