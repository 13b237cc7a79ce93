/* A server of many processes that accept connections from one listener, at an address and
 * port, in calls that wait. Each connection is told by which process it was accepted. When
 * the server is to end it says how many each has accepted, in the processes' order. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void serve(int listener, int number, unsigned *accepted) {
  for (;;) {
    int fd = accept(listener, 0, 0);
    if (fd < 0) {
      perror("accept");
      _exit(1);
    }
    __atomic_add_fetch(&accepted[number], 1, __ATOMIC_RELAXED);
    dprintf(fd, "%d\n", number);
    close(fd);
  }
}

int main(int argc, char **argv) {
  struct sockaddr_in at = {.sin_family = AF_INET};
  if (argc != 4 || !inet_pton(AF_INET, argv[1], &at.sin_addr))
    return 2;
  at.sin_port = htons(atoi(argv[2]));
  int count = atoi(argv[3]), listener = socket(AF_INET, SOCK_STREAM, 0);
  unsigned *accepted = mmap(0, count * sizeof *accepted, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (accepted == MAP_FAILED || bind(listener, (void *)&at, sizeof at))
    return perror("bind"), 1;
  sigset_t begins, ends;
  sigemptyset(&begins);
  sigaddset(&begins, SIGUSR1);
  sigemptyset(&ends);
  sigaddset(&ends, SIGTERM);
  sigprocmask(SIG_BLOCK, &begins, 0);
  sigprocmask(SIG_BLOCK, &ends, 0);
  pid_t children[count];
  for (int i = 0; i < count; i++) {
    children[i] = fork();
    if (children[i] < 0)
      return perror("fork"), 1;
    if (!children[i]) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      int signal;
      sigwait(&begins, &signal);
      serve(listener, i, accepted);
    }
  }
  if (listen(listener, 512))
    return perror("listen"), 1;
  for (int i = 0; i < count; i++)
    kill(children[i], SIGUSR1);
  printf("serves\n");
  fflush(stdout);
  int signal;
  sigwait(&ends, &signal);
  for (int i = 0; i < count; i++) {
    if (waitpid(children[i], 0, WNOHANG))
      return fprintf(stderr, "%d has ended\n", i), 1;
    kill(children[i], SIGKILL);
    waitpid(children[i], 0, 0);
    printf("%u ", accepted[i]);
  }
  printf("\n");
  return 0;
}
