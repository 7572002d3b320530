import Bytes
import Crypto
import Foundation
import HTTP
import JSON
import Testing

@testable import ACME

/// A server of ACME that answers from what it was told, in memory. Each test breaks one rule of it.
private final class Script {
  let names: [String]
  var directory =
    #"{"newNonce":"https://ca.test/nonce","newAccount":"https://ca.test/account","newOrder":"https://ca.test/order"}"#
  /// By URL: the answers, in order; the last one stays.
  var answers: [String: [ACMEResponse]] = [:]
  var orderNames: String?
  let authority: CertifiedKey
  private(set) var asked: [(url: String, payload: String?, signer: JWS.Signer?)] = []
  private(set) var published: [ChallengeAnswer] = []
  private(set) var waited = 0

  init(_ names: [String] = ["a.test"]) throws {
    self.names = names
    authority = try CertificateBuilder(commonName: "test CA", .authority(pathLength: nil)).selfSigned(
      key: .generate())
  }

  func identifiers(_ names: [String]) -> String {
    names.map { "{\"type\":\"\($0.contains(":") || $0.hasPrefix("192.") ? "ip" : "dns")\",\"value\":\"\($0)\"}" }
      .joined(separator: ",")
  }

  func order(_ status: String, certificate: String? = nil) -> String {
    let places = names.indices.map { "\"https://ca.test/authz/\($0)\"" }.joined(separator: ",")
    let extra = certificate.map { ",\"certificate\":\"\($0)\"" } ?? ""
    return
      "{\"status\":\"\(status)\",\"identifiers\":[\(orderNames ?? identifiers(names))],\"authorizations\":[\(places)],"
      + "\"finalize\":\"https://ca.test/finalize\"\(extra)}"
  }

  func authorization(_ index: Int, _ status: String, name: String? = nil, token: String? = nil, error: String = "")
    -> String
  {
    let base = names[index].hasPrefix("*.") ? String(names[index].dropFirst(2)) : names[index]
    let challenges = ["http-01", "tls-alpn-01", "dns-01"].map {
      "{\"type\":\"\($0)\",\"url\":\"https://ca.test/chall/\(index)/\($0)\",\"status\":\"\(status)\",\"token\":\"\(token ?? "token-\(index)")\"\(error)}"
    }.joined(separator: ",")
    return "{\"status\":\"\(status)\",\"identifier\":\(identifiers([name ?? base])),\"challenges\":[\(challenges)]}"
  }

  func text(_ body: String, status: Int = 200, location: String? = nil, retryAfter: Int64? = nil) -> ACMEResponse {
    ACMEResponse(status: status, location: location, retryAfter: retryAfter, body: Array(body.utf8))
  }

  func problem(_ type: String, status: Int = 400) -> ACMEResponse {
    text("{\"type\":\"urn:ietf:params:acme:error:\(type)\",\"detail\":\"told\"}", status: status)
  }

  /// What a good server answers.
  func prepare() {
    answers["https://ca.test/dir"] = [text(directory)]
    answers["https://ca.test/account"] = [
      text("{\"status\":\"valid\"}", status: 201, location: "https://ca.test/acct/1")
    ]
    answers["https://ca.test/order"] = [text(order("pending"), status: 201, location: "https://ca.test/order/1")]
    for index in names.indices {
      answers["https://ca.test/authz/\(index)"] = [
        text(authorization(index, "pending")), text(authorization(index, "pending"), retryAfter: 3),
        text(authorization(index, "valid")),
      ]
      for method in ["http-01", "tls-alpn-01", "dns-01"] {
        answers["https://ca.test/chall/\(index)/\(method)"] = [text("{\"status\":\"processing\"}")]
      }
    }
    answers["https://ca.test/order/1"] = [
      text(order("pending")), text(order("ready")), text(order("valid", certificate: "https://ca.test/cert/1")),
    ]
    answers["https://ca.test/finalize"] = [text(order("processing"))]
  }

  func certificate(_ names: [String], key: PrivateKey, by authority: CertifiedKey? = nil, days: Int64 = 90) throws
    -> String
  {
    let builder = CertificateBuilder(
      commonName: "leaf", .leaf([.serverAuth]),
      names: names.map { ACMEIdentifier($0).map(\.alternativeName) ?? .dns($0) }, days: days)
    let pair = try builder.signed(by: authority ?? self.authority, key: key)
    return pair.certificate.pem + (authority ?? self.authority).certificate.pem
  }

