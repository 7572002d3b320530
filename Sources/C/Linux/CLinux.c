#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>

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

// A descriptor 0, 1 or 2 that is missing would be given to the next file or socket that is opened: what is printed would go
// there, and no process started later could tell it from its standard input.
__attribute__((constructor)) static void open_standard_descriptors(void) {
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0) return;
  }
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

static int release_object(struct dl_phdr_info *object, size_t size, void *page) {
  (void)size;
  uintptr_t mask = *(uintptr_t *)page - 1;
  for (int index = 0; index < object->dlpi_phnum; index++) {
    const ElfW(Phdr) *part = &object->dlpi_phdr[index];
    // What is written to must stay: the kernel would read the file's bytes again.
    if (part->p_type != PT_LOAD || part->p_flags & PF_W) continue;
    uintptr_t begin = (object->dlpi_addr + part->p_vaddr + mask) & ~mask;
    uintptr_t end = (object->dlpi_addr + part->p_vaddr + part->p_memsz) & ~mask;
    if (end > begin) madvise((void *)begin, end - begin, MADV_DONTNEED);
  }
  return 0;
}

void linux_release_code(void) {
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  dl_iterate_phdr(release_object, &page);
}
