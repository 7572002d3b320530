// Landlock as the kernel of today has it. The constants of newer kernels are written out: the headers of the system that
// builds may be older than the kernel that runs.
#pragma once
#include <errno.h>
#include <fcntl.h>
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

// Whether a sanitizer is built in: it opens files and makes calls that are not the program's own.
int linux_has_sanitizer(void);
