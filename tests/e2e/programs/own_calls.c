/* What a program that makes its own system calls may rely on: registers, small stacks, signals,
 * threads and children are as with the kernel's. For x86-64, and compiled with own_calls.h. */
#include "check.h"
#include <stddef.h>
#include <sys/mman.h>
#include <threads.h>

static void *memory(size_t n) {
  void *at = mmap(0, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  OK(at != MAP_FAILED);
  return at;
}

/* --- registers ----------------------------------------------------------- */

struct registers {
  uint64_t rbx, rbp, r12, r13, r14, r15, rdi, rsi, rdx, r10, r8, r9, flags, red_zone[16];
  _Alignas(64) uint8_t vectors[16][64];
};

/* Fills all registers from `r`, and what is below the stack, makes the call, and puts into `r`
 * what they are then; gives the call's result. `wide` are vectors of 32 bytes, others have 16. */
long call_with(struct registers *r, long number, int wide);
#define EACH(what) ".irp i,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n" what "\n.endr\n"
/* Room below the red zone, where a word is pushed. */
#define BELOW "lea -128(%rsp), %rsp\n"
#define ABOVE "lea 128(%rsp), %rsp\n"
__asm__("call_with:\n"
        "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        "push %rdi; push %rdx\n"
        "mov %rdi, %rax; mov %rsi, %rcx\n"
        "test %edx, %edx; jnz 1f\n"
        EACH("movdqu 256+64*\\i(%rax), %xmm\\i") "jmp 2f\n"
        "1:" EACH("vmovdqu 256+64*\\i(%rax), %ymm\\i")
        "2:" EACH("mov 104+8*\\i(%rax), %r11; mov %r11, -8-8*\\i(%rsp)")
        "mov 96(%rax), %r11\n" BELOW "push %r11; popf\n" ABOVE
        "mov (%rax), %rbx; mov 8(%rax), %rbp; mov 16(%rax), %r12; mov 24(%rax), %r13\n"
        "mov 32(%rax), %r14; mov 40(%rax), %r15; mov 48(%rax), %rdi; mov 56(%rax), %rsi\n"
        "mov 64(%rax), %rdx; mov 72(%rax), %r10; mov 80(%rax), %r8; mov 88(%rax), %r9\n"
        "mov %rcx, %rax\n"
        "syscall\n"
        "mov 8(%rsp), %rcx\n" /* r */
        BELOW "pushf; pop %r11\n" ABOVE "mov %r11, 96(%rcx)\n"
        "mov %rbx, (%rcx); mov %rbp, 8(%rcx); mov %r12, 16(%rcx); mov %r13, 24(%rcx)\n"
        "mov %r14, 32(%rcx); mov %r15, 40(%rcx); mov %rdi, 48(%rcx); mov %rsi, 56(%rcx)\n"
        "mov %rdx, 64(%rcx); mov %r10, 72(%rcx); mov %r8, 80(%rcx); mov %r9, 88(%rcx)\n"
        EACH("mov -8-8*\\i(%rsp), %r11; mov %r11, 104+8*\\i(%rcx)")
        "pop %rdx; pop %rdi\n"
        "test %edx, %edx; jnz 3f\n"
        EACH("movdqu %xmm\\i, 256+64*\\i(%rcx)") "jmp 4f\n"
        "3:" EACH("vmovdqu %ymm\\i, 256+64*\\i(%rcx)") "vzeroupper\n"
        "4: cld; pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx; ret\n");
_Static_assert(offsetof(struct registers, flags) == 96, "as the code has it");
_Static_assert(offsetof(struct registers, red_zone) == 104, "as the code has it");
_Static_assert(offsetof(struct registers, vectors) == 256, "as the code has it");

/* Carry, parity, zero, sign, direction and overflow. */
enum { FLAGS = 0xcc5, USUAL = 0x202 };

static void keeps_registers(long number, const uint64_t arguments[6], long result) {
  for (int wide = 0; wide < 1 + (__builtin_cpu_supports("avx") != 0); wide++)
    for (int flags = 0; flags < 2; flags++) {
      struct registers before, after;
      for (size_t i = 0; i < sizeof before; i++)
        ((uint8_t *)&before)[i] = rand();
      memcpy(&before.rdi, arguments, 6 * sizeof *arguments);
      before.flags = USUAL | (flags ? FLAGS : 0);
      after = before;
      IS(call_with(&after, number, wide), result);
      IS(after.flags & FLAGS, before.flags & FLAGS);
      IS(memcmp(&after, &before, offsetof(struct registers, flags)), 0);
      IS(memcmp(after.red_zone, before.red_zone, sizeof before.red_zone), 0);
      for (int i = 0; i < 16; i++)
        IS(memcmp(after.vectors[i], before.vectors[i], wide ? 32 : 16), 0);
    }
}

static void registers_are_kept(void) {
  EACH_PAIR(mine, far) {
    char buf[100000];
    memset(buf, 'x', sizeof buf);
    /* With and without work to do, with errors, and what is the kernel's. */
    keeps_registers(SYS_getppid, (uint64_t[6]){1, 2, 3, 4, 5, 6}, getppid());
    keeps_registers(SYS_sendto, (uint64_t[6]){mine, (uintptr_t)buf, 5000, 0, 0, 0}, 5000);
    for (int i = 0; i < 4; i++)
      receive_all(far, buf, 5000);
    keeps_registers(SYS_recvfrom, (uint64_t[6]){mine, (uintptr_t)buf, 5000, MSG_DONTWAIT, 0, 0},
                    -EAGAIN);
    keeps_registers(SYS_recvfrom, (uint64_t[6]){-1, (uintptr_t)buf, 5000, 0, 0, 0}, -EBADF);
  }
}

/* libc's errno is not a call's that goes past libc. */
static void errno_is_left_alone(void) {
  int fd = SYS(socket(AF_INET, SOCK_STREAM, 0));
  struct registers r = {.rdi = fd, .flags = USUAL};
  errno = 4711;
  long result = call_with(&r, SYS_accept, 0);
  int after = errno;
  IS(result, -EINVAL);
  IS(after, 4711);
}

/* --- stacks -------------------------------------------------------------- */

/* Makes the call with the stack at `top`. */
long call_on(void *top, long number, const uint64_t arguments[6]);
__asm__("call_on:\n"
        "push %rbx; mov %rsp, %rbx; mov %rdi, %rsp; mov %rsi, %rax; mov %rdx, %rcx\n"
        "mov (%rcx), %rdi; mov 8(%rcx), %rsi; mov 16(%rcx), %rdx; mov 24(%rcx), %r10\n"
        "mov 32(%rcx), %r8; mov 40(%rcx), %r9\n"
        "syscall\n"
        "mov %rbx, %rsp; pop %rbx; ret\n");

enum { ALTERNATIVE = 32 << 10, PAGE = 4096 };

static void have_alternative_stack(void) {
  stack_t own = {.ss_sp = memory(ALTERNATIVE), .ss_size = ALTERNATIVE};
  SYS(sigaltstack(&own, 0));
}

/* As a goroutine's, which has a few bytes left, and a page behind them that is not there. */
static void a_stack_may_be_small(void) {
  have_alternative_stack();
  char *page = memory(2 * PAGE);
  SYS(mprotect(page, PAGE, PROT_NONE));
  EACH_PAIR(mine, far)
    for (int left = 0; left < 64; left += 16) {
      char buf[4], *top = page + PAGE + left;
      IS(call_on(top, SYS_sendto, (uint64_t[6]){mine, (uintptr_t)"some", 4}), 4);
      receive_all(far, buf, 4);
      send_all(far, "more", 4);
      IS(call_on(top, SYS_recvfrom, (uint64_t[6]){mine, (uintptr_t)buf, 4}), 4);
      IS(memcmp(buf, "more", 4), 0);
      IS(call_on(top, SYS_getppid, (uint64_t[6]){0}), getppid());
    }
}

/* --- signals ------------------------------------------------------------- */

static int inner, depth, deepest;

/* What a handler sends arrives while the call that it interrupted still waits. */
static void sends(int number) {
  depth++;
  if (depth > deepest)
    deepest = depth;
  int before = errno;
  SYS(send(inner, "h", 1, 0));
  if (number < SIGRTMIN + 7)
    SYS(syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number + 1));
  errno = before;
  depth--;
}

