#pragma once
#include <ares.h>

// c-ares 1.34 has these as an enum, older versions as macros. Functions of all versions return int.
static const int CARES_SUCCESS = ARES_SUCCESS;
static const int CARES_ENOTFOUND = ARES_ENOTFOUND;
static const int CARES_EBADNAME = ARES_EBADNAME;
static const int CARES_EFORMERR = ARES_EFORMERR;
static const int CARES_EBADQUERY = ARES_EBADQUERY;
