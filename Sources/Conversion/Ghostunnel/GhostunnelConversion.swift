/// A command line of ghostunnel's as one of our configurations: a server of `stream`.
package enum GhostunnelConversion {
  /// The words behind `ghostunnel`. Variables of its environment count as its flags do; name them as flags.
  package static func convert(arguments: [String], file: String = "ghostunnel") -> Converted {
    convert(words(arguments, file: file), origin: "ghostunnel's command line")
  }

  package static func words(_ arguments: [String], file: String = "ghostunnel") -> [OldLine] {
    arguments.enumerated().map { OldLine(file: file, number: $0 + 1, text: OldText.plain(Array($1.utf8))) }
  }

  /// A file with the command line, as a shell or a unit of systemd has it.
  package static func convert(_ text: String, file: String) -> Converted {
    let origin = "ghostunnel's command line in \(OldText.plain(Array(file.utf8)))"
    do throws(CommandLineText.Fault) {
      return convert(try CommandLineText.words(text, file: file, program: "ghostunnel"), origin: origin)
    } catch {
      let document = ConversionDocument(origin: origin)
      return document.finished(with: [ConversionNote(.refused, error.line, error.reason)])
    }
  }

  /// The words of the command line in a file; nil: it is none.
  package static func words(_ text: String, file: String) -> [OldLine]? {
    try? CommandLineText.words(text, file: file, program: "ghostunnel")
  }

  private static func convert(_ words: [OldLine], origin: String) -> Converted {
    var document = ConversionDocument(origin: origin)
    let flags = GhostunnelFlags(words)
    guard let mode = flags.mode else {
      let head = words.first ?? OldLine(file: "ghostunnel", number: 1, text: "")
      return document.finished(with: flags.faults + [ConversionNote(.refused, head, "server or client is missing")])
    }
    var server = GhostunnelServer(flags, mode.line, isServer: mode.mode == .server)
    server.convert(&document)
    document.add(stream: server.block)
    return document.finished()
  }
}