struct waiting {
  int fd, alternative;
  volatile pid_t thread;
};

static void *waits(void *arg) {
  struct waiting *w = arg;
  if (w->alternative)
    have_alternative_stack();
  w->thread = syscall(SYS_gettid);
  char buf[4];
  IS(recv(w->fd, buf, 4, MSG_WAITALL), 4);
  IS(memcmp(buf, "late", 4), 0);
  return 0;
}

static void handlers_make_calls(void) {
  for (int held = 0; held < 2; held++)
    for (int alternative = 0; alternative < 2; alternative++) {
      struct sigaction a = {.sa_handler = sends,
                            .sa_flags = SA_RESTART | (alternative ? SA_ONSTACK : 0)};
      if (held)
        sigfillset(&a.sa_mask);
      for (int number = SIGRTMIN; number < SIGRTMIN + 8; number++)
        SYS(sigaction(number, &a, 0));
      EACH_PAIR(mine, far) {
        inner = mine, deepest = 0;
        struct waiting w = {.fd = mine, .alternative = alternative};
        pthread_t thread;
        OK(!pthread_create(&thread, 0, waits, &w));
        while (!w.thread)
          sleep_ms(1);
        until_it_sleeps(w.thread);
        SYS(syscall(SYS_tgkill, getpid(), w.thread, SIGRTMIN));
        char got[8];
        receive_all(far, got, 8);
        IS(memcmp(got, "hhhhhhhh", 8), 0);
        send_all(far, "late", 4);
        OK(!pthread_join(thread, 0));
      }
    }
}

