import Bytes
import CLinux
import Glibc
package import Logging

/// Formats one line as nginx does: `2026/11/21 11:30:01 [error] PID#TID: *CONNECTION message`.
package enum ErrorLogLine {
  /// The largest message of a line in bytes. The rest is cut off, so that no peer can flood a log with one line.
  package static let longestMessage = 8192

  /// Appends a line without its line feed, in local time.
  static func append(_ event: LogEvent, at now: time_t, to line: inout ByteBuffer) {
    ClockText.appendErrorTime(now, to: &line)
    line.append(" [")
    line.append(string: LogLevel(event).name)
    line.append("] ")
    line.append(decimal: UInt64(getpid().magnitude))
    line.append("#")
    line.append(decimal: UInt64(linux_thread_id().magnitude))
    line.append(": ")
    appendMessage(event, to: &line)
  }

  /// Returns the message with the handler's metadata, for sinks that have fields for the rest of the line.
  package static func message(_ event: LogEvent, under metadata: Logger.Metadata = [:]) -> String {
    var line = ByteBuffer(capacity: 256)
    appendMessage(event.adding(metadata), to: &line)
    return line.readable.text
  }

  /// Appends the message and metadata with escaped control characters, so that a peer's text can't begin a new line.
  private static func appendMessage(_ event: LogEvent, to line: inout ByteBuffer) {
    var left = longestMessage
    appendVisible(event.message.description, to: &line, left: &left)
    if let error = event.error { appendVisible(": \(error)", to: &line, left: &left) }
    guard let metadata = event.metadata else { return }
    for (key, value) in metadata.sorted(by: { $0.key < $1.key })
    where key != LogLevel.severityKey && !key.hasPrefix(JournalField.prefix) {
      appendVisible(" \(key)=\(value)", to: &line, left: &left)
    }
  }

  private static func appendVisible(_ text: String, to line: inout ByteBuffer, left: inout Int) {
    // U+0080 to U+009F are control characters too (ISO 6429), in UTF-8 C2 80 to C2 9F: a terminal may obey them.
    var isBehindC2 = false
    for byte in text.utf8.prefix(left) {
      if isBehindC2, byte < 0xA0 {
        line.truncate(to: line.count - 1)
        LogEscape.appendHex(0xC2, to: &line)
        LogEscape.appendHex(byte, to: &line)
      } else if byte < 0x20 || byte == 0x7F {
        LogEscape.appendHex(byte, to: &line)
      } else {
        line.append(byte)
      }
      isBehindC2 = byte == 0xC2
    }
    left = max(0, left - text.utf8.count)
  }
}

extension LogEvent {
  /// Adds a handler's own metadata. The event's values take precedence.
  func adding(_ metadata: Logger.Metadata) -> LogEvent {
    guard !metadata.isEmpty else { return self }
    var event = self
    event.metadata = metadata.merging(event.metadata ?? [:]) { _, own in own }
    return event
  }
}
