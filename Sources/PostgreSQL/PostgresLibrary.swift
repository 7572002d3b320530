import CPostgreSQL
import Glibc

/// The functions of libpq, PostgreSQL's own client. The first use of a database loads it, and a process without one never
/// does: it brings Kerberos, LDAP and GnuTLS along (docs/decisions/0041-register-in-postgresql.md).
// @unchecked: pointers to functions that any thread may call.
struct PostgresLibrary: @unchecked Sendable {
  let parse: cpq_conninfo_parse
  let defaults: cpq_conndefaults
  let freeOptions: cpq_conninfo_free
  let freeMemory: cpq_freemem
  let connect: cpq_connectdb_params
  let finish: cpq_finish
  let status: cpq_status
  let socket: cpq_socket
  let errorMessage: cpq_error_message
  let setNoticeProcessor: cpq_set_notice_processor
  let setNonblocking: cpq_set_nonblocking
  let sendQuery: cpq_send_query_params
  let flush: cpq_flush
  let consumeInput: cpq_consume_input
  let isBusy: cpq_is_busy
  let result: cpq_get_result
  let resultStatus: cpq_result_status
  let resultErrorMessage: cpq_result_error_message
  let resultErrorField: cpq_result_error_field
  let rowCount: cpq_ntuples
  let columnCount: cpq_nfields
  let value: cpq_getvalue
  let length: cpq_getlength
  let isNull: cpq_getisnull
  let clear: cpq_clear

  static func loaded() throws(PostgresError) -> PostgresLibrary { try outcome.get() }

  private static let outcome = Result { () throws(PostgresError) in try PostgresLibrary() }

  private init() throws(PostgresError) {
    guard let library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL) else {
      throw PostgresError(
        .library, "libpq.so.5 can't be loaded: \(Self.reason)", hint: "install PostgreSQL's client: apt install libpq5")
    }
    parse = try Self.function("PQconninfoParse", of: library)
    defaults = try Self.function("PQconndefaults", of: library)
    freeOptions = try Self.function("PQconninfoFree", of: library)
    freeMemory = try Self.function("PQfreemem", of: library)
    connect = try Self.function("PQconnectdbParams", of: library)
    finish = try Self.function("PQfinish", of: library)
    status = try Self.function("PQstatus", of: library)
    socket = try Self.function("PQsocket", of: library)
    errorMessage = try Self.function("PQerrorMessage", of: library)
    setNoticeProcessor = try Self.function("PQsetNoticeProcessor", of: library)
    setNonblocking = try Self.function("PQsetnonblocking", of: library)
    sendQuery = try Self.function("PQsendQueryParams", of: library)
    flush = try Self.function("PQflush", of: library)
    consumeInput = try Self.function("PQconsumeInput", of: library)
    isBusy = try Self.function("PQisBusy", of: library)
    result = try Self.function("PQgetResult", of: library)
    resultStatus = try Self.function("PQresultStatus", of: library)
    resultErrorMessage = try Self.function("PQresultErrorMessage", of: library)
    resultErrorField = try Self.function("PQresultErrorField", of: library)
    rowCount = try Self.function("PQntuples", of: library)
    columnCount = try Self.function("PQnfields", of: library)
    value = try Self.function("PQgetvalue", of: library)
    length = try Self.function("PQgetlength", of: library)
    isNull = try Self.function("PQgetisnull", of: library)
    clear = try Self.function("PQclear", of: library)
  }

  /// `Function`: the type that the header gives to this name.
  private static func function<Function>(
    _ name: String, of library: UnsafeMutableRawPointer
  ) throws(PostgresError) -> Function {
    guard let symbol = dlsym(library, name) else {
      throw PostgresError(
        .library, "libpq.so.5 has no \(name): \(reason)", hint: "install libpq5 of PostgreSQL 12 or later")
    }
    return unsafeBitCast(symbol, to: Function.self)
  }

  private static var reason: String { dlerror().map { String(cString: $0) } ?? "no reason given" }
}
