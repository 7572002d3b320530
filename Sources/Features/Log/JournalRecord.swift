import Bytes
import Observability
import Traffic
import Transport

/// The fields of an access line in the journal (`access_log journal`), beside its text.
struct JournalRecord {
  private let values: [(field: JournalField, template: CompiledTemplate)]

  init() {
    let variables: [(JournalField, SimpleVariable)] = [
      (.connection, .connection), (.client, .remote_addr), (.status, .status),
      (.method, .request_method), (.uri, .request_uri), (.verify, .ssl_client_verify), (.subject, .ssl_client_s_dn),
      (.issuer, .ssl_client_i_dn), (.serial, .ssl_client_serial), (.fingerprint, .ssl_client_fingerprint),
      (.upstream, .upstream_addr),
    ]
    let server = (JournalField.server, Variable.feature(ServerNames.variable))
    values = ([server] + variables.map { ($0, .simple($1)) }).map { ($0, Template([.variable($1)]).compiled) }
  }

  /// Sends the line. It can hold every byte: `escape=none`, or a client's text.
  func write(_ line: UnsafeRawBufferPointer, of transaction: Transaction, to journal: JournalSocket) {
    journal.write(line, severity: UInt8(clamping: LogLevel.info.syslogSeverity)) { message in
      message.append(JournalField.kind.rawValue, JournalKind.request.rawValue)
      var value = ByteBuffer(capacity: 256)
      for (field, template) in values {
        value.removeAll()
        template.append(transaction, to: &value)
        message.append(field, value.readable)
      }
    }
  }
}
