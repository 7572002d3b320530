// The types of libpq's functions. The library itself is loaded only by a process that needs it, so nothing links with it:
// docs/decisions/0041-register-in-postgresql.md.
#pragma once
#include <postgresql/libpq-fe.h>

typedef __typeof__(PQconninfoParse) *cpq_conninfo_parse;
typedef __typeof__(PQconndefaults) *cpq_conndefaults;
typedef __typeof__(PQconninfoFree) *cpq_conninfo_free;
typedef __typeof__(PQfreemem) *cpq_freemem;
typedef __typeof__(PQconnectdbParams) *cpq_connectdb_params;
typedef __typeof__(PQfinish) *cpq_finish;
typedef __typeof__(PQstatus) *cpq_status;
typedef __typeof__(PQsocket) *cpq_socket;
typedef __typeof__(PQerrorMessage) *cpq_error_message;
typedef __typeof__(PQsetNoticeProcessor) *cpq_set_notice_processor;
typedef __typeof__(PQsetnonblocking) *cpq_set_nonblocking;
typedef __typeof__(PQsendQueryParams) *cpq_send_query_params;
typedef __typeof__(PQflush) *cpq_flush;
typedef __typeof__(PQconsumeInput) *cpq_consume_input;
typedef __typeof__(PQisBusy) *cpq_is_busy;
typedef __typeof__(PQgetResult) *cpq_get_result;
typedef __typeof__(PQresultStatus) *cpq_result_status;
typedef __typeof__(PQresultErrorMessage) *cpq_result_error_message;
typedef __typeof__(PQresultErrorField) *cpq_result_error_field;
typedef __typeof__(PQntuples) *cpq_ntuples;
typedef __typeof__(PQnfields) *cpq_nfields;
typedef __typeof__(PQgetvalue) *cpq_getvalue;
typedef __typeof__(PQgetlength) *cpq_getlength;
typedef __typeof__(PQgetisnull) *cpq_getisnull;
typedef __typeof__(PQclear) *cpq_clear;
