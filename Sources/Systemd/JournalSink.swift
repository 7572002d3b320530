package import Logging
package import Observability

/// `error_log journal`: structured entries, with their level as PRIORITY, by `JournalSocket`.
package struct JournalSink: LogHandler {
  package var logLevel = Logger.Level.trace
  package var metadata: Logger.Metadata = [:]
  private let socket: JournalSocket

  package init(_ socket: JournalSocket) { self.socket = socket }

  package subscript(metadataKey key: String) -> Logger.Metadata.Value? {
    get { metadata[key] }
    set { metadata[key] = newValue }
  }

  package func log(event: LogEvent) {
    let severity = LogLevel(event).syslogSeverity
    var line = ErrorLogLine.message(event, under: metadata)
    let text = line
    line.withUTF8 { bytes in
      socket.write(UnsafeRawBufferPointer(bytes), severity: UInt8(clamping: severity)) { message in
        let own = JournalField.allCases.compactMap { field -> (JournalField, String)? in
          guard case .string(let value)? = event.metadata?[field.key] else { return nil }
          return (field, value)
        }
        for (field, value) in own { message.append(field.rawValue, value) }
        for (name, value) in JournalEntry.fields(of: text) where !own.contains(where: { $0.0.rawValue == name }) {
          message.append(name, value)
        }
      }
    }
  }
}