/* Calls go on for a program that holds all signals back, by libc and by itself. */
static void all_signals_held_back(void) {
  sigset_t all, none;
  sigfillset(&all);
  sigemptyset(&none);
  EACH_PAIR(mine, far) {
    for (int way = 0; way < 3; way++) {
      char buf[4];
      if (way == 0)
        SYS(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, 0, 8));
      else if (way == 1)
        OK(!pthread_sigmask(SIG_SETMASK, &all, 0));
      else
        SYS((sigprocmask)(SIG_BLOCK, &all, 0));
      raise(SIGUSR1);
      send_all(mine, "held", 4);
      receive_all(far, buf, 4);
      sigset_t pending;
      SYS(sigpending(&pending));
      OK(sigismember(&pending, SIGUSR1));
      struct timespec now = {0};
      IS(sigtimedwait(&all, 0, &now), SIGUSR1);
      SYS((sigprocmask)(SIG_SETMASK, &none, 0));
    }
  }
}

static volatile sig_atomic_t bad_calls;
static void notes_it(int number, siginfo_t *info, void *context) {
  (void)context;
  if (number == SIGSYS && info->si_code == SI_TKILL)
    bad_calls++;
}

/* SIGSYS is the program's, too: what it installs for it, it sees, and it runs. */
static void own_handler_of_bad_calls(void) {
  struct sigaction a = {.sa_sigaction = notes_it, .sa_flags = SA_SIGINFO}, before;
  SYS(sigaction(SIGSYS, &a, &before));
  OK(before.sa_handler == SIG_DFL);
  EACH_PAIR(mine, far) {
    char buf[4];
    raise(SIGSYS);
    send_all(mine, "here", 4);
    receive_all(far, buf, 4);
  }
  IS(bad_calls, 2);
  SYS(sigaction(SIGSYS, 0, &before));
  OK(before.sa_sigaction == notes_it && before.sa_flags & SA_SIGINFO);
  OK(signal(SIGSYS, SIG_IGN) != SIG_ERR);
  raise(SIGSYS);
  IS(bad_calls, 2);
  OK(signal(SIGSYS, SIG_DFL) != SIG_ERR);
  pid_t child = SYS(fork());
  if (!child) {
    raise(SIGSYS);
    _exit(0);
  }
  int status;
  SYS(waitpid(child, &status, 0));
  OK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
}

/* --- threads ------------------------------------------------------------- */

static void *sends_and_ends(void *arg) {
  int fd = *(int *)arg;
  SYS(send(fd, "t", 1, 0));
  if (fd % 2)
    pthread_exit(arg);
  return arg;
}

static long mapped(void) {
  long kib = 0;
  FILE *status = fopen("/proc/self/status", "r");
  OK(status);
  for (char line[128]; !kib && fgets(line, sizeof line, status);)
    sscanf(line, "VmSize: %ld kB", &kib);
  fclose(status);
  OK(kib > 0);
  return kib;
}

/* A thread's calls are as its process's, and nothing of it stays. */
static void threads_come_and_go(void) {
  long at_first = 0;
  EACH_PAIR(mine, far)
    for (int i = 0; i < 300; i++) {
      pthread_t thread;
      void *result;
      char byte;
      OK(!pthread_create(&thread, 0, sends_and_ends, i % 2 ? &mine : &far));
      OK(!pthread_join(thread, &result));
      OK(result == (i % 2 ? &mine : &far));
      receive_all(i % 2 ? far : mine, &byte, 1);
      if (!at_first && i == 20)
        at_first = mapped();
    }
  long more = mapped() - at_first;
  OK(more < 50000);
}

static int sends_and_returns(void *arg) {
  SYS(send(*(int *)arg, "t", 1, 0));
  return 300;
}

/* Those of C11, too. */
static void threads_of_c11(void) {
  EACH_PAIR(mine, far) {
    thrd_t thread;
    int result;
    char byte;
    OK(thrd_create(&thread, sends_and_returns, &mine) == thrd_success);
    OK(thrd_join(thread, &result) == thrd_success);
    IS(result, 300);
    receive_all(far, &byte, 1);
  }
}

const struct check CHECKS[] = {
    {"registers_are_kept", registers_are_kept},
    {"errno_is_left_alone", errno_is_left_alone},
    {"a_stack_may_be_small", a_stack_may_be_small},
    {"handlers_make_calls", handlers_make_calls},
    {"all_signals_held_back", all_signals_held_back},
    {"own_handler_of_bad_calls", own_handler_of_bad_calls},
    {"threads_come_and_go", threads_come_and_go},
    {"threads_of_c11", threads_of_c11},
    {0, 0},
};
