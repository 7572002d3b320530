// System calls by their numbers, which Swift can't make: syscall(2) is variadic.
#pragma once
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

static inline long trial_fork(void) { return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); }
static inline long trial_ptrace(void) { return syscall(SYS_ptrace, 0, 0, 0, 0); }
static inline long trial_unshare(void) { return syscall(SYS_unshare, 0x10000000); }
static inline long trial_bpf(void) { return syscall(SYS_bpf, 0, 0, 0); }
static inline long trial_exec(void) { return execl("/bin/true", "true", (char *)0); }

static inline void *trial_nothing(void *nothing) { return nothing; }
static inline long trial_thread(void) {
  pthread_t thread;
  errno = pthread_create(&thread, 0, trial_nothing, 0);
  return errno == 0 ? pthread_join(thread, 0) : -1;
}
