// libseccomp, and the macros of it as static-inline twins.
#pragma once
#include <errno.h>
#include <stddef.h>
#include <seccomp.h>
#include <stdint.h>

static inline uint32_t cseccomp_allow(void) { return SCMP_ACT_ALLOW; }
static inline uint32_t cseccomp_kill(void) { return SCMP_ACT_KILL_PROCESS; }
static inline uint32_t cseccomp_errno(uint16_t code) { return SCMP_ACT_ERRNO(code); }

// The filter holds for every thread that exists, or is refused; a search tree finds a call's rule.
static inline int cseccomp_set_attributes(scmp_filter_ctx filter) {
  int failed = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
  (void)seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
  return failed;
}

static inline int cseccomp_rule(scmp_filter_ctx filter, uint32_t action, int call) {
  return seccomp_rule_add_array(filter, action, call, 0, NULL);
}

// Only where (argument & mask) == value. Of an int argument the kernel looks at 32 bits, so a mask must have no more.
static inline int cseccomp_rule_where(
    scmp_filter_ctx filter, uint32_t action, int call, unsigned argument, uint64_t mask, uint64_t value) {
  struct scmp_arg_cmp compared = {argument, SCMP_CMP_MASKED_EQ, mask, value};
  return seccomp_rule_add_array(filter, action, call, 1, &compared);
}

static inline int cseccomp_missing_call(void) { return __NR_SCMP_ERROR; }
