import ArgumentParser
import Conversion
import Crypto
import Language
import Observability

struct ConvertCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "convert",
    abstract: "Make a configuration of one of stunnel, ghostunnel, HAProxy or nginx.",
    discussion: """
      Prints the configuration to stdout, and to stderr what changed and what can't be had, each with the line of the old \
      file. What can't be had lets nobody in. The exit status is 0 if everything was taken, 1 if something was refused, \
      and 2 if a file can't be read.

      For example: sallyport convert stunnel /etc/stunnel/stunnel.conf > sallyport.conf

      `sallyport convert FILE` means `sallyport convert nginx FILE`.
      """,
    subcommands: [
      ConvertStunnelCommand.self, ConvertGhostunnelCommand.self, ConvertHAProxyCommand.self, ConvertNginxCommand.self,
    ])

  /// The words with the language of a file that has none.
  static func completed(_ words: [String]) -> [String] {
    guard words.first == "convert", words.count > 1, !words[1].hasPrefix("-") || words[1] == "-",
      !configuration.subcommands.contains(where: { $0._commandName == words[1] })
    else { return words }
    return ["convert", "nginx"] + words.dropFirst()
  }
}

/// What the commands of conversion share.
struct ConversionOutput: ParsableArguments {
  @Flag(help: "Also tell of the lines that mean the same.")
  var verbose = false

  @Flag(
    help: "Connect to servers that the old file doesn't verify, and fill in the pins that `sallyport pin` would print.")
  var ask = false

  /// The text of a file, or an exit.
  static func text(of file: String) throws -> String {
    let found = file == "-" ? StandardInput.text : SourceFiles.disk.read(file, Parser.maximumFileSize)
    switch found {
    case .success(let bytes): return String(decoding: bytes, as: UTF8.self)
    case .failure(let fault):
      LogFile.standardError.write(string: "error: cannot read \"\(LogEscape.visible(file))\": \(fault.reason)\n")
      throw ExitCode(2)
    }
  }

  func show(_ old: Converted) throws {
    let converted = ask ? old.filled(PinCommand.pin(of:)) : old
    print(converted.text, terminator: "")
    for note in converted.notes where verbose || note.outcome != .taken {
      LogFile.standardError.write(string: "\(LogEscape.visible("\(note)"))\n")
    }
    if !converted.isWhole { throw ExitCode(1) }
  }
}

struct ConvertStunnelCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stunnel",
    abstract: "Make a configuration of stunnel's file: each service becomes a server of stream.")

  @Argument(help: "stunnel's configuration file; - is standard input.")
  var file: String
  @OptionGroup var output: ConversionOutput

  func run() throws {
    try output.show(StunnelConversion.convert(try ConversionOutput.text(of: file), file: file, files: .disk))
  }
}

struct ConvertGhostunnelCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ghostunnel",
    abstract: "Make a configuration of ghostunnel's flags.",
    discussion: """
      The flags stand behind --, or in a file that has the command line, such as a unit of systemd. Variables such as \
      KEYSTORE_PATH are not read: give them as flags.

      For example: sallyport convert ghostunnel -- server --listen :8443 --target localhost:8080 --keystore server.p12 \
      --cacert ca.pem --allow-cn client
      """)

  @Argument(help: "A file with the command line, or - for standard input; or, behind --, the flags themselves.")
  var words: [String]
  @OptionGroup var output: ConversionOutput

  func run() throws {
    if words.count == 1, let file = words.first, file != "server", file != "client" {
      return try output.show(GhostunnelConversion.convert(try ConversionOutput.text(of: file), file: file))
    }
    try output.show(GhostunnelConversion.convert(arguments: words))
  }
}

struct ConvertHAProxyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "haproxy",
    abstract: "Make a configuration of HAProxy's file: frontends, backends, and what they ask of certificates.")

  @Argument(help: "HAProxy's configuration file; - is standard input.")
  var file: String
  @OptionGroup var output: ConversionOutput

  func run() throws {
    try output.show(
      HAProxyConversion.convert(
        try ConversionOutput.text(of: file), file: file, files: .disk,
        names: { path in
          guard let certificate = try? Certificate.loadAll(MaterialReference(path: path)).first else { return nil }
          return certificate.subjectAltNames.dns.map(\.description)
            + certificate.subject.commonName.all.map { String(decoding: $0, as: UTF8.self) }
        }))
  }
}

struct ConvertNginxCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "nginx",
    abstract: "Repair what `check` refuses in nginx's file.",
    discussion: """
      Files that it includes are files of their own, and stand in the result in place of their include. Check the result \
      with `sallyport check`.
      """)

  @Argument(help: "nginx's configuration file; - is standard input.")
  var file: String
  @OptionGroup var output: ConversionOutput

  func run() throws {
    try output.show(NginxConversion.convert(try ConversionOutput.text(of: file), file: file, files: .disk))
  }
}
