import ArgumentParser
import Configuration
import Language
import Observability
import Review

struct WaysCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "ways",
    abstract: "Print every way to each upstream and each content: who passes, and what the upstream is told of them.",
    discussion: """
      A way begins at a listener and a server block, and comes to a location by its path or by what leads there: rewrite, \
      error_page, try_files, auth_request, mirror, X-Accel-Redirect, pass. The weakest comes first. What a variable, a \
      pattern or another server decides is "unknown".

      Each way is tried with a certificate of a CA that stands in for the configured one, against the objects that would \
      serve; no listener is bound and no upstream is contacted. A way on which such a client came through has a line \
      "seen"; the others are "not shown", which doesn't say that nobody gets in.

      The exit status is 0. With --than it is 0 if no way asks for less than in the older configuration, and 2 if one \
      does. It is 1 if a configuration is not valid.
      """
  ).example("sallyport ways --to https://erp.example.com/admin/")

  @Argument(help: "The configuration file, as with --config.")
  var path: String?

  @OptionGroup var file: ConfigurationFile

  @Option(help: "Show the ways to this alone: an upstream, a URL that clients ask for, or a location as it is written.")
  var to: String?

  @Option(
    help:
      "Show the ways that this client comes by: a file with its certificate, a subject as CN=NAME, a SPIFFE ID, or nobody."
  )
  var who: String?

  @Option(help: "Print the ways that ask for less than those of this older configuration file.")
  var than: String?

  @Flag(help: "Print one JSON object.")
  var json = false

  @Flag(
    help:
      "Print a policy file that says what clients get today, to correct and keep (`sallyport check --policy`).")
  var writePolicy = false

  func validate() throws {
    try file.refuse(besides: path)
    if than != nil, json || who != nil { throw ValidationError("--than can't be combined with --json and --who") }
    if writePolicy, than != nil || json || who != nil || to != nil {
      throw ValidationError("--write-policy can't be combined with --than, --json, --who and --to")
    }
  }

  func run() throws {
    let path = try self.path ?? file.path()
    if writePolicy { return try draft(path) }
    let selection = Ways.Selection(to: to, who: who)
    var isWeaker = false
    do throws(WaysFault) {
      if let than {
        let (old, new) = (try Ways(than, selection, isTried: false), try Ways(path, selection, isTried: false))
        let weaker = WeakerWays(new, than: old)
        for line in weaker.lines { print(line) }
        isWeaker = !weaker.found.isEmpty
      } else {
        let report = WaysReport(try Ways(path, selection), configuration: path)
        if json { print(report.json) } else { for line in report.lines { print(line) } }
      }
    } catch {
      for diagnostic in error.diagnostics.folded { LogFile.standardError.write(string: "\(diagnostic)\n") }
      LogFile.standardError.write(string: "error: \(LogEscape.visible(error.text))\n")
      throw ExitCode.failure
    }
    if isWeaker { throw ExitCode(2) }
  }

  private func draft(_ path: String) throws {
    do throws(TrialWorld.Refusal) {
      print(AccessDraft(try TrialWorld(ConfigurationSource(path)), configuration: path).text, terminator: "")
    } catch {
      for diagnostic in error.diagnostics.folded { LogFile.standardError.write(string: "\(diagnostic)\n") }
      LogFile.standardError.write(string: "error: \(LogEscape.visible(error.text))\n")
      throw ExitCode.failure
    }
  }
}
