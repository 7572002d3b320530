// What Glibc's Swift module leaves out: GNU extensions, and macros as inline twins.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>
#include <unistd.h>

#include <sys/timex.h>

// 1 if something keeps the system's clock right, 0 if nothing does, -1 if the system doesn't say.
static inline int linux_clock_is_synchronized(void) {
  struct timex clock = {0};
  int state = adjtimex(&clock);
  return state < 0 ? -1 : state == TIME_ERROR || (clock.status & STA_UNSYNC) ? 0 : 1;
}

// A word of the command line, from 0, the command's own name; NULL behind the last. Needs no /proc.
const char *linux_argument(int index);

// Takes the pages of code and constants out of the process's memory. They stay in the kernel's cache of files, so whoever
// needs one gets it from there, without a disk. For code that only a start needs.
void linux_release_code(void);

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

#include <sys/timerfd.h>
#include <time.h>

// A timer in the epoll set: `milliseconds` of CLOCK_MONOTONIC, 0 disarms.
static inline int linux_timerfd_arm(int fd, uint64_t milliseconds) {
  struct itimerspec when = {{0, 0}, {(time_t)(milliseconds / 1000), (long)(milliseconds % 1000) * 1000000L}};
  return timerfd_settime(fd, TFD_TIMER_ABSTIME, &when, 0);
}
static inline int linux_timerfd(void) { return timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC); }
static inline int linux_eventfd(void) { return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC); }
static inline uint64_t linux_monotonic_milliseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}
static inline int linux_socket_datagram(int family) {
  return socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

static inline int linux_socket_stream(int family) {
  return socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}
// What the kernel knows of a TCP connection (tcp(7), TCP_INFO): times in microseconds, the congestion window in segments,
// and bytes. -1 for another kind of socket.
static inline int linux_tcp_state(int fd, uint32_t *rtt, uint32_t *rttvar, uint32_t *window, uint32_t *space) {
  struct tcp_info info;
  socklen_t length = sizeof info;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return -1;
  *rtt = info.tcpi_rtt;
  *rttvar = info.tcpi_rttvar;
  *window = info.tcpi_snd_cwnd;
  *space = info.tcpi_rcv_space;
  return 0;
}
static inline ssize_t linux_send(int fd, const void *bytes, size_t count) {
  return send(fd, bytes, count, MSG_NOSIGNAL);
}
// The calling thread's nice value: of the main thread it is the one that nice(1) or systemd's Nice= gave the process.
static inline int linux_nice(void) { return getpriority(PRIO_PROCESS, 0); }
// Dispatch gives its threads nice values of its own; this takes the given one back, once a thread. Going below what
// the thread has needs a right that may be gone: then it stays.
static inline void linux_keep_nice(int nice) {
  static __thread int is_kept;
  if (is_kept) return;
  is_kept = 1;
  (void)setpriority(PRIO_PROCESS, 0, nice);
}
static inline int linux_thread_id(void) {
  extern int gettid(void);
  return gettid();
}

// Puts another open file behind a descriptor in one step: no instant at which it is closed, or inherited.
static inline int linux_replace_descriptor(int with, int fd) {
  extern int dup3(int, int, int);
  return dup3(with, fd, O_CLOEXEC);
}

#include <sys/prctl.h>

// Has the kernel end this process when its parent does.
static inline void linux_end_with_parent(void) { (void)prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0); }
// After a change of user: a core may be written again, as large as RLIMIT_CORE lets it be.
static inline void linux_allow_core(void) { (void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); }

#include <string.h>

// Names the calling thread, once for each name. The kernel takes 15 bytes.
static inline void linux_name_thread(const char *name) {
  static __thread char known[16];
  if (strncmp(known, name, sizeof known - 1) == 0) return;
  strncpy(known, name, sizeof known - 1);
  (void)prctl(PR_SET_NAME, known, 0, 0, 0);
}

#include <spawn.h>

// For children: of what the parent has open they get nothing from this descriptor on.
static inline int linux_spawn_closes_from(posix_spawn_file_actions_t *actions, int first) {
  extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *, int);
  return posix_spawn_file_actions_addclosefrom_np(actions, first);
}

