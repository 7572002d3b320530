#pragma once
#include <zlib.h>

// deflateInit2 is a macro. 16 more window bits ask for gzip's frame (RFC 1952).
static inline int zlib_begin_gzip(z_stream *stream, int level, int window_bits, int memory_level) {
  return deflateInit2(stream, level, Z_DEFLATED, window_bits + 16, memory_level, Z_DEFAULT_STRATEGY);
}

// inflateInit2 is a macro, too. 15 is the largest window, so that each member of gzip can be read.
static inline int zlib_begin_gunzip(z_stream *stream) { return inflateInit2(stream, 15 + 16); }
