import Foundation
import TestSupport
import Testing

/// Clients of other houses, set up as the demo's guide tells: its lines are what runs here.
@Suite(.staged) struct `The demo's guide` {
  private static let identity = "CN=demo client,O=sallyport demo"
  private static let refused = ["expired", "not-yet-valid", "revoked", "wrong-ca"]

  @Test(.enabled("requests is not installed") { await Scene.succeeds("python3", ["-c", "import requests"]) })
  func `lets Python's requests in, and its bad certificates keep it out`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    let lines = try demo.instructions("Python")
    let others = Self.refused.map {
      lines.replacing("/client.", with: "/\($0).").replacing(".json()", with: ".status_code")
    }
    let script = try scene.write("ask.py", text: ([lines] + others).joined(separator: "\n"))
    let result = try await scene.run("python3", [script], environment: ["NO_PROXY": "localhost"])
    let answers = result.text.split(separator: "\n")
    try #require(answers.count == 5, "\(result.everything)")
    #expect(answers[0].contains("'verdict': 'SUCCESS', 'subject': '\(Self.identity)'"))
    #expect(answers[1...].allSatisfy { $0 == "400" }, "\(answers)")
  }

  /// A runtime without a compiler can't launch a source file.
  @Test(.enabled("no JDK is installed") { await Scene.succeeds("java", ["--describe-module", "jdk.compiler"]) })
  func `lets Java's HttpClient in, and its bad certificates keep it out`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    let lines = try demo.instructions("Java").replacing("/client.p12\"", with: "/\" + name + \".p12\"")
    let program = try scene.write(
      "Client.java",
      text: """
        import java.io.*;
        import java.net.URI;
        import java.net.http.*;
        import java.security.KeyStore;
        import java.security.cert.CertificateFactory;
        import javax.net.ssl.*;

        class Client {
          public static void main(String[] names) throws Exception { for (var name : names) ask(name); }
          static void ask(String name) throws Exception {
            \(lines)
          }
        }
        """)
    let result = try await scene.run("java", [program, "client"] + Self.refused, within: .seconds(90))
    let answers = result.text.split(separator: /^(?=\d{3} )/.anchorsMatchLineEndings()).map(String.init)
    try #require(answers.count == 5, "\(result.everything)")
    #expect(answers[0].hasPrefix("200 ") && answers[0].contains(#""verdict":"SUCCESS","subject":"\#(Self.identity)""#))
    #expect(answers[1...].allSatisfy { $0.hasPrefix("400 ") && !$0.contains(Self.identity) }, "\(answers)")
  }

  @Test(Chromium.needed) func `shows Chromium a page with the identity`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    let chromium = try await Chromium(scene, policies: demo.instructions("A browser"))
    try await scene.succeed(
      Sallyport.binary(), "demo", "trust", "nss", "--dir", demo.folder, environment: ["HOME": chromium.home])
    let page = try await chromium.open("https://localhost:\(demo.port)/")
    #expect(page.document.contains("<p id=\"identity\">\(Self.identity)</p>"), "\(page.errors)")
    #expect(page.document.contains("<th>X-Client-DN</th><td>\(Self.identity)</td>"))
    // The header is green, and letters have many shades.
    let picture = try await scene.python(.picture, page.screenshot, "1a7f37")
    let numbers = picture.text.split(whereSeparator: \.isWhitespace).compactMap { Int($0) }
    try #require(numbers.count == 2, "\(picture.everything)")
    #expect(numbers[0] > 50 && (10...60).contains(numbers[1]), "\(numbers)")
  }

  @Test(Chromium.needed) func `has Chromium refused with its bad certificates`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    for name in Self.refused {
      let chromium = try await Chromium(scene, policies: demo.instructions("A browser"))
      try await chromium.trust(demo.file("ca.crt"))
      try await chromium.take(demo.file("\(name).p12"), password: "demo")
      let page = try await chromium.open("https://localhost:\(demo.port)/")
      // Of what it holds, it offers what is valid today and of the CA that is asked for.
      let reason = name == "revoked" ? "The SSL certificate error" : "No required SSL certificate was sent"
      #expect(page.document.contains("<title>400 \(reason)</title>"), "\(name): \(page.document) \(page.errors)")
    }
  }

  @Test(Chromium.needed) func `says truly that Chromium must trust the CA`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    let chromium = try await Chromium(scene, policies: demo.instructions("A browser"))
    try await chromium.take(demo.file("client.p12"), password: "demo")
    let page = try await chromium.open("https://localhost:\(demo.port)/")
    #expect(page.document.isEmpty && page.errors.contains("ERR_CERT_AUTHORITY_INVALID"), "\(page)")
  }
}

extension Chromium {
  static let needed = ConditionTrait.enabled("chromium or its namespaces are not at hand") { await isAtHand() }
}