  private func answer(_ url: ACMEURL) throws -> ACMEResponse {
    let text = url.description
    guard let all = answers[text], let first = all.first else { return self.text("", status: 404) }
    if all.count > 1 { answers[text] = Array(all.dropFirst()) }
    return first
  }

  func run(_ issuance: inout Issuance) throws -> Result<IssuedCertificate, ACMEError> {
    var event = Issuance.Event.begin
    let now = Int64(Date().timeIntervalSince1970)
    for _ in 0..<5000 {
      switch issuance.take(event, at: now) {
      case .get(let url):
        asked.append((url.description, nil, nil))
        event = .response(try answer(url))
      case .post(let url, let payload, let signer):
        asked.append((url.description, payload, signer))
        event = .response(try answer(url))
      case .publish(let answers):
        published = answers
        event = .published
      case .wait(let seconds):
        waited += seconds
        event = .waited
      case .done(let certificate): return .success(certificate)
      case .failed(let error): return .failure(error)
      }
    }
    return .failure(ACMEError("it never ended"))
  }
}

@Suite struct `An order of ACME` {
  private func request(_ script: Script, _ method: ChallengeMethod = .http01) throws -> IssuanceRequest {
    IssuanceRequest(
      directory: try #require(ACMEURL("https://ca.test/dir")), names: script.names.compactMap { ACMEIdentifier($0) },
      method: method, accountKey: try JSONWebKey(.generate()), certificateKey: try .generate())
  }

  private func failure(
    _ script: Script, _ request: IssuanceRequest? = nil
  ) throws -> ACMEError? {
    var issuance = Issuance(try request ?? self.request(script))
    guard case .failure(let error) = try script.run(&issuance) else { return nil }
    return error
  }

  @Test(arguments: ChallengeMethod.allCases)
  func `a good server leads to a certificate`(method: ChallengeMethod) throws {
    let script = try Script(["a.test", "b.test"])
    script.prepare()
    var request = try request(script, method)
    request.contacts = ["mailto:a@b.test"]
    script.answers["https://ca.test/cert/1"] = [
      script.text(try script.certificate(["a.test", "b.test"], key: request.certificateKey))
    ]
    var issuance = Issuance(request)
    let issued = try script.run(&issuance).get()
    #expect(issuance.accountURL == "https://ca.test/acct/1" && issuance.notices.isEmpty)
    #expect(script.published.map(\.token) == ["token-0", "token-1"])
    #expect(script.published.map(\.identifier) == [.dns("a.test"), .dns("b.test")])
    let account = try #require(script.asked.first { $0.url.hasSuffix("/account") })
    #expect(account.signer == .newAccount)
    #expect(account.payload == #"{"termsOfServiceAgreed":false,"contact":["mailto:a@b.test"]}"#)
    let order = try #require(script.asked.first { $0.url.hasSuffix("/order") })
    #expect(
      order.payload
        == #"{"identifiers":[{"type":"dns","value":"a.test"},{"type":"dns","value":"b.test"}]}"#)
    #expect(order.signer == .account("https://ca.test/acct/1"))
    let finalize = try #require(script.asked.first { $0.url.hasSuffix("/finalize") }?.payload)
    let csr = try Base64.decodeURL(#require(try JSONValue(Array(finalize.utf8))["csr"]?.text))
    let parsed = try csr.withUnsafeBytes { try SigningRequest(der: $0) }
    #expect(parsed.isSigned && parsed.alternativeNames.names.map(\.description) == ["a.test", "b.test"])
    #expect(parsed.publicKey == request.certificateKey.publicKey)
    let text = try issued.fileContents().withUnsafeBytes { String(decoding: $0, as: UTF8.self) }
    #expect(text.contains("PRIVATE KEY") && text.components(separatedBy: "BEGIN CERTIFICATE").count == 3)
    // A file that is cut anywhere behind its first line is known as such, behind the leaf, too.
    let first = try #require(text.firstIndex(of: "\n")).utf16Offset(in: text) + 1
    let bytes = Array(text.utf8)
    #expect(IssuedCertificate.isWhole(SecretBytes(bytes)))
    for count in first..<(bytes.count - 1) {
      #expect(!IssuedCertificate.isWhole(SecretBytes(Array(bytes.prefix(count)))), "\(count) of \(bytes.count)")
    }
    #expect(IssuedCertificate.isWhole(SecretBytes(Array(bytes.dropFirst(first)))), "somebody else's file says nothing")
    #expect(script.waited > 3)
  }

  @Test func `an account that is known is used, and made anew when the server has forgotten it`() throws {
    let script = try Script()
    script.prepare()
    script.answers["https://ca.test/order"]?.insert(script.problem("accountDoesNotExist"), at: 0)
    var request = try request(script)
    request.accountURL = "https://ca.test/acct/old"
    script.answers["https://ca.test/cert/1"] = [
      script.text(try script.certificate(["a.test"], key: request.certificateKey))
    ]
    var issuance = Issuance(request)
    _ = try script.run(&issuance).get()
    #expect(
      script.asked.map(\.url).prefix(4).map { $0.split(separator: "/").last } == ["dir", "order", "account", "order"])
    #expect(issuance.accountURL == "https://ca.test/acct/1")
  }

