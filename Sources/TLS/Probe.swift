import COpenSSL
package import Crypto
import Glibc
import Negotiation
package import Transport

/// Makes one handshake with a server and reports everything it showed, whatever the outcome.
///
/// The probe judges the server by a policy, which may come from a configuration, but continues after a refusal. It
/// sends only the client certificate and one question: a GET, or what `ProbeSpeech` says. It blocks, so never run it on
/// an event loop.
package struct Probe: Sendable {
  /// The policy that judges the server, and the certificate to present.
  package let policy: UpstreamTLSContext
  /// Used for the name check and for SNI.
  package let name: String
  /// Whether to send the name as SNI.
  package let tellsName: Bool
  package let host: String
  package let path: String
  package let presented: Certificate?
  /// Issuers besides the certificates that the server sends, to verify the stapled response, which the issuer signs.
  package let issuers: [Certificate]
  package let speech: ProbeSpeech
  /// How the connection begins.
  package let origin: ConnectionOrigin
  /// `HOST:PORT`, which a proxy of `origin` gets.
  package let server: String
  package var seconds = 10

  /// Whether the policy's locations speak HTTP/2 to the server (`grpc_pass`), which ALPN then must choose.
  private var speaksHTTP2: Bool { speech == .http2 }

  package init(
    policy: UpstreamTLSContext, name: String, tellsName: Bool = true, host: String, path: String,
    presented: Certificate?, issuers: [Certificate], speech: ProbeSpeech = .http1,
    origin: ConnectionOrigin = ConnectionOrigin(), server: String = ""
  ) {
    self.server = server
    self.speech = speech
    self.origin = origin
    self.issuers = issuers
    self.policy = policy
    self.name = name
    self.tellsName = tellsName
    self.host = host
    self.path = path
    self.presented = presented
  }

  /// `address`: of the server, or of the proxy on the way.
  package func run(_ address: SocketAddress) throws(SocketError) -> ProbeReport {
    var report = ProbeReport()
    report.presented = presented
    let client = try WaitingClient(to: address, from: origin, by: Deadline(seconds: seconds))
    if let fault = client.openTunnel(to: server, from: origin) {
      report.failure = "before TLS: \(fault.words)"
      report.fault = fault
      report.acceptance = .unknown(fault.words)
      return report
    }
    if let kind = speech.negotiated {
      if let fault = client.negotiate(kind) {
        report.failure = "before TLS: \(fault.words)"
        report.fault = fault
        report.acceptance = .unknown(fault.words)
        return report
      }
      report.negotiated = kind
    } else if origin.proxy == nil {
      report.port = address.port
    }
    let recorder = HandshakeWitness()
    guard let ssl = session(client.descriptor, recorder) else {
      report.failure = OpenSSLReasons.words()
      return report
    }
    defer { SSL_free(ssl) }
    if let failure = client.handshake(ssl) {
      report.failure = failure.words
      report.fault = recorder.fault(failure, on: client, presents: presented != nil)
      if report.fault == .unknownName, !tellsName || SocketAddress(literal: name, port: 0) != nil {
        report.fault = .nameMissing
      }
      if report.fault == .noCommonVersion(newest: nil) {
        let newest = CertificateFetch.newestVersion(
          at: address, origin: origin, server: server, negotiation: speech.negotiated, name: tellsName ? name : nil)
        report.fault = .noCommonVersion(newest: newest)
      }
    }
    // The probe continues only when the server has proved possession of its key. The client's own later messages show
    // that it has.
    let isProved = recorder.steps.contains { $0.direction == .sent && HandshakeNames.afterProof.contains($0.name) }
    read(ssl, recorder, into: &report)
    if !isProved { report.signature = "" }
    if !report.certificates.isEmpty {
      let result = policy.judgeAgain(ssl, name: name).result
      switch result {
      case .refused(let refusal):
        report.trust = .refused(kind: refusal.outcome.rawValue, reason: refusal.description)
        report.anchorFault = ProbeReport.AnchorFault(refusal, hasAnchors: !issuers.isEmpty)
      case _ where !isProved: break
      case .unverified: report.trust = .unverified
      case .reportOnlyMismatch: report.trust = .reportOnly(result.warning ?? "")
      case .trusted, .trustedByPin: report.trust = .trusted
      }
    }
    if recorder.steps.contains(where: { $0.name == HandshakeNames.message(13) }) {
      let names = SSL_get0_peer_CA_list(ssl)
      report.certificateRequest = (0..<copenssl_sk_X509_NAME_num(names)).map { index in
        DistinguishedName.rfc2253(copenssl_sk_X509_NAME_value(names, index))
      }
    }
    if report.failure == nil, speaksHTTP2, report.applicationProtocol != "h2" {
      let chosen = report.applicationProtocol.isEmpty ? "no protocol" : report.applicationProtocol
      report.failure = "the server chose \(chosen) by ALPN, not h2"
      report.fault = .noCommonApplicationProtocol
    }
    report.acceptance = acceptance(client, ssl, report, recorder)
    report.steps = recorder.steps
    return report
  }

  private func session(_ descriptor: Int32, _ recorder: HandshakeWitness) -> OpaquePointer? {
    guard let ssl = SSL_new(policy.handle) else { return nil }
    // The policy judges after the handshake, so that the report of a refused server is complete.
    SSL_set_verify(ssl, SSL_VERIFY_NONE, nil)
    recorder.attach(to: ssl)
    // What the server sends after five bytes of another protocol stays on the socket, for the fault's words.
    SSL_set_read_ahead(ssl, 0)
    // Otherwise OpenSSL reads on by itself while a server sends messages of the handshake, without an end and a look at
    // the time.
    _ = SSL_ctrl(ssl, SSL_CTRL_CLEAR_MODE, Int(SSL_MODE_AUTO_RETRY), nil)
    _ = copenssl_set_status_type_ocsp(ssl)
    // Where the protocol isn't HTTP, the policy's context offers what the configuration names, if anything.
    let offered: [UInt8]? =
      switch speech {
      case .http1: [8] + Array("http/1.1".utf8)
      case .http2: [2] + Array("h2".utf8)
      case .negotiated, .nothing: nil
      }
    guard SSL_set_fd(ssl, descriptor) == 1,
      offered.map({ SSL_set_alpn_protos(ssl, $0, UInt32($0.count)) == 0 }) ?? true
    else {
      SSL_free(ssl)
      return nil
    }
    if tellsName, SocketAddress(literal: name, port: 0) == nil { _ = copenssl_set_tlsext_host_name(ssl, name) }
    return ssl
  }

  private func read(_ ssl: OpaquePointer, _ recorder: HandshakeWitness, into report: inout ProbeReport) {
    // Before a ServerHello, OpenSSL returns the highest version that the client offers.
    if recorder.steps.contains(where: { $0.direction == .received && $0.name == HandshakeNames.message(2) }) {
      report.protocolName = String(cString: SSL_get_version(ssl))
    }
    report.cipher = SSL_get_current_cipher(ssl).flatMap { SSL_CIPHER_get_name($0) }.map { String(cString: $0) } ?? ""
    report.group = KeyExchangeGroup.negotiated(ssl)
    report.signature = signature(ssl)
    var bytes: UnsafePointer<UInt8>?
    var count: UInt32 = 0
    SSL_get0_alpn_selected(ssl, &bytes, &count)
    report.applicationProtocol = String(decoding: UnsafeBufferPointer(start: bytes, count: Int(count)), as: UTF8.self)
    let sent = SSL_get_peer_cert_chain(ssl)
    report.certificates = (0..<copenssl_sk_X509_num(sent)).compactMap { index in
      copenssl_sk_X509_value(sent, index).map { Certificate(retaining: $0) }
    }
    report.stapled = stapled(ssl, report.certificates)
  }

  private func signature(_ ssl: OpaquePointer) -> String {
    var key: Int32 = 0
    var digest: Int32 = 0
    guard copenssl_get_peer_signature_type_nid(ssl, &key) == 1 else { return "" }
    let name =
      switch key {
      case NID_X9_62_id_ecPublicKey: "ECDSA"
      case NID_rsaEncryption: "RSA"
      case NID_rsassaPss: "RSA-PSS"
      default: OBJ_nid2ln(key).map { String(cString: $0) } ?? ""
      }
    guard copenssl_get_peer_signature_nid(ssl, &digest) == 1, digest != 0, let hash = OBJ_nid2sn(digest) else {
      return name
    }
    return "\(name) with \(String(cString: hash))"
  }

  private func stapled(_ ssl: OpaquePointer, _ certificates: [Certificate]) -> ProbeReport.Stapled {
    var bytes: UnsafePointer<UInt8>?
    let count = copenssl_get_status_response(ssl, &bytes)
    guard count > 0, let bytes else { return .none }
    guard let leaf = certificates.first,
      let issuer = (certificates.dropFirst() + issuers).first(where: { $0.issued(leaf) })
    else {
      return .fault("the issuer's certificate is not at hand")
    }
    do throws(OCSPError) {
      let answer = try OCSPRequest(of: leaf, issuedBy: issuer)
        .judge(Array(UnsafeBufferPointer(start: bytes, count: count)), now: Int64(time(nil)))
      switch answer.status {
      case .good: return .good(until: answer.validUntil)
      case .revoked: return .revoked
      case .unknown: return .unknown
      }
    } catch {
      return .fault("\(error)")
    }
  }

  // MARK: Acceptance of the client certificate

  /// Finds out whether the server accepts the client certificate. In TLS 1.3 the server decides after the client's last
  /// message, so the probe asks something and reads the answer.
  private func acceptance(
    _ client: borrowing WaitingClient, _ ssl: OpaquePointer, _ report: ProbeReport, _ recorder: HandshakeWitness
  ) -> ProbeReport.Acceptance {
    if let failure = report.failure {
      // A server that did not request a certificate can't have refused the client because of it.
      guard report.certificateRequest != nil, let alert = recorder.alertWords else { return .unknown(failure) }
      return .refused(alert)
    }
    switch speech {
    case .http1, .http2: return acceptanceOfHTTP(client, ssl, report, recorder)
    case .negotiated(let kind): return acceptance(client, ssl, report, recorder, asking: kind)
    case .nothing: return silentAcceptance(client, ssl, report, recorder)
    }
  }

  /// Asks a question of the protocol.
  private func acceptance(
    _ client: borrowing WaitingClient, _ ssl: OpaquePointer, _ report: ProbeReport, _ recorder: HandshakeWitness,
    asking kind: NegotiatedProtocol
  ) -> ProbeReport.Acceptance {
    let isAsked = report.certificateRequest != nil
    let bytes = ProbeQuestion.bytes(kind)
    _ = client.perform(ssl) { SSL_write($0, bytes, Int32(bytes.count)) }
    var buffer = [UInt8](repeating: 0, count: 4096)
    switch client.perform(ssl, { SSL_read($0, &buffer, Int32(buffer.count)) }) {
    case .done(let count):
      if let words = ProbeQuestion.refusal(Array(buffer.prefix(Int(count))), kind) { return .refused(words) }
      return isAsked ? .accepted(status: nil) : .notAsked(status: nil)
    case .ended: return isAsked ? .refused(recorder.alertWords ?? Self.endedSilently) : .notAsked(status: nil)
    case .late: return isAsked ? .unknown("no answer to a question in time") : .notAsked(status: nil)
    case .failed(let reason): return .refused(recorder.alertWords ?? reason)
    }
  }

  private static let endedSilently = "the connection ended after the handshake, without an answer"
  /// Seconds that a server of an unknown protocol has for a refusal.
  private static let silentTime = 3

  /// Waits for a refusal. A server that sends a ticket of TLS 1.3, or anything of its protocol, has judged the client.
  private func silentAcceptance(
    _ client: borrowing WaitingClient, _ ssl: OpaquePointer, _ report: ProbeReport, _ recorder: HandshakeWitness
  ) -> ProbeReport.Acceptance {
    guard report.certificateRequest != nil else { return .notAsked(status: nil) }
    let ticket = HandshakeNames.message(4)
    // Before TLS 1.3, the server's last message of the handshake comes after the client's.
    if SSL_version(ssl) < TLS1_3_VERSION { return .accepted(status: nil) }
    var byte: UInt8 = 0
    let outcome = client.perform(
      ssl, by: Deadline(seconds: Self.silentTime), orUntil: { recorder.has(.received, ticket) }
    ) { SSL_read($0, &byte, 1) }
    switch outcome {
    case .done: return .accepted(status: nil)
    case .late where recorder.has(.received, ticket): return .accepted(status: nil)
    case .late: return .unknown("the server neither refused it nor said anything within \(Self.silentTime) seconds")
    case .ended: return .refused(recorder.alertWords ?? Self.endedSilently)
    case .failed(let reason): return .refused(recorder.alertWords ?? reason)
    }
  }

  private func acceptanceOfHTTP(
    _ client: borrowing WaitingClient, _ ssl: OpaquePointer, _ report: ProbeReport, _ recorder: HandshakeWitness
  ) -> ProbeReport.Acceptance {
    let request =
      "GET \(path) HTTP/1.1\r\nHost: \(host)\r\nUser-Agent: sallyport-probe\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    let bytes = speaksHTTP2 ? ProbeHTTP2.request(host: host, path: path) : Array(request.utf8)
    var answer: [UInt8] = []
    var buffer = [UInt8](repeating: 0, count: 4096)
    if case .failed(let reason) = client.perform(ssl, { SSL_write($0, bytes, Int32(bytes.count)) }) {
      // A server that refuses says why and closes. What it said has arrived, although the connection takes nothing more.
      _ = client.perform(ssl) { SSL_read($0, &buffer, Int32(buffer.count)) }
      return .refused(recorder.alertWords ?? reason)
    }
    reading: while answer.count < 65_536 {
      switch client.perform(ssl, { SSL_read($0, &buffer, Int32(buffer.count)) }) {
      case .done(let count):
        answer += buffer[..<Int(count)]
        if speaksHTTP2, ProbeHTTP2.Answer(answer).isComplete { break reading }
      case .ended: break reading
      case .late: if answer.isEmpty { return .unknown("no answer to a request in time") } else { break reading }
      case .failed(let reason):
        if answer.isEmpty { return .refused(recorder.alertWords ?? reason) } else { break reading }
      }
    }
    let isAsked = report.certificateRequest != nil
    return speaksHTTP2 ? Self.judgeFrames(answer, isAsked: isAsked) : Self.judge(answer, isAsked: isAsked)
  }

  /// Judges an answer over HTTP. nginx and sallyport answer so even when they refuse a client's certificate: with 400 and
  /// one of two sentences, or with the status of their `error_page`. Of another 4xx nobody knows whether it is for the
  /// certificate or for the request. `status`: nil if the server answered with one that the probe can't read.
  private static func judge(status: Int?, _ text: String, isAsked: Bool) -> ProbeReport.Acceptance {
    if let refusal = ["No required SSL certificate was sent", "The SSL certificate error"]
      .first(where: { text.contains($0) })
    {
      return .refused("HTTP \(status ?? 400): \(refusal)")
    }
    guard isAsked else { return .notAsked(status: status) }
    switch status {
    case 495?: return .refused("HTTP 495: the certificate did not verify")
    case 496?: return .refused("HTTP 496: it wants a certificate")
    case let status? where (400...499).contains(status): return .undecided(status: status)
    default: return .accepted(status: status)
    }
  }

  /// Judges the frames of a server of HTTP/2.
  static func judgeFrames(_ answer: [UInt8], isAsked: Bool) -> ProbeReport.Acceptance {
    let found = ProbeHTTP2.Answer(answer)
    if found.isAnswered || !isAsked {
      return judge(status: found.status, String(decoding: answer, as: UTF8.self), isAsked: isAsked)
    }
    return .unknown(
      found.farewell.map { "the server ended HTTP/2 with error \($0)" } ?? "the connection ended without an answer")
  }

  /// Judges the start of the response.
  static func judge(_ answer: [UInt8], isAsked: Bool) -> ProbeReport.Acceptance {
    let text = String(decoding: answer, as: UTF8.self)
    guard text.hasPrefix("HTTP/1."), let status = Int(text.dropFirst(9).prefix(3)) else {
      if !isAsked { return .notAsked(status: nil) }
      return .unknown(answer.isEmpty ? "the connection ended without an answer" : "the answer is not HTTP/1")
    }
    return judge(status: status, text, isAsked: isAsked)
  }
}
