// What Glibc's Swift module leaves out: GNU extensions, and macros as inline twins.
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

static inline int linux_accept4(int fd, struct sockaddr *addr, socklen_t *len) {
  extern int accept4(int, struct sockaddr *, socklen_t *, int);
  return accept4(fd, addr, len, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static inline uint32_t linux_epoll_edge(void) { return EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET; }
static inline uint32_t linux_epoll_level_in(void) { return EPOLLIN; }
static inline uint32_t linux_epoll_exclusive_in(void) { return EPOLLIN | EPOLLEXCLUSIVE; }

// epoll_event is packed: set and read through here, so that Swift never makes a misaligned pointer.
static inline int linux_epoll_ctl(int epoll, int operation, int fd, uint32_t events, void *target) {
  struct epoll_event event;
  event.events = events;
  event.data.ptr = target;
  return epoll_ctl(epoll, operation, fd, &event);
}
static inline void *linux_epoll_target(const struct epoll_event *events, int index) {
  return events[index].data.ptr;
}
static inline uint32_t linux_epoll_events(const struct epoll_event *events, int index) {
  return events[index].events;
}