// For children: this is their folder before they begin.
static inline int linux_spawn_changes_folder(posix_spawn_file_actions_t *actions, const char *folder) {
  extern int posix_spawn_file_actions_addchdir_np(posix_spawn_file_actions_t *, const char *);
  return posix_spawn_file_actions_addchdir_np(actions, folder);
}

// For children: the environment as it is.
static inline char **linux_environment(void) {
  extern char **environ;
  return environ;
}

#include <linux/openat2.h>
#include <sys/syscall.h>

// Opens a path below a folder; no link on the way is followed, and nothing outside the folder is reached. Linux 5.6.
static inline int linux_open_beneath(int folder, const char *path, int flags) {
  struct open_how how = {.flags = (uint64_t)flags, .mode = 0, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
  return (int)syscall(SYS_openat2, folder, path, &how, sizeof how);
}
// openat is variadic, and O_PATH is a GNU extension.
static inline int linux_openat(int folder, const char *path, int flags) { return openat(folder, path, flags); }
static inline int linux_o_path(void) { return 010000000; }

// Who is at the other end of a unix socket, as the kernel noted it at connect(2) or listen(2): SO_PEERCRED, whose
// struct ucred is a GNU extension. 0 on success.
static inline int linux_peer_of(int fd, int32_t *process, uint32_t *user) {
  struct {
    int32_t process;
    uint32_t user, group;
  } peer;
  socklen_t length = sizeof peer;
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || length != sizeof peer) return -1;
  *process = peer.process;
  *user = peer.user;
  return 0;
}
#include "Landlock.h"

// A copy of this process. Swift's Glibc hides fork(2), because a copy of a process with threads may do almost nothing.
static inline pid_t linux_fork(void) { return fork(); }
static inline void linux_close_from(int first) { closefrom(first); }

#include <sys/uio.h>

// As many descriptors as the kernel passes in one message (SCM_MAX_FD), and fewer.
enum { linux_passed_descriptors = 250 };
union linux_descriptor_message {
  char bytes[CMSG_SPACE(sizeof(int) * linux_passed_descriptors)];
  struct cmsghdr aligned;
};
// Sends one message with descriptors. Returns the number of bytes sent, or -1 with errno.
static inline ssize_t linux_send_descriptors(int fd, const void *bytes, size_t count, const int *descriptors, int number) {
  union linux_descriptor_message control;
  if (number < 1 || number > linux_passed_descriptors) {
    errno = E2BIG;
    return -1;
  }
  memset(&control, 0, sizeof control);
  struct iovec part = {.iov_base = (void *)bytes, .iov_len = count};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes};
  message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)number);
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)number);
  memcpy(CMSG_DATA(header), descriptors, sizeof(int) * (size_t)number);
  return sendmsg(fd, &message, MSG_NOSIGNAL);
}
// Receives one message. `descriptors` has room for linux_passed_descriptors; `number` gets how many came. Returns the
// number of bytes, 0 at the end, or -1 with errno.
static inline ssize_t linux_receive_descriptors(int fd, void *bytes, size_t room, int *descriptors, int *number) {
  union linux_descriptor_message control;
  struct iovec part = {.iov_base = bytes, .iov_len = room};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes};
  message.msg_controllen = sizeof control.bytes;
  *number = 0;
  ssize_t count = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (count <= 0) return count;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    size_t size = header->cmsg_len - CMSG_LEN(0);
    if (size > sizeof(int) * linux_passed_descriptors) size = sizeof(int) * linux_passed_descriptors;
    memcpy(descriptors, CMSG_DATA(header), size);
    *number = (int)(size / sizeof(int));
  }
  return count;
}

// Whether a path has an access list (acl(5)) beside its mode. Not the list of what a link leads to.
static inline int linux_has_access_list(const char *path) {
  extern ssize_t lgetxattr(const char *, const char *, void *, size_t);
  return lgetxattr(path, "system.posix_acl_access", (void *)0, 0) > 0;
}
// A file in memory, without a name anywhere.
static inline int linux_memory_file(const char *label) {
  return (int)syscall(SYS_memfd_create, label, 1u /* MFD_CLOEXEC */);
}
