/* A program that has functions of libc's names, and goes on from them to the next ones (Erlang
   has its sigaction so): nobody but the program calls them. And one that has overwritten them. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <sys/mman.h>

/* Volatile, as libc's functions are said not to call back. */
static volatile int depth, calls, came;

static void enter(void) {
  calls++;
  if (++depth > 1)
    FAIL("it was called from behind itself");
}

int sigaction(int number, const struct sigaction *new, struct sigaction *old) {
  typedef int (*Next)(int, const struct sigaction *, struct sigaction *);
  Next next = (Next)dlsym(RTLD_NEXT, "__sigaction");
  enter();
  int result = next(number, new, old);
  depth--;
  return result;
}

int poll(struct pollfd *list, nfds_t count, int limit) {
  typedef int (*Next)(struct pollfd *, nfds_t, int, size_t);
  Next next = (Next)dlsym(RTLD_NEXT, "__poll_chk");
  enter();
  int result = next(list, count, limit, count * sizeof *list);
  depth--;
  return result;
}

static void note(int number) { came = number; }

/* As in MemorySanitizer, what stands in libc's place gets ready when it is called for the first time,
   which is before main. */
char *getenv(const char *name) {
  static int ready;
  size_t len = strlen(name);
  if (!ready) {
    ready = 1;
    struct sigaction new = {.sa_handler = note};
    SYS(sigaction(SIGUSR2, &new, 0));
  }
  for (char **entry = environ; entry && *entry; entry++)
    if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=')
      return *entry + len + 1;
  return NULL;
}

static void its_own_getenv(void) {
  OK(getenv("PATH") != NULL);
  SYS(raise(SIGUSR2));
  IS(came, SIGUSR2);
  EACH_PAIR(mine, far)
    send_all(mine, "x", 1);
}

static void its_own_sigaction(void) {
  struct sigaction new = {.sa_handler = note}, old;
  calls = 0;
  SYS(sigaction(SIGUSR1, &new, 0));
  SYS(raise(SIGUSR1));
  IS(came, SIGUSR1);
  SYS(sigaction(SIGUSR1, 0, &old));
  OK(old.sa_handler == note);
  IS(calls, 2);
}

static void its_own_poll(void) {
  EACH_PAIR(mine, far) {
    struct pollfd p = {.fd = mine, .events = POLLIN};
    calls = 0;
    IS(poll(&p, 1, 0), 0);
    IS(write(far, "x", 1), 1);
    IS(poll(&p, 1, 5000), 1);
    IS(p.revents, POLLIN);
    IS(calls, 2);
  }
}

static int jumped_madvise(void *at, size_t len, int advice) {
  enter();
  int result = syscall(SYS_madvise, at, len, advice);
  depth--;
  return result;
}

static int jumped_munmap(void *at, size_t len) {
  enter();
  int result = syscall(SYS_munmap, at, len);
  depth--;
  return result;
}

static void *jumped_mremap(void *at, size_t len, size_t new_len, int flags, ...) {
  enter();
  void *result = (void *)syscall(SYS_mremap, at, len, new_len, flags, NULL);
  depth--;
  return result;
}

/* The function begins with a jump to another from now on. */
static void jump(const char *name, void *to) {
  long size = sysconf(_SC_PAGESIZE);
  char *from = dlsym(RTLD_DEFAULT, name), *page = (char *)((long)from & -size);
#if defined __x86_64__
  /* mov rax, TO; jmp rax */
  enum { AT = 2 };
  unsigned char code[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};
#elif defined __aarch64__
  /* ldr x16, TO; br x16; TO */
  enum { AT = 8 };
  unsigned char code[16] = {0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6};
#endif
  memcpy(code + AT, &to, sizeof to);
  OK(from != NULL);
  SYS(syscall(SYS_mprotect, page, 2 * size, PROT_READ | PROT_WRITE | PROT_EXEC));
  memcpy(from, code, sizeof code);
  SYS(syscall(SYS_mprotect, page, 2 * size, PROT_READ | PROT_EXEC));
  __builtin___clear_cache(from, from + sizeof code);
}

/* Libraries that want to know what memory a program gives back (UCX) overwrite how the functions
   begin, and do by their numbers what those did. */
static void overwritten(void) {
  jump("madvise", jumped_madvise);
  jump("munmap", jumped_munmap);
  jump("mremap", jumped_mremap);
  /* At a place that nothing else gets, once it has been given back. */
  int rights = PROT_READ | PROT_WRITE, how = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  char *at = mmap((void *)0x20000000, 8192, rights, how, -1, 0);
  OK(at != MAP_FAILED);
  calls = 0;
  at[0] = 'x';
  at = mremap(at, 8192, 16384, MREMAP_MAYMOVE);
  OK(at != MAP_FAILED && at[0] == 'x');
  SYS(madvise(at, 16384, MADV_DONTNEED));
  IS(at[0], 0);
  SYS(munmap(at, 16384));
  IS(calls, 3);
  EACH_PAIR(mine, far) {
    char got;
    send_all(mine, "x", 1);
    receive_all(far, &got, 1);
    FAILS(send(mine, at, 1, 0), EFAULT);
  }
}

const struct check CHECKS[] = {
    {"its_own_sigaction", its_own_sigaction},
    {"its_own_poll", its_own_poll},
    {"its_own_getenv", its_own_getenv},
    {"overwritten", overwritten},
    {0, 0},
};