  @Test func `authorizations that are valid already need no challenge`() throws {
    let script = try Script()
    script.prepare()
    script.answers["https://ca.test/authz/0"] = [script.text(script.authorization(0, "valid"))]
    let request = try request(script)
    script.answers["https://ca.test/cert/1"] = [
      script.text(try script.certificate(["a.test"], key: request.certificateKey))
    ]
    var issuance = Issuance(request)
    _ = try script.run(&issuance).get()
    #expect(script.published.isEmpty)
  }

  @Test func `terms and external accounts are asked for in words`() throws {
    let script = try Script()
    script.directory =
      String(script.directory.dropLast())
      + #","meta":{"termsOfService":"https://ca.test/terms","externalAccountRequired":true}}"#
    script.prepare()
    var request = try request(script)
    #expect(try failure(script, request)?.description.contains("accept_terms_of_service") == true)
    request.acceptsTerms = true
    #expect(try failure(script, request)?.description.contains("external_account_key") == true)
    request.externalAccount = ExternalAccount(identifier: "kid", key: SecretBytes([1, 2, 3]))
    script.answers["https://ca.test/order"] = [script.problem("x")]
    #expect(try failure(script, request)?.cure == .change)
    #expect(script.asked.contains { $0.payload?.contains("externalAccountBinding") == true })
  }

  @Test func `profiles and successors are asked for where the server has them, and left out where not`() throws {
    let script = try Script()
    script.directory =
      String(script.directory.dropLast())
      + #","renewalInfo":"https://ca.test/ari","meta":{"profiles":{"short":"6 days"}}}"#
    script.prepare()
    // RFC 9773 §5: the old certificate has its successor already.
    script.answers["https://ca.test/order"]?.insert(script.problem("alreadyReplaced", status: 409), at: 0)
    var request = try request(script)
    request.profile = ("short", true)
    request.replaces = "aki.serial"
    script.answers["https://ca.test/cert/1"] = [
      script.text(try script.certificate(["a.test"], key: request.certificateKey))
    ]
    var issuance = Issuance(request)
    _ = try script.run(&issuance).get()
    let orders = script.asked.filter { $0.url.hasSuffix("/order") }.compactMap(\.payload)
    #expect(orders.count == 2 && orders.allSatisfy { $0.contains(#""profile":"short""#) })
    #expect(orders[0].contains(#""replaces":"aki.serial""#) && !orders[1].contains("replaces"))
    #expect(issuance.notices.count == 1)
    request.profile = ("long", true)
    #expect(try failure(script, request)?.hint == "it has short")
  }

  @Test func `another chain is taken if it is the preferred one`() throws {
    let script = try Script()
    script.prepare()
    var request = try request(script)
    request.preferredChain = "other CA"
    let other = try CertificateBuilder(commonName: "other CA", .authority(pathLength: nil)).selfSigned(key: .generate())
    let first = try script.certificate(["a.test"], key: request.certificateKey)
    let second = try script.certificate(["a.test"], key: request.certificateKey, by: other)
    var response = script.text(first)
    response.alternates = ["https://elsewhere.test/cert", "https://ca.test/cert/2", "https://ca.test/cert/3"]
    script.answers["https://ca.test/cert/1"] = [response]
    script.answers["https://ca.test/cert/2"] = [script.text("no certificate")]
    script.answers["https://ca.test/cert/3"] = [script.text(second)]
    var issuance = Issuance(request)
    #expect(try script.run(&issuance).get().pair.certificate.issuer.description == "CN=other CA")
    #expect(!script.asked.contains { $0.url.contains("elsewhere") })
  }

