import Glibc
import Testing
import Transport

@testable import TLS

@Suite struct `What stands behind a failed handshake` {
  typealias Signs = HandshakeFault.Signs

  @Test(arguments: [
    ("HTTP/1.1 400 Bad Request\r\n", HandshakeFault.plainHTTP), ("<!DOCTYPE HTML>\n", .plainHTTP),
    ("<html>", .plainHTTP),
    ("SSH-2.0-OpenSSH_9.2p1\r\nmore", .otherProtocol(greeting: "SSH-2.0-OpenSSH_9.2p1")),
    ("220 mail.example ESMTP\r\n", .otherProtocol(greeting: "220 mail.example ESMTP")),
  ]) func `the first bytes name a server that is none of TLS`(_ sample: (greeting: String, fault: HandshakeFault)) {
    #expect(
      HandshakeFault(Signs(failure: .failed("wrong version number"), greeting: Array(sample.greeting.utf8)))
        == sample.fault)
  }

  @Test func `a server that was sent no name, and wants one, is told from one that doesn't know the name`() {
    #expect(HandshakeFault.nameMissing.words.hasSuffix("was sent no name"))
    #expect(HandshakeFault.nameMissing.advice.hasPrefix("set proxy_ssl_server_name on"))
    #expect(HandshakeFault.nameMissing.name != HandshakeFault.unknownName.name)
  }

  @Test func `a long first line is cut`() {
    let fault = HandshakeFault(Signs(failure: .failed(""), greeting: [UInt8](repeating: 0x41, count: 300)))
    #expect(fault == .otherProtocol(greeting: String(repeating: "A", count: 60)))
  }

  @Test func `alerts name versions, ciphers and names`() {
    let record: [UInt8] = [21, 3, 3, 0, 2]
    for (alert, fault) in [
      ("alert protocol version", HandshakeFault.noCommonVersion(newest: nil)),
      ("alert handshake failure", .noCommonCipher), ("alert unrecognized name", .unknownName),
      ("alert no application protocol", .noCommonApplicationProtocol),
    ] {
      #expect(HandshakeFault(Signs(failure: .failed("x"), greeting: record, alert: alert)) == fault)
    }
    // After a ServerHello the ciphers were agreed on.
    #expect(
      HandshakeFault(
        Signs(failure: .failed("x"), greeting: record, heardServerHello: true, alert: "alert handshake failure")) == nil
    )
    #expect(HandshakeFault(Signs(failure: .failed("unsupported protocol"))) == .noCommonVersion(newest: nil))
    #expect(HandshakeFault(Signs(failure: .failed("anything else"))) == nil)
  }

  @Test func `a server that asked for a certificate ended the handshake because of it`() {
    let asked = Signs(
      failure: .failed("x"), heardServerHello: true, wasAskedForCertificate: true, alert: "alert handshake failure")
    #expect(HandshakeFault(asked) == .certificateMissing)
    var presented = asked
    presented.presents = true
    #expect(HandshakeFault(presented) == .certificateRefused)
    // Our own refusal, without an alert of the server, is none of the certificate.
    var ours = asked
    ours.alert = nil
    #expect(HandshakeFault(ours) == nil)
  }

  @Test func `a server that says nothing has closed, or is silent`() {
    #expect(HandshakeFault(Signs(failure: .ended)) == .closed)
    #expect(HandshakeFault(Signs(failure: .late)) == .silent)
    // OpenSSL's words for the same end, before and after a record of the server.
    for reason in ["0A000126:SSL routines::unexpected eof while reading", "Broken pipe"] {
      #expect(HandshakeFault(Signs(failure: .failed(reason))) == .closed)
    }
  }

  @Test func `a broken version is allowed only by name, and a good one is recommended`() {
    #expect(HandshakeFault.noCommonVersion(newest: "TLSv1.1").advice.contains("proxy_ssl_protocols TLSv1.1;"))
    #expect(HandshakeFault.noCommonVersion(newest: "TLSv1.3").advice == "allow TLSv1.3 in proxy_ssl_protocols")
  }

  @Test func `where there is no connection, the advice is that of its error`() {
    for (code, name, words) in [
      (ECONNREFUSED, "connection-refused", "nothing listens"), (ETIMEDOUT, "connect-timeout", "a firewall"),
      (EHOSTUNREACH, "unreachable", "no route"), (ENOENT, "unreachable", "no such socket"),
    ] {
      let fault = HandshakeFault.unconnected(SocketError("connect", code))
      #expect(fault.name == name && fault.advice.contains(words), "\(fault)")
    }
  }
}
