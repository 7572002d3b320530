import Bytes
import Observability
import TLS
import Upstream
import Transport
import HTTP

/// The line in the access log, written once for every exchange, and the particulars of error log lines.
extension Exchange {
  func writeAccessRecord() {
    guard !location.accessLogs.isEmpty else { return }
    for log in location.accessLogs {
      if let condition = log.condition {
        let value = condition.bytes(self)
        if value.isEmpty || value == [0x30] { continue }
      }
      scratch.removeAll()
      appendLine(log)
      log.writer.append(scratch.readable)
    }
  }

  /// Values are escaped, what the format says itself is not; an absent value is `-`.
  private func appendLine(_ log: LiveAccessLog) {
    var value = ByteBuffer()
    for step in log.format.steps {
      if case .literal = step {
        log.format.append(step, self, to: &scratch)
        continue
      }
      value.removeAll()
      log.format.append(step, self, to: &value)
      switch log.escape {
      case .default:
        if value.isEmpty { scratch.append(0x2D) } else { LogEscape.default(value.readable, &scratch) }
      case .json: LogEscape.json(value.readable, &scratch)
      case .none: LogEscape.none(value.readable, &scratch)
      }
    }
  }

  /// `, client: 127.0.0.1, server: a.test, request: "GET / HTTP/1.1", upstream: "https://127.0.0.1:443", host: "a.test"`
  var particulars: String {
    guard let connection else { return "" }
    var text = ByteBuffer()
    text.append(string: ", client: \(connection.facts.peer.host), server: \(server.settings.primaryName)")
    if !head.methodRange.isEmpty {
      var line = ByteBuffer()
      append(.request, to: &line)
      text.append(", request: \"")
      LogEscape.default(line.readable, &text)
      text.append("\"")
    }
    if let pass, let group, let record = attempts.last {
      text.append(string: ", upstream: \"\(pass.settings.scheme.rawValue)://")
      text.append(group.addressTexts[record.server])
      text.append("\"")
    }
    if !head.host.isEmpty {
      text.append(", host: \"")
      LogEscape.default(head.bytes.readable[head.host], &text)
      text.append("\"")
    }
    return text.readable.text
  }
}
