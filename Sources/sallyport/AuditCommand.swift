import ArgumentParser
import Audit
import Bytes
import Crypto
import Glibc
import Observability

struct AuditCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "audit",
    abstract: "Check a log of audit_log.",
    subcommands: [AuditVerifyCommand.self]
  ).example("sallyport audit verify audit.log.1 audit.log --key audit.pub")
}

struct AuditVerifyCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "verify",
    abstract: "Find lines of an audit log that were changed, removed, inserted or moved.",
    discussion: """
      Reads the files of one log, the oldest first: sallyport audit verify audit.log.2 audit.log.1 audit.log. Each line must \
      have the SHA-256 of the one before. Exit status: 0 if the chain is whole, 1 if a file or key can't be read, 2 if the log \
      was changed. A gap is told, and is no change: a process that ended at once has lines that it had not written yet.
      """
  ).example("sallyport audit verify audit.log.1 audit.log --key audit.pub")

  @Argument(help: ArgumentHelp("Files of the log, the oldest first; - is standard input.", valueName: "file"))
  var files: [String]
  @Option(
    help: ArgumentHelp("A public key that signs the log, as PEM or DER; may be given several times.", valueName: "file")
  )
  var key: [String] = []
  @Option(help: ArgumentHelp("The SHA-256 that the last line must have.", valueName: "hash"))
  var expect: String?
  @Flag(help: "Print a JSON object.")
  var json = false

  func run() throws {
    let keys = try key.map { try Self.load($0) }
    var expected: [UInt8]?
    if let expect {
      guard let hash = try? Hex.decode(expect), hash.count == 32 else {
        throw ValidationError("--expect \"\(expect)\" is no SHA-256: 64 hexadecimal digits")
      }
      expected = hash
    }
    let report: AuditReport
    do throws(AuditReport.Unreadable) {
      report = try AuditReport(files: files, keys: keys, expecting: expected)
    } catch {
      LogFile.tell("error: \(error)", level: 3)
      throw ExitCode.failure
    }
    print(json ? report.json : report.text, terminator: json ? "\n" : "")
    if !report.isSound { throw ExitCode(2) }
  }

  private static func load(_ path: String) throws -> SignatureKey {
    do throws(MaterialError) {
      let file = try MaterialReference(parsing: path, relativeTo: "")
      return try SignatureKey.load(file, .ed25519, to: .verify)
    } catch {
      LogFile.tell("error: \(error.diagnostic.message)", level: 3)
      throw ExitCode.failure
    }
  }
}
