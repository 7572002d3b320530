import CPostgreSQL
import Glibc

/// A session with a database. Blocks, so never use it on an event loop, and never by two threads at once.
package final class PostgresSession {
  private let library: PostgresLibrary
  /// PGconn*.
  private let handle: OpaquePointer
  /// How long an answer may take.
  private let patience: Duration
  /// Nothing more can be asked.
  package private(set) var isLost = false

  package init(_ address: PostgresAddress, patience: Duration = .seconds(10)) throws(PostgresError) {
    let library = try PostgresLibrary.loaded()
    let pairs = address.options.filter { !$0.value.isEmpty }.sorted { $0.key < $1.key }
    let handle = CStrings(pairs.map(\.key)).with { keys in
      CStrings(pairs.map(\.value)).with { library.connect(keys, $0, 0) }
    }
    guard let handle else { throw PostgresError(.lost, "libpq has no memory") }
    self.library = library
    self.handle = handle
    self.patience = patience
    guard library.status(handle) == CONNECTION_OK else {
      throw PostgresError(.lost, "\(address.words): \(PostgresError.line(library.errorMessage(handle)))")
    }
    // libpq prints notices to stderr unless told otherwise.
    _ = library.setNoticeProcessor(handle, { _, _ in }, nil)
    guard library.setNonblocking(handle, 1) == 0 else { throw lost() }
    // "Committed" has to mean "on a disk", whatever this role's setting says.
    try run(
      "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') IN ('off', 'local')"
    )
  }

  deinit { library.finish(handle) }

  /// Runs one statement, and returns its rows. `parameters`: as texts; nil is NULL.
  @discardableResult
  package func run(_ statement: String, _ parameters: [String?] = []) throws(PostgresError) -> [PostgresRow] {
    guard !isLost else { throw PostgresError(.lost, "the session with the database has ended") }
    for case let text? in parameters where text.utf8.contains(0) {
      throw PostgresError(.refused("22021"), "a text with a zero octet can't be kept in a database")
    }
    let isSent = CStrings(parameters).with {
      library.sendQuery(handle, statement, CInt(clamping: parameters.count), nil, $0, nil, nil, 0)
    }
    guard isSent == 1 else { throw lost() }
    let end = ContinuousClock.now + patience
    var rows: [PostgresRow] = []
    var fault: PostgresError?
    while let result = try next(before: end) {
      defer { library.clear(result) }
      switch library.resultStatus(result) {
      case PGRES_TUPLES_OK, PGRES_COMMAND_OK: rows = self.rows(of: result)
      default: fault = fault ?? error(of: result)
      }
    }
    if let fault { throw fault }
    return rows
  }

  /// Begins a transaction, in which each statement sees what others have committed before it.
  package func begin() throws(PostgresError) { try run("BEGIN ISOLATION LEVEL READ COMMITTED") }

  /// When this throws `lost`, nobody knows whether the transaction was committed.
  package func commit() throws(PostgresError) { try run("COMMIT") }

  package func rollBack() { if !isLost { _ = try? run("ROLLBACK") } }

  /// The next result of a statement; nil behind the last one.
  private func next(before end: ContinuousClock.Instant) throws(PostgresError) -> OpaquePointer? {
    while true {
      let unsent = library.flush(handle)
      guard unsent >= 0 else { throw lost() }
      if unsent == 0, library.isBusy(handle) == 0 { return library.result(handle) }
      try wait(for: unsent == 0 ? POLLIN : POLLIN | POLLOUT, before: end)
      guard library.consumeInput(handle) == 1 else { throw lost() }
    }
  }

  private func wait(for events: CInt, before end: ContinuousClock.Instant) throws(PostgresError) {
    var item = pollfd(fd: library.socket(handle), events: Int16(truncatingIfNeeded: events), revents: 0)
    while true {
      let left = ContinuousClock.now.duration(to: end) / .milliseconds(1)
      guard left > 0 else { throw lost("no answer within \(patience)") }
      let count = poll(&item, 1, CInt(clamping: Int(min(left, 60_000)) + 1))
      if count > 0 { return }
      guard count == 0 || errno == EINTR else { throw lost(String(cString: strerror(errno))) }
    }
  }

  private func lost(_ reason: String? = nil) -> PostgresError {
    isLost = true
    return PostgresError(.lost, reason ?? PostgresError.line(library.errorMessage(handle)))
  }

  private func error(of result: OpaquePointer) -> PostgresError {
    let message = PostgresError.line(library.resultErrorMessage(result))
    // PG_DIAG_SQLSTATE
    guard let state = library.resultErrorField(result, CInt(UInt8(ascii: "C"))).map({ String(cString: $0) }) else {
      return lost(message)
    }
    // Class 57: the server ends sessions, such as for a restart. It ends this one, too.
    if state.hasPrefix("57P") { return lost(message) }
    return PostgresError(.refused(state), message)
  }

  private func rows(of result: OpaquePointer) -> [PostgresRow] {
    let columns = library.columnCount(result)
    return (0..<max(0, library.rowCount(result))).map { row in
      PostgresRow(
        values: (0..<max(0, columns)).map { column in
          guard library.isNull(result, row, column) == 0, let text = library.value(result, row, column) else {
            return nil
          }
          let bytes = UnsafeRawBufferPointer(start: text, count: Int(max(0, library.length(result, row, column))))
          return String(decoding: bytes, as: UTF8.self)
        })
    }
  }
}

/// A row of an answer.
package struct PostgresRow: Sendable {
  let values: [String?]

  /// nil: NULL, or no such column.
  package subscript(column: Int) -> String? { values.indices.contains(column) ? values[column] : nil }
}

/// Texts for a function of C that takes an array of them with NULL at its end.
private struct CStrings: ~Copyable {
  private let pointers: [UnsafePointer<CChar>?]

  init(_ texts: [String?]) {
    pointers = texts.map { text in text.flatMap { UnsafePointer(strdup($0)) } } + [nil]
  }

  deinit { for pointer in pointers { free(UnsafeMutablePointer(mutating: pointer)) } }

  func with<Result>(_ body: (UnsafePointer<UnsafePointer<CChar>?>?) -> Result) -> Result {
    pointers.withUnsafeBufferPointer { body($0.baseAddress) }
  }
}
