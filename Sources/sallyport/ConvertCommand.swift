import ArgumentParser
import Conversion
import Crypto
import Language
import Observability
import Review

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

  @Flag(
    help: ArgumentHelp(
      "Run the old program and sallyport side by side on loopback, and print what differs in place of the configuration.",
      discussion: "Certificates of throw-away CAs and servers of this command stand in for those of the configuration.")
  )
  var compare = false

  func show(_ old: Converted) throws {
    let converted = ask ? old.filled(PinCommand.pin(of:)) : old
    print(converted.text, terminator: "")
    for note in converted.notes where verbose || note.outcome != .taken {
      LogFile.standardError.write(string: "\(LogEscape.visible("\(note)"))\n")
    }
    if !converted.isWhole { throw ExitCode(1) }
  }

  /// Converts, or compares.
  func show(
    _ program: OldProgram, trial: @escaping ComparisonRun.MakeTrial, text: String, file: String,
    convert: @escaping (_ text: String, _ file: String) -> Converted
  ) throws {
    guard compare else { return try show(convert(text, file)) }
    let run = ComparisonRun(
      program: program, trial: trial, convert: { convert($0, Trial.file) }, notes: convert(text, file).notes)
    do {
      let (text, isSame) = try run.report()
      for line in text.split(separator: "\n", omittingEmptySubsequences: false).dropLast() {
        print(LogEscape.visible(String(line)))
      }
      if !isSame { throw ExitCode(1) }
    } catch let failure as ComparisonFailure {
      LogFile.standardError.write(string: "error: \(failure.text)\n")
      throw ExitCode(2)
    }
  }
}

/// The file of the old program, for the commands that take one.
struct OldFile: ParsableArguments {
  @Argument(help: "The program's configuration file; - is standard input.")
  var file: String
  @OptionGroup var output: ConversionOutput

  func show(
    _ program: OldProgram, trial: (_ text: String) -> ComparisonRun.MakeTrial,
    convert: @escaping (_ text: String, _ file: String) -> Converted
  ) throws {
    let text = try ConversionOutput.text(of: file)
    try output.show(program, trial: trial(text), text: text, file: file, convert: convert)
  }
}

struct ConvertStunnelCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "stunnel",
    abstract: "Make a configuration of stunnel's file: each service becomes a server of stream."
  ).example("sallyport convert stunnel /etc/stunnel/stunnel.conf > sallyport.conf")

  @OptionGroup var old: OldFile

  func run() throws {
    try old.show(
      .stunnel,
      trial: { text in
        { StunnelConversion.trial(text, file: old.file, files: .disk, in: $0, log: $1 ? "old" : "new") }
      }, convert: { StunnelConversion.convert($0, file: $1, files: .disk) })
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
    var file = "ghostunnel"
    var flags = GhostunnelConversion.words(words)
    if words.count == 1, let first = words.first, first != "server", first != "client" {
      file = first
      let text = try ConversionOutput.text(of: file)
      let converted = GhostunnelConversion.convert(text, file: file)
      guard output.compare, let found = GhostunnelConversion.words(text, file: file) else {
        return try output.show(converted)
      }
      flags = found
    }
    try output.show(
      .ghostunnel, trial: { [flags] place, _ in GhostunnelConversion.trial(flags, in: place) },
      text: words.joined(separator: "\n"), file: file,
      convert: { GhostunnelConversion.convert(arguments: $0.split(separator: "\n").map(String.init), file: $1) })
  }
}

struct ConvertHAProxyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "haproxy",
    abstract: "Make a configuration of HAProxy's file: frontends, backends, and what they ask of certificates."
  ).example("sallyport convert haproxy /etc/haproxy/haproxy.cfg > sallyport.conf")

  @OptionGroup var old: OldFile

  func run() throws {
    try old.show(
      .haproxy,
      trial: { text in { place, _ in HAProxyConversion.trial(text, file: old.file, files: .disk, in: place) } },
      convert: { HAProxyConversion.convert($0, file: $1, files: .disk, names: Self.names(of:)) })
  }

  /// The host names of the first certificate in a file; nil: it can't be read.
  private static func names(of path: String) -> [String]? {
    guard let certificate = try? Certificate.loadAll(MaterialReference(path: path)).first else { return nil }
    return certificate.subjectAltNames.dns.map(\.description)
      + certificate.subject.commonName.all.map { String(decoding: $0, as: UTF8.self) }
  }
}

struct ConvertNginxCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "nginx",
    abstract: "Repair what `check` refuses in nginx's file.",
    discussion: """
      Files that it includes are files of their own, and stand in the result in place of their include. Check the result \
      with `sallyport check`.
      """
  ).example("sallyport convert nginx /etc/nginx/nginx.conf > sallyport.conf")

  @OptionGroup var old: OldFile

  func run() throws {
    try old.show(
      .nginx, trial: { text in { NginxConversion.trial(text, file: old.file, files: .disk, in: $0, isOld: $1) } },
      convert: { NginxConversion.convert($0, file: $1, files: .disk, pinsEach: old.output.ask || old.output.compare) })
  }
}