  @Test func `failed challenges are told with the server's reason`() throws {
    let script = try Script()
    script.prepare()
    script.answers["https://ca.test/authz/0"] = [
      script.text(script.authorization(0, "pending")),
      script.text(
        script.authorization(
          0, "invalid", error: #","error":{"type":"urn:ietf:params:acme:error:connection","detail":"refused"}"#)),
    ]
    let error = try #require(try failure(script))
    #expect(error.message == "the server could not see that a.test is ours: connection: refused")
  }

  // MARK: Attacks

  @Test(arguments: ["newNonce", "newAccount", "newOrder"])
  func `a directory that leads elsewhere is refused`(member: String) throws {
    let script = try Script()
    script.directory = script.directory.replacing(
      "\"\(member)\":\"https://ca.test", with: "\"\(member)\":\"https://evil.test")
    script.prepare()
    #expect(try failure(script)?.message.contains("leads to another server") == true)
    script.directory = script.directory.replacing("https://evil.test", with: "http://ca.test")
    script.prepare()
    #expect(try failure(script)?.message.contains("no https URL") == true)
  }

  @Test(arguments: [301, 302, 307, 308])
  func `a redirect is a failure`(status: Int) throws {
    let script = try Script()
    script.prepare()
    script.answers["https://ca.test/dir"] = [script.text("", status: status, location: "https://ca.test/other")]
    #expect(try failure(script)?.message.contains("follows no redirect") == true)
    #expect(script.asked.count == 1)
  }

  @Test(arguments: [
    #"{"type":"dns","value":"other.test"}"#, #"{"type":"dns","value":"a.test"},{"type":"dns","value":"b.test"}"#, "",
    #"{"type":"ip","value":"a.test"}"#, "7",
  ])
  func `an order for other names is refused`(names: String) throws {
    let script = try Script()
    script.orderNames = names
    script.prepare()
    #expect(try failure(script)?.message.contains("other names") == true)
    #expect(script.published.isEmpty)
  }

  @Test func `an authorization for a name that was not asked for is never answered`() throws {
    let script = try Script()
    script.prepare()
    script.answers["https://ca.test/authz/0"] = [script.text(script.authorization(0, "pending", name: "bank.test"))]
    #expect(try failure(script)?.message.contains("a name that was not asked for") == true)
    #expect(script.published.isEmpty)
  }

  @Test(arguments: ["../../etc/passwd", "a/b", "", "a b", "a.b"])
  func `a token that would be another path is refused`(token: String) throws {
    let script = try Script()
    script.prepare()
    script.answers["https://ca.test/authz/0"] = [script.text(script.authorization(0, "pending", token: token))]
    #expect(try failure(script)?.message.contains("token for a.test is none") == true)
    #expect(script.published.isEmpty)
  }

  @Test func `a server that never decides is given up`() throws {
    let script = try Script()
    script.prepare()
    script.answers["https://ca.test/authz/0"] = [script.text(script.authorization(0, "pending"))]
    #expect(try failure(script)?.message.contains("did not decide") == true)
    #expect(script.waited < 1000)
    let other = try Script()
    other.prepare()
    other.answers["https://ca.test/authz/0"] = [other.text(other.authorization(0, "pending"), retryAfter: .max)]
    #expect(try failure(other)?.message.contains("did not decide") == true)
  }

  @Test func `a server that is always ready is given up`() throws {
    let script = try Script()
    script.prepare()
    script.answers["https://ca.test/order/1"] = [script.text(script.order("ready"))]
    script.answers["https://ca.test/finalize"] = [script.text(script.order("ready"))]
    #expect(try failure(script) != nil)
    #expect(script.asked.count <= 401)
  }

  @Test func `certificates of another key, for other names, of the past or with a broken chain are refused`() throws {
    func refusal(_ certificate: (Script, PrivateKey) throws -> String) throws -> String? {
      let script = try Script()
      script.prepare()
      let request = try request(script)
      script.answers["https://ca.test/cert/1"] = [script.text(try certificate(script, request.certificateKey))]
      return try failure(script, request)?.message
    }
    #expect(
      try refusal { script, _ in try script.certificate(["a.test"], key: .generate()) }?.contains("another key") == true
    )
    #expect(try refusal { try $0.certificate(["b.test"], key: $1) }?.contains("not for a.test") == true)
    #expect(try refusal { try $0.certificate(["a.test"], key: $1, days: -1) }?.contains("not valid now") == true)
    #expect(
      try refusal { script, key in
        let other = try CertificateBuilder(commonName: "other CA", .authority(pathLength: nil)).selfSigned(
          key: .generate())
        let text = try script.certificate(["a.test"], key: key)
        return text.components(separatedBy: "-----END CERTIFICATE-----\n")[0] + "-----END CERTIFICATE-----\n"
          + other.certificate.pem
      }?.contains("chain is broken") == true)
    #expect(try refusal { _, _ in "" } != nil)
    #expect(try refusal { _, _ in "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n" } != nil)
  }

