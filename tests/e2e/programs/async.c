/* Signal-driven input and output: SIGIO for whoever owns a socket (O_ASYNC). */
#include "check.h"
#ifndef F_SETSIG
#define F_SETSIG 10
#endif

static volatile sig_atomic_t signalled;

static void on_io(int signal) {
  IS(signal, SIGIO);
  signalled++;
}

static void catch_io(int flags) {
  signalled = 0;
  struct sigaction a = {.sa_handler = on_io, .sa_flags = flags};
  SYS(sigaction(SIGIO, &a, 0));
}

/* The owner is to hear of what happens to it. */
static void tells_of(int fd) {
  SYS(fcntl(fd, F_SETOWN, getpid()));
  SYS(fcntl(fd, F_SETFL, SYS(fcntl(fd, F_GETFL)) | O_ASYNC));
  OK(SYS(fcntl(fd, F_GETFL)) & O_ASYNC);
}

/* A signal comes, or has come. How many is nobody's promise: data may come in pieces. */
static void is_signalled(void) {
  for (double end = now() + 10; !signalled && now() < end;)
    sleep_ms(1);
  OK(signalled);
}

/* None comes any more, once what is on its way has come. */
static void is_left_alone(void) {
  sleep_ms(100);
  signalled = 0;
  sleep_ms(50);
  IS(signalled, 0);
}

static void for_data(void) {
  EACH_PAIR(mine, far) {
    catch_io(SA_RESTART);
    char buf[8];
    send_all(far, "old", 3);
    receive_all(mine, buf, 3);
    tells_of(mine);
    is_left_alone();
    for (int i = 0; i < 5; i++) {
      send_all(far, "new", 3);
      is_signalled();
      receive_all(mine, buf, 3);
      is_left_alone();
    }
    /* What goes out is no news. */
    send_all(mine, "out", 3);
    receive_all(far, buf, 3);
    is_left_alone();
  }
}

static void for_the_end(void) {
  EACH_PAIR(mine, far) {
    catch_io(SA_RESTART);
    tells_of(mine);
    is_left_alone();
    SYS(shutdown(far, SHUT_WR));
    is_signalled();
    IS(read(mine, &(char){0}, 1), 0);
  }
}

static void for_a_reset(void) {
  EACH_PAIR(mine, far) {
    catch_io(SA_RESTART);
    tells_of(mine);
    is_left_alone();
    far_reset(far);
    is_signalled();
    FAILS(read(mine, &(char){0}, 1), ECONNRESET);
    far = -1;
  }
}

static void for_connections_to_accept(void) {
  catch_io(SA_RESTART);
  int listener = my_listener(8);
  tells_of(listener);
  is_left_alone();
  for (int i = 0; i < 3; i++) {
    int far = far_socket(SOCK_STREAM);
    SYS(far_connect(far, name_of(listener)));
    is_signalled();
    int mine = SYS(accept(listener, 0, 0));
    is_left_alone();
    /* The listener's owner is not the connection's. */
    IS(fcntl(mine, F_GETOWN), 0);
    IS(fcntl(mine, F_GETFL) & O_ASYNC, 0);
    send_all(far, "x", 1);
    OK(ready(mine, POLLIN, 5000));
    is_left_alone();
    SYS(close(far));
    SYS(close(mine));
    is_left_alone();
  }
}

static void for_a_connection_made(void) {
  catch_io(SA_RESTART);
  int listener = far_listener(8);
  int mine = SYS(socket(AF_INET, SOCK_STREAM, 0));
  nonblocking(mine);
  tells_of(mine);
  is_left_alone();
  struct sockaddr_in a = far_name(listener);
  OK(connect(mine, A(a)) == 0 || errno == EINPROGRESS);
  is_signalled();
  int far = far_accept(listener);
  is_left_alone();
  send_all(far, "x", 1);
  is_signalled();
}

static void for_room(void) {
  EACH_PAIR(mine, far) {
    catch_io(SA_RESTART);
    tells_of(mine);
    static char big[1 << 16];
    size_t sent = fill(mine, sizeof big);
    is_left_alone();
    while (sent) {
      ssize_t n = SYS(read(far, big, sizeof big));
      OK(n > 0);
      sent -= n;
    }
    is_signalled();
  }
}

static void for_datagrams(void) {
  catch_io(SA_RESTART);
  int mine = SYS(socket(AF_INET, SOCK_DGRAM, 0)), far = far_socket(SOCK_DGRAM);
  struct sockaddr_in here = address(my_ip(), 0);
  SYS(bind(mine, A(here)));
  here = name_of(mine);
  SYS(far_bind(far, address(far_ip(), 0)));
  SYS(far_connect(far, here));
  tells_of(mine);
  is_left_alone();
  for (int i = 0; i < 3; i++) {
    SYS(write(far, "x", 1));
    is_signalled();
    IS(recv(mine, &(char){0}, 1, 0), 1);
    is_left_alone();
  }
}

