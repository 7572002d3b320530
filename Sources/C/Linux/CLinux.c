#include "CLinux.h"

// The command line as the system gave it to the process. Swift reads it from /proc/self/cmdline, which is not there where
// /proc is not mounted. glibc, and no other C library, hands argc and argv to constructors.
#ifndef __GLIBC__
#error "linux_argument() needs glibc"
#endif
static int argument_count;
static char **argument_words;

__attribute__((constructor)) static void keep_arguments(int count, char **words, char **environment) {
  (void)environment;
  argument_count = count;
  argument_words = words;
}

const char *linux_argument(int index) {
  return index >= 0 && index < argument_count && argument_words ? argument_words[index] : 0;
}

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
int linux_has_sanitizer(void) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 1;
#else
  return __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#endif
}
