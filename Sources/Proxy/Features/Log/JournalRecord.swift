import Bytes
import Crypto
import Observability
import TLS
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
  func write(_ line: UnsafeRawBufferPointer, of exchange: Exchange, to journal: JournalSocket) {
    journal.write(line, severity: UInt8(clamping: LogLevel.info.syslogSeverity)) { message in
      message.append(JournalField.kind.rawValue, JournalKind.request.rawValue)
      var value = ByteBuffer(capacity: 256)
      for (field, template) in values {
        value.removeAll()
        template.append(exchange, to: &value)
        message.append(field, value.readable)
      }
    }
  }
}

extension Certificate {
  /// The certificate's names as fields of the journal, each cut to 1024 octets.
  var journalFields: [JournalField: String] {
    func bounded(_ text: String) -> String { String(decoding: text.utf8.prefix(1024), as: UTF8.self) }
    return [
      .subject: bounded(subject.rfc2253), .issuer: bounded(issuer.rfc2253), .serial: bounded(serial),
      .fingerprint: sha1Fingerprint,
    ]
  }
}

extension ClientRefusal {
  /// The fields of a line about a client that was refused a request.
  func journalFields(of exchange: Exchange, _ reason: String) -> [JournalField: String] {
    var fields = journalFields(reason, exchange.facts.clientVerdict?.certificate)
    fields[.client] = exchange.clientAddress.host
    fields[.server] = exchange.session.loggedName(of: exchange.server)
    return fields
  }

  /// `certificate`: the one that the client showed.
  func journalFields(_ reason: String, _ certificate: Certificate?) -> [JournalField: String] {
    var fields = certificate?.journalFields ?? [:]
    fields[.kind] = JournalKind.clientRefused.rawValue
    fields[.verdict] = rawValue
    fields[.reason] = reason
    return fields
  }
}
