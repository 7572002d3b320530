// Landlock as the kernel of today has it. The constants of newer kernels are written out: the headers of the system that
// builds may be older than the kernel that runs.
#pragma once
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

// The version of the kernel's Landlock, or -1 with errno where there is none.
static inline int linux_landlock_version(void) {
  return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
}

// A new set of rules. The kernel takes a longer structure than it knows as long as what it does not know is zero.
static inline int linux_landlock_create(uint64_t files, uint64_t network, uint64_t scopes) {
  struct {
    uint64_t files, network, scopes;
  } handled = {files, network, scopes};
  return (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof handled, 0);
}

// Allows something at and below what the descriptor names.
static inline int linux_landlock_allow(int rules, int descriptor, uint64_t access) {
  struct {
    uint64_t access;
    int32_t descriptor;
  } __attribute__((packed)) beneath = {access, descriptor};
  return (int)syscall(SYS_landlock_add_rule, rules, 1 /* LANDLOCK_RULE_PATH_BENEATH */, &beneath, 0);
}

// Restricts the calling thread, and the threads that it starts.
static inline int linux_landlock_restrict(int rules) {
  return (int)syscall(SYS_landlock_restrict_self, rules, 0);
}

static inline int linux_open_path(const char *path) { return open(path, 010000000 /* O_PATH, a GNU extension */ | O_CLOEXEC); }

// No execve gives this thread, or what it starts, more rights than it has.
static inline int linux_no_new_privileges(void) { return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }

// Takes every capability out of the bounding set of the calling thread. Those in effect stay until the user changes.
static inline int linux_drop_bounding_set(void) {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++) {
    if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0) return -1;
  }
  return 0;
}

// Leaves the calling thread these capabilities at most, bit by number (capabilities(7)). What it executes inherits of them
// what it inherited before: AmbientCapabilities= of a unit, such as CAP_NET_BIND_SERVICE.
static inline int linux_keep_capabilities(uint64_t kept) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2];
  if (syscall(SYS_capget, &header, sets) != 0) return -1;
  uint32_t excess = 0;
  for (int half = 0; half < 2; half++) {
    const uint32_t mask = (uint32_t)(kept >> (32 * half));
    excess |= (sets[half].permitted | sets[half].inheritable) & ~mask;
    sets[half].permitted &= mask;
    sets[half].effective &= mask;
    sets[half].inheritable &= mask;
  }
  // A unit's SystemCallFilter= may refuse capset to a process that has nothing to give up.
  return excess == 0 ? 0 : (int)syscall(SYS_capset, &header, sets);
}

// What a start as root needs: to read keys and open logs, to give files and folders to `user` and become it, to bind low
// ports, to raise limits and lock memory, to give up the bounding set, and to end a process that has become `user`.
static inline uint64_t linux_start_capabilities(void) {
  const int needed[] = {CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER, CAP_KILL, CAP_SETGID, CAP_SETUID,
                        CAP_SETPCAP, CAP_NET_BIND_SERVICE, CAP_IPC_LOCK, CAP_SYS_NICE, CAP_SYS_RESOURCE};
  uint64_t set = 0;
  for (unsigned index = 0; index < sizeof needed / sizeof *needed; index++) set |= UINT64_C(1) << needed[index];
  return set;
}

// What opens root's files for a process that is not root any more needs: other users' files too, and low ports.
static inline uint64_t linux_opener_capabilities(void) {
  return UINT64_C(1) << CAP_DAC_OVERRIDE | UINT64_C(1) << CAP_DAC_READ_SEARCH | UINT64_C(1) << CAP_NET_BIND_SERVICE;
}

// Whether a sanitizer is built in: it opens files and makes calls that are not the program's own.
int linux_has_sanitizer(void);