static void no_longer(void) {
  EACH_PAIR(mine, far) {
    catch_io(SA_RESTART);
    tells_of(mine);
    int on = 0;
    SYS(ioctl(mine, FIOASYNC, &on));
    IS(fcntl(mine, F_GETFL) & O_ASYNC, 0);
    send_all(far, "x", 1);
    OK(ready(mine, POLLIN, 5000));
    is_left_alone();
    on = 1;
    SYS(ioctl(mine, FIOASYNC, &on));
    send_all(far, "x", 1);
    is_signalled();
    SYS(fcntl(mine, F_SETOWN, 0));
    is_left_alone();
    send_all(far, "x", 1);
    char buf[3];
    receive_all(mine, buf, 3);
    is_left_alone();
  }
}

/* Once the last descriptor is closed, nothing that happens to the socket is the owner's
 * business: he may have no handler left, or wait for something else. */
static void none_once_closed(void) {
  for (int i = 0; i < 100; i++) {
    EACH_PAIR(mine, far) {
      catch_io(SA_RESTART);
      tells_of(mine);
      int another = SYS(dup(mine));
      SYS(close(mine));
      signalled = 0;
      send_all(far, "x", 1);
      is_signalled();
      SYS(close(another));
      signalled = 0;
      SYS(close(far));
      sleep_ms(1);
      IS(signalled, 0);
      mine = far = -1;
    }
  }
}

static void in_the_parent_of_who_reads(void) {
  EACH_PAIR(mine, far) {
    catch_io(SA_RESTART);
    tells_of(mine);
    is_left_alone();
    pid_t child = SYS(fork());
    if (!child) {
      send_all(far, "x", 1);
      IS(read(mine, &(char){0}, 1), 1);
      _exit(0);
    }
    joined(child);
    is_signalled();
  }
}

/* A call that waits for one socket is interrupted by what happens to another. */
static void a_wait_is_interrupted(void) {
  for (int way = 0; way < 4; way++) {
    EACH_PAIR(mine, far) {
      int other, its_far;
      pair(kind_, &other, &its_far);
      catch_io(0);
      tells_of(other);
      is_left_alone();
      struct pollfd p = {.fd = mine, .events = POLLIN};
      fd_set set;
      FD_ZERO(&set);
      FD_SET(mine, &set);
      int ep = SYS(epoll_create1(0));
      struct epoll_event e = {.events = EPOLLIN};
      SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
      pid_t parent = getpid(), child = SYS(fork());
      if (!child) {
        until_it_sleeps(parent);
        send_all(its_far, "x", 1);
        _exit(0);
      }
      switch (way) {
      case 0:
        FAILS(read(mine, &(char){0}, 1), EINTR);
        break;
      case 1:
        FAILS(poll(&p, 1, -1), EINTR);
        break;
      case 2:
        FAILS(select(mine + 1, &set, 0, 0, 0), EINTR);
        break;
      default:
        FAILS(epoll_wait(ep, &e, 1, -1), EINTR);
      }
      OK(signalled);
      /* Another signal is the matter of other checks, and not to interrupt what follows. */
      signal(SIGIO, SIG_IGN);
      joined(child);
      SYS(close(ep)), SYS(close(other)), SYS(close(its_far));
    }
  }
}

/* The classic pattern: the signal is held back but while the call waits. */
static void only_a_wait_lets_it_through(void) {
  for (int way = 0; way < 3; way++) {
    EACH_PAIR(mine, far) {
      int other, its_far;
      pair(kind_, &other, &its_far);
      catch_io(0);
      sigset_t held, before;
      sigemptyset(&held);
      sigaddset(&held, SIGIO);
      SYS(sigprocmask(SIG_BLOCK, &held, &before));
      tells_of(other);
      int ep = SYS(epoll_create1(0));
      struct epoll_event e = {.events = EPOLLIN};
      SYS(epoll_ctl(ep, EPOLL_CTL_ADD, mine, &e));
      send_all(its_far, "x", 1);
      OK(ready(other, POLLIN, 10000));
      sleep_ms(50);
      IS(signalled, 0);
      struct pollfd p = {.fd = mine, .events = POLLIN};
      fd_set set;
      FD_ZERO(&set);
      FD_SET(mine, &set);
      if (way == 0)
        FAILS(ppoll(&p, 1, 0, &before), EINTR);
      else if (way == 1)
        FAILS(pselect(mine + 1, &set, 0, 0, 0, &before), EINTR);
      else
        FAILS(epoll_pwait(ep, &e, 1, -1, &before), EINTR);
      OK(signalled);
      SYS(sigprocmask(SIG_SETMASK, &before, 0));
      SYS(close(ep)), SYS(close(other)), SYS(close(its_far));
    }
  }
}

const struct check CHECKS[] = {
    {"for_data", for_data},
    {"for_the_end", for_the_end},
    {"for_a_reset", for_a_reset},
    {"for_connections_to_accept", for_connections_to_accept},
    {"for_a_connection_made", for_a_connection_made},
    {"for_room", for_room},
    {"for_datagrams", for_datagrams},
    {"no_longer", no_longer},
    {"none_once_closed", none_once_closed},
    {"in_the_parent_of_who_reads", in_the_parent_of_who_reads},
    {"a_wait_is_interrupted", a_wait_is_interrupted},
    {"only_a_wait_lets_it_through", only_a_wait_lets_it_through},
    {0, 0},
};
