import ArgumentParser
import Glibc
import Loading
import Observability
import Review

struct ACMECommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "acme",
    abstract: "Certificates that sallyport gets by itself: how they stand, and new ones now.",
    discussion: """
      Both commands read the configuration and the folders of acme_issuer (state_path), so run them as the process's user or as \
      root.
      """,
    subcommands: [ACMEStatusCommand.self, ACMERenewCommand.self]
  ).example("sallyport acme status")

  /// The certificates that a command is about.
  static func certificates(
    _ file: ConfigurationFile, _ name: String?
  ) throws -> [ACMEStatus.Certificate] {
    let path = try file.path()
    let status: ACMEStatus
    do throws(Refusal) {
      status = try ACMEStatus(configuration: path)
    } catch {
      LogFile.tell("\(error)", level: 3)
      throw ExitCode.failure
    }
    let found = status.named(name)
    guard found.isEmpty else { return found }
    LogFile.tell(
      name.map { "error: \(path) has no acme_certificate and no acme_issuer of the name \"\($0)\"" }
        ?? "error: \(path) has no acme_certificate", level: 3)
    throw ExitCode.failure
  }
}

struct ACMEStatusCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "status",
    abstract: "Print each certificate of acme_certificate: how long it is valid, and why it was not renewed.",
    discussion: "The exit status is 1 if one is missing, has ended, or could not be renewed."
  ).example("sallyport acme status --json")

  @OptionGroup var file: ConfigurationFile
  @Argument(help: "Only those of this issuer, or with this name.")
  var name: String?
  @Flag(help: "Print a JSON array of objects.")
  var json = false

  func run() throws {
    let certificates = try ACMECommand.certificates(file, name), now = Int64(time(nil))
    if json {
      var text = JSONText()
      text.array(certificates) { $0.write(to: &$1) }
      print(text.text)
    } else {
      for certificate in certificates { print(certificate.words(at: now)) }
    }
    if certificates.contains(where: { $0.isTroubled(at: now) }) { throw ExitCode.failure }
  }
}

struct ACMERenewCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "renew",
    abstract: "Have the running process get new certificates now, and wait for them.",
    discussion: """
      It leaves a request in the folder of the issuer (state_path), which the process takes within a second. The exit status is 0 \
      if all came, and 1 if one did not. CAs limit how often they issue: don't run it by a timer.
      """
  ).example("sallyport acme renew www.example.com")

  @OptionGroup var file: ConfigurationFile
  @Argument(help: "Only those of this issuer, or with this name.")
  var name: String?
  @Option(help: "Seconds to wait.")
  var timeout: Int = 300

  func validate() throws {
    if !(1...86_400).contains(timeout) { throw ValidationError("--timeout \(timeout): expected 1 to 86400 seconds") }
  }

  func run() throws {
    for certificate in try ACMECommand.certificates(file, name) { try renew(certificate) }
  }

  private func renew(_ certificate: ACMEStatus.Certificate) throws {
    let before = ACMEStatus.again(certificate).record.attempts
    do throws(ACMERequestError) {
      try ACMEStatus.askForRenewal(of: certificate)
    } catch {
      LogFile.tell("error: \(error)", level: 3)
      throw ExitCode.failure
    }
    for _ in 0..<timeout * 10 {
      usleep(100_000)
      let now = ACMEStatus.again(certificate)
      guard now.record.attempts > before else { continue }
      guard now.record.failures == 0 else {
        LogFile.tell("error: \(now.words(at: Int64(time(nil))))", level: 3)
        throw ExitCode.failure
      }
      return print(now.words(at: Int64(time(nil))))
    }
    LogFile.tell(
      "error: no result after \(timeout) seconds: does sallyport run with this configuration? Read its log", level: 3)
    throw ExitCode.failure
  }
}