  @Test func `events that nobody waits for end the order`() throws {
    var issuance = Issuance(try request(try Script()))
    guard case .failed = issuance.take(.waited, at: 0) else {
      Issue.record("it went on")
      return
    }
    guard case .failed = issuance.take(.begin, at: 0) else {
      Issue.record("it began anew")
      return
    }
  }
}

@Suite struct `Answers of an ACME server` {
  private let url = ACMEURL("https://ca.test/dir")

  private func read(_ text: String, size: Int = .max, isEnded: Bool = true, limit: Int = 1000) throws -> ACMEResponse {
    var reader = AnswerReader(.get, limits: .init(), bodyLimit: limit)
    var rest = Array(text.utf8)[...]
    while !rest.isEmpty {
      let piece = Array(rest.prefix(size))
      rest = rest.dropFirst(size)
      if !piece.withUnsafeBytes({ reader.take($0) }) { break }
    }
    return try reader.answer(isEnded: isEnded, from: #require(url))
  }

  @Test(arguments: [1, 7, .max])
  func `head, fields and body come in pieces`(size: Int) throws {
    let response = try read(
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nReplay-Nonce: abc_-1\r\nLocation: https://ca.test/1\r\n"
        + "Retry-After: 7\r\nLink: <https://ca.test/dir>;rel=\"index\", <https://ca.test/alt>; rel=\"alternate\"\r\n"
        + "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n", size: size)
    #expect(response.status == 201 && response.body == Array("abcde".utf8))
    #expect(response.nonce == "abc_-1" && response.location == "https://ca.test/1" && response.retryAfter == 7)
    #expect(response.alternates == ["https://ca.test/alt"])
  }

  @Test func `a date of Retry-After counts from the server's own date`() throws {
    let response = try read(
      "HTTP/1.1 503 x\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\nRetry-After: Sun, 06 Nov 1994 08:50:37 GMT\r\n"
        + "Content-Length: 0\r\n\r\n")
    #expect(response.retryAfter == 60)
  }

  @Test func `bodies are bounded, however they are framed`() throws {
    let long = String(repeating: "a", count: 1001)
    for text in [
      "HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n\(long)", "HTTP/1.1 200 OK\r\n\r\n\(long)",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n\(long)\r\n0\r\n\r\n",
    ] {
      #expect(throws: ACMEError.self) { try read(text) }
      #expect(try read(text, limit: 1001).body.count == 1001)
    }
    #expect(throws: ACMEError.self) { try read("HTTP/1.1 200 OK\r\nX: " + String(repeating: "a", count: 100_000)) }
  }

  @Test func `what is cut off is no answer`() throws {
    for text in [
      "", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
      "HTTP/1.1 101 x\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
      "nonsense\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
    ] {
      #expect(throws: ACMEError.self, "\(text)") { try read(text) }
    }
    #expect(throws: ACMEError.self) { try read("HTTP/1.1 200 OK\r\n\r\nabc", isEnded: false) }
    #expect(try read("HTTP/1.1 200 OK\r\n\r\nabc").body == Array("abc".utf8))
  }

  @Test func `a nonce with other characters is none`() throws {
    #expect(try read("HTTP/1.1 200 OK\r\nReplay-Nonce: a\"b\r\nContent-Length: 0\r\n\r\n").nonce == nil)
  }
}
