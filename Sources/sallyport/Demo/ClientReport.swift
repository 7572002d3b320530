import Bytes
import Crypto
import Observability

/// What the server saw of a client, from the fields that the proxy set: for the page and as JSON.
struct ClientReport {
  struct Link {
    let subject: String
    let issuer: String
    let serial: String
    let names: [String]
    let begins: String
    let ends: String
  }

  let request: DemoRequest
  /// NONE, SUCCESS or FAILED:reason.
  let verdict: String
  let subject: String?
  /// The verified chain, leaf first, without its anchor.
  let chain: [Link]
  let handshake: [(name: String, value: String?)]
  let upstream: [(name: String, value: String?)]

  init(_ request: DemoRequest) {
    self.request = request
    verdict = request.field("X-Client-Verify") ?? "NONE"
    subject = request.field("X-Client-DN")
    let others = request.field("Client-Cert-Chain")?.split(separator: ",").map(String.init) ?? []
    chain = ([request.field("Client-Cert")].compactMap { $0 } + others).compactMap(Self.link)
    handshake = [
      ("protocol", request.field("X-TLS-Protocol")), ("cipher", request.field("X-TLS-Cipher")),
      ("key_exchange", request.field("X-TLS-Curve")), ("server_name", request.field("X-TLS-Server-Name")),
      ("session", request.field("X-TLS-Resumed") == "r" ? "resumed" : "new"),
    ]
    upstream = [
      ("protocol", request.field("X-Upstream-Protocol")), ("cipher", request.field("X-Upstream-Cipher")),
      ("pin", request.field("X-Upstream-Pin")),
    ]
  }

  /// Parses a byte sequence (RFC 8941) of RFC 9440's fields.
  private static func link(_ item: String) -> Link? {
    let text = item.drop { $0 == " " }
    guard text.first == ":", text.last == ":", text.count > 2,
      let der = try? Base64.decode(String(text.dropFirst().dropLast())),
      let certificate = try? Certificate(der: der)
    else { return nil }
    return Link(
      subject: certificate.subject.rfc2253, issuer: certificate.issuer.rfc2253, serial: certificate.serial,
      names: certificate.subjectAltNames.all.map(\.description), begins: certificate.notBeforeText,
      ends: certificate.notAfterText)
  }

  /// One member on each line: people read it in a terminal.
  var json: String {
    var json = JSONText()
    json.object { json in
      json.member("method", request.method)
      json.member("target", request.target)
      json.object("handshake") { for fact in handshake { $0.member(fact.name, fact.value) } }
      json.object("client") { json in
        json.member("verdict", verdict)
        json.member("subject", subject)
        json.member("issuer", request.field("X-Client-Issuer"))
        json.member("serial", request.field("X-Client-Serial"))
        json.member("spki", request.field("X-Client-SPKI"))
        json.array("chain", chain) { link, json in
          json.object { json in
            json.member("subject", link.subject)
            json.member("issuer", link.issuer)
            json.member("serial", link.serial)
            json.array("names", link.names) { $1.value($0) }
            json.member("not_before", link.begins)
            json.member("not_after", link.ends)
          }
        }
      }
      json.object("upstream") { for fact in upstream { $0.member(fact.name, fact.value) } }
      json.array("fields", request.fields) { field, json in
        json.object { json in
          json.member("name", field.name)
          json.member("value", field.value)
        }
      }
    }
    return json.indented + "\n"
  }
}
