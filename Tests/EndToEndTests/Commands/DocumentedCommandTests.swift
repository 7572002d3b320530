import Foundation
import TestSupport
import Testing

/// The command lines of the documents name commands and options that there are, with as many words as the command takes.
@Suite(.staged) struct `The command lines of the documents` {
  /// A command as a page has it.
  private struct Line: Hashable, CustomStringConvertible {
    let page: String
    let text: String
    var description: String { "\(page): \(text)" }
  }

  @Test func `each names a command, and options of it`() async throws {
    let scene = try Scene.ofTest()
    let lines = Self.lines
    #expect(lines.count > 100, "\(lines.count)")
    var helps: [[String]: String] = [:]
    func help(_ path: [String]) async throws -> String {
      if let known = helps[path] { return known }
      let text = try await scene.run(Sallyport.binary(), path + ["--help"]).text
      helps[path] = text
      return text
    }
    for line in lines {
      var words = Self.words(line.text).dropFirst()
      var path: [String] = []
      while let word = words.first, Self.commands(in: try await help(path)).contains(word) {
        path.append(word)
        words = words.dropFirst()
      }
      let page = try await help(path)
      if !Self.commands(in: page).isEmpty, let word = words.first, !word.hasPrefix("-"),
        word.first?.isLowercase == true,
        word != "help"
      {
        Issue.record("\(line): there is no command \"\((path + [word]).joined(separator: " "))\"")
      }
      let known = Set(
        page.matches(of: #/(?:^|[\s,\[|(])(--?[a-z][a-z0-9-]*)/#.anchorsMatchLineEndings()).map { $0.output.1 })
      for word in words where word.hasPrefix("-") && word != "-" {
        let option = word.prefix { $0 != "=" }
        #expect(known.contains(option), "\(line): \(path.joined(separator: " ")) has no option \(option)")
      }
    }
  }

  /// A command as the binary describes it.
  private struct Described: Decodable {
    struct Argument: Decodable {
      struct Name: Decodable { let name: String }
      let names: [Name]?
    }
    let commandName: String
    let discussion: String?
    let arguments: [Argument]?
    let subcommands: [Described]?
  }

  @Test func `the help of each command ends with an example, which has options of that command`() async throws {
    struct Dump: Decodable { let command: Described }
    let scene = try Scene.ofTest()
    let text = try await scene.run(Sallyport.binary(), ["--experimental-dump-help"]).text
    let root = try JSONDecoder().decode(Dump.self, from: Data(text.utf8)).command
    var rest = (root.subcommands ?? []).map { (path: "sallyport \($0.commandName)", command: $0) }, count = 0
    while let (path, command) = rest.popLast() {
      if command.commandName == "help" { continue }
      count += 1
      let inner = command.subcommands ?? []
      rest += inner.map { ("\(path) \($0.commandName)", $0) }
      let example = (command.discussion ?? "").matches(of: #/xample: (sallyport [^\n]+)/#).last.map {
        String($0.output.1)
      }
      // `demo` stands for `demo serve`.
      guard let example, example.hasPrefix(path) || path == "sallyport demo serve" else {
        Issue.record("\(path): \(example ?? "no example")")
        continue
      }
      let known = Set((command.arguments ?? []).flatMap { $0.names ?? [] }.map { "--\($0.name)" })
      for word in inner.isEmpty ? example.split(separator: " -- ")[0].split(separator: " ") : []
      where word.hasPrefix("--") {
        #expect(known.contains(String(word)), "\(path): \(example)")
      }
    }
    #expect(count > 40, "\(count)")
  }

  @Test(arguments: [
    (["ssl_client_allow"], 0, "ssl_client_allow "), (["$ssl_client_san_dns"], 0, "$ssl_client_san_dns\n"),
    (["check"], 0, "USAGE: sallyport check"), (["ssl_client_alow"], 64, "did you mean \"ssl_client_allow\"?"),
    (["$ssl_client_san_dnss"], 64, "did you mean \"$ssl_client_san_dns\"?"),
    (["chekc"], 64, "did you mean \"check\"?"),
  ])
  func `help has the row of a directive or variable, and a near name for a wrong one`(
    words: [String], status: Int32, part: String
  ) async throws {
    let scene = try Scene.ofTest()
    let told = try await scene.run(Sallyport.binary(), ["help"] + words)
    #expect(told.status == status && told.everything.contains(part), "\(told.everything)")
  }

  @Test func `the commands of the page about an authority do what they say`() async throws {
    let scene = try Scene.ofTest()
    let page = try String(contentsOfFile: "\(checkout)/docs/operating/authority.md", encoding: .utf8)
    let block = page.split(separator: "\n").filter { $0.hasPrefix("    sallyport ca ") }
    let commands = block.compactMap { line -> String? in
      let text = line.drop { $0 == " " }.replacing("FILE", with: "bob.csr").replacing("DIR", with: "ca")
        .replacing("[--days 30]", with: "--days 30").replacing("[--json]", with: "--json")
        .replacing("[--p12 alice.p12 --password-file F] [--out FOLDER]", with: "--p12 alice.p12 --password-file pass")
      let command = text.split(separator: " #").first.map(String.init) ?? ""
      return command.contains("--store") ? nil : command
    }
    #expect(commands.count > 9, "\(commands)")
    try scene.write("pass", text: "a long pass phrase\n")
    chmod(scene.path("pass"), 0o600)
    try scene.makeFolder("bin")
    symlink(try Sallyport.binary(), scene.path("bin/sallyport"))
    // A revoked certificate has no successor, and a signature asks at a terminal.
    let order =
      commands.filter { $0.contains(" issue ") } + commands.filter { $0.contains(" renew ") }
      + commands.filter { [" crl ", " list ", " inspect ", " sign "].contains(where: $0.contains) }
      + commands.filter { $0.contains(" revoke ") }
    let script = """
      set -e
      sallyport ca init ca
      openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout bob.key -subj /CN=bob -out bob.csr
      \(order.map { $0.contains(" sign ") ? "\($0) --yes" : $0 }.joined(separator: "\n"))
      sallyport ca init ROOT --root --name "Example root"
      sallyport ca init two --intermediate-of ROOT
      """
    let path = "\(scene.path("bin")):/usr/bin:/bin"
    let result = try await scene.run("sh", ["-c", script], environment: ["PATH": path, "HOME": scene.folder])
    #expect(result.status == 0, "\(script)\n\(result.everything)")
  }

  /// Dates, and what depends on the version of OpenSSL, are left out.
  @Test func `the report that first-steps shows is that of the configurations above it`() async throws {
    let scene = try Scene.ofTest()
    let page = try String(contentsOfFile: "\(checkout)/docs/operating/first-steps.md", encoding: .utf8)
    func block(after words: String) throws -> [Substring] {
      let start = try #require(page.range(of: words))
      let lines = page[start.upperBound...].split(separator: "\n", omittingEmptySubsequences: false).drop {
        !$0.hasPrefix("    ")
      }
      return lines.prefix { $0.hasPrefix("    ") || $0.isEmpty }.map { $0.dropFirst(4) }
    }
    func plain(_ lines: [Substring]) -> [String] {
      lines.map {
        String($0.replacing(#/until .* GMT$/#, with: "until DATE").replacing(#/exchange .*/#, with: "exchange"))
      }
      .filter { !$0.isEmpty }
    }
    let first = try block(after: "## A first configuration")
    let start = try #require(first.firstIndex { $0.contains("<<'END'") })
    let end = try #require(first.firstIndex(of: "END"))
    let application =
      "    location / {\n      proxy_pass http://127.0.0.1:3000;\n"
      + "      proxy_set_header X-Client-DN $ssl_client_s_dn;\n    }\n"
    let text = first[(start + 1)..<end].joined(separator: "\n")
    #expect(text.contains(application))
    let upstream = try block(after: "For a TLS upstream, sallyport verifies").map { "    \($0)\n" }.joined()
    try scene.write(
      "sallyport.conf",
      text: "user root;" + text.replacing(application, with: upstream).replacing("upstream.internal", with: "localhost")
    )
    for words in [["init", "ca"], ["issue", "ca", "--server", "localhost"]] {
      #expect(try await scene.run(Sallyport.binary(), ["ca"] + words).status == 0)
    }
    try scene.write("upstream-ca.crt", text: scene.text("ca/ca.crt"))
    let checked = try await scene.run(Sallyport.binary(), ["check", "--config", "sallyport.conf"])
    // Notices of this machine may follow the report.
    let report = checked.text.split(separator: "\n", omittingEmptySubsequences: false)
      .drop { !$0.hasPrefix("server ") }.prefix { !$0.isEmpty }
    let shown = try block(after: "Of the first configuration, with the TLS upstream above:")
    #expect(
      plain(Array(report)).map { $0.replacing("https://localhost", with: "https://upstream.internal") }
        .map { $0.replacing("must be localhost", with: "must be upstream.internal") } == plain(shown),
      "\(checked.everything)")
  }

  /// Blocks with commands of openssl and a shell, run as they are but for the folder of a file.
  @Test func `the commands of openssl and of a shell do what the pages say`() async throws {
    let scene = try Scene.ofTest()
    _ = try Cast(scene)
    try scene.makeFolder("bin")
    symlink(try Sallyport.binary(), scene.path("bin/sallyport"))
    func run(_ page: String, _ beginning: String, before: String = "", after: String = "") async throws -> ToolResult {
      let block = try #require(PageBlock.with(beginning, on: page), "\(page): \(beginning)")
      // A configuration may stand below the commands.
      let lines = block.lines.prefix { !$0.hasSuffix("{") }.map { $0.replacing("/etc/sallyport/", with: "") }
      let text = "set -e\n\(before)\n\(lines.joined(separator: "\n"))\n\(after)\n"
      let result = try await scene.run(
        "bash", [scene.write("block.sh", text: text)],
        environment: ["PATH": "\(scene.path("bin")):/usr/local/bin:/usr/bin:/bin"])
      #expect(result.status == 0, "\(block): \(text)\n\(result.everything)")
      return result
    }
    try scene.write("up.pem", scene.bytes("server.pem"))
    let pins = try await run("docs/SECURITY.md", "sallyport pin").text.split(separator: "\n")
    #expect(pins.count == 3 && pins[0].contains(pins[1]), "\(pins)")
    _ = try await run("docs/operating/audit.md", "openssl genpkey", after: "openssl pkey -pubin -in audit.pub -noout")
    let messages = "docs/operating/messages.md"
    _ = try await run(messages, "openssl rand -hex 32 > body.key")
    if await Scene.succeeds("xxd", ["-v"]) {
      let opened = try await run(
        messages, "iv=", before: #"printf '{"a":1}' > plain; exec > sealed"#,
        after: "exec >&2; sallyport envelope open --cipher aes-256-cbc --key body.key --mac-key body.mac < sealed")
      #expect(opened.errors.contains(#"{"a":1}"#), "\(opened.everything)")
    }
    _ = try await run(messages, "openssl rand -hex 32 > app.secret")
    let signed = try await run(
      messages, "printf 'POST", before: "body=text; curl() { cat fields; }")
    #expect(signed.text.contains("Signature-Input: "), "\(signed.everything)")
    // nsupdate stands for the server of DNS.
    let hook = try await run(
      "docs/operating/acme.md", "#!/bin/sh",
      before: "nsupdate() { cat; }; set -- present _acme-challenge.example.com. VALUE")
    #expect(hook.text.contains(#"update add _acme-challenge.example.com. 60 TXT "VALUE""#), "\(hook.everything)")
    let variables = try await run(
      "docs/operating/first-steps.md", "SALLYPORT_LISTEN", before: "unset ${!SALLYPORT_@}; set -a",
      after: "sallyport proxy --print")
    #expect(variables.text.contains("server 127.0.0.1:8080"), "\(variables.everything)")
  }

  // MARK: Reading the pages

  /// Lines of code blocks and texts in backticks that begin with `sallyport` and a command.
  private static let lines: [Line] = {
    var pages = ["README.md"]
    for folder in ["docs", "docs/operating"] {
      let names = (try? FileManager.default.contentsOfDirectory(atPath: "\(checkout)/\(folder)")) ?? []
      pages += names.filter { $0.hasSuffix(".md") && $0 != "CHANGELOG.md" }.sorted().map { "\(folder)/\($0)" }
    }
    var found: [Line] = []
    for page in pages {
      let text = (try? String(contentsOfFile: "\(checkout)/\(page)", encoding: .utf8)) ?? ""
      let joined = text.replacing(#/\\\n\s*/#, with: " ")
      for line in joined.split(separator: "\n") where line.hasPrefix("    ") || line.hasPrefix("$ ") {
        let code = line.drop { $0 == " " }.replacing(#/^(\$ |sudo )/#, with: "")
        if code.hasPrefix("sallyport ") { found.append(Line(page: page, text: String(code))) }
      }
      let flat = joined.replacing(#/\n\s*/#, with: " ")
      for span in flat.matches(of: #/`(sallyport [a-z][^`]*)`/#) {
        found.append(Line(page: page, text: String(span.output.1)))
      }
    }
    return Array(Set(found)).sorted { $0.description < $1.description }
  }()

  /// The words of a command, without a comment, what follows in a pipe, and the brackets of what may be left out.
  private static func words(_ text: String) -> [String] {
    let command = text.prefix(while: { !"#|;&>".contains($0) })
    return command.replacing(#/'[^']*'|"[^"]*"/#, with: "TEXT").split(whereSeparator: \.isWhitespace)
      .map { $0.trimmingCharacters(in: CharacterSet(charactersIn: "[]…,.")) }.filter { !$0.isEmpty }
  }

  /// The subcommands that a page of help lists.
  private static func commands(in help: String) -> Set<String> {
    guard let start = help.range(of: "SUBCOMMANDS:\n") else { return [] }
    let lines = help[start.upperBound...].split(separator: "\n").prefix { $0.hasPrefix("  ") }
    return Set(lines.filter { !$0.hasPrefix("   ") }.compactMap { $0.split(separator: " ").first.map(String.init) })
  }
}
